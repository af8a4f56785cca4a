/* Calls webrtc's resampling from 44 to 32 kHz: 11 samples become 8. */
#include "race_driver.h"

enum { BLOCKS = 1200 };
static int32_t samples[11 * BLOCKS + 8], output[8 * BLOCKS];
const char *const race_symbol = "WebRtcSpl_Resample44khzTo32khz";
unsigned char *const race_output = (unsigned char *)output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int i = 0; i < 11 * BLOCKS + 8; i++)
        samples[i] = (int32_t)(race_random() % 32768) - 16384;
}

void race_call(void *function, int small)
{
    ((void (*)(const int32_t *, int32_t *, int32_t))function)(samples, output, small ? 20 : BLOCKS);
}
