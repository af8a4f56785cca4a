/* in: f32, out: f32: products and quotients without a sum, into denormals and out of them */
long run(const float *x, long n, float *out) {
  float p = 1;
  for (long i = 0; i < n; i++) {
    p *= x[i] * 1e-3f;
    if (p == 0 || p > 1e30f) p = 1;
    out[i] = p / 3.0f;
  }
  return n;
}
