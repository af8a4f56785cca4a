/* in: f32, out: f32 */
long run(const float *x, long n, float *out) {
  for (long i = 0; i < n; i++) out[i] = 1.7f * x[i] + x[n - 1 - i];
  return n;
}
