/* Writes numbers as decimal and hexadecimal text, and reads them back with checks. */
#include <stddef.h>
#include <stdint.h>

static const char digits[] = "0123456789abcdef";

static char *written(uint32_t number, unsigned base, int width, char *to)
{
    char reversed[12];
    int n = 0;
    do {
        reversed[n++] = digits[number % base];
        number /= base;
    } while (number);
    for (; width > n; width--)
        *to++ = base == 16 ? '0' : ' ';
    while (n > 0)
        *to++ = reversed[--n];
    return to;
}

static int value_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static const char *read_number(const char *from, int *negative, uint32_t *number)
{
    unsigned base = 10;
    uint64_t sum = 0;
    while (*from == ' ')
        from++;
    *negative = *from == '-';
    from += *from == '-';
    if (from[0] == '0' && from[1] == 'x') {
        base = 16;
        from += 2;
    }
    for (int value; (value = value_of(*from)) >= 0 && (unsigned)value < base; from++) {
        sum = sum * base + (unsigned)value;
        if (sum > UINT32_MAX)
            return NULL;
    }
    *number = (uint32_t)sum;
    return from;
}

int kernel(const int32_t *numbers, int n, char *text, int32_t *again)
{
    char *to = text;
    for (int i = 0; i < n; i++) {
        uint32_t size = numbers[i] < 0 ? 0u - (uint32_t)numbers[i] : (uint32_t)numbers[i];
        if (numbers[i] < 0)
            *to++ = '-';
        if (i % 3 == 0) {
            *to++ = '0';
            *to++ = 'x';
            to = written(size, 16, 4, to);
        } else {
            to = written(size, 10, i % 3 * 3, to);
        }
        *to++ = ',';
    }
    *to = 0;
    int read = 0, negative;
    for (const char *from = text; *from; from++, read++) {
        uint32_t number;
        if (!(from = read_number(from, &negative, &number)) || *from != ',')
            return -1;
        again[read] = (int32_t)(negative ? 0u - number : number);
    }
    return read;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 1200 };
static int32_t numbers[N];
static struct {
    int read;
    int32_t again[N];
    char text[16 * N];
} output;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int i = 0; i < N; i++)
        numbers[i] = (int32_t)race_random() >> race_random() % 31;
    for (int i = 0; i < N; i++)
        numbers[i] = i % 3 && numbers[i] < 0 ? ~numbers[i] : numbers[i];
}

void race_call(void *function, int small)
{
    typedef int convert(const int32_t *, int, char *, int32_t *);
    output.read = ((convert *)function)(numbers, small ? 25 : N, output.text, output.again);
}
#endif
