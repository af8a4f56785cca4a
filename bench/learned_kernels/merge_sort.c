/* Sorts numbers by merging from the top down, short runs by insertion, and counts the pairs that were out of order. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SHORT_RUN = 12 };

static uint64_t inserted(double *values, int n)
{
    uint64_t moved = 0;
    for (int i = 1; i < n; i++) {
        double value = values[i];
        int at = i;
        while (at > 0 && values[at - 1] > value) {
            values[at] = values[at - 1];
            at--;
        }
        values[at] = value;
        moved += (uint64_t)(i - at);
    }
    return moved;
}

static uint64_t merged(double *values, int left, int n, double *scratch)
{
    uint64_t moved = 0;
    int i = 0, j = left, to = 0;
    memcpy(scratch, values, (size_t)left * sizeof *values);
    while (i < left && j < n) {
        if (values[j] < scratch[i]) {
            moved += (uint64_t)(left - i);
            values[to++] = values[j++];
        } else {
            values[to++] = scratch[i++];
        }
    }
    while (i < left)
        values[to++] = scratch[i++];
    return moved;
}

static uint64_t sorted(double *values, int n, double *scratch)
{
    if (n <= SHORT_RUN)
        return inserted(values, n);
    int left = n / 2;
    uint64_t moved = sorted(values, left, scratch) + sorted(values + left, n - left, scratch);
    if (values[left - 1] <= values[left])
        return moved;
    return moved + merged(values, left, n, scratch);
}

uint64_t kernel(const double *given, double *values, double *scratch, int n)
{
    memcpy(values, given, (size_t)n * sizeof *values);
    return sorted(values, n, scratch);
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 1500 };
static double given[N], scratch[N];
static struct {
    double values[N];
    uint64_t moved;
} output;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int i = 0; i < N; i++)
        given[i] = race_uniform() + 0.001 * i;
}

void race_call(void *function, int small)
{
    typedef uint64_t sort(const double *, double *, double *, int);
    output.moved = ((sort *)function)(given, output.values, scratch, small ? 100 : N);
}
#endif
