/* Gather: a sparse matrix by rows times a vector, with its diagonal's residual, as an iterative solver steps. */
#include <math.h>

double kernel(const int *starts, const int *columns, const double *values, const double *right, const double *x,
              double *next, int rows)
{
    double largest = 0;
    for (int row = 0; row < rows; row++) {
        double sum = right[row], diagonal = 1;
        for (int at = starts[row]; at < starts[row + 1]; at++) {
            if (columns[at] == row)
                diagonal = values[at];
            else
                sum -= values[at] * x[columns[at]];
        }
        next[row] = sum / diagonal;
        double change = fabs(next[row] - x[row]);
        if (change > largest)
            largest = change;
    }
    next[rows] = largest;
    return largest;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { ROWS = 500, MOST = ROWS * 14 };
static int starts[ROWS + 1], columns[MOST];
static double values[MOST], right[ROWS], x[ROWS], next[ROWS + 1];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)next;
const size_t race_output_bytes = sizeof next;

void race_prepare(void)
{
    int at = 0;
    for (int row = 0; row < ROWS; row++) {
        starts[row] = at;
        int others = 4 + (int)(race_random() % 9);
        for (int other = 0; other < others; other++, at++)
            columns[at] = (int)(race_random() % ROWS), values[at] = race_uniform() - 0.5;
        columns[at] = row, values[at++] = 9 + race_uniform();
        right[row] = race_uniform(), x[row] = race_uniform();
    }
    starts[ROWS] = at;
}

void race_call(void *function, int small)
{
    typedef double step(const int *, const int *, const double *, const double *, const double *, double *, int);
    ((step *)function)(starts, columns, values, right, x, next, small ? 20 : ROWS);
}
#endif
