/* in: f64, out: f64: what the maths library computes exactly */
#include <math.h>
long run(const double *x, long n, double *out) {
  for (long i = 0; i < n; i++) {
    double y = floor(x[i]) - ceil(x[n - 1 - i]) + rint(x[i] / 3) - trunc(x[i]) + round(x[i] / 7);
    out[i] = fmod(y, 5.3) + fabs(x[i]) - sqrt(fabs(x[i])) - nearbyint(x[i]);
  }
  return n;
}
