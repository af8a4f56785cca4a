/* Matrix: Cholesky's decomposition of a packed symmetric matrix, and the solution of one system by it. */
#include <math.h>
#include <stddef.h>

#define AT(row, column) packed[(size_t)(row) * ((row) + 1) / 2 + (column)]

int kernel(const double *given, double *packed, const double *right, double *solution, int n)
{
    for (int i = 0; i < n * (n + 1) / 2; i++)
        packed[i] = given[i];
    for (int column = 0; column < n; column++) {
        double square = AT(column, column);
        for (int k = 0; k < column; k++)
            square -= AT(column, k) * AT(column, k);
        if (square <= 0)
            return column + 1;
        double root = sqrt(square);
        AT(column, column) = root;
        for (int row = column + 1; row < n; row++) {
            double sum = AT(row, column);
            for (int k = 0; k < column; k++)
                sum -= AT(row, k) * AT(column, k);
            AT(row, column) = sum / root;
        }
    }
    for (int row = 0; row < n; row++) {
        double sum = right[row];
        for (int k = 0; k < row; k++)
            sum -= AT(row, k) * solution[k];
        solution[row] = sum / AT(row, row);
    }
    for (int row = n - 1; row >= 0; row--) {
        double sum = solution[row];
        for (int k = row + 1; k < n; k++)
            sum -= AT(k, row) * solution[k];
        solution[row] = sum / AT(row, row);
    }
    return 0;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 45, PACKED = N * (N + 1) / 2 };
static double given[PACKED], right[N], output[PACKED + N];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int row = 0, at = 0; row < N; row++)
        for (int column = 0; column <= row; column++)
            given[at++] = row == column ? N + race_uniform() : race_uniform() - 0.5;
    for (int row = 0; row < N; row++)
        right[row] = race_uniform();
}

void race_call(void *function, int small)
{
    ((int (*)(const double *, double *, const double *, double *, int))function)(given, output + N, right, output, small ? 9 : N);
}
#endif
