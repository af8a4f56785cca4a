/* Big numbers: powers modulo an odd number of some hundred bits, by Montgomery's multiplication. */
#include <stdint.h>

enum { LIMBS = 12 };

static uint32_t negative_inverse(uint32_t odd)
{
    uint32_t inverse = odd;
    for (int step = 0; step < 4; step++)
        inverse *= 2 - odd * inverse;
    return -inverse;
}

static int is_less(const uint32_t *a, const uint32_t *b, int n)
{
    for (int i = n - 1; i >= 0; i--)
        if (a[i] != b[i])
            return a[i] < b[i];
    return 0;
}

static void subtract(uint32_t *a, const uint32_t *b, int n)
{
    uint64_t borrow = 0;
    for (int i = 0; i < n; i++) {
        uint64_t difference = (uint64_t)a[i] - b[i] - borrow;
        a[i] = (uint32_t)difference;
        borrow = difference >> 63;
    }
}

/* a * b / 2^(32 n) modulo m, of whose limbs there are n. */
static void multiply(uint32_t *out, const uint32_t *a, const uint32_t *b, const uint32_t *m, uint32_t inverse, int n)
{
    uint32_t sum[LIMBS + 2] = {0};
    for (int i = 0; i < n; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < n; j++) {
            carry += (uint64_t)a[j] * b[i] + sum[j];
            sum[j] = (uint32_t)carry;
            carry >>= 32;
        }
        carry += sum[n];
        sum[n] = (uint32_t)carry;
        sum[n + 1] = (uint32_t)(carry >> 32);
        uint32_t factor = sum[0] * inverse;
        carry = ((uint64_t)factor * m[0] + sum[0]) >> 32;
        for (int j = 1; j < n; j++) {
            carry += (uint64_t)factor * m[j] + sum[j];
            sum[j - 1] = (uint32_t)carry;
            carry >>= 32;
        }
        carry += sum[n];
        sum[n - 1] = (uint32_t)carry;
        sum[n] = sum[n + 1] + (uint32_t)(carry >> 32);
    }
    if (sum[n] || !is_less(sum, m, n))
        subtract(sum, m, n);
    for (int i = 0; i < n; i++)
        out[i] = sum[i];
}

/* `radix` is 2^(64 n) modulo m: what takes a number into Montgomery's form. */
void kernel(const uint32_t *base, const uint32_t *exponent, int bits, const uint32_t *m, const uint32_t *radix, int n, uint32_t *power)
{
    uint32_t factor[LIMBS], one[LIMBS] = {1};
    uint32_t inverse = negative_inverse(m[0]);
    multiply(power, one, radix, m, inverse, n);
    multiply(factor, base, radix, m, inverse, n);
    for (int bit = bits - 1; bit >= 0; bit--) {
        multiply(power, power, power, m, inverse, n);
        if (exponent[bit / 32] >> bit % 32 & 1)
            multiply(power, power, factor, m, inverse, n);
    }
    multiply(power, power, one, m, inverse, n);
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { BITS = 120, FEW = 4 };
static uint32_t base[LIMBS], exponent[LIMBS], modulus[LIMBS], radix[LIMBS], radix_of_few[LIMBS], power[LIMBS];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)power;
const size_t race_output_bytes = sizeof power;

static void square_of_radix(uint32_t *out, int n)
{
    out[0] = 1;
    for (int bit = 0; bit < 64 * n; bit++) {
        uint32_t carry = 0;
        for (int i = 0; i < n; i++) {
            uint32_t limb = out[i];
            out[i] = limb << 1 | carry;
            carry = limb >> 31;
        }
        if (carry || !is_less(out, modulus, n))
            subtract(out, modulus, n);
    }
}

void race_prepare(void)
{
    for (int i = 0; i < LIMBS; i++) {
        base[i] = (uint32_t)race_random();
        exponent[i] = (uint32_t)race_random();
        modulus[i] = (uint32_t)race_random();
    }
    modulus[0] |= 1;
    modulus[FEW - 1] |= 1u << 31;
    modulus[LIMBS - 1] |= 1u << 31;
    base[FEW - 1] &= INT32_MAX;
    base[LIMBS - 1] &= INT32_MAX;
    square_of_radix(radix, LIMBS);
    square_of_radix(radix_of_few, FEW);
}

void race_call(void *function, int small)
{
    typedef void powers(const uint32_t *, const uint32_t *, int, const uint32_t *, const uint32_t *, int, uint32_t *);
    ((powers *)function)(base, exponent, small ? 5 : BITS, modulus, small ? radix_of_few : radix, small ? FEW : LIMBS, power);
}
#endif
