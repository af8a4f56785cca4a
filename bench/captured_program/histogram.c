#include <stdint.h>

void histogram(const uint8_t *grey, int32_t *counts, int64_t pixels) {
    for (int64_t i = 0; i < pixels; i++) counts[grey[i]]++;
}
