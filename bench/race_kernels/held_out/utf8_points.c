/* Bytes: UTF-8 to code points, with every malformed sequence replaced, and counts by kind. */
#include <stdint.h>

static int sequence_length(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first < 0xe0)
        return 2;
    if (first >= 0xe0 && first < 0xf0)
        return 3;
    if (first >= 0xf0 && first < 0xf5)
        return 4;
    return 0;
}

void kernel(const uint8_t *text, int length, uint32_t *points, uint32_t *counts)
{
    int at = 0, n = 0;
    uint32_t letters = 0, spaces = 0, replaced = 0, wide = 0;
    while (at < length) {
        int bytes = sequence_length(text[at]);
        uint32_t point = bytes < 2 ? text[at] : text[at] & (0x7fu >> bytes);
        int good = bytes > 0 && at + bytes <= length;
        for (int next = 1; good && next < bytes; next++) {
            good = (text[at + next] & 0xc0) == 0x80;
            point = point << 6 | (text[at + next] & 0x3f);
        }
        if (good && ((bytes == 3 && point < 0x800) || (bytes == 4 && (point < 0x10000 || point > 0x10ffff)) ||
                     (point >= 0xd800 && point < 0xe000)))
            good = 0;
        if (!good) {
            point = 0xfffd;
            bytes = 1;
            replaced++;
        }
        letters += (point | 0x20) >= 'a' && (point | 0x20) <= 'z';
        spaces += point == ' ' || (point >= '\t' && point <= '\r');
        wide += point > 0x2e80;
        points[n++] = point;
        at += bytes;
    }
    counts[0] = (uint32_t)n, counts[1] = letters, counts[2] = spaces, counts[3] = replaced, counts[4] = wide;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { LENGTH = 7000 };
static uint8_t text[LENGTH + 4];
static uint32_t output[LENGTH + 5];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int at = 0; at < LENGTH;) {
        uint64_t draw = race_random();
        uint32_t point = (uint32_t)(draw >> 40);
        switch (draw % 8) {
        case 0:
            point = 0x80 + point % 0x700;
            text[at++] = (uint8_t)(0xc0 | point >> 6), text[at++] = (uint8_t)(0x80 | (point & 0x3f));
            break;
        case 1:
            point = 0x800 + point % 0x6000;
            text[at++] = (uint8_t)(0xe0 | point >> 12), text[at++] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
            text[at++] = (uint8_t)(0x80 | (point & 0x3f));
            break;
        case 2:
            text[at++] = (uint8_t)(draw % 11 ? ' ' : 0x80 | point);
            break;
        default:
            text[at++] = (uint8_t)('A' + point % 58);
        }
    }
}

void race_call(void *function, int small)
{
    ((void (*)(const uint8_t *, int, uint32_t *, uint32_t *))function)(text, small ? 150 : LENGTH, output + 5, output);
}
#endif
