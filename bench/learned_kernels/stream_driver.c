/* Calls a stream cipher of pycryptodome from the same state each time.
   STREAMED is the file that is called, included for its types and for its own start; CIPHER is its name. */
#include STREAMED
#include "race_driver.h"

enum { BYTES = 16000 };
#define TEXT(name) #name
#define NAMED(name) TEXT(name)
#define ENCRYPT _PASTE2(CIPHER, _stream_encrypt)
static unsigned char message[BYTES], key[32], nonce[8];
static stream_state *started, state;
static unsigned char output[BYTES];
const char *const race_symbol = NAMED(ENCRYPT);
unsigned char *const race_output = output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int byte = 0; byte < BYTES; byte++)
        message[byte] = (unsigned char)race_random();
    for (int byte = 0; byte < 32; byte++)
        key[byte] = (unsigned char)race_random();
    START;
}

void race_call(void *function, int small)
{
    typedef int encrypt(stream_state *, const uint8_t *, uint8_t *, size_t);
    state = *started;
    ((encrypt *)function)(&state, message, output, small ? 320 : BYTES);
}
