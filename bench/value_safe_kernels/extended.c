/* in: f64, out: f64: long double, which has no fused operation */
long run(const double *x, long n, double *out) {
  long double s = 0, p = 1;
  for (long i = 0; i < n; i++) {
    s = s * 0.9L + x[i];
    p = p * 1.01L - x[i] / 3;
    out[i] = (double)(s - p);
  }
  return n;
}
