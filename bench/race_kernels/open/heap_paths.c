/* Branches: shortest ways over a grid of costs, by Dijkstra with a binary heap. */
#include <stdint.h>

typedef struct {
    uint32_t distance;
    int place;
} entry;

static int pushed(entry *heap, int n, entry item)
{
    int at = n;
    while (at > 0 && heap[(at - 1) / 2].distance > item.distance) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = item;
    return n + 1;
}

static int popped(entry *heap, int n, entry *top)
{
    *top = heap[0];
    entry item = heap[--n];
    int at = 0;
    for (int child = 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && heap[child + 1].distance < heap[child].distance)
            child++;
        if (heap[child].distance >= item.distance)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = item;
    return n;
}

void kernel(const uint8_t *costs, int side, uint32_t *distances, entry *heap)
{
    static const int steps[4][2] = {{0, 1}, {1, 0}, {0, -1}, {-1, 0}};
    for (int place = 0; place < side * side; place++)
        distances[place] = UINT32_MAX;
    distances[0] = 0;
    int n = pushed(heap, 0, (entry){0, 0});
    while (n > 0) {
        entry top;
        n = popped(heap, n, &top);
        if (top.distance > distances[top.place])
            continue;
        int row = top.place / side, column = top.place % side;
        for (int step = 0; step < 4; step++) {
            int r = row + steps[step][0], c = column + steps[step][1];
            if (r < 0 || c < 0 || r >= side || c >= side)
                continue;
            uint32_t distance = top.distance + costs[r * side + c];
            if (distance < distances[r * side + c]) {
                distances[r * side + c] = distance;
                n = pushed(heap, n, (entry){distance, r * side + c});
            }
        }
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { SIDE = 24 };
static uint8_t costs[SIDE * SIDE];
static uint32_t distances[SIDE * SIDE];
static entry heap[4 * SIDE * SIDE];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)distances;
const size_t race_output_bytes = sizeof distances;

void race_prepare(void)
{
    for (int i = 0; i < SIDE * SIDE; i++)
        costs[i] = (uint8_t)(1 + race_random() % 60);
}

void race_call(void *function, int small)
{
    ((void (*)(const uint8_t *, int, uint32_t *, entry *))function)(costs, small ? 4 : SIDE, distances, heap);
}
#endif
