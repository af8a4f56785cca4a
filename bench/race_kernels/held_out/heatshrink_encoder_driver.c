/* Calls heatshrink's heatshrink_encoder_poll on a full buffer. Its source is read for the ways into that state. */
#include "heatshrink_encoder.c"
#include "race_driver.h"

enum { WINDOW_BITS = 5, LOOKAHEAD_BITS = 3, INPUT = 1 << WINDOW_BITS };
static heatshrink_encoder *begun, *encoder;
static struct {
    size_t length;
    uint8_t bytes[2 * INPUT];
} packed;
const char *const race_symbol = "heatshrink_encoder_poll";
unsigned char *const race_output = (unsigned char *)&packed;
const size_t race_output_bytes = sizeof packed;

static size_t bytes_of(const heatshrink_encoder *made)
{
    return sizeof *made + ((size_t)2 << made->window_sz2);
}

void race_prepare(void)
{
    uint8_t text[INPUT];
    size_t taken;
    for (int i = 0; i < INPUT; i++)
        text[i] = (uint8_t)("abcd"[race_random() % 4]);
    begun = heatshrink_encoder_alloc(WINDOW_BITS, LOOKAHEAD_BITS);
    encoder = heatshrink_encoder_alloc(WINDOW_BITS, LOOKAHEAD_BITS);
    heatshrink_encoder_sink(begun, text, sizeof text, &taken);
    heatshrink_encoder_finish(begun);
}

void race_call(void *function, int small)
{
    (void)small;
    typedef HSE_poll_res poll(heatshrink_encoder *, uint8_t *, size_t, size_t *);
    struct hs_index *index = encoder->search_index;
    memcpy(encoder, begun, bytes_of(begun));
    encoder->search_index = index;
    ((poll *)function)(encoder, packed.bytes, sizeof packed.bytes, &packed.length);
}
