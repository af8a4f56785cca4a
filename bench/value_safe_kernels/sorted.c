/* in: f64, out: f64: comparisons, which are false where one side is NaN */
long run(const double *x, long n, double *out) {
  n = n < 200 ? n : 200;
  for (long i = 0; i < n; i++) {
    long j = i;
    for (; j > 0 && out[j - 1] > x[i]; j--) out[j] = out[j - 1];
    out[j] = x[i];
  }
  double low = x[0], high = x[0];
  for (long i = 0; i < n; i++) {
    low = x[i] < low ? x[i] : low;
    high = high > x[i] ? high : x[i];
  }
  out[n] = low;
  out[n + 1] = high;
  return n + 2;
}
