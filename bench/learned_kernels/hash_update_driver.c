/* Calls a hash function's update of pycryptodome from the same state each time.
   HASHED is the file that is called, included for its types and for its own start; STATE, START and UPDATE name them.
   WHOLE and SMALL are the bytes of a message. */
#include HASHED
#include "race_driver.h"

#ifndef WHOLE
#define WHOLE 24000
#define SMALL 300
#endif
#define TEXT(name) #name
#define NAMED(name) TEXT(name)
static unsigned char message[WHOLE];
static STATE *started, state;
const char *const race_symbol = NAMED(UPDATE);
unsigned char *const race_output = (unsigned char *)&state;
const size_t race_output_bytes = sizeof state;

void race_prepare(void)
{
    for (int byte = 0; byte < WHOLE; byte++)
        message[byte] = (unsigned char)race_random();
    START;
}

void race_call(void *function, int small)
{
    typedef int update(STATE *, const uint8_t *, size_t);
    state = *started;
    ((update *)function)(&state, message, small ? SMALL : WHOLE);
}
