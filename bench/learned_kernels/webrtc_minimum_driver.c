/* Calls webrtc's search of a feature's smallest values in the last hundred frames. */
#include "webrtc/common_audio/vad/vad_sp.h"
#include "race_driver.h"

enum { FRAMES = 160 };
static int16_t features[FRAMES][kNumChannels];
static struct { VadInstT detector; int16_t medians[FRAMES][kNumChannels]; } output;
const char *const race_symbol = "WebRtcVad_FindMinimum";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int frame = 0; frame < FRAMES; frame++)
        for (int channel = 0; channel < kNumChannels; channel++)
            features[frame][channel] = (int16_t)(race_random() % 4000);
}

void race_call(void *function, int small)
{
    typedef int16_t find(VadInstT *, int16_t, int);
    VadInstT *detector = &output.detector;
    memset(detector, 0, sizeof *detector);
    for (int i = 0; i < 16 * kNumChannels; i++)
        detector->low_value_vector[i] = 10000;
    for (int channel = 0; channel < kNumChannels; channel++)
        detector->mean_value[channel] = 1600;
    for (int frame = 0; frame < (small ? 12 : FRAMES); frame++, detector->frame_counter++)
        for (int channel = 0; channel < kNumChannels; channel++)
            output.medians[frame][channel] = ((find *)function)(detector, features[frame][channel], channel);
}
