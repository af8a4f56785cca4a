/* Calls zopfli's ZopfliLengthLimitedCodeLengths on the counts of a small alphabet. */
#include "katajainen.h"
#include "race_driver.h"

enum { SYMBOLS = 64 };
static size_t frequencies[SYMBOLS];
static unsigned lengths[SYMBOLS];
const char *const race_symbol = "ZopfliLengthLimitedCodeLengths";
unsigned char *const race_output = (unsigned char *)lengths;
const size_t race_output_bytes = sizeof lengths;

void race_prepare(void)
{
    for (int symbol = 0; symbol < SYMBOLS; symbol++)
        frequencies[symbol] = race_random() % 5 ? race_random() % (1 + race_random() % 300) : 0;
}

void race_call(void *function, int small)
{
    typedef int lengths_of(const size_t *, int, int, unsigned *);
    ((lengths_of *)function)(frequencies, small ? 9 : SYMBOLS, small ? 4 : 9, lengths);
}
