/* Sort: Shell's, by Ciura's gaps, then the longest run of equal keys and the median. */
#include <stdint.h>

static void sort(int32_t *values, int n)
{
    static const int gaps[] = {701, 301, 132, 57, 23, 10, 4, 1};
    for (unsigned each = 0; each < sizeof gaps / sizeof *gaps; each++) {
        int gap = gaps[each];
        for (int i = gap; i < n; i++) {
            int32_t value = values[i];
            int j = i;
            for (; j >= gap && values[j - gap] > value; j -= gap)
                values[j] = values[j - gap];
            values[j] = value;
        }
    }
}

void kernel(const int32_t *given, int32_t *sorted, int n, int32_t *facts)
{
    for (int i = 0; i < n; i++)
        sorted[i] = given[i];
    sort(sorted, n);
    int run = 1, longest = 1;
    for (int i = 1; i < n; i++) {
        run = sorted[i] == sorted[i - 1] ? run + 1 : 1;
        if (run > longest)
            longest = run;
    }
    facts[0] = longest;
    facts[1] = n % 2 ? sorted[n / 2] : (sorted[n / 2] + sorted[n / 2 - 1]) / 2;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { SETS = 4, N = 600 }; /* too much to be learned by heart by a branch predictor */
static int32_t given[SETS][N], output[SETS][N + 2];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int set = 0; set < SETS; set++)
        for (int i = 0; i < N; i++)
            given[set][i] = (int32_t)(race_random() % 900) - 300;
}

void race_call(void *function, int small)
{
    for (int set = 0; set < (small ? 1 : SETS); set++)
        ((void (*)(const int32_t *, int32_t *, int, int32_t *))function)(
            given[set], output[set] + 2, small ? 60 : N, output[set]);
}
#endif
