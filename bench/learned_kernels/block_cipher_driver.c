/* Calls a block cipher of pycryptodome as its Python does: sets a key, then encrypts and decrypts through the state. */
#include "block_base.h"
#include "race_driver.h"

enum { BLOCK = 16, BLOCKS = 150, KEY = KEY_BYTES };
#define TEXT(name) #name
#define NAMED(name) TEXT(name)
static unsigned char message[BLOCKS * BLOCK], key[KEY], output[2][BLOCKS * BLOCK];
const char *const race_symbol = NAMED(START);
unsigned char *const race_output = output[0];
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int byte = 0; byte < BLOCKS * BLOCK; byte++)
        message[byte] = (unsigned char)race_random();
    for (int byte = 0; byte < KEY; byte++)
        key[byte] = (unsigned char)race_random();
}

void race_call(void *function, int small)
{
    typedef int start(const uint8_t *, size_t, BlockBase **);
    BlockBase *state;
    size_t bytes = small ? 4 * BLOCK : sizeof message;
    if (((start *)function)(key, KEY, &state) != 0)
        return;
    state->encrypt(state, message, output[0], bytes);
    state->decrypt(state, message, output[1], bytes);
    state->destructor(state);
}
