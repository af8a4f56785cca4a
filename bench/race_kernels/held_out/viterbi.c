/* Dynamic programming: a convolutional code of 32 states, decoded from soft bits by Viterbi's algorithm. */
#include <stdint.h>

enum { MEMORY = 5, STATES = 1 << MEMORY, FAR = 1 << 20 };

static const uint32_t taps[2] = {053, 075};

static uint32_t parity(uint32_t bits)
{
    bits ^= bits >> 4;
    bits ^= bits >> 2;
    return (bits ^ bits >> 1) & 1;
}

static uint32_t symbol_of(uint32_t window)
{
    return parity(window & taps[0]) << 1 | parity(window & taps[1]);
}

/* One step of every state: of its two predecessors the nearer one. */
static uint32_t stepped(const int32_t *before, int32_t *after, const int32_t *costs, const uint8_t *symbols)
{
    uint32_t choices = 0;
    for (int state = 0; state < STATES; state++) {
        int lower = state >> 1, upper = lower + STATES / 2;
        int32_t by_lower = before[lower] + costs[symbols[state]];
        int32_t by_upper = before[upper] + costs[symbols[state + STATES]];
        int is_upper = by_upper < by_lower;
        after[state] = is_upper ? by_upper : by_lower;
        choices |= (uint32_t)is_upper << state;
    }
    return choices;
}

static void level(int32_t *metrics)
{
    int32_t least = metrics[0];
    for (int state = 1; state < STATES; state++)
        least = metrics[state] < least ? metrics[state] : least;
    for (int state = 0; state < STATES; state++)
        metrics[state] -= least;
}

static int trace(const uint32_t *choices, int n, const int32_t *metrics, uint8_t *bits)
{
    int state = 0;
    for (int other = 1; other < STATES; other++)
        if (metrics[other] < metrics[state])
            state = other;
    for (int i = n - 1; i >= 0; i--) {
        bits[i] = state & 1;
        state = state >> 1 | (choices[i] >> state & 1) << (MEMORY - 1);
    }
    return state;
}

/* Leaves the decoded bits; answers with the state that the way begins in. */
int kernel(const int8_t *soft, int n, uint32_t *choices, uint8_t *bits)
{
    int32_t metrics[2][STATES];
    uint8_t symbols[2 * STATES];
    for (uint32_t window = 0; window < 2 * STATES; window++)
        symbols[window] = (uint8_t)symbol_of(window);
    for (int state = 0; state < STATES; state++)
        metrics[0][state] = state ? FAR : 0;
    for (int i = 0; i < n; i++) {
        int32_t first = soft[2 * i], second = soft[2 * i + 1];
        int32_t costs[4] = {first + second, first - second, second - first, -first - second};
        choices[i] = stepped(metrics[i & 1], metrics[~i & 1], costs, symbols);
        if (i % 16 == 15)
            level(metrics[~i & 1]);
    }
    return trace(choices, n, metrics[n & 1], bits);
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 900 };
static int8_t soft[2 * N];
static uint32_t choices[N];
static uint8_t output[N + 1];
const char *const race_symbol = "kernel";
unsigned char *const race_output = output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    uint32_t window = 0;
    for (int i = 0; i < N; i++) {
        window = (window << 1 | (race_random() & 1)) & (2 * STATES - 1);
        for (int half = 0; half < 2; half++) {
            int sent = symbol_of(window) >> (1 - half) & 1 ? 40 : -40;
            soft[2 * i + half] = (int8_t)(sent + (int)(race_random() % 110) - 55 + (int)(race_random() % 60) - 30);
        }
    }
}

void race_call(void *function, int small)
{
    int n = small ? 40 : N;
    output[n] = (uint8_t)((int (*)(const int8_t *, int, uint32_t *, uint8_t *))function)(soft, n, choices, output);
}
#endif
