/* Calls a kernel of bench/transfer_kernels: numbers of 0.5 to 1.5, and any words, as in bench/transfer_landscape.py.
   TURNS are the calls that are timed as one. */
#include "race_driver.h"

enum { INPUTS = 4096 };
static float numbers[INPUTS];
static unsigned words[INPUTS];
static double output[65536 / sizeof(double)]; /* doubles, for the alignment of any kernel's output */
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int i = 0; i < INPUTS; i++) {
        numbers[i] = (float)(0.5 + race_uniform());
        words[i] = (unsigned)race_random();
    }
}

void race_call(void *function, int small)
{
    typedef void kernel(const float *, const unsigned *, void *);
    for (int turn = 0; turn < (small ? 1 : TURNS); turn++)
        ((kernel *)function)(numbers, words, output);
}
