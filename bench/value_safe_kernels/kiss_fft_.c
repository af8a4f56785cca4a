/* in: f32, out: f32, of: kiss_fft.c */
#include "kiss_fft.c"
long run(const float *x, long n, float *out) {
  int points = (int)(n / 2);
  kiss_fft_cfg plan = kiss_fft_alloc(points, 0, 0, 0);
  kiss_fft(plan, (const kiss_fft_cpx *)x, (kiss_fft_cpx *)out);
  free(plan);
  return 2L * points;
}
