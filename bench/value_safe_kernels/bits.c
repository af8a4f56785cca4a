/* in: f32, out: i32: the bits of what was computed */
#include <string.h>
long run(const float *x, long n, int *out) {
  for (long i = 0; i < n; i++) {
    float y = x[i] * 3.0f - x[n - 1 - i];
    memcpy(out + i, &y, sizeof y);
    out[i] = (out[i] >> 3) + 1;
  }
  return n;
}
