/* Finds all places of some words in a text: short words by Knuth, Morris and Pratt, longer ones by Boyer and Moore. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LONGEST = 32 };

static void failures(const char *word, int n, int *failure)
{
    failure[0] = 0;
    for (int i = 1, matched = 0; i < n; i++) {
        while (matched > 0 && word[i] != word[matched])
            matched = failure[matched - 1];
        matched += word[i] == word[matched];
        failure[i] = matched;
    }
}

static int knuth_morris_pratt(const char *text, int n, const char *word, int length, int *places)
{
    int failure[LONGEST], found = 0;
    failures(word, length, failure);
    for (int i = 0, matched = 0; i < n; i++) {
        while (matched > 0 && text[i] != word[matched])
            matched = failure[matched - 1];
        matched += text[i] == word[matched];
        if (matched == length) {
            places[found++] = i + 1 - length;
            matched = failure[matched - 1];
        }
    }
    return found;
}

static int boyer_moore(const char *text, int n, const char *word, int length, int *places)
{
    uint8_t jump[256];
    int found = 0;
    memset(jump, length, sizeof jump);
    for (int i = 0; i < length - 1; i++)
        jump[(uint8_t)word[i]] = (uint8_t)(length - 1 - i);
    for (int at = 0; at + length <= n;) {
        int i = length - 1;
        while (i >= 0 && text[at + i] == word[i])
            i--;
        if (i < 0)
            places[found++] = at;
        at += jump[(uint8_t)text[at + length - 1]];
    }
    return found;
}

int kernel(const char *text, int n, const char *const *words, int n_words, int *places)
{
    int found = 0;
    for (int word = 0; word < n_words; word++) {
        int length = (int)strlen(words[word]);
        if (length < 5)
            found += knuth_morris_pratt(text, n, words[word], length, places + found);
        else
            found += boyer_moore(text, n, words[word], length, places + found);
    }
    return found;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 2500 };
static const char *const words[] = {"aba", "abcabcab", "cc", "bacbacbacb", "abab", "caabb"};
static char text[N];
static int output[1 + 6 * N];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int i = 0; i < N; i++)
        text[i] = (char)(i > 3 && race_random() % 3 ? text[i - 3] : 'a' + race_random() % 3);
}

void race_call(void *function, int small)
{
    typedef int search(const char *, int, const char *const *, int, int *);
    output[0] = ((search *)function)(text, small ? 120 : N, words, small ? 3 : 6, output + 1);
}
#endif
