/* in: f64, out: f64: functions of the maths library that are called by their address */
#include <math.h>
static double (*const table[])(double) = {exp, sinh, cbrt};
static void map(double (*f)(double), double *out) { for (int i = 0; i < 12; i++) out[i] = f(0.5 + i * 0.3); }
long run(const double *x, long n, double *out) {
  map(cbrt, out), map(tgamma, out + 12), map(sinh, out + 24);
  for (int i = 0; i < 3; i++) out[36 + i] = table[i](1.7);
  for (long i = 0; i < n; i++) out[39 + i] = table[i % 3](x[i]);
  return 39 + n;
}
