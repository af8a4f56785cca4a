/* Calls scrypt's crypto_scrypt_smix with its smallest memory. */
#include <stdalign.h>
#include "crypto_scrypt_smix.h"
#include "race_driver.h"

enum { R = 1, N = 2, BYTES = 128 * R };
static uint8_t begun[BYTES];
static alignas(64) uint8_t block[BYTES], memory[BYTES * N], work[2 * BYTES + 64];
const char *const race_symbol = "crypto_scrypt_smix";
unsigned char *const race_output = block;
const size_t race_output_bytes = sizeof block;

void race_prepare(void)
{
    for (int i = 0; i < BYTES; i++)
        begun[i] = (uint8_t)race_random();
}

void race_call(void *function, int small)
{
    (void)small;
    memcpy(block, begun, sizeof block);
    ((void (*)(uint8_t *, size_t, uint64_t, void *, void *))function)(block, R, N, memory, work);
}
