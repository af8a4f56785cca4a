/* in: f64, out: i64: floating point to integers, within their range alone */
long run(const double *x, long n, long *out) {
  for (long i = 0; i < n; i++) {
    double v = x[i];
    if (!(v > -1e9 && v < 1e9)) v = i;
    out[i] = (long)v + (int)(v / 2) - (short)(int)(v / 1e6) + (unsigned char)(long)(v > 0 ? v : -v);
  }
  return n;
}
