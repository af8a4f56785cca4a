/* Calls pycryptodome's pkcs1_decode on padded messages, of which some are damaged. */
#include "common.h"
#include "race_driver.h"

enum { MESSAGES = 16, BYTES = 256, SENTINEL = 32 };
static unsigned char padded[MESSAGES][BYTES], sentinel[SENTINEL], output[MESSAGES][BYTES + sizeof(int)];
const char *const race_symbol = "pkcs1_decode";
unsigned char *const race_output = output[0];
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int message = 0; message < MESSAGES; message++) {
        for (int byte = 0; byte < BYTES; byte++)
            padded[message][byte] = (unsigned char)(1 + race_random() % 255);
        padded[message][0] = 0;
        padded[message][1] = message % 4 == 3 ? 1 : 2;
        padded[message][24 + 2 * message] = 0;
    }
    for (int byte = 0; byte < SENTINEL; byte++)
        sentinel[byte] = (unsigned char)race_random();
}

void race_call(void *function, int small)
{
    typedef int decode(const uint8_t *, size_t, const uint8_t *, size_t, size_t, uint8_t *);
    size_t bytes = small ? 64 : BYTES;
    for (int message = 0; message < (small ? 2 : MESSAGES); message++) {
        int skipped = ((decode *)function)(padded[message], bytes, sentinel, SENTINEL, 0, output[message]);
        memcpy(output[message] + BYTES, &skipped, sizeof skipped);
    }
}
