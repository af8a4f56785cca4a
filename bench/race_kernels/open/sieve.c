/* Bits: primes below a limit by a segmented sieve. Macros: bits or bytes, the segment's length, how the marking
   loop is unrolled and the way bits are counted. */
#include <stdint.h>

#ifndef SEGMENT
#define SEGMENT 64
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
#ifndef COUNT_UNROLL
#define COUNT_UNROLL 1
#endif

#define TEXT(words) #words
#define UNROLLED(times) _Pragma(TEXT(GCC unroll times))

enum { STRIDE = 2 }; /* odd numbers only */

#ifdef PACKED_BITS
typedef uint32_t cell;
enum { PER_CELL = 32 };
#define MARK(n) marks[(n) / 32] |= 1u << ((n) % 32)
#define IS_MARKED(n) (marks[(n) / 32] >> ((n) % 32) & 1)
#else
typedef uint8_t cell;
enum { PER_CELL = 1 };
#define MARK(n) marks[n] = 1
#define IS_MARKED(n) (marks[n])
#endif

void kernel(const uint32_t *small_primes, int n_small, uint32_t limit, uint32_t *result)
{
    uint32_t count = limit > 2, sum = 2;
    for (uint32_t low = 3; low < limit; low += SEGMENT * STRIDE) {
        cell marks[SEGMENT / PER_CELL + 1];
        UNROLLED(COUNT_UNROLL)
        for (uint32_t at = 0; at < sizeof marks / sizeof *marks; at++)
            marks[at] = 0;
        uint32_t high = low + SEGMENT * STRIDE < limit ? low + SEGMENT * STRIDE : limit;
        for (int each = 1; each < n_small; each++) {
            uint32_t prime = small_primes[each], first = (low + prime - 1) / prime * prime;
            if (first < prime * prime)
                first = prime * prime;
            if (first % 2 == 0)
                first += prime;
            UNROLLED(UNROLL)
            for (uint32_t multiple = first; multiple < high; multiple += prime * STRIDE)
                MARK((multiple - low) / STRIDE);
        }
#ifdef BRANCHLESS
        UNROLLED(COUNT_UNROLL)
        for (uint32_t at = 0; at < (high - low + STRIDE - 1) / STRIDE; at++) {
            uint32_t prime = !IS_MARKED(at);
            count += prime;
            sum += (low + at * STRIDE) & -prime;
        }
#else
        UNROLLED(COUNT_UNROLL)
        for (uint32_t at = 0; at < (high - low + STRIDE - 1) / STRIDE; at++)
            if (!IS_MARKED(at)) {
                count++;
                sum += low + at * STRIDE;
            }
#endif
    }
    result[0] = count;
    result[1] = sum;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
static const uint32_t small_primes[] = {2, 3, 5, 7, 11, 13};
static uint32_t result[2];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)result;
const size_t race_output_bytes = sizeof result;

void race_prepare(void)
{
}

void race_call(void *function, int small)
{
    (void)small;
    ((void (*)(const uint32_t *, int, uint32_t, uint32_t *))function)(small_primes, 6, 120, result);
}
#endif
