/* Matrix-free transform: Fourier's, of powers of two, after a reversal of bits, then the power of each frequency. */
#include <stdint.h>

static void reversed(const float *in, float *real, float *imaginary, int bits)
{
    for (uint32_t i = 0; i < 1u << bits; i++) {
        uint32_t to = 0;
        for (int bit = 0; bit < bits; bit++)
            to |= (i >> bit & 1) << (bits - 1 - bit);
        real[to] = in[i];
        imaginary[to] = 0;
    }
}

void kernel(const float *in, float *real, float *imaginary, const float *cosines, const float *sines, int bits,
            float *power)
{
    int n = 1 << bits;
    reversed(in, real, imaginary, bits);
    for (int half = 1; half < n; half *= 2)
        for (int start = 0; start < n; start += 2 * half)
            for (int k = 0; k < half; k++) {
                float c = cosines[k * (n / (2 * half))], s = sines[k * (n / (2 * half))];
                int low = start + k, high = low + half;
                float r = real[high] * c - imaginary[high] * s, i = real[high] * s + imaginary[high] * c;
                real[high] = real[low] - r;
                imaginary[high] = imaginary[low] - i;
                real[low] += r;
                imaginary[low] += i;
            }
    for (int k = 0; k < n; k++)
        power[k] = real[k] * real[k] + imaginary[k] * imaginary[k];
}

#ifdef RACE_DRIVER
#include <math.h>
#include "race_driver.h"
enum { BITS = 10, N = 1 << BITS };
static float in[N], real[N], imaginary[N], cosines[N / 2], sines[N / 2], power[N];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)power;
const size_t race_output_bytes = sizeof power;

void race_prepare(void)
{
    for (int i = 0; i < N; i++)
        in[i] = (float)race_uniform();
    for (int i = 0; i < N / 2; i++) {
        cosines[i] = (float)cos(6.283185307179586 * i / N);
        sines[i] = (float)-sin(6.283185307179586 * i / N);
    }
}

void race_call(void *function, int small)
{
    typedef void transform(const float *, float *, float *, const float *, const float *, int, float *);
    ((transform *)function)(in, real, imaginary, cosines, sines, small ? 4 : BITS, power);
}
#endif
