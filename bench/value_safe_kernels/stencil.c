/* in: f64, out: f64 */
long run(const double *x, long n, double *out) {
  for (long step = 0; step < 3; step++)
    for (long i = 1; i + 1 < n; i++) out[i] = 0.25 * x[i - 1] + 0.5 * x[i] + 0.25 * x[i + 1] + (step ? out[i] / 3 : 0);
  return n - 1;
}
