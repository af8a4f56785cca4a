/* Turns pixels to hue, saturation and value, shifts hues and saturations, and turns them back; integers only. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t red, green, blue;
} Pixel;

typedef struct {
    int hue, saturation, value; /* hue: 0 to 1535, six sectors of 256 */
} Hsv;

static Hsv to_hsv(Pixel pixel)
{
    int red = pixel.red, green = pixel.green, blue = pixel.blue;
    int high = red > green ? red : green, low = red < green ? red : green;
    high = blue > high ? blue : high;
    low = blue < low ? blue : low;
    int range = high - low;
    Hsv hsv = {0, high ? 255 * range / high : 0, high};
    if (range == 0)
        return hsv;
    if (high == red)
        hsv.hue = 256 * (green - blue) / range;
    else if (high == green)
        hsv.hue = 512 + 256 * (blue - red) / range;
    else
        hsv.hue = 1024 + 256 * (red - green) / range;
    if (hsv.hue < 0)
        hsv.hue += 1536;
    return hsv;
}

static Pixel to_rgb(Hsv hsv)
{
    int sector = hsv.hue >> 8, part = hsv.hue & 255;
    uint8_t value = (uint8_t)hsv.value;
    uint8_t none = (uint8_t)(hsv.value * (255 - hsv.saturation) / 255);
    uint8_t falling = (uint8_t)(hsv.value * (65280 - hsv.saturation * part) / 65280);
    uint8_t rising = (uint8_t)(hsv.value * (65280 - hsv.saturation * (256 - part)) / 65280);
    switch (sector) {
    case 0: return (Pixel){value, rising, none};
    case 1: return (Pixel){falling, value, none};
    case 2: return (Pixel){none, value, rising};
    case 3: return (Pixel){none, falling, value};
    case 4: return (Pixel){rising, none, value};
    default: return (Pixel){value, none, falling};
    }
}

void kernel(const Pixel *from, Pixel *to, int n, int turn, int saturate)
{
    for (int i = 0; i < n; i++) {
        Hsv hsv = to_hsv(from[i]);
        hsv.hue += turn;
        if (hsv.hue >= 1536)
            hsv.hue -= 1536;
        hsv.saturation = hsv.saturation * saturate >> 8;
        if (hsv.saturation > 255)
            hsv.saturation = 255;
        to[i] = to_rgb(hsv);
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 2500 };
static Pixel from[N], to[N];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)to;
const size_t race_output_bytes = sizeof to;

void race_prepare(void)
{
    for (int i = 0; i < N; i++)
        from[i] = (Pixel){(uint8_t)race_random(), (uint8_t)(i / 10), (uint8_t)race_random()};
}

void race_call(void *function, int small)
{
    ((void (*)(const Pixel *, Pixel *, int, int, int))function)(from, to, small ? 80 : N, 200, 320);
}
#endif
