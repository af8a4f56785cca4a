/* Merges intervals that overlap, by a heap that sorts them, and finds where most of them lie over each other. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int32_t begin, end;
    uint32_t weight;
} Interval;

typedef struct {
    int merged, most, busiest;
    int64_t covered;
} Summary;

static int is_before(const Interval *a, const Interval *b)
{
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
}

static void sifted(Interval *heap, int n, int at)
{
    Interval moved = heap[at];
    for (int child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && is_before(&heap[child], &heap[child + 1]))
            child++;
        if (!is_before(&moved, &heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void sorted(Interval *intervals, int n)
{
    for (int at = n / 2 - 1; at >= 0; at--)
        sifted(intervals, n, at);
    for (int last = n - 1; last > 0; last--) {
        Interval first = intervals[0];
        intervals[0] = intervals[last];
        intervals[last] = first;
        sifted(intervals, last, 0);
    }
}

static void most_at_once(const Interval *intervals, int n, Summary *summary)
{
    for (int i = 0, open = 0; i < n; i++) {
        while (intervals[open].end <= intervals[i].begin && open < i)
            open++;
        int depth = 0;
        for (int other = open; other <= i; other++)
            depth += intervals[other].end > intervals[i].begin;
        if (depth > summary->most) {
            summary->most = depth;
            summary->busiest = intervals[i].begin;
        }
    }
}

void kernel(const Interval *given, int n, Interval *work, Interval *merged, Summary *summary)
{
    summary->merged = summary->most = summary->busiest = 0;
    summary->covered = 0;
    for (int i = 0; i < n; i++)
        work[i] = given[i];
    sorted(work, n);
    most_at_once(work, n, summary);
    for (int i = 0; i < n; i++) {
        Interval *last = merged + summary->merged - 1;
        if (summary->merged && work[i].begin <= last->end) {
            if (work[i].end > last->end)
                last->end = work[i].end;
            last->weight += work[i].weight;
        } else {
            merged[summary->merged++] = work[i];
        }
    }
    for (int i = 0; i < summary->merged; i++)
        summary->covered += merged[i].end - merged[i].begin;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 1000 };
static Interval given[N], work[N];
static struct {
    Interval merged[N];
    Summary summary;
} output;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int i = 0; i < N; i++) {
        int32_t begin = (int32_t)(race_random() % 100000);
        given[i] = (Interval){begin, begin + 1 + (int32_t)(race_random() % (i % 20 ? 120 : 900)), (uint32_t)i};
    }
}

void race_call(void *function, int small)
{
    typedef void merge(const Interval *, int, Interval *, Interval *, Summary *);
    ((merge *)function)(given, small ? 50 : N, work, output.merged, &output.summary);
}
#endif
