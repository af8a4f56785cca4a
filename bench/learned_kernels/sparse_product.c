/* Builds a sparse matrix by rows from its entries in any order, and multiplies it with a vector some times. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int row, column;
    float value;
} Entry;

typedef struct {
    int *begin, *column;
    float *value;
} Matrix;

static void gathered(const Entry *entries, int n, int rows, Matrix *matrix)
{
    for (int row = 0; row <= rows; row++)
        matrix->begin[row] = 0;
    for (int i = 0; i < n; i++)
        matrix->begin[entries[i].row + 1]++;
    for (int row = 0; row < rows; row++)
        matrix->begin[row + 1] += matrix->begin[row];
    for (int i = 0; i < n; i++) {
        int to = matrix->begin[entries[i].row]++;
        matrix->column[to] = entries[i].column;
        matrix->value[to] = entries[i].value;
    }
    for (int row = rows; row > 0; row--)
        matrix->begin[row] = matrix->begin[row - 1];
    matrix->begin[0] = 0;
}

static void product(const Matrix *matrix, int rows, const float *x, float *y)
{
    for (int row = 0; row < rows; row++) {
        float sum = 0;
        for (int i = matrix->begin[row]; i < matrix->begin[row + 1]; i++)
            sum += matrix->value[i] * x[matrix->column[i]];
        y[row] = sum;
    }
}

static void damped(float *x, const float *y, int rows)
{
    for (int row = 0; row < rows; row++)
        x[row] = 0.75f * x[row] + 0.25f * y[row];
}

void kernel(const Entry *entries, int n, int rows, int turns, Matrix *matrix, float *x, float *y)
{
    gathered(entries, n, rows, matrix);
    for (int row = 0; row < rows; row++)
        x[row] = 1;
    for (int turn = 0; turn < turns; turn++) {
        product(matrix, rows, x, y);
        damped(x, y, rows);
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { ROWS = 400, N = 2400, SMALL = 16 };
static Entry entries[2][N];
static int begin[ROWS + 1], column[N];
static float value[N], x[ROWS], y[ROWS];
static Matrix matrix = {begin, column, value};
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)x;
const size_t race_output_bytes = sizeof x;

void race_prepare(void)
{
    for (int small = 0; small < 2; small++)
        for (int i = 0; i < N; i++) {
            int rows = small ? SMALL : ROWS;
            int row = (int)(race_random() % rows), to = (int)(race_random() % rows);
            entries[small][i] = (Entry){row, to, (float)(0.3 * race_uniform() - 0.1)};
        }
}

void race_call(void *function, int small)
{
    typedef void multiply(const Entry *, int, int, int, Matrix *, float *, float *);
    ((multiply *)function)(entries[small], small ? 80 : N, small ? SMALL : ROWS, small ? 3 : 8, &matrix, x, y);
}
#endif
