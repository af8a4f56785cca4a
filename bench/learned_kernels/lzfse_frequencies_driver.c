/* Calls lzfse's rounding of symbols' counts to frequencies of which the sum is the number of states. */
#include "race_driver.h"

enum { HISTOGRAMS = 60, SYMBOLS = 256, STATES = 1024 };
static uint32_t counts[HISTOGRAMS][SYMBOLS];
static uint16_t output[HISTOGRAMS][SYMBOLS];
const char *const race_symbol = "fse_normalize_freq";
unsigned char *const race_output = (unsigned char *)output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int histogram = 0; histogram < HISTOGRAMS; histogram++)
        for (int symbol = 0; symbol < SYMBOLS; symbol++)
            counts[histogram][symbol] = race_random() % 3 ? (uint32_t)(race_random() >> (54 + race_random() % 10)) : 0;
}

void race_call(void *function, int small)
{
    typedef void normalize(int, int, const uint32_t *, uint16_t *);
    for (int histogram = 0; histogram < (small ? 3 : HISTOGRAMS); histogram++)
        ((normalize *)function)(STATES, small ? 64 : SYMBOLS, counts[histogram], output[histogram]);
}
