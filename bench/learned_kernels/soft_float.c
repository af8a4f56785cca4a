/* Adds and multiplies numbers of single precision by integers alone, rounding to the nearest even. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int negative, exponent;
    uint32_t fraction; /* of a normal number: its leading one is bit 30 */
} Unpacked;

static Unpacked unpacked(uint32_t bits)
{
    Unpacked number = {(int)(bits >> 31), (int)(bits >> 23 & 255), (bits & 0x7fffff) << 7};
    if (number.exponent)
        number.fraction |= 1u << 30;
    return number;
}

static uint32_t shifted(uint32_t fraction, int places)
{
    if (places > 31)
        return fraction != 0;
    return places ? fraction >> places | ((fraction & ((1u << places) - 1)) != 0) : fraction;
}

static uint32_t packed(int negative, int exponent, uint32_t fraction)
{
    uint32_t sign = (uint32_t)negative << 31;
    if (fraction == 0)
        return sign;
    while (!(fraction >> 30)) {
        fraction <<= 1;
        exponent--;
    }
    if (exponent <= 0)
        return sign;
    uint32_t below = fraction & 127;
    fraction = (fraction >> 7) + (below > 64 || (below == 64 && (fraction >> 7 & 1)));
    if (fraction >> 24) {
        fraction >>= 1;
        exponent++;
    }
    return exponent >= 255 ? sign | 0x7f800000u : sign | (uint32_t)exponent << 23 | (fraction & 0x7fffff);
}

static uint32_t sum(uint32_t left, uint32_t right)
{
    Unpacked a = unpacked(left), b = unpacked(right);
    if (a.exponent < b.exponent || (a.exponent == b.exponent && a.fraction < b.fraction)) {
        Unpacked other = a;
        a = b;
        b = other;
    }
    uint32_t small = shifted(b.fraction, a.exponent - b.exponent);
    if (a.negative != b.negative)
        return packed(a.negative && a.fraction != small, a.exponent, a.fraction - small);
    uint32_t total = a.fraction + small;
    return total >> 31 ? packed(a.negative, a.exponent + 1, shifted(total, 1)) : packed(a.negative, a.exponent, total);
}

static uint32_t product(uint32_t left, uint32_t right)
{
    Unpacked a = unpacked(left), b = unpacked(right);
    uint64_t exact = (uint64_t)a.fraction * b.fraction;
    int carried = (int)(exact >> 61 & 1), places = 30 + carried;
    uint32_t fraction = (uint32_t)(exact >> places) | ((exact & ((1ull << places) - 1)) != 0);
    return packed(a.negative ^ b.negative, a.exponent + b.exponent - 127 + carried, fraction);
}

void kernel(const uint32_t *x, const uint32_t *y, int n, uint32_t *out)
{
    uint32_t total = 0;
    for (int i = 0; i < n; i++) {
        total = sum(total, product(x[i], y[i]));
        out[i] = total;
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 1500 };
static uint32_t x[N], y[N], out[N];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)out;
const size_t race_output_bytes = sizeof out;

void race_prepare(void)
{
    for (int i = 0; i < N; i++) {
        float a = (float)((race_uniform() - 0.5) * (double)(1 << i % 12)), b = (float)(race_uniform() - 0.5);
        memcpy(&x[i], &a, sizeof a);
        memcpy(&y[i], &b, sizeof b);
    }
}

void race_call(void *function, int small)
{
    ((void (*)(const uint32_t *, const uint32_t *, int, uint32_t *))function)(x, y, small ? 60 : N, out);
}
#endif
