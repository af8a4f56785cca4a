/* Counts how soon points of a grid escape in Mandelbrot's iteration; known bodies and cycles are not iterated to the end. */
#include <stddef.h>
#include <stdint.h>

static int is_inside(double x, double y)
{
    double square = (x - 0.25) * (x - 0.25) + y * y;
    if (square * (square + (x - 0.25)) <= 0.25 * y * y)
        return 1;
    return (x + 1) * (x + 1) + y * y <= 0.0625;
}

static int escape(double x, double y, int most)
{
    double re = 0, im = 0, old_re = 0, old_im = 0;
    int period = 0, next = 8;
    for (int i = 0; i < most; i++) {
        double re2 = re * re, im2 = im * im;
        if (re2 + im2 > 4)
            return i;
        im = 2 * re * im + y;
        re = re2 - im2 + x;
        if (re == old_re && im == old_im)
            return most;
        if (++period == next) {
            period = 0;
            next *= 2;
            old_re = re;
            old_im = im;
        }
    }
    return most;
}

void kernel(double left, double top, double step, int width, int height, int most, uint16_t *counts, uint32_t *histogram)
{
    for (int i = 0; i <= most; i++)
        histogram[i] = 0;
    for (int row = 0; row < height; row++) {
        double y = top - row * step;
        for (int column = 0; column < width; column++) {
            double x = left + column * step;
            int count = is_inside(x, y) ? most : escape(x, y, most);
            counts[row * width + column] = (uint16_t)count;
            histogram[count]++;
        }
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { WIDTH = 48, HEIGHT = 36, MOST = 60 };
static struct {
    uint16_t counts[WIDTH * HEIGHT];
    uint32_t histogram[MOST + 1];
} output;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
}

void race_call(void *function, int small)
{
    typedef void count(double, double, double, int, int, int, uint16_t *, uint32_t *);
    int width = small ? 12 : WIDTH, height = small ? 9 : HEIGHT;
    ((count *)function)(-2.1, 1.2, small ? 0.25 : 0.0625, width, height, small ? 20 : MOST, output.counts, output.histogram);
}
#endif
