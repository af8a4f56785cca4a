/* Integers: moves and scores of a game on two 64-bit boards, by shifts, masks and bit counts. */
#include <stdint.h>

static const uint64_t not_left = 0xfefefefefefefefeu, not_right = 0x7f7f7f7f7f7f7f7fu;

static uint64_t shifted(uint64_t board, int direction)
{
    switch (direction) {
    case 0: return board << 8;
    case 1: return board >> 8;
    case 2: return (board << 1) & not_left;
    case 3: return (board >> 1) & not_right;
    case 4: return (board << 9) & not_left;
    case 5: return (board << 7) & not_right;
    case 6: return (board >> 7) & not_left;
    default: return (board >> 9) & not_right;
    }
}

static uint64_t moves(uint64_t own, uint64_t other)
{
    uint64_t legal = 0;
    for (int direction = 0; direction < 8; direction++) {
        uint64_t run = shifted(own, direction) & other;
        for (int step = 0; step < 5; step++)
            run |= shifted(run, direction) & other;
        legal |= shifted(run, direction);
    }
    return legal & ~(own | other);
}

static uint64_t turned(uint64_t own, uint64_t other, uint64_t move)
{
    uint64_t all = 0;
    for (int direction = 0; direction < 8; direction++) {
        uint64_t run = 0, at = shifted(move, direction);
        while (at & other) {
            run |= at;
            at = shifted(at, direction);
        }
        if (at & own)
            all |= run;
    }
    return all;
}

/* Plays `games` games of up to 12 moves, always the move that turns most; leaves the last boards. */
void kernel(const uint64_t *starts, int games, uint64_t *boards)
{
    for (int game = 0; game < games; game++) {
        uint64_t own = starts[2 * game], other = starts[2 * game + 1] & ~own;
        for (int ply = 0; ply < 12; ply++) {
            uint64_t legal = moves(own, other), best = 0, best_turned = 0;
            int most = -1;
            for (; legal; legal &= legal - 1) {
                uint64_t move = legal & -legal, run = turned(own, other, move);
                int count = __builtin_popcountll(run);
                if (count > most)
                    most = count, best = move, best_turned = run;
            }
            own |= best | best_turned;
            other &= ~best_turned;
            uint64_t held = own;
            own = other;
            other = held;
        }
        boards[2 * game] = own;
        boards[2 * game + 1] = other;
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { GAMES = 4 };
static uint64_t starts[2 * GAMES], boards[2 * GAMES];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)boards;
const size_t race_output_bytes = sizeof boards;

void race_prepare(void)
{
    for (int i = 0; i < 2 * GAMES; i++)
        starts[i] = race_random() & race_random() & race_random();
}

void race_call(void *function, int small)
{
    ((void (*)(const uint64_t *, int, uint64_t *))function)(starts, small ? 1 : GAMES, boards);
}
#endif
