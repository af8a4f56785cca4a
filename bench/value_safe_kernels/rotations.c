/* in: f64, out: f64: complex numbers */
long run(const double *x, long n, double *out) {
  _Complex double z = 1, w = 0.6 + 0.8i;
  for (long i = 0; i + 1 < n; i += 2) {
    _Complex double v = x[i] + x[i + 1] * 1.0i;
    z = z * w + v;
    out[i] = __real__ z;
    out[i + 1] = __imag__(v * w);
  }
  return n - n % 2;
}
