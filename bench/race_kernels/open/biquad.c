/* Recurrence: a cascade of second-order filters over a signal, with a soft limit and an envelope. */
typedef struct {
    float b0, b1, b2, a1, a2;
} section;

void kernel(const float *in, float *out, int n, const section *sections, int n_sections, float *envelope)
{
    float held[8][2] = {{0}};
    float level = 0;
    for (int i = 0; i < n; i++) {
        float x = in[i];
        for (int s = 0; s < n_sections; s++) {
            float y = sections[s].b0 * x + held[s][0];
            held[s][0] = sections[s].b1 * x - sections[s].a1 * y + held[s][1];
            held[s][1] = sections[s].b2 * x - sections[s].a2 * y;
            x = y;
        }
        float size = x < 0 ? -x : x;
        if (size > 0.9f)
            x /= 0.1f + size;
        level = size > level ? 0.5f * (level + size) : 0.99f * level;
        out[i] = x;
        envelope[i] = level;
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 1700, SECTIONS = 4 };
static section sections[SECTIONS];
static float in[N], output[2 * N];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int s = 0; s < SECTIONS; s++)
        sections[s] = (section){0.3f, 0.2f + 0.05f * (float)s, 0.1f, -0.4f + 0.1f * (float)s, 0.15f};
    for (int i = 0; i < N; i++)
        in[i] = (float)(6 * race_uniform() - 3);
}

void race_call(void *function, int small)
{
    ((void (*)(const float *, float *, int, const section *, int, float *))function)(in, output, small ? 30 : N, sections, SECTIONS, output + N);
}
#endif
