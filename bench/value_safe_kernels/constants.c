/* in: f64, out: f64: calls of the maths library whose arguments become constants by inlining and unrolling */
#include <math.h>
static double tabulated(double x, double e) { return pow(x, e) - cbrt(x); }
long run(const double *x, long n, double *out) {
  for (int i = 0; i < 12; i++) out[i] = tabulated(1.7 + i * 0.3, 2.0);
  for (long i = 0; i < n; i++) out[12 + i] = tabulated(x[i], 2.0) + tabulated(2.3, 0.7);
  return n + 12;
}
