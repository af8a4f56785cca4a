/* in: f64, out: f64: the larger and the smaller of zeros, of which either may be given */
#include <math.h>
static void both(const double *x, double *out) { for (int i = 0; i < 4; i++) out[2 * i] = fmax(x[i], x[(i + 1) & 3]), out[2 * i + 1] = fmin(x[i], x[(i + 1) & 3]); }
long run(const double *x, long n, double *out) {
  const double zeros[4] = {0.0, -0.0, 0.0, -0.0};
  both(zeros, out);
  for (long i = 0; i + 4 <= n; i += 4) both(x + i, out + 8 + 2 * i);
  return 8 + n / 4 * 8;
}
