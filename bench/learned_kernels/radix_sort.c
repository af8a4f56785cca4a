/* Sorts records by a key of 32 bits, a byte at a time, from the lowest; bytes that all keys share are left out. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t key, value;
} Record;

static void counted(const Record *records, int n, uint32_t counts[4][256])
{
    for (int digit = 0; digit < 4; digit++)
        for (int value = 0; value < 256; value++)
            counts[digit][value] = 0;
    for (int i = 0; i < n; i++) {
        uint32_t key = records[i].key;
        counts[0][key & 255]++;
        counts[1][key >> 8 & 255]++;
        counts[2][key >> 16 & 255]++;
        counts[3][key >> 24]++;
    }
}

static int is_shared(const uint32_t *counts, const Record *records, int shift, int n)
{
    return counts[records[0].key >> shift & 255] == (uint32_t)n;
}

static void scattered(const Record *from, Record *to, int n, uint32_t *counts, int shift)
{
    uint32_t begin = 0;
    for (int value = 0; value < 256; value++) {
        uint32_t count = counts[value];
        counts[value] = begin;
        begin += count;
    }
    for (int i = 0; i < n; i++)
        to[counts[from[i].key >> shift & 255]++] = from[i];
}

void kernel(const Record *given, Record *sorted, Record *scratch, int n)
{
    uint32_t counts[4][256];
    Record *from = sorted, *to = scratch;
    for (int i = 0; i < n; i++)
        sorted[i] = given[i];
    counted(given, n, counts);
    for (int digit = 0; digit < 4; digit++) {
        if (is_shared(counts[digit], from, 8 * digit, n))
            continue;
        scattered(from, to, n, counts[digit], 8 * digit);
        Record *other = from;
        from = to;
        to = other;
    }
    if (from != sorted)
        for (int i = 0; i < n; i++)
            sorted[i] = from[i];
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 4000 };
static Record given[N], sorted[N], scratch[N];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)sorted;
const size_t race_output_bytes = sizeof sorted;

void race_prepare(void)
{
    for (int i = 0; i < N; i++)
        given[i] = (Record){(uint32_t)race_random() & 0xff0fffff, (uint32_t)i};
}

void race_call(void *function, int small)
{
    ((void (*)(const Record *, Record *, Record *, int))function)(given, sorted, scratch, small ? 30 : N);
}
#endif
