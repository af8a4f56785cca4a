/* Calls PyCryptodome's hchacha20: twenty rounds of ChaCha on one key. */
#include "race_driver.h"

static uint8_t key[32], nonce[16], subkey[32];
const char *const race_symbol = "hchacha20";
unsigned char *const race_output = subkey;
const size_t race_output_bytes = sizeof subkey;

void race_prepare(void)
{
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)race_random(), nonce[i / 2] = (uint8_t)race_random();
}

void race_call(void *function, int small)
{
    (void)small;
    ((int (*)(const uint8_t *, const uint8_t *, uint8_t *))function)(key, nonce, subkey);
}
