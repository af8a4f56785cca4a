#include <stdint.h>

/* How many pixels of each zone moved; zone z has pixels[ends[z - 1]] to pixels[ends[z] - 1]. */
void ragged(const uint8_t *label, const int32_t *pixels, const int32_t *ends, int32_t *moved, int64_t zones) {
    int32_t i = 0;
    for (int64_t zone = 0; zone < zones; zone++) {
        int32_t count = 0;
        for (; i < ends[zone]; i++) count += label[pixels[i]] != 0;
        moved[zone] = count;
    }
}
