#include <stdint.h>

/* The picture without the lens' distortion: where each pixel comes from is known. */
void gather(const float *picture, const int32_t *from, float *straight, int64_t pixels) {
    for (int64_t i = 0; i < pixels; i++) straight[i] = picture[from[i]];
}
