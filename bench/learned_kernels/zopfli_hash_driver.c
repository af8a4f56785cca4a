/* Calls zopfli's update of the hashes of its window at each byte of a text with runs, from empty hashes each time. */
#include "hash.h"
#include "race_driver.h"

enum { BYTES = 4000, HEADS = 65536 };
static unsigned char text[BYTES];
static int head[HEADS], head2[HEADS];
static struct { int values[BYTES], values2[BYTES]; unsigned short before[BYTES], before2[BYTES]; } output;
static unsigned short same[ZOPFLI_WINDOW_SIZE];
const char *const race_symbol = "ZopfliUpdateHash";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int byte = 0; byte < BYTES; byte++)
        text[byte] = byte && race_random() % 3 == 0 ? text[byte - 1] : (unsigned char)('a' + race_random() % 6);
    for (int value = 0; value < HEADS; value++)
        head[value] = head2[value] = -1;
}

void race_call(void *function, int small)
{
    typedef void update(const unsigned char *, size_t, size_t, ZopfliHash *);
    ZopfliHash hash = {head, output.before, output.values, 0, head2, output.before2, output.values2, 0, same};
    int bytes = small ? 150 : BYTES;
    for (int byte = 0; byte < bytes; byte++)
        ((update *)function)(text, (size_t)byte, (size_t)bytes, &hash);
    for (int byte = 0; byte < bytes; byte++) {
        head[output.values[byte]] = head2[output.values2[byte]] = -1;
        same[byte] = 0;
    }
}
