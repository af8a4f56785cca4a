/* in: f32, out: f64: floats summed as doubles and stored as floats, counts as both */
long run(const float *x, long n, double *out) {
  double s = 0;
  float t = 0;
  for (long i = 0; i < n; i++) {
    s += x[i];
    t += (float)(x[i] + (double)i);
    out[i] = (float)s - t + (float)(unsigned)(i * 7919u) + (float)(i << 20);
  }
  return n;
}
