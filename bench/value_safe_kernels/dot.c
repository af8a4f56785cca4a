/* in: f64, out: f64 */
long run(const double *x, long n, double *out) {
  double s = 0;
  for (long i = 0; i + 1 < n; i++) s += x[i] * x[i + 1];
  out[0] = s;
  return 1;
}
