/* Calls webrtc's low-pass filter in two phases on 16-bit samples. */
#include "race_driver.h"

enum { SAMPLES = 4800 };
static int16_t samples[SAMPLES];
static int32_t output[SAMPLES + 16];
const char *const race_symbol = "WebRtcSpl_LPBy2ShortToInt";
unsigned char *const race_output = (unsigned char *)output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int i = 0; i < SAMPLES; i++)
        samples[i] = (int16_t)race_random();
}

void race_call(void *function, int small)
{
    typedef void filter(const int16_t *, int32_t, int32_t *, int32_t *);
    memset(output, 0, 16 * sizeof output[0]); /* the filter's state, then its samples */
    ((filter *)function)(samples, small ? 60 : SAMPLES, output + 16, output);
}
