/* in: f64, out: f64 */
#include <math.h>
typedef struct { double x, y, z; } vector;
static vector minus(vector a, vector b) { return (vector){a.x - b.x, a.y - b.y, a.z - b.z}; }
static double dot(vector a, vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
long run(const double *x, long n, double *out) {
  long bodies = n / 3 < 40 ? n / 3 : 40;
  const vector *at = (const vector *)x;
  for (long i = 0; i < bodies; i++) {
    double energy = 0;
    for (long j = 0; j < bodies; j++) {
      vector d = minus(at[i], at[j]);
      if (i != j) energy += 1 / sqrt(dot(d, d));
    }
    out[i] = energy;
  }
  return bodies;
}
