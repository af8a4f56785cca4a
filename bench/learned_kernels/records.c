/* Reads records of fixed width, checks each field, and keeps totals by branch; a bad record is told by its first fault. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { WIDTH = 40, BRANCHES = 8, NAME = 12 };
enum { FINE, BAD_KIND, BAD_NUMBER, BAD_DATE, BAD_AMOUNT, BAD_CHECK, FAULTS };

typedef struct {
    char kind, name[NAME + 1];
    uint32_t account, date;
    int64_t cents;
} Record;

typedef struct {
    int64_t balance;
    uint32_t count, last_date;
    char longest[NAME + 1];
} Branch;

static int read_digits(const char *from, int n, uint32_t *number)
{
    uint32_t sum = 0;
    for (int i = 0; i < n; i++) {
        unsigned digit = (unsigned char)from[i] - '0';
        if (digit > 9)
            return 0;
        sum = 10 * sum + digit;
    }
    *number = sum;
    return 1;
}

static void trimmed(const char *from, int n, char *to)
{
    while (n > 0 && from[n - 1] == ' ')
        n--;
    memcpy(to, from, (size_t)n);
    to[n] = 0;
}

static unsigned check_of(const char *from, int n)
{
    unsigned sum = 0;
    for (int i = 0; i < n; i++)
        sum = (sum + (unsigned char)from[i] * (i % 2 ? 3u : 1u)) % 97;
    return sum;
}

/* A kind, 8 digits of an account, 8 of a date, 9 of cents, a name, and 2 digits that check the others. */
static int read_record(const char *from, Record *record)
{
    uint32_t cents, check;
    record->kind = from[0];
    if (record->kind != 'D' && record->kind != 'C' && record->kind != 'X')
        return BAD_KIND;
    if (!read_digits(from + 1, 8, &record->account))
        return BAD_NUMBER;
    if (!read_digits(from + 9, 8, &record->date))
        return BAD_DATE;
    uint32_t month = record->date / 100 % 100, day = record->date % 100;
    if (month < 1 || month > 12 || day < 1 || day > 31)
        return BAD_DATE;
    if (!read_digits(from + 17, 9, &cents))
        return BAD_AMOUNT;
    if (!read_digits(from + WIDTH - 2, 2, &check) || check != check_of(from, WIDTH - 2))
        return BAD_CHECK;
    record->cents = record->kind == 'D' ? -(int64_t)cents : record->kind == 'C' ? cents : 0;
    trimmed(from + 26, NAME, record->name);
    return FINE;
}

void kernel(const char *text, int n, Branch *branches, uint32_t *faults)
{
    memset(branches, 0, BRANCHES * sizeof *branches);
    memset(faults, 0, FAULTS * sizeof *faults);
    for (int i = 0; i < n; i++) {
        Record record;
        int fault = read_record(text + (size_t)i * WIDTH, &record);
        faults[fault]++;
        if (fault != FINE)
            continue;
        Branch *branch = branches + record.account % BRANCHES;
        branch->balance += record.cents;
        branch->count++;
        if (record.date > branch->last_date)
            branch->last_date = record.date;
        if (strlen(record.name) > strlen(branch->longest))
            strcpy(branch->longest, record.name);
    }
}

#ifdef RACE_DRIVER
#include <stdio.h>
#include "race_driver.h"
enum { N = 400 };
static char text[N * WIDTH + 1];
static struct {
    Branch branches[BRANCHES];
    uint32_t faults[FAULTS];
} output;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int i = 0; i < N; i++) {
        char *to = text + i * WIDTH;
        int kind = "DCX"[race_random() % 3], name = 1 + (int)(race_random() % 11);
        unsigned account = race_random() % 100000000, month = 1 + race_random() % 12, day = 1 + race_random() % 28;
        unsigned cents = race_random() % 1000000000;
        sprintf(to, "%c%08u2024%02u%02u%09u%-12.*s", kind, account, month, day, cents, name, "Abcdefghijkl");
        if (race_random() % 10 == 0)
            to[race_random() % 26] = '?';
        sprintf(to + WIDTH - 2, "%02u", (check_of(to, WIDTH - 2) + (race_random() % 20 == 0)) % 97);
    }
}

void race_call(void *function, int small)
{
    ((void (*)(const char *, int, Branch *, uint32_t *))function)(text, small ? 20 : N, output.branches, output.faults);
}
#endif
