/* in: f64, out: f64 */
long run(const double *x, long n, double *out) {
  double s = 0, high = 0;
#pragma omp simd reduction(+ : s) reduction(max : high)
  for (long i = 0; i < n; i++) {
    s += x[i];
    high = high > x[i] ? high : x[i];
  }
  out[0] = s;
  out[1] = high;
  return 2;
}
