/* Hash: a cache of the most recently used keys, by open addressing with deletion by backward shift and a linked list. */
#include <stdint.h>

enum { SLOTS = 128, HELD = 72, NONE = -1 };

typedef struct {
    uint32_t key;
    int32_t value, newer, older;
} entry;

typedef struct {
    entry entries[HELD];
    int16_t slots[SLOTS];
    int32_t n, newest, oldest;
} cache;

static uint32_t home_of(uint32_t key)
{
    key ^= key >> 15;
    key *= 0x2c1b3c6du;
    key ^= key >> 12;
    return key % SLOTS;
}

static uint32_t slot_of(const cache *held, uint32_t key)
{
    uint32_t slot = home_of(key);
    while (held->slots[slot] != NONE && held->entries[held->slots[slot]].key != key)
        slot = (slot + 1) % SLOTS;
    return slot;
}

static void freed(cache *held, uint32_t hole)
{
    for (uint32_t next = (hole + 1) % SLOTS; held->slots[next] != NONE; next = (next + 1) % SLOTS) {
        uint32_t home = home_of(held->entries[held->slots[next]].key);
        if ((next - home) % SLOTS >= (next - hole) % SLOTS) {
            held->slots[hole] = held->slots[next];
            hole = next;
        }
    }
    held->slots[hole] = NONE;
}

static void unlinked(cache *held, int32_t place)
{
    entry *item = &held->entries[place];
    if (item->newer == NONE)
        held->newest = item->older;
    else
        held->entries[item->newer].older = item->older;
    if (item->older == NONE)
        held->oldest = item->newer;
    else
        held->entries[item->older].newer = item->newer;
}

static void linked(cache *held, int32_t place)
{
    entry *item = &held->entries[place];
    item->newer = NONE;
    item->older = held->newest;
    if (held->newest == NONE)
        held->oldest = place;
    else
        held->entries[held->newest].newer = place;
    held->newest = place;
}

/* facts: hits, the sum of what was hit, evictions, the longest search of a slot. */
void kernel(const uint32_t *keys, int n, cache *held, int64_t *facts)
{
    int64_t hits = 0, sum = 0, evictions = 0, longest = 0;
    held->n = 0, held->newest = NONE, held->oldest = NONE;
    for (int slot = 0; slot < SLOTS; slot++)
        held->slots[slot] = NONE;
    for (int i = 0; i < n; i++) {
        uint32_t slot = slot_of(held, keys[i]), way = (slot - home_of(keys[i])) % SLOTS;
        longest = way > longest ? way : longest;
        int32_t place = held->slots[slot];
        if (place != NONE) {
            hits++;
            sum += held->entries[place].value;
            unlinked(held, place);
        } else {
            if (held->n < HELD) {
                place = held->n++;
            } else {
                place = held->oldest;
                unlinked(held, place);
                freed(held, slot_of(held, held->entries[place].key));
                slot = slot_of(held, keys[i]);
                evictions++;
            }
            held->slots[slot] = (int16_t)place;
            held->entries[place].key = keys[i];
            held->entries[place].value = i;
        }
        linked(held, place);
    }
    facts[0] = hits, facts[1] = sum, facts[2] = evictions, facts[3] = longest;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 2500 };
static uint32_t keys[N];
static cache held;
static int64_t facts[4];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)facts;
const size_t race_output_bytes = sizeof facts;

void race_prepare(void)
{
    for (int i = 0; i < N; i++) {
        double skewed = race_uniform();
        keys[i] = (uint32_t)(skewed * skewed * skewed * 400);
    }
}

void race_call(void *function, int small)
{
    ((void (*)(const uint32_t *, int, cache *, int64_t *))function)(keys, small ? 80 : N, &held, facts);
}
#endif
