/* Bits: CRC-32C by tables. Macros: how many bytes a step takes, how the tables are filled, which half of a
   byte comes first, and how far loops are unrolled. */
#include <stddef.h>
#include <stdint.h>

#ifndef SLICES
#define SLICES 1
#endif
#ifndef FILL_UNROLL
#define FILL_UNROLL 1
#endif
#ifndef UNROLL
#define UNROLL 1
#endif

#define TEXT(words) #words
#define UNROLLED(times) _Pragma(TEXT(GCC unroll times))

static const uint32_t polynomial = 0x82f63b78u;

static uint32_t shifted(uint32_t value, int bits)
{
    UNROLLED(FILL_UNROLL)
    for (int bit = 0; bit < bits; bit++)
#ifdef BRANCHY
        value = value & 1 ? value >> 1 ^ polynomial : value >> 1;
#else
        value = value >> 1 ^ (polynomial & -(value & 1));
#endif
    return value;
}

void kernel(const unsigned char *text, size_t length, uint32_t (*tables)[16], uint32_t *sums)
{
    for (uint32_t entry = 0; entry < 16; entry++) {
        uint32_t value = shifted(entry, 4);
        for (int slice = 0; slice < 2 * SLICES; slice++) {
            tables[slice][entry] = value;
            value = shifted(value, 4);
        }
    }
    uint32_t crc = ~0u;
    size_t at = 0;
    UNROLLED(UNROLL)
    for (; at + SLICES <= length; at += SLICES) {
        uint32_t next = SLICES < 4 ? crc >> (8 * SLICES % 32) : 0;
        for (int each = 0; each < SLICES; each++) {
            unsigned char byte = text[at + each] ^ (each < 4 ? (unsigned char)(crc >> 8 * (each % 4)) : 0);
#ifdef HIGH_FIRST
            next ^= tables[2 * (SLICES - each) - 2][byte >> 4] ^ tables[2 * (SLICES - each) - 1][byte & 15];
#else
            next ^= tables[2 * (SLICES - each) - 1][byte & 15] ^ tables[2 * (SLICES - each) - 2][byte >> 4];
#endif
        }
        crc = next;
    }
    for (; at < length; at++)
        crc = crc >> 8 ^ shifted((crc ^ text[at]) & 255, 8);
    sums[0] = ~crc;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { LENGTH = 37 };
static unsigned char text[LENGTH];
static uint32_t tables[16][16], sums[1];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)sums;
const size_t race_output_bytes = sizeof sums;

void race_prepare(void)
{
    for (int i = 0; i < LENGTH; i++)
        text[i] = (unsigned char)race_random();
}

void race_call(void *function, int small)
{
    (void)small;
    ((void (*)(const unsigned char *, size_t, uint32_t (*)[16], uint32_t *))function)(text, LENGTH, tables, sums);
}
#endif
