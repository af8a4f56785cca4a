/* Image: the median of three by three pixels, by a network of exchanges. */
#include <stdint.h>

static inline void exchange(uint8_t *a, uint8_t *b)
{
    uint8_t low = *a < *b ? *a : *b, high = *a < *b ? *b : *a;
    *a = low;
    *b = high;
}

void kernel(const uint8_t *restrict image, uint8_t *restrict filtered, int rows, int columns)
{
    for (int row = 1; row < rows - 1; row++)
        for (int column = 1; column < columns - 1; column++) {
            uint8_t p[9];
            for (int down = 0; down < 3; down++)
                for (int right = 0; right < 3; right++)
                    p[3 * down + right] = image[(row + down - 1) * columns + column + right - 1];
            exchange(&p[1], &p[2]), exchange(&p[4], &p[5]), exchange(&p[7], &p[8]);
            exchange(&p[0], &p[1]), exchange(&p[3], &p[4]), exchange(&p[6], &p[7]);
            exchange(&p[1], &p[2]), exchange(&p[4], &p[5]), exchange(&p[7], &p[8]);
            exchange(&p[0], &p[3]), exchange(&p[5], &p[8]), exchange(&p[4], &p[7]);
            exchange(&p[3], &p[6]), exchange(&p[1], &p[4]), exchange(&p[2], &p[5]);
            exchange(&p[4], &p[7]), exchange(&p[4], &p[2]), exchange(&p[6], &p[4]);
            exchange(&p[4], &p[2]);
            filtered[row * columns + column] = p[4];
        }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { ROWS = 27, COLUMNS = 83 };
static uint8_t image[ROWS * COLUMNS], filtered[ROWS * COLUMNS];
const char *const race_symbol = "kernel";
unsigned char *const race_output = filtered;
const size_t race_output_bytes = sizeof filtered;

void race_prepare(void)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        image[i] = (uint8_t)race_random();
}

void race_call(void *function, int small)
{
    ((void (*)(const uint8_t *, uint8_t *, int, int))function)(image, filtered, small ? 5 : ROWS, small ? 9 : COLUMNS);
}
#endif
