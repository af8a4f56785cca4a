/* in: f64, out: f64: another rounding mode */
#include <fenv.h>
static double share(double a, double b) { return a / b + 0.1; }
long run(const double *x, long n, double *out) {
  fesetround(FE_UPWARD);
  for (int i = 0; i < 12; i++) out[i] = share(1.0 + i, 3.0);
  for (long i = 0; i < n; i++) out[12 + i] = share(x[i], 3.0);
  fesetround(FE_TONEAREST);
  return 12 + n;
}
