/* String: splits lines of comma-separated values, quotes and numbers with signs and fractions among them. */
#include <stdint.h>

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int64_t number(const char *text, int length, int *is_number)
{
    int i = 0, negative = 0, digits = 0;
    int64_t value = 0;
    if (i < length && (text[i] == '-' || text[i] == '+'))
        negative = text[i++] == '-';
    for (; i < length && is_digit(text[i]); i++, digits++)
        value = value * 10 + (text[i] - '0');
    if (i < length && text[i] == '.')
        for (i++; i < length && is_digit(text[i]); i++, digits++)
            value = value * 10 + (text[i] - '0');
    *is_number = digits > 0 && i == length;
    return negative ? -value : value;
}

/* facts: fields, lines, numbers, their sum, quoted fields, longest field. */
void kernel(const char *text, int length, int64_t *facts)
{
    int64_t fields = 0, lines = 0, numbers = 0, sum = 0, quoted = 0, longest = 0;
    int i = 0;
    while (i < length) {
        int begin = i, end;
        if (text[i] == '"') {
            begin = ++i;
            while (i < length && (text[i] != '"' || (i + 1 < length && text[i + 1] == '"' && i++)))
                i++;
            end = i++;
            quoted++;
        } else {
            while (i < length && text[i] != ',' && text[i] != '\n')
                i++;
            end = i;
            int is_number;
            int64_t value = number(text + begin, end - begin, &is_number);
            if (is_number) {
                numbers++;
                sum += value;
            }
        }
        fields++;
        longest = end - begin > longest ? end - begin : longest;
        lines += i < length && text[i] == '\n';
        i++;
    }
    facts[0] = fields, facts[1] = lines, facts[2] = numbers, facts[3] = sum, facts[4] = quoted, facts[5] = longest;
}

#ifdef RACE_DRIVER
#include <stdio.h>
#include "race_driver.h"
enum { LENGTH = 60000 }; /* too long to be learned by heart by a branch predictor */
static char text[LENGTH + 100];
static int64_t facts[6];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)facts;
const size_t race_output_bytes = sizeof facts;

void race_prepare(void)
{
    for (int at = 0; at < LENGTH;) {
        uint64_t draw = race_random();
        const char *end = draw >> 60 ? "," : "\n";
        if (draw % 7 == 0)
            at += sprintf(text + at, "\"say \"\"%x\"\", x\"%s", (unsigned)(draw >> 40) & 0xfff, end);
        else if (draw % 7 < 4)
            at += sprintf(text + at, "%d.%u%s", (int)(draw >> 32) % 5000, (unsigned)(draw >> 8) % 100, end);
        else
            at += sprintf(text + at, "w%llx%s", (unsigned long long)(draw >> 30), end);
    }
}

void race_call(void *function, int small)
{
    ((void (*)(const char *, int, int64_t *))function)(text, small ? 250 : LENGTH, facts);
}
#endif
