/* Codec: text of a code of prefixes decoded by a table and, where a code is longer than that, by first codes of each
   length. Macros: bits of the table, bytes that are read at once, symbols between reads, how tables are laid out and
   filled, how long codes are found, and how far loops are unrolled. */
#include <stddef.h>
#include <stdint.h>

#ifndef TABLE_BITS
#define TABLE_BITS 8
#endif
#ifndef READ
#define READ 1
#endif
#ifndef SYMBOLS
#define SYMBOLS 1
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
#ifndef FILL_UNROLL
#define FILL_UNROLL 1
#endif

#define TEXT(words) #words
#define UNROLLED(times) _Pragma(TEXT(GCC unroll times))

enum { LETTERS = 96, LONGEST = 12 };

typedef struct {
    uint32_t first[LONGEST + 1], place[LONGEST + 1]; /* of each length: its first code, and that one's place in `sorted` */
    uint8_t sorted[LETTERS];
#ifdef TWO_TABLES
    uint8_t letters[1 << TABLE_BITS], lengths[1 << TABLE_BITS];
#else
    uint16_t entries[1 << TABLE_BITS]; /* a letter, and below it the length; 0 where the code is longer */
#endif
} code;

typedef struct {
    const uint8_t *at;
    uint64_t held; /* the next bit is the highest of `bits` */
    int bits;
} reader;

static void set_entry(code *made, uint32_t entry, int letter, int length)
{
#ifdef TWO_TABLES
    made->letters[entry] = (uint8_t)letter;
    made->lengths[entry] = (uint8_t)length;
#else
    made->entries[entry] = (uint16_t)(letter << 8 | length);
#endif
}

static void make_code(code *made, const uint8_t *lengths)
{
    uint32_t counts[LONGEST + 1] = {0}, next = 0, place = 0, entry = 0;
    for (int letter = 0; letter < LETTERS; letter++)
        counts[lengths[letter]]++;
    for (int length = 1; length <= LONGEST; length++) {
        made->first[length] = next;
        made->place[length] = place;
        for (int letter = 0; letter < LETTERS; letter++)
            if (lengths[letter] == length) {
                made->sorted[place++] = (uint8_t)letter;
                if (length <= TABLE_BITS) {
                    uint32_t end = entry + (1u << (TABLE_BITS - length) % 32);
                    UNROLLED(FILL_UNROLL)
                    for (; entry < end; entry++)
                        set_entry(made, entry, letter, length);
                }
            }
        next = (next + counts[length]) << 1;
    }
    for (; entry < 1u << TABLE_BITS; entry++)
        set_entry(made, entry, 0, 0);
}

static uint32_t looked_at(const reader *in, int bits)
{
    return (uint32_t)(in->held >> (in->bits - bits)) & ((1u << bits) - 1);
}

static int long_letter(const code *made, reader *in)
{
    uint32_t window = looked_at(in, LONGEST);
    int length = TABLE_BITS < LONGEST ? TABLE_BITS + 1 : LONGEST;
#ifdef COUNTED
    int longer = 0;
    UNROLLED(COUNT_UNROLL)
    for (int each = length; each < LONGEST; each++)
        longer += window >= made->first[each + 1] << (LONGEST - each - 1);
    length += longer;
#else
    while (length < LONGEST && window >= made->first[length + 1] << (LONGEST - length - 1))
        length++;
#endif
    in->bits -= length;
    return made->sorted[made->place[length] + (window >> (LONGEST - length)) - made->first[length]];
}

static int letter(const code *made, reader *in)
{
    uint32_t entry = looked_at(in, TABLE_BITS);
#ifdef TWO_TABLES
    int length = made->lengths[entry], found = made->letters[entry];
#else
    int length = made->entries[entry] & 255, found = made->entries[entry] >> 8;
#endif
    if (!length)
        return long_letter(made, in);
    in->bits -= length;
    return found;
}

static void fill(reader *in)
{
    while (in->bits < SYMBOLS * LONGEST) {
        for (int i = 0; i < READ; i++)
            in->held = in->held << 8 | *in->at++;
        in->bits += 8 * READ;
    }
}

/* `n` is a multiple of the symbols between reads. */
void kernel(const uint8_t *packed, const uint8_t *lengths, uint8_t *text, int n)
{
    code made;
    reader in = {packed, 0, 0};
    make_code(&made, lengths);
    for (int i = 0; i < n; i += SYMBOLS) {
        fill(&in);
        UNROLLED(UNROLL)
        for (int each = 0; each < SYMBOLS; each++)
            text[i + each] = (uint8_t)(letter(&made, &in) + ' ');
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 4800, SMALL = 48 };
static uint8_t packed[2 * N], lengths[LETTERS], text[N];
const char *const race_symbol = "kernel";
unsigned char *const race_output = text;
const size_t race_output_bytes = sizeof text;

/* A complete code, in which any bits are letters. */
void race_prepare(void)
{
    static const int counts[LONGEST + 1] = {0, 0, 0, 3, 3, 5, 7, 7, 10, 32, 8, 11, 10};
    for (int letter = 0, length = 1; length <= LONGEST; length++)
        for (int each = 0; each < counts[length]; each++, letter++)
            lengths[letter * 37 % LETTERS] = (uint8_t)length;
    for (uint32_t i = 0; i < sizeof packed; i++)
        packed[i] = (uint8_t)race_random();
}

void race_call(void *function, int small)
{
    ((void (*)(const uint8_t *, const uint8_t *, uint8_t *, int))function)(packed, lengths, text, small ? SMALL : N);
}
#endif
