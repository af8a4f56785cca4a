/* Calls pycryptodome's siphash on messages of all lengths up to a few hundred bytes. */
#include "common.h"
#include "race_driver.h"

enum { MESSAGES = 300 };
static unsigned char message[MESSAGES], key[16], output[MESSAGES][16];
const char *const race_symbol = "siphash";
unsigned char *const race_output = output[0];
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int byte = 0; byte < MESSAGES; byte++)
        message[byte] = (unsigned char)race_random();
    for (int byte = 0; byte < 16; byte++)
        key[byte] = (unsigned char)race_random();
}

void race_call(void *function, int small)
{
    typedef int hash(const uint8_t *, size_t, const uint8_t *, uint8_t *, size_t);
    for (int length = 0; length < (small ? 40 : MESSAGES); length++)
        ((hash *)function)(message, (size_t)length, key, output[length], length % 2 ? 8 : 16);
}
