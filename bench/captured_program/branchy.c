#include <stdint.h>

/* Which pixels differ from the background, 1 for darker and 2 for brighter; the background follows slowly, in place. */
void branchy(const float *picture, float *background, uint8_t *label, float noise, int64_t pixels) {
    for (int64_t i = 0; i < pixels; i++) {
        float beyond = picture[i] - background[i];
        if (beyond > noise) {
            label[i] = 2;
            background[i] += 0.02f * beyond;
        } else if (beyond < -noise) {
            label[i] = 1;
            background[i] += 0.05f * beyond;
        } else {
            label[i] = 0;
            background[i] += 0.25f * beyond;
        }
    }
}
