/* Histogram of values over [low, high) in equal bins; values outside count in the first or last bin. */
#include <string.h>

enum { BINS = 64, BLOCK = 256 };

static int bin_of(float value, float low, float bins_per_unit)
{
    float position = (value - low) * bins_per_unit;
    if (position < 0.0f)
        return 0;
    if (position >= (float)(BINS - 1))
        return BINS - 1;
    return (int)position;
}

void histogram(const float *restrict values, int n, float low, float high, int *restrict counts)
{
    float bins_per_unit = (float)BINS / (high - low);
    int bins[BLOCK];

    memset(counts, 0, BINS * sizeof counts[0]);
    for (int start = 0; start < n; start += BLOCK) {
        int block = n - start < BLOCK ? n - start : BLOCK;
        for (int k = 0; k < block; k++)
            bins[k] = bin_of(values[start + k], low, bins_per_unit);
        for (int k = 0; k < block; k++)
            counts[bins[k]]++;
    }
}
