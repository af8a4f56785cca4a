/* Reduction: sums, squares, products, extremes and a histogram of signs of two columns of integers. */
#include <stdint.h>

void kernel(const int16_t *x, const int16_t *y, int n, int64_t *facts)
{
    int64_t sum_x = 0, sum_y = 0, products = 0;
    int32_t least = INT32_MAX, most = INT32_MIN, both = 0, changes = 0;
    for (int i = 0; i < n; i++) {
        sum_x += x[i];
        sum_y += y[i];
        products += (int32_t)x[i] * y[i];
        int32_t difference = (int32_t)x[i] - y[i];
        least = difference < least ? difference : least;
        most = difference > most ? difference : most;
        both += (x[i] > 0) == (y[i] > 0);
    }
    for (int i = 1; i < n; i++)
        changes += (x[i] ^ x[i - 1]) < 0;
    int64_t squares = 0, lagged = 0;
    for (int i = 2; i < n; i++) {
        squares += (int64_t)((int32_t)x[i] * x[i]);
        lagged += (int64_t)((int32_t)x[i] * x[i - 2]);
    }
    facts[0] = sum_x, facts[1] = sum_y, facts[2] = products, facts[3] = least, facts[4] = most;
    facts[5] = both, facts[6] = changes, facts[7] = squares, facts[8] = lagged;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 6001 };
static int16_t x[N], y[N];
static int64_t facts[9];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)facts;
const size_t race_output_bytes = sizeof facts;

void race_prepare(void)
{
    for (int i = 0; i < N; i++) {
        x[i] = (int16_t)(race_random() % 2001 - 1000);
        y[i] = (int16_t)(race_random() % 2001 - 1000);
    }
}

void race_call(void *function, int small)
{
    ((void (*)(const int16_t *, const int16_t *, int, int64_t *))function)(x, y, small ? 45 : N, facts);
}
#endif
