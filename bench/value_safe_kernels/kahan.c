/* in: f64, out: f64: a compensated sum, which any other order destroys */
long run(const double *x, long n, double *out) {
  double s = 0, c = 0;
  for (long i = 0; i < n; i++) {
    double y = x[i] - c, t = s + y;
    c = (t - s) - y;
    s = t;
    out[i] = s;
  }
  return n;
}
