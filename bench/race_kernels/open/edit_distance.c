/* Recurrence: distances of Damerau and Levenshtein (neighbours exchanged) of words to a dictionary, with a bound. */
#include <stdint.h>

enum { LONGEST = 32 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int distance(const char *left, int n, const char *right, int m, int bound)
{
    int16_t before[LONGEST + 1], last[LONGEST + 1], now[LONGEST + 1];
    for (int j = 0; j <= m; j++)
        last[j] = (int16_t)j;
    for (int i = 1; i <= n; i++) {
        now[0] = (int16_t)i;
        int lowest = i;
        for (int j = 1; j <= m; j++) {
            int cost = left[i - 1] != right[j - 1];
            int best = least(least(last[j] + 1, now[j - 1] + 1), last[j - 1] + cost);
            if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1])
                best = least(best, before[j - 2] + 1);
            now[j] = (int16_t)best;
            lowest = least(lowest, best);
        }
        if (lowest > bound)
            return bound + 1;
        for (int j = 0; j <= m; j++) {
            before[j] = last[j];
            last[j] = now[j];
        }
    }
    return last[m];
}

void kernel(const char (*words)[LONGEST], const int *lengths, int n_words, const char *asked, int length, int *result)
{
    int nearest = -1, bound = LONGEST;
    for (int word = 0; word < n_words; word++) {
        int found = distance(words[word], lengths[word], asked, length, bound);
        if (found < bound) {
            bound = found;
            nearest = word;
        }
    }
    result[0] = nearest;
    result[1] = bound;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { WORDS = 90 };
static char words[WORDS][LONGEST], asked[LONGEST];
static int lengths[WORDS], result[2];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)result;
const size_t race_output_bytes = sizeof result;

void race_prepare(void)
{
    for (int word = 0; word < WORDS; word++) {
        lengths[word] = 5 + (int)(race_random() % 12);
        for (int letter = 0; letter < LONGEST; letter++)
            words[word][letter] = (char)('a' + race_random() % 6);
    }
    for (int letter = 0; letter < LONGEST; letter++)
        asked[letter] = (char)('a' + race_random() % 6);
}

void race_call(void *function, int small)
{
    typedef void nearest(const char (*)[LONGEST], const int *, int, const char *, int, int *);
    ((nearest *)function)(words, lengths, small ? 3 : WORDS, asked, small ? 7 : 12, result);
}
#endif
