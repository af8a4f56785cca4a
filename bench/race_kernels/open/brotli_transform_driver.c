/* Calls brotli's BrotliTransformDictionaryWord on some words by all kinds of its transforms. */
#include "transform.h"
#include "race_driver.h"

static unsigned char output[4096];
static unsigned char words[64][24];
const char *const race_symbol = "BrotliTransformDictionaryWord";
unsigned char *const race_output = output;
const size_t race_output_bytes = sizeof output;

/* Three transforms as in brotli's own table: a suffix, an uppercase first letter, and two letters left out. */
static const uint8_t prefix_suffix[] = "\1 \2, \10 of the \4 of \2s \1.\5 and \4 in ";
static const uint16_t map[] = {0, 2, 5, 14, 19, 22, 24, 30};
static const uint8_t transforms[] = {0, 0, 0, 0, 10, 1, 1, 2, 4, 2, 11, 2, 3, 14, 5, 6, 0, 7};
static const BrotliTransforms all = {
    sizeof prefix_suffix, prefix_suffix, map, sizeof transforms / 3, transforms, NULL, {0}};

void race_prepare(void)
{
    for (int word = 0; word < 64; word++)
        for (int letter = 0; letter < 24; letter++)
            words[word][letter] = (unsigned char)(race_random() % 9 ? 'a' + race_random() % 26 : 0xc3);
}

void race_call(void *function, int small)
{
    typedef int transform(uint8_t *, const uint8_t *, int, const BrotliTransforms *, int);
    unsigned char *at = output;
    for (int word = 0; word < (small ? 6 : 64); word++)
        at += ((transform *)function)(at, words[word], 6 + word % 13, &all, word % (int)(sizeof transforms / 3));
}
