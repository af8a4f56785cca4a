/* Codec: numbers as differences in blocks, each of as many bits as its largest needs, and read again. Macros: how many
   make a block, how signs are folded and widths found, how many bytes are written and read at once, and how far loops
   are unrolled. */
#include <stddef.h>
#include <stdint.h>

#ifndef BLOCK
#define BLOCK 32
#endif
#ifndef WRITTEN
#define WRITTEN 1
#endif
#ifndef READ
#define READ 1
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
#ifndef READ_UNROLL
#define READ_UNROLL 1
#endif

#define TEXT(words) #words
#define UNROLLED(times) _Pragma(TEXT(GCC unroll times))

typedef struct {
    unsigned char *at;
    uint64_t held;
    int bits;
} stream;

static uint32_t folded(int32_t number)
{
#ifdef BRANCHY
    return number < 0 ? ~((uint32_t)number << 1) : (uint32_t)number << 1;
#else
    return (uint32_t)number << 1 ^ (uint32_t)(number >> 31);
#endif
}

static int32_t unfolded(uint32_t number)
{
#ifdef BRANCHY
    return number & 1 ? (int32_t)~(number >> 1) : (int32_t)(number >> 1);
#else
    return (int32_t)(number >> 1 ^ -(number & 1));
#endif
}

static int width_of(const uint32_t *numbers)
{
    uint32_t all = 0;
    UNROLLED(UNROLL)
    for (int i = 0; i < BLOCK; i++)
#ifdef BY_LARGEST
        all = numbers[i] > all ? numbers[i] : all;
#else
        all |= numbers[i];
#endif
    int width = 0;
    while (width < 32 && all >> width)
        width++;
    return width;
}

static void put(stream *out, uint32_t number, int width)
{
    out->held |= (uint64_t)number << out->bits;
    out->bits += width;
    while (out->bits >= 8 * WRITTEN) {
        for (int i = 0; i < WRITTEN; i++)
            *out->at++ = (unsigned char)(out->held >> 8 * i);
        out->held >>= 8 * WRITTEN;
        out->bits -= 8 * WRITTEN;
    }
}

static uint32_t taken(stream *in, int width)
{
    while (in->bits < width) {
        for (int i = 0; i < READ; i++)
            in->held |= (uint64_t)*in->at++ << (in->bits + 8 * i);
        in->bits += 8 * READ;
    }
    uint32_t number = (uint32_t)(in->held & ((1ull << width) - 1));
    in->held >>= width;
    in->bits -= width;
    return number;
}

static void write_block(stream *out, const int32_t *numbers, int32_t before)
{
    uint32_t differences[BLOCK];
    UNROLLED(UNROLL)
    for (int i = 0; i < BLOCK; i++) {
        differences[i] = folded((int32_t)((uint32_t)numbers[i] - (uint32_t)before));
        before = numbers[i];
    }
    int width = width_of(differences);
    put(out, (uint32_t)width, 8);
    UNROLLED(UNROLL)
    for (int i = 0; i < BLOCK; i++)
        put(out, differences[i], width);
}

static int32_t read_block(stream *in, int32_t *numbers, int32_t before)
{
    int width = (int)taken(in, 8);
    UNROLLED(READ_UNROLL)
    for (int i = 0; i < BLOCK; i++) {
        before = (int32_t)((uint32_t)before + (uint32_t)unfolded(taken(in, width)));
        numbers[i] = before;
    }
    return before;
}

/* `n` is a multiple of every block's length. */
void kernel(const int32_t *numbers, int n, unsigned char *packed, int32_t *back)
{
    stream out = {packed, 0, 0};
    for (int i = 0; i < n; i += BLOCK)
        write_block(&out, numbers + i, i ? numbers[i - 1] : 0);
    put(&out, 0, 8 * WRITTEN - 1);
    stream in = {packed, 0, 0};
    int32_t before = 0;
    for (int i = 0; i < n; i += BLOCK)
        before = read_block(&in, back + i, before);
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 64 };
static int32_t numbers[N], back[N];
static unsigned char packed[6 * N];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)back;
const size_t race_output_bytes = sizeof back;

void race_prepare(void)
{
    for (int i = 1; i < N; i++) {
        int32_t step = (int32_t)(race_random() % (i % 48 < 16 ? 2001 : 31));
        numbers[i] = numbers[i - 1] + (race_random() % 3 ? step : -step);
    }
}

void race_call(void *function, int small)
{
    (void)small;
    ((void (*)(const int32_t *, int, unsigned char *, int32_t *))function)(numbers, N, packed, back);
}
#endif
