/* in: f64, out: f64: the same function on constants and on what is read */
static const double coefficients[] = {0.1, -1.3, 2.7, 1e-3, -0.7, 3.1};
static double horner(double x, int degree) {
  double y = 0;
  for (int i = degree; i >= 0; i--) y = y * x + coefficients[i];
  return y;
}
long run(const double *x, long n, double *out) {
  for (long i = 0; i < n; i++) out[i] = horner(x[i], i % 6) - horner(1.0 / 3, 5) + horner(0.7, 2);
  return n;
}
