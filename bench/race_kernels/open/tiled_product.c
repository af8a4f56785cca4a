/* Matrix: a blocked product of integers. Macros: the block's sides, the order of its loops, a packed copy of the right
   side with its own step, and how far the innermost loop is unrolled. */
#include <stdint.h>

#ifndef TILE_ROWS
#define TILE_ROWS 8
#endif
#ifndef TILE_COLUMNS
#define TILE_COLUMNS 32
#endif
#ifndef TILE_INNER
#define TILE_INNER 16
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
#ifndef PAD
#define PAD 0
#endif
#ifndef COPY_STEP
#define COPY_STEP 1
#endif

#define TEXT(words) #words
#define UNROLLED(times) _Pragma(TEXT(GCC unroll times))

static int least(int a, int b)
{
    return a < b ? a : b;
}

void kernel(const int32_t *left, const int32_t *right, int32_t *restrict product, int rows, int inner, int columns)
{
    for (int i = 0; i < rows * columns; i++)
        product[i] = 0;
    for (int k0 = 0; k0 < inner; k0 += TILE_INNER)
        for (int j0 = 0; j0 < columns; j0 += TILE_COLUMNS) {
            int k1 = least(k0 + TILE_INNER, inner), j1 = least(j0 + TILE_COLUMNS, columns);
#ifdef PACKED
            int32_t pack[TILE_INNER][TILE_COLUMNS + PAD];
            for (int k = k0; k < k1; k++)
                for (int j = j0; j < j1; j += COPY_STEP)
                    for (int each = j; each < least(j + COPY_STEP, j1); each++)
                        pack[k - k0][each - j0] = right[k * columns + each];
#define RIGHT(k, j) pack[(k) - k0][(j) - j0]
#else
#define RIGHT(k, j) right[(k) * columns + (j)]
#endif
            for (int i0 = 0; i0 < rows; i0 += TILE_ROWS) {
                int i1 = least(i0 + TILE_ROWS, rows);
#ifdef ROWS_INSIDE
                for (int k = k0; k < k1; k++)
                    for (int i = i0; i < i1; i++) {
#else
                for (int i = i0; i < i1; i++)
                    for (int k = k0; k < k1; k++) {
#endif
                        int32_t factor = left[i * inner + k];
                        UNROLLED(UNROLL)
                        for (int j = j0; j < j1; j++)
                            product[i * columns + j] += factor * RIGHT(k, j);
                    }
            }
        }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { ROWS = 37, INNER = 41, COLUMNS = 59 };
static int32_t left[ROWS * INNER], right[INNER * COLUMNS], product[ROWS * COLUMNS];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)product;
const size_t race_output_bytes = sizeof product;

void race_prepare(void)
{
    for (int i = 0; i < ROWS * INNER; i++)
        left[i] = (int32_t)(race_random() % 100) - 50;
    for (int i = 0; i < INNER * COLUMNS; i++)
        right[i] = (int32_t)(race_random() % 100) - 50;
}

void race_call(void *function, int small)
{
    typedef void kernel_type(const int32_t *, const int32_t *, int32_t *, int, int, int);
    ((kernel_type *)function)(left, right, product, small ? 5 : ROWS, small ? 7 : INNER, small ? 19 : COLUMNS);
}
#endif
