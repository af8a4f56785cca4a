/* Hash: counts matches of two columns by a table with open addressing, as a database's join does. */
#include <stddef.h>
#include <stdint.h>

static inline uint32_t mixed(uint32_t key)
{
    key ^= key >> 16;
    key *= 0x7feb352du;
    key ^= key >> 15;
    key *= 0x846ca68bu;
    return key ^ key >> 16;
}

static void insert(uint32_t *keys, uint32_t *counts, uint32_t mask, uint32_t key)
{
    uint32_t slot = mixed(key) & mask;
    while (counts[slot] && keys[slot] != key)
        slot = (slot + 1) & mask;
    keys[slot] = key;
    counts[slot]++;
}

static uint32_t looked_up(const uint32_t *keys, const uint32_t *counts, uint32_t mask, uint32_t key)
{
    for (uint32_t slot = mixed(key) & mask; counts[slot]; slot = (slot + 1) & mask)
        if (keys[slot] == key)
            return counts[slot];
    return 0;
}

void kernel(const uint32_t *left, int n_left, const uint32_t *right, int n_right, uint32_t *keys, uint32_t *counts,
            uint32_t mask, uint32_t *matches)
{
    for (uint32_t slot = 0; slot <= mask; slot++)
        counts[slot] = 0;
    for (int row = 0; row < n_left; row++)
        insert(keys, counts, mask, left[row]);
    uint32_t total = 0, most = 0;
    for (int row = 0; row < n_right; row++) {
        uint32_t found = looked_up(keys, counts, mask, right[row]);
        total += found;
        most = found > most ? found : most;
    }
    matches[0] = total;
    matches[1] = most;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { LEFT = 1500, RIGHT = 2500, SLOTS = 4096 };
static uint32_t left[LEFT], right[RIGHT], keys[SLOTS], counts[SLOTS], matches[2];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)matches;
const size_t race_output_bytes = sizeof matches;

void race_prepare(void)
{
    for (int row = 0; row < LEFT; row++)
        left[row] = race_random() % 1900;
    for (int row = 0; row < RIGHT; row++)
        right[row] = race_random() % 2600;
}

void race_call(void *function, int small)
{
    typedef void join(const uint32_t *, int, const uint32_t *, int, uint32_t *, uint32_t *, uint32_t, uint32_t *);
    ((join *)function)(left, small ? 40 : LEFT, right, small ? 60 : RIGHT, keys, counts, small ? 127 : SLOTS - 1, matches);
}
#endif
