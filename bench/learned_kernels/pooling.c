/* A small layer of a neural network: convolution of 3 x 3 over channels, a bias, a clipped activation, and max pooling. */
#include <stddef.h>

typedef struct {
    int channels, height, width;
} Shape;

static float one_sum(const float *input, Shape shape, const float *weights, int row, int column)
{
    float sum = 0;
    for (int channel = 0; channel < shape.channels; channel++)
        for (int r = -1; r <= 1; r++) {
            int y = row + r;
            if (y < 0 || y >= shape.height)
                continue;
            for (int c = -1; c <= 1; c++) {
                int x = column + c;
                if (x >= 0 && x < shape.width)
                    sum += input[(channel * shape.height + y) * shape.width + x] * weights[channel * 9 + 3 * r + c + 4];
            }
        }
    return sum;
}

static float activated(float value)
{
    if (value < 0)
        value *= 0.1f;
    return value > 6 ? 6 : value < -1 ? -1 : value;
}

static void pooled(const float *map, Shape shape, float *to, unsigned char *winners)
{
    for (int row = 0; row + 1 < shape.height; row += 2)
        for (int column = 0; column + 1 < shape.width; column += 2) {
            const float *at = map + row * shape.width + column;
            unsigned char winner = 0;
            float most = at[0];
            for (int i = 1; i < 4; i++) {
                float value = at[i / 2 * shape.width + i % 2];
                if (value > most) {
                    most = value;
                    winner = (unsigned char)i;
                }
            }
            *to++ = most;
            *winners++ = winner;
        }
}

void kernel(const float *input, Shape shape, const float *weights, const float *biases, int maps, float *map, float *out,
            unsigned char *winners)
{
    int pixels = (shape.height / 2) * (shape.width / 2);
    for (int each = 0; each < maps; each++) {
        for (int row = 0; row < shape.height; row++)
            for (int column = 0; column < shape.width; column++) {
                float sum = one_sum(input, shape, weights + each * 9 * shape.channels, row, column);
                map[row * shape.width + column] = activated(sum + biases[each]);
            }
        pooled(map, shape, out + each * pixels, winners + each * pixels);
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { CHANNELS = 3, SIDE = 22, MAPS = 4, PIXELS = SIDE / 2 * (SIDE / 2) };
static float input[CHANNELS * SIDE * SIDE], weights[MAPS * CHANNELS * 9], biases[MAPS], map[SIDE * SIDE];
static struct {
    float out[MAPS * PIXELS];
    unsigned char winners[MAPS * PIXELS];
} output;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int i = 0; i < CHANNELS * SIDE * SIDE; i++)
        input[i] = (float)(4 * race_uniform() - 2);
    for (int i = 0; i < MAPS * CHANNELS * 9; i++)
        weights[i] = (float)(race_uniform() - 0.5);
    for (int i = 0; i < MAPS; i++)
        biases[i] = (float)race_uniform();
}

void race_call(void *function, int small)
{
    typedef void layer(const float *, Shape, const float *, const float *, int, float *, float *, unsigned char *);
    Shape shape = small ? (Shape){1, 8, 8} : (Shape){CHANNELS, SIDE, SIDE};
    ((layer *)function)(input, shape, weights, biases, small ? 1 : MAPS, map, output.out, output.winners);
}
#endif
