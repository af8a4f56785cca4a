#include <stdint.h>

/* The sum of squared differences of two pictures. */
int64_t reduction(const uint8_t *before, const uint8_t *now, int64_t pixels) {
    int64_t sum = 0;
    for (int64_t i = 0; i < pixels; i++) {
        int32_t difference = now[i] - before[i];
        sum += difference * difference;
    }
    return sum;
}
