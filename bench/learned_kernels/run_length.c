/* Codes runs of equal bytes as the Macintosh's PackBits does, decodes them again and compares. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static size_t run_at(const uint8_t *from, const uint8_t *end)
{
    size_t run = 1;
    while (from + run < end && run < 128 && from[run] == from[0])
        run++;
    return run;
}

static size_t packed(const uint8_t *from, size_t n, uint8_t *to)
{
    const uint8_t *end = from + n;
    uint8_t *begin = to;
    while (from < end) {
        size_t run = run_at(from, end);
        if (run >= 3) {
            *to++ = (uint8_t)(257 - run);
            *to++ = *from;
            from += run;
            continue;
        }
        size_t literals = run;
        while (from + literals < end && literals < 128) {
            size_t next = run_at(from + literals, end);
            if (next >= 3)
                break;
            literals += literals + next > 128 ? 1 : next;
        }
        *to++ = (uint8_t)(literals - 1);
        memcpy(to, from, literals);
        to += literals;
        from += literals;
    }
    return (size_t)(to - begin);
}

static size_t unpacked(const uint8_t *from, size_t n, uint8_t *to)
{
    const uint8_t *end = from + n;
    uint8_t *begin = to;
    while (from < end) {
        unsigned head = *from++;
        if (head < 128) {
            for (unsigned i = 0; i <= head; i++)
                *to++ = *from++;
        } else {
            for (unsigned i = 0; i < 257 - head; i++)
                *to++ = *from;
            from++;
        }
    }
    return (size_t)(to - begin);
}

int kernel(const uint8_t *from, size_t n, uint8_t *to, uint8_t *again, size_t *bytes)
{
    *bytes = packed(from, n, to);
    return unpacked(to, *bytes, again) == n && memcmp(from, again, n) == 0;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 8000 };
static uint8_t from[N], again[N + 128];
static struct {
    size_t bytes;
    int equal;
    uint8_t to[2 * N];
} output;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int i = 0; i < N; i++)
        from[i] = i && race_random() % 3 ? from[i - 1] : (uint8_t)(race_random() % 40);
}

void race_call(void *function, int small)
{
    typedef int code(const uint8_t *, size_t, uint8_t *, uint8_t *, size_t *);
    output.equal = ((code *)function)(from, small ? 250 : N, output.to, again, &output.bytes);
}
#endif
