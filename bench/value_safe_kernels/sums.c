/* in: f32, out: f32: sums without a product, whose order decides */
long run(const float *x, long n, float *out) {
  float s = 0, t = 0;
  for (long i = 0; i < n; i++) {
    s += x[i];
    t -= x[n - 1 - i];
    out[i + 2] = s - t;
  }
  out[0] = s;
  out[1] = t;
  return n + 2;
}
