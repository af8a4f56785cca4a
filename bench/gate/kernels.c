/* Three kernels that work row by row, so that a known share of the work can be left out. */
#include <math.h>

enum { COLUMNS = 256, INNER = 32, SOURCES = 64 };

/* Bound by memory: the mean of the four neighbours. */
void stencil(const float *restrict in, float *restrict out, int rows)
{
    for (int r = 1; r <= rows; r++) {
        for (int c = 1; c < COLUMNS - 1; c++) {
            const float *at = in + r * COLUMNS + c;
            out[r * COLUMNS + c] = 0.25f * (at[-1] + at[1] + at[-COLUMNS] + at[COLUMNS]);
        }
    }
}

/* Bound by latency: rows of a product with a small square matrix. */
void matmul(const float *restrict in, float *restrict out, int rows)
{
    const float *square = in, *left = in + INNER * INNER;
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < INNER; c++) {
            float sum = 0.0f;
            for (int k = 0; k < INNER; k++)
                sum += left[r * INNER + k] * square[k * INNER + c];
            out[r * INNER + c] = sum;
        }
    }
}

/* Bound by division and square root: the potential of 64 charges at each point. */
void potential(const float *restrict in, float *restrict out, int rows)
{
    const float *charges = in, *points = in + 4 * SOURCES;
    for (int r = 0; r < rows; r++) {
        float sum = 0.0f;
        for (int s = 0; s < SOURCES; s++) {
            float dx = points[3 * r] - charges[4 * s], dy = points[3 * r + 1] - charges[4 * s + 1];
            float dz = points[3 * r + 2] - charges[4 * s + 2];
            sum += charges[4 * s + 3] / sqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
        }
        out[r] = sum;
    }
}
