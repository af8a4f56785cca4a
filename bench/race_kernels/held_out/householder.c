/* Matrix: least squares by Householder's reflections, row by row in memory. */
#include <math.h>

static double square_of_column(const double *a, int rows, int columns, int column, int from)
{
    double sum = 0;
    for (int row = from; row < rows; row++)
        sum += a[row * columns + column] * a[row * columns + column];
    return sum;
}

/* Reflects what is right of `step` and below it, and the right-hand side with it. */
static void reflect(double *a, double *right, int rows, int columns, int step, double *work)
{
    double head = a[step * columns + step];
    double length = sqrt(square_of_column(a, rows, columns, step, step));
    double diagonal = head > 0 ? -length : length;
    double scale = 1 / (length * (length + fabs(head)));
    a[step * columns + step] = head - diagonal;
    for (int column = step + 1; column < columns; column++)
        work[column] = 0;
    double along = 0;
    for (int row = step; row < rows; row++) {
        const double *line = a + row * columns;
        for (int column = step + 1; column < columns; column++)
            work[column] += line[step] * line[column];
        along += line[step] * right[row];
    }
    for (int row = step; row < rows; row++) {
        double *line = a + row * columns, factor = scale * line[step];
        for (int column = step + 1; column < columns; column++)
            line[column] -= factor * work[column];
        right[row] -= factor * along;
    }
    a[step * columns + step] = diagonal;
}

/* The solution of given x = aim, and the square of what is left of the right-hand side. */
void kernel(const double *given, const double *aim, int rows, int columns, double *a, double *right, double *solution)
{
    double work[64];
    for (int i = 0; i < rows * columns; i++)
        a[i] = given[i];
    for (int row = 0; row < rows; row++)
        right[row] = aim[row];
    for (int step = 0; step < columns; step++)
        reflect(a, right, rows, columns, step, work);
    for (int row = columns - 1; row >= 0; row--) {
        double sum = right[row];
        for (int column = row + 1; column < columns; column++)
            sum -= a[row * columns + column] * solution[column];
        solution[row] = sum / a[row * columns + row];
    }
    solution[columns] = 0;
    for (int row = columns; row < rows; row++)
        solution[columns] += right[row] * right[row];
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { ROWS = 45, COLUMNS = 23 };
static double given[ROWS * COLUMNS], aim[ROWS], a[ROWS * COLUMNS], right[ROWS];
static double solution[COLUMNS + 1];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)solution;
const size_t race_output_bytes = sizeof solution;

void race_prepare(void)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        given[i] = race_uniform() - 0.3;
    for (int row = 0; row < ROWS; row++)
        aim[row] = race_uniform();
}

void race_call(void *function, int small)
{
    ((void (*)(const double *, const double *, int, int, double *, double *, double *))function)(given, aim, small ? 9 : ROWS, small ? 5 : COLUMNS, a, right, solution);
}
#endif
