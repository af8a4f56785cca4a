/* Simulation: particles in a box of cells drift, are drawn to their cell's mean velocity, and bounce off the walls. */
#include <stdint.h>

enum { CELLS = 8, N_CELLS = CELLS * CELLS };

typedef struct {
    float *x, *y, *vx, *vy;
    int32_t n;
} swarm;

typedef struct {
    float vx, vy;
    int32_t count;
} cell;

static int32_t side_of(float at)
{
    int32_t side = (int32_t)at;
    return side < 0 ? 0 : side >= CELLS ? CELLS - 1 : side;
}

static void gathered(const swarm *all, cell *cells, uint8_t *homes)
{
    for (int32_t i = 0; i < N_CELLS; i++)
        cells[i] = (cell){0, 0, 0};
    for (int32_t i = 0; i < all->n; i++) {
        homes[i] = (uint8_t)(side_of(all->y[i]) * CELLS + side_of(all->x[i]));
        cell *home = &cells[homes[i]];
        home->vx += all->vx[i];
        home->vy += all->vy[i];
        home->count++;
    }
    for (int32_t i = 0; i < N_CELLS; i++)
        if (cells[i].count > 0) {
            float share = 1 / (float)cells[i].count;
            cells[i].vx *= share;
            cells[i].vy *= share;
        }
}

static void drawn(const swarm *all, const cell *cells, const uint8_t *homes, float pull)
{
    for (int32_t i = 0; i < all->n; i++) {
        const cell *home = &cells[homes[i]];
        all->vx[i] += pull * (home->vx - all->vx[i]);
        all->vy[i] += pull * (home->vy - all->vy[i]);
    }
}

/* One coordinate: what left the box comes back by as much, and turns. */
static void moved(float *at, float *velocity, int32_t n, float step)
{
    const float end = CELLS;
    for (int32_t i = 0; i < n; i++) {
        float next = at[i] + step * velocity[i];
        int is_out = next < 0 || next > end;
        next = next < 0 ? -next : next > end ? 2 * end - next : next;
        velocity[i] = is_out ? -velocity[i] : velocity[i];
        at[i] = next;
    }
}

static float energy(const swarm *all)
{
    float sum = 0;
    for (int32_t i = 0; i < all->n; i++)
        sum += all->vx[i] * all->vx[i] + all->vy[i] * all->vy[i];
    return sum;
}

/* Leaves the swarm after some steps, and its energy after each. */
void kernel(const float *begun, int32_t n, int32_t steps, float *state, float *energies)
{
    swarm all = {state, state + n, state + 2 * n, state + 3 * n, n};
    cell cells[N_CELLS];
    uint8_t homes[1024];
    for (int32_t i = 0; i < 4 * n; i++)
        state[i] = begun[i];
    for (int32_t step = 0; step < steps; step++) {
        gathered(&all, cells, homes);
        drawn(&all, cells, homes, 0.125f);
        for (int32_t i = 0; i < n; i++)
            all.vy[i] -= 0.01f;
        moved(all.x, all.vx, n, 0.0625f);
        moved(all.y, all.vy, n, 0.0625f);
        energies[step] = energy(&all);
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 500, SMALL = 20, STEPS = 10 };
static float begun[4 * N];
static struct {
    float state[4 * N], energies[STEPS];
} output;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int i = 0; i < 4 * N; i++)
        begun[i] = (float)(i < 2 * N ? CELLS * race_uniform() : 4 * race_uniform() - 2);
}

void race_call(void *function, int small)
{
    ((void (*)(const float *, int32_t, int32_t, float *, float *))function)(begun, small ? SMALL : N, small ? 2 : STEPS, output.state, output.energies);
}
#endif
