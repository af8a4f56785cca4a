/* Counts the ways to place n queens, with some squares forbidden, and keeps the first way that is found. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int n;
    uint8_t column[16], rising[32], falling[32];
    uint8_t at[16], first[16];
    uint32_t found, tried;
    const uint16_t *forbidden;
} Board;

static int is_free(const Board *board, int row, int column)
{
    if (board->forbidden[row] >> column & 1)
        return 0;
    return !board->column[column] && !board->rising[row + column] && !board->falling[row - column + board->n];
}

static void set(Board *board, int row, int column, uint8_t value)
{
    board->column[column] = value;
    board->rising[row + column] = value;
    board->falling[row - column + board->n] = value;
}

static void placed(Board *board, int row)
{
    if (row == board->n) {
        if (board->found++ == 0)
            for (int each = 0; each < row; each++)
                board->first[each] = board->at[each];
        return;
    }
    for (int column = 0; column < board->n; column++) {
        board->tried++;
        if (!is_free(board, row, column))
            continue;
        set(board, row, column, 1);
        board->at[row] = (uint8_t)column;
        placed(board, row + 1);
        set(board, row, column, 0);
    }
}

void kernel(int n, const uint16_t *forbidden, uint32_t *result)
{
    Board board = {.n = n, .forbidden = forbidden};
    placed(&board, 0);
    result[0] = board.found;
    result[1] = board.tried;
    for (int row = 0; row < n; row++)
        result[2 + row] = board.first[row];
}

#ifdef RACE_DRIVER
#include "race_driver.h"
static uint16_t forbidden[16];
static uint32_t result[18];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)result;
const size_t race_output_bytes = sizeof result;

void race_prepare(void)
{
    for (int row = 0; row < 16; row++)
        forbidden[row] = (uint16_t)(1u << race_random() % 9);
}

void race_call(void *function, int small)
{
    ((void (*)(int, const uint16_t *, uint32_t *))function)(small ? 5 : 9, forbidden, result);
}
#endif
