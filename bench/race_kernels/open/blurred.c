/* Stencil: a separable blur of integers, rows then columns, in strips. Macros: the strip's height and width, how the
   second pass walks, how far both are unrolled, and how wide what stands between them is. */
#include <stdint.h>

#ifndef STRIP_ROWS
#define STRIP_ROWS 16
#endif
#ifndef STRIP_COLUMNS
#define STRIP_COLUMNS 64
#endif
#ifndef UNROLL_ROWS
#define UNROLL_ROWS 1
#endif
#ifndef UNROLL_TAPS
#define UNROLL_TAPS 1
#endif
#ifndef GAP
#define GAP 0
#endif

#define TEXT(words) #words
#define UNROLLED(times) _Pragma(TEXT(GCC unroll times))

enum { REACH = 3, TAPS = 2 * REACH + 1 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

void kernel(const uint8_t *restrict image, uint16_t *restrict blurred, const uint16_t *weights, int rows, int columns)
{
#ifdef NARROW
    uint16_t between[STRIP_ROWS + 2 * REACH][STRIP_COLUMNS + GAP];
#else
    uint32_t between[STRIP_ROWS + 2 * REACH][STRIP_COLUMNS + GAP];
#endif
    for (int top = REACH; top < rows - REACH; top += STRIP_ROWS)
        for (int left = REACH; left < columns - REACH; left += STRIP_COLUMNS) {
            int height = least(STRIP_ROWS, rows - REACH - top), width = least(STRIP_COLUMNS, columns - REACH - left);
            for (int row = 0; row < height + 2 * REACH; row++) {
                UNROLLED(UNROLL_ROWS)
                for (int column = 0; column < width; column++) {
                    const uint8_t *at = image + (top + row - REACH) * columns + left + column - REACH;
                    uint32_t sum = 0;
                    UNROLLED(UNROLL_TAPS)
                    for (int tap = 0; tap < TAPS; tap++)
                        sum += (uint32_t)at[tap] * weights[tap];
                    between[row][column] = (uint16_t)(sum >> 6);
                }
            }
#ifdef COLUMNS_OUTSIDE
            for (int column = 0; column < width; column++)
                for (int row = 0; row < height; row++) {
#else
            for (int row = 0; row < height; row++)
                for (int column = 0; column < width; column++) {
#endif
                    uint32_t sum = 0;
                    UNROLLED(UNROLL_TAPS)
                    for (int tap = 0; tap < TAPS; tap++)
                        sum += (uint32_t)between[row + tap][column] * weights[tap];
                    blurred[(top + row) * columns + left + column] = (uint16_t)(sum >> 6);
                }
        }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { ROWS = 47, COLUMNS = 91 };
static uint8_t image[ROWS * COLUMNS];
static uint16_t blurred[ROWS * COLUMNS];
static const uint16_t weights[TAPS] = {3, 8, 13, 16, 13, 8, 3};
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)blurred;
const size_t race_output_bytes = sizeof blurred;

void race_prepare(void)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        image[i] = (uint8_t)race_random();
}

void race_call(void *function, int small)
{
    typedef void blur(const uint8_t *, uint16_t *, const uint16_t *, int, int);
    ((blur *)function)(image, blurred, weights, small ? 8 : ROWS, small ? 13 : COLUMNS);
}
#endif
