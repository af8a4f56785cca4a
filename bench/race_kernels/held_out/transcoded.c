/* Bytes: UTF-8 checked and turned into UTF-16, small letters made of capital ones, and that turned back into UTF-8. */
#include <stddef.h>
#include <stdint.h>

enum { REPLACEMENT = 0xfffd };

/* One character, and how many bytes it took; what is no character takes one. */
static uint32_t decoded(const unsigned char *text, size_t left, int *taken)
{
    uint32_t lead = text[0];
    *taken = 1;
    if (lead < 0x80)
        return lead;
    int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || left <= (size_t)more)
        return REPLACEMENT;
    uint32_t point = lead & (0x3fu >> more);
    for (int i = 1; i <= more; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return REPLACEMENT;
        point = point << 6 | (text[i] & 0x3f);
    }
    if ((more == 2 && (point < 0x800 || point >> 11 == 0x1b)) || (more == 3 && (point < 0x10000 || point > 0x10ffff)))
        return REPLACEMENT;
    *taken = more + 1;
    return point;
}

static uint32_t small_letter(uint32_t point)
{
    if (point < 0x80)
        return point >= 'A' && point <= 'Z' ? point + 32 : point;
    if ((point >= 0xc0 && point <= 0xde && point != 0xd7) || (point >= 0x391 && point <= 0x3a9))
        return point + 32;
    if (point >= 0x100 && point < 0x130)
        return point | 1;
    if (point >= 0x400 && point < 0x430)
        return point + (point < 0x410 ? 80 : 32);
    return point;
}

static size_t to_utf16(const unsigned char *text, size_t length, uint16_t *units, uint32_t *errors)
{
    size_t made = 0;
    for (size_t at = 0; at < length;) {
        int taken;
        uint32_t point = small_letter(decoded(text + at, length - at, &taken));
        *errors += point == REPLACEMENT;
        at += (size_t)taken;
        if (point >= 0x10000) {
            units[made++] = (uint16_t)(0xd800 + ((point - 0x10000) >> 10));
            point = 0xdc00 + ((point - 0x10000) & 0x3ff);
        }
        units[made++] = (uint16_t)point;
    }
    return made;
}

static size_t to_utf8(const uint16_t *units, size_t n, unsigned char *text)
{
    unsigned char *at = text;
    for (size_t i = 0; i < n; i++) {
        uint32_t point = units[i];
        if (point >> 10 == 0x36 && i + 1 < n)
            point = 0x10000 + ((point & 0x3ff) << 10) + (units[++i] & 0x3ffu);
        if (point < 0x80) {
            *at++ = (unsigned char)point;
            continue;
        }
        int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
        *at++ = (unsigned char)(0xf00u >> more | point >> 6 * more);
        while (more-- > 0)
            *at++ = (unsigned char)(0x80 | (point >> 6 * more & 0x3f));
    }
    return (size_t)(at - text);
}

/* facts: units of UTF-16, bytes of UTF-8, errors, and a sum over the bytes. */
void kernel(const unsigned char *text, size_t length, uint16_t *units, unsigned char *back, uint32_t *facts)
{
    uint32_t errors = 0, low = 1, high = 0;
    size_t n = to_utf16(text, length, units, &errors);
    size_t bytes = to_utf8(units, n, back);
    for (size_t i = 0; i < bytes; i++) {
        low = (low + back[i]) % 65521;
        high = (high + low) % 65521;
    }
    facts[0] = (uint32_t)n, facts[1] = (uint32_t)bytes, facts[2] = errors, facts[3] = high << 16 | low;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { LENGTH = 9000 };
static unsigned char text[LENGTH + 4], back[3 * LENGTH];
static uint16_t units[LENGTH];
static uint32_t facts[4];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)facts;
const size_t race_output_bytes = sizeof facts;

void race_prepare(void)
{
    for (int at = 0; at < LENGTH;) {
        uint64_t draw = race_random();
        uint32_t kind = draw % 16, point = (uint32_t)(draw >> 40);
        if (kind == 0) {
            text[at++] = (unsigned char)point; /* mostly an error */
        } else if (kind < 9) {
            text[at++] = (unsigned char)(' ' + point % 95);
        } else if (kind < 13) {
            point = 0xc0 + point % 0x370;
            text[at++] = (unsigned char)(0xc0 | point >> 6);
            text[at++] = (unsigned char)(0x80 | (point & 63));
        } else if (kind < 15) {
            point = 0x3040 + point % 0x6000;
            text[at++] = (unsigned char)(0xe0 | point >> 12);
            text[at++] = (unsigned char)(0x80 | (point >> 6 & 63));
            text[at++] = (unsigned char)(0x80 | (point & 63));
        } else {
            text[at++] = 0xf0;
            text[at++] = 0x9f;
            text[at++] = (unsigned char)(0x80 | (point >> 6 & 63));
            text[at++] = (unsigned char)(0x80 | (point & 63));
        }
    }
}

void race_call(void *function, int small)
{
    ((void (*)(const unsigned char *, size_t, uint16_t *, unsigned char *, uint32_t *))function)(text, small ? 200 : LENGTH, units, back, facts);
}
#endif
