/* The eigenvalues of a symmetric matrix by Jacobi's rotations, and the vectors that go with them. */
#include <math.h>
#include <stddef.h>

static void rotated(double *first, double *second, double sine, double cosine)
{
    double a = *first, b = *second;
    *first = cosine * a - sine * b;
    *second = sine * a + cosine * b;
}

static double off_diagonal(const double *matrix, int n)
{
    double sum = 0;
    for (int row = 0; row < n; row++)
        for (int column = row + 1; column < n; column++)
            sum += matrix[row * n + column] * matrix[row * n + column];
    return sum;
}

static void annihilated(double *matrix, double *vectors, int n, int p, int q)
{
    double off = matrix[p * n + q];
    double theta = (matrix[q * n + q] - matrix[p * n + p]) / (2 * off);
    double tangent = 1 / (fabs(theta) + sqrt(theta * theta + 1));
    if (theta < 0)
        tangent = -tangent;
    double cosine = 1 / sqrt(tangent * tangent + 1), sine = tangent * cosine;
    for (int k = 0; k < n; k++)
        rotated(&matrix[k * n + p], &matrix[k * n + q], sine, cosine);
    for (int k = 0; k < n; k++)
        rotated(&matrix[p * n + k], &matrix[q * n + k], sine, cosine);
    for (int k = 0; k < n; k++)
        rotated(&vectors[k * n + p], &vectors[k * n + q], sine, cosine);
}

int kernel(const double *given, double *matrix, double *vectors, double *values, int n, int most)
{
    int sweeps = 0;
    for (int i = 0; i < n * n; i++) {
        matrix[i] = given[i];
        vectors[i] = i % (n + 1) == 0;
    }
    while (sweeps < most && off_diagonal(matrix, n) > 1e-18) {
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++)
                if (fabs(matrix[p * n + q]) > 1e-12)
                    annihilated(matrix, vectors, n, p, q);
        sweeps++;
    }
    for (int i = 0; i < n; i++)
        values[i] = matrix[i * n + i];
    return sweeps;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 14 };
static double given[2][N * N], matrix[N * N];
static struct {
    double values[N], vectors[N * N];
    int sweeps;
} output;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int small = 0; small < 2; small++)
        for (int row = 0, n = small ? 4 : N; row < n; row++)
            for (int column = 0; column <= row; column++)
                given[small][row * n + column] = given[small][column * n + row] = race_uniform() - 0.5;
}

void race_call(void *function, int small)
{
    typedef int eigen(const double *, double *, double *, double *, int, int);
    output.sweeps = ((eigen *)function)(given[small], matrix, output.vectors, output.values, small ? 4 : N, small ? 3 : 9);
}
#endif
