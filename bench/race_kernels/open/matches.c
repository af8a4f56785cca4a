/* Bytes: text packed into literals and matches of earlier text, found by chains of hashes, one step of looking ahead. */
#include <stdint.h>

enum { HEADS = 256, DEEPEST = 12, SHORTEST = 4, LONGEST = 66, NONE = -1 };

typedef struct {
    int16_t heads[HEADS], before[4096];
} chains;

static uint32_t hash_of(const uint8_t *at)
{
    uint32_t four = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    return four * 2654435761u >> 24;
}

static void remembered(chains *known, const uint8_t *text, int at)
{
    uint32_t hash = hash_of(text + at);
    known->before[at] = known->heads[hash];
    known->heads[hash] = (int16_t)at;
}

static int common(const uint8_t *left, const uint8_t *right, int most)
{
    int length = 0;
    while (length < most && left[length] == right[length])
        length++;
    return length;
}

static int longest_match(const chains *known, const uint8_t *text, int at, int length, int *from)
{
    int most = length - at < LONGEST ? length - at : LONGEST, best = SHORTEST - 1, depth = DEEPEST;
    for (int place = known->heads[hash_of(text + at)]; place != NONE && depth-- > 0; place = known->before[place]) {
        if (best < most && text[place + best] != text[at + best])
            continue;
        int matched = common(text + place, text + at, most);
        if (matched > best) {
            best = matched;
            *from = place;
        }
    }
    return best < SHORTEST ? 0 : best;
}

static int written(uint8_t *out, int n, const uint8_t *text, int begin, int end)
{
    while (begin < end) {
        int run = end - begin < 128 ? end - begin : 128;
        out[n++] = (uint8_t)(run - 1);
        for (int i = 0; i < run; i++)
            out[n++] = text[begin++];
    }
    return n;
}

void kernel(const uint8_t *text, int length, chains *known, uint8_t *out, int32_t *sizes)
{
    for (int head = 0; head < HEADS; head++)
        known->heads[head] = NONE;
    int n = 0, literals = 0, at = 0, last = length - SHORTEST;
    while (at <= last) {
        int from = 0, later = 0, matched = longest_match(known, text, at, length, &from);
        remembered(known, text, at);
        if (matched && matched < 16 && at < last && longest_match(known, text, at + 1, length, &later) > matched + 1)
            matched = 0;
        if (!matched) {
            at++;
            continue;
        }
        n = written(out, n, text, literals, at);
        out[n++] = (uint8_t)(0x80 | (matched - SHORTEST));
        out[n++] = (uint8_t)(at - from);
        out[n++] = (uint8_t)((at - from) >> 8);
        for (int end = at + matched; ++at < end;)
            if (at <= last)
                remembered(known, text, at);
        literals = at;
    }
    n = written(out, n, text, literals, length);
    sizes[0] = n;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { LENGTH = 3600 };
static uint8_t text[LENGTH];
static chains known;
static struct {
    int32_t sizes[1];
    uint8_t packed[2 * LENGTH];
} output;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int at = 0; at < LENGTH;) {
        int run = 3 + (int)(race_random() % 14), from = at > 300 ? (int)(race_random() % (uint64_t)(at - 20)) : NONE;
        for (int i = 0; i < run && at < LENGTH; i++, at++)
            text[at] = from == NONE || race_random() % 24 == 0 ? (uint8_t)('a' + race_random() % 20) : text[from + i];
    }
}

void race_call(void *function, int small)
{
    typedef void pack(const uint8_t *, int, chains *, uint8_t *, int32_t *);
    ((pack *)function)(text, small ? 90 : LENGTH, &known, output.packed, output.sizes);
}
#endif
