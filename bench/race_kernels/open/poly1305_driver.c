/* Calls PyCryptodome's poly1305_update on three blocks and a part of one. Its source is read for the state's layout. */
#include "poly1305.c"
#include "race_driver.h"

static mac_state begun, state;
static uint8_t message[55];
const char *const race_symbol = "poly1305_update";
unsigned char *const race_output = (unsigned char *)&state;
const size_t race_output_bytes = sizeof state;

void race_prepare(void)
{
    uint8_t secret[16];
    for (int i = 0; i < 16; i++)
        secret[i] = (uint8_t)race_random();
    for (unsigned i = 0; i < sizeof message; i++)
        message[i] = (uint8_t)race_random();
    poly1305_load_r(begun.r, begun.rr, secret);
}

void race_call(void *function, int small)
{
    (void)small;
    state = begun;
    ((int (*)(mac_state *, const uint8_t *, size_t))function)(&state, message, sizeof message);
}
