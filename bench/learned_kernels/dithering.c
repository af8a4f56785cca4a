/* Turns a grey image to black and white, and spreads each pixel's error to its neighbours as Floyd and Steinberg do. */
#include <stddef.h>
#include <stdint.h>

static int clamped(int value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

static int one_pixel(int grey, int *error, int *below, int step)
{
    int wanted = clamped(grey + (error[0] + 8) / 16);
    int white = wanted >= 128;
    int left_over = wanted - (white ? 255 : 0);
    error[step] += 7 * left_over;
    below[-step] += 3 * left_over;
    below[0] += 5 * left_over;
    below[step] += left_over;
    return white;
}

/* Rows go to the right and to the left in turn; errors have a margin of one at each side. */
void kernel(const uint8_t *image, int width, int height, int *errors, uint8_t *bits)
{
    int *error = errors + 1, *below = errors + width + 3;
    for (int i = 0; i < 2 * (width + 2); i++)
        errors[i] = 0;
    for (int row = 0; row < height; row++) {
        const uint8_t *greys = image + (size_t)row * width;
        uint8_t *to = bits + (size_t)row * ((width + 7) / 8);
        for (int byte = 0; byte < (width + 7) / 8; byte++)
            to[byte] = 0;
        int step = row % 2 ? -1 : 1;
        for (int i = 0, column = row % 2 ? width - 1 : 0; i < width; i++, column += step)
            if (one_pixel(greys[column], error + column, below + column, step))
                to[column / 8] |= (uint8_t)(0x80 >> column % 8);
        int *other = error;
        error = below;
        below = other;
        for (int column = -1; column <= width; column++)
            below[column] = 0;
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { WIDTH = 100, HEIGHT = 80 };
static uint8_t image[WIDTH * HEIGHT], bits[(WIDTH + 7) / 8 * HEIGHT];
static int errors[2 * (WIDTH + 2)];
const char *const race_symbol = "kernel";
unsigned char *const race_output = bits;
const size_t race_output_bytes = sizeof bits;

void race_prepare(void)
{
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        image[i] = (uint8_t)((i % WIDTH * 2 + race_random() % 56) & 255);
}

void race_call(void *function, int small)
{
    typedef void dither(const uint8_t *, int, int, int *, uint8_t *);
    ((dither *)function)(image, small ? 20 : WIDTH, small ? 8 : HEIGHT, errors, bits);
}
#endif
