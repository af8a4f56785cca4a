/* What a kernel's driver gives to race_serve.c. The driver is compiled once, the kernel with every candidate. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern const char *const race_symbol;              /* the function that is called */
extern unsigned char *const race_output;           /* all that a call leaves, compared with what the baseline left */
extern const size_t race_output_bytes;
void race_prepare(void);                           /* fills the inputs, once */
void race_call(void *function, int small);         /* one call: `small` where each instruction is counted */

/* Splitmix64 (Steele, Lea and Flood, OOPSLA 2014): inputs that are the same everywhere. */
static inline uint64_t race_random(void)
{
    static uint64_t state = 42;
    uint64_t mixed = state += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

static inline double race_uniform(void)
{
    return (double)(race_random() >> 11) * 0x1p-53;
}
