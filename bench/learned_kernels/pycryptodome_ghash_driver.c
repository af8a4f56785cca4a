/* Calls pycryptodome's ghash_portable on a message of many blocks, with a key that is expanded beforehand. */
#include "ghash_portable.c"
#include "race_driver.h"

enum { BYTES = 3200 };
static unsigned char message[BYTES], key[16], before[16], output[16];
static t_exp_key *expanded;
const char *const race_symbol = "ghash_portable";
unsigned char *const race_output = output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int byte = 0; byte < BYTES; byte++)
        message[byte] = (unsigned char)race_random();
    for (int byte = 0; byte < 16; byte++) {
        key[byte] = (unsigned char)race_random();
        before[byte] = (unsigned char)race_random();
    }
    ghash_expand_portable(key, &expanded);
}

void race_call(void *function, int small)
{
    typedef int ghash(uint8_t *, const uint8_t *, size_t, const uint8_t *, const t_exp_key *);
    ((ghash *)function)(output, message, small ? 64 : BYTES, before, expanded);
}
