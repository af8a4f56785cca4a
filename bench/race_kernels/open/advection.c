/* Stencil: one step of advection and diffusion on a periodic plane, upwind where the wind turns. */
#include <stddef.h>

void kernel(const float *restrict now, float *restrict next, const float *wind, int rows, int columns)
{
    for (int row = 0; row < rows; row++) {
        const float *here = now + (size_t)row * columns;
        const float *above = now + (size_t)((row + rows - 1) % rows) * columns;
        const float *below = now + (size_t)((row + 1) % rows) * columns;
        for (int column = 1; column < columns - 1; column++) {
            float spread = here[column - 1] + here[column + 1] + above[column] + below[column] - 4.0f * here[column];
            float blown = wind[column] > 0 ? here[column] - here[column - 1] : here[column + 1] - here[column];
            next[(size_t)row * columns + column] = here[column] + 0.1f * spread - 0.3f * wind[column] * blown;
        }
        next[(size_t)row * columns] = next[(size_t)row * columns + columns - 2];
        next[(size_t)row * columns + columns - 1] = next[(size_t)row * columns + 1];
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { ROWS = 61, COLUMNS = 203 };
static float now[ROWS * COLUMNS], next[ROWS * COLUMNS], wind[COLUMNS];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)next;
const size_t race_output_bytes = sizeof next;

void race_prepare(void)
{
    for (int each = 0; each < ROWS * COLUMNS; each++)
        now[each] = (float)race_uniform();
    for (int each = 0; each < COLUMNS; each++)
        wind[each] = (float)(race_uniform() - 0.5);
}

void race_call(void *function, int small)
{
    ((void (*)(const float *, float *, const float *, int, int))function)(now, next, wind, small ? 5 : ROWS, small ? 37 : COLUMNS);
}
#endif
