#include <stdint.h>

/* How many pixels of each zone moved; zone z has the pixels from ends[z - 1] to ends[z] - 1. */
void ragged(const uint8_t *label, const int32_t *ends, int32_t *moved, int64_t zones) {
    int32_t i = 0;
    for (int64_t zone = 0; zone < zones; zone++) {
        int32_t count = 0;
        for (; i < ends[zone]; i++) count += label[i] != 0;
        moved[zone] = count;
    }
}
