/* Dates of the Gregorian calendar from days and back, their weekdays, and the workdays between them. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int year, month, day, weekday, day_of_year;
} Date;

static int is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int days_of(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month == 2 && is_leap(year) ? 29 : days[month - 1];
}

static int to_days(int year, int month, int day)
{
    if (month <= 2)
        year--;
    int era = (year >= 0 ? year : year - 399) / 400;
    int of_era = year - era * 400;
    int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static Date from_days(int days)
{
    Date date;
    int shifted = days + 719468;
    int era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int of_era = shifted - era * 146097;
    int year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int of_year = of_era - (365 * year + year / 4 - year / 100);
    int month = (5 * of_year + 2) / 153;
    date.day = of_year - (153 * month + 2) / 5 + 1;
    date.month = month + (month < 10 ? 3 : -9);
    date.year = year + era * 400 + (date.month <= 2);
    date.weekday = (days % 7 + 11) % 7;
    date.day_of_year = date.day;
    for (int before = 1; before < date.month; before++)
        date.day_of_year += days_of(date.year, before);
    return date;
}

static int workdays(int from, int to)
{
    int weeks = (to - from) / 7, count = 5 * weeks;
    for (int day = from + 7 * weeks; day < to; day++)
        count += (day % 7 + 11) % 7 % 6 != 0;
    return count;
}

void kernel(const int32_t *days, int n, Date *dates, int32_t *sums)
{
    sums[0] = sums[1] = sums[2] = 0;
    for (int i = 0; i < n; i++) {
        dates[i] = from_days(days[i]);
        int next_month = dates[i].month % 12 + 1, next_year = dates[i].year + (dates[i].month == 12);
        int due = to_days(next_year, next_month, 1) + (dates[i].day - 1) % days_of(next_year, next_month);
        sums[0] += to_days(dates[i].year, dates[i].month, dates[i].day) == days[i];
        sums[1] += workdays(days[i], due);
        sums[2] += due - days[i];
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 900 };
static int32_t days[N];
static struct {
    Date dates[N];
    int32_t sums[3];
} output;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int i = 0; i < N; i++)
        days[i] = (int32_t)(race_random() % 80000) - 30000;
}

void race_call(void *function, int small)
{
    ((void (*)(const int32_t *, int, Date *, int32_t *))function)(days, small ? 40 : N, output.dates, output.sums);
}
#endif
