/* Calls LZFSE's fse_init_encoder_table on the counts of a small alphabet. */
#include "lzfse_fse.h"
#include "race_driver.h"

enum { STATES = 64, SYMBOLS = 20 };
static uint16_t frequencies[SYMBOLS];
static fse_encoder_entry table[SYMBOLS];
const char *const race_symbol = "fse_init_encoder_table";
unsigned char *const race_output = (unsigned char *)table;
const size_t race_output_bytes = sizeof table;

void race_prepare(void)
{
    for (int left = STATES; left > 0; left--)
        frequencies[race_random() % (1 + race_random() % SYMBOLS)]++;
}

void race_call(void *function, int small)
{
    (void)small;
    ((void (*)(int, int, const uint16_t *, fse_encoder_entry *))function)(STATES, SYMBOLS, frequencies, table);
}
