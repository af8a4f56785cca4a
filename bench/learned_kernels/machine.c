/* Interprets programs of a machine with a stack: arithmetic, jumps, calls, and stores that are checked. */
#include <stddef.h>
#include <stdint.h>

enum { PUSH, DROP, COPY, SWAP, ADD, SUBTRACT, MULTIPLY, DIVIDE, LESS, LOAD, STORE, JUMP, JUMP_IF_ZERO, CALL, RETURN, HALT };
enum { STACK = 64, CELLS = 64, DEPTH = 16 };
enum { HALTED, OVERFLOWED, UNDERFLOWED, BAD_ADDRESS, BAD_CODE, DIVIDED_BY_ZERO, TOO_LONG };

typedef struct {
    int32_t stack[STACK], cells[CELLS];
    uint16_t calls[DEPTH];
    int32_t steps;
} Machine;

static int32_t divided(int32_t a, int32_t b)
{
    return a == INT32_MIN && b == -1 ? a : a / b;
}

static int needed(uint8_t code)
{
    static const uint8_t operands[] = {0, 1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 0, 1, 0, 0, 0};
    return operands[code];
}

int kernel(const int16_t (*program)[2], int length, int32_t most, Machine *machine)
{
    int32_t *top = machine->stack;
    int depth = 0;
    machine->steps = 0;
    for (int at = 0; at >= 0 && at < length; at++) {
        int code = program[at][0], operand = program[at][1];
        if (code < 0 || code > HALT)
            return BAD_CODE;
        if (top - machine->stack < needed((uint8_t)code))
            return UNDERFLOWED;
        if (top - machine->stack >= STACK - 1)
            return OVERFLOWED;
        if (++machine->steps > most)
            return TOO_LONG;
        switch (code) {
        case PUSH: *top++ = operand; break;
        case DROP: top--; break;
        case COPY: *top = top[-1]; top++; break;
        case SWAP: *top = top[-1]; top[-1] = top[-2]; top[-2] = *top; break;
        case ADD: top--; top[-1] = (int32_t)((uint32_t)top[-1] + (uint32_t)*top); break;
        case SUBTRACT: top--; top[-1] = (int32_t)((uint32_t)top[-1] - (uint32_t)*top); break;
        case MULTIPLY: top--; top[-1] = (int32_t)((uint32_t)top[-1] * (uint32_t)*top); break;
        case DIVIDE:
            if (*--top == 0)
                return DIVIDED_BY_ZERO;
            top[-1] = divided(top[-1], *top);
            break;
        case LESS: top--; top[-1] = top[-1] < *top; break;
        case LOAD:
            if (top[-1] < 0 || top[-1] >= CELLS)
                return BAD_ADDRESS;
            top[-1] = machine->cells[top[-1]];
            break;
        case STORE:
            top -= 2;
            if (top[1] < 0 || top[1] >= CELLS)
                return BAD_ADDRESS;
            machine->cells[top[1]] = top[0];
            break;
        case JUMP: at = operand - 1; break;
        case JUMP_IF_ZERO: at = *--top == 0 ? operand - 1 : at; break;
        case CALL:
            if (depth == DEPTH)
                return OVERFLOWED;
            machine->calls[depth++] = (uint16_t)at;
            at = operand - 1;
            break;
        case RETURN:
            if (depth == 0)
                return UNDERFLOWED;
            at = machine->calls[--depth];
            break;
        default: return HALTED;
        }
    }
    return BAD_ADDRESS;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
static int16_t program[][2] = {
    {PUSH, 500}, {PUSH, 0}, {STORE, 0},                                           /* 0: turns left */
    {PUSH, 0}, {LOAD, 0}, {JUMP_IF_ZERO, 12},                                     /* 3: until none is */
    {CALL, 13}, {PUSH, 0}, {LOAD, 0}, {PUSH, 1}, {SUBTRACT, 0}, {JUMP, 1},        /* 6 */
    {HALT, 0},                                                                    /* 12 */
    {PUSH, 1}, {LOAD, 0}, {PUSH, 1103}, {MULTIPLY, 0}, {PUSH, 12345}, {ADD, 0},   /* 13: the next random number */
    {COPY, 0}, {PUSH, 1}, {STORE, 0},                                             /* 19 */
    {COPY, 0}, {PUSH, 0}, {LESS, 0}, {JUMP_IF_ZERO, 29},                          /* 22 */
    {PUSH, 0}, {SWAP, 0}, {SUBTRACT, 0},                                          /* 26: its absolute value */
    {COPY, 0}, {PUSH, 62}, {DIVIDE, 0}, {PUSH, 62}, {MULTIPLY, 0}, {SUBTRACT, 0}, /* 29: modulo 62 */
    {PUSH, 2}, {ADD, 0}, {COPY, 0}, {LOAD, 0}, {PUSH, 1}, {ADD, 0}, {SWAP, 0},    /* 35: is counted in a cell */
    {STORE, 0}, {RETURN, 0},                                                      /* 42 */
};
static struct {
    Machine machine;
    int ended;
} output;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
}

void race_call(void *function, int small)
{
    typedef int run(const int16_t (*)[2], int, int32_t, Machine *);
    memset(&output, 0, sizeof output);
    program[0][1] = small ? 12 : 500;
    output.ended = ((run *)function)(program, sizeof program / sizeof program[0], 1000000, &output.machine);
}
#endif
