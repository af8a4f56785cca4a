/* in: f64, out: f64 */
#include <math.h>
long run(const double *x, long n, double *out) {
  for (long i = 0; i < n; i++) out[i] = 1 / (1 + exp(-x[i]));
  return n;
}
