/* Graphics: triangles filled by their edges' functions, nearer ones over farther ones, with shades between corners. */
#include <stdint.h>

enum { WIDTH = 64, HEIGHT = 48, FINE = 4 };

typedef struct {
    int32_t x, y, depth, shade; /* x and y in sixteenths of a pixel */
} corner;

typedef struct {
    int32_t by_x, by_y, at; /* its value at the first pixel, and what one more column and one more row add */
} edge;

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t doubled_area(const corner *a, const corner *b, const corner *c)
{
    return ((b->x - a->x) * (c->y - a->y) - (b->y - a->y) * (c->x - a->x)) >> FINE;
}

/* Pixels on the left and on the top edge belong to the triangle, those on the others to its neighbour. */
static edge edge_between(const corner *a, const corner *b, int32_t x, int32_t y)
{
    edge made = {a->y - b->y, b->x - a->x, 0};
    int is_top_left = made.by_x > 0 || (made.by_x == 0 && made.by_y > 0);
    made.at = (made.by_x * ((x << FINE) - a->x) + made.by_y * ((y << FINE) - a->y)) >> FINE;
    made.at -= !is_top_left;
    return made;
}

static int32_t filled(const corner *a, const corner *b, const corner *c, uint16_t *depths, uint8_t *shades)
{
    int32_t area = doubled_area(a, b, c), pixels = 0;
    if (area <= 0)
        return 0;
    int32_t left = most(0, least(a->x, least(b->x, c->x)) >> FINE);
    int32_t right = least(WIDTH - 1, most(a->x, most(b->x, c->x)) >> FINE);
    int32_t top = most(0, least(a->y, least(b->y, c->y)) >> FINE);
    int32_t bottom = least(HEIGHT - 1, most(a->y, most(b->y, c->y)) >> FINE);
    edge edges[3] = {edge_between(b, c, left, top), edge_between(c, a, left, top), edge_between(a, b, left, top)};
    int32_t inverse = (1 << 16) / area;
    for (int32_t y = top; y <= bottom; y++) {
        int32_t value[3] = {edges[0].at, edges[1].at, edges[2].at};
        for (int32_t x = left; x <= right; x++) {
            if ((value[0] | value[1] | value[2]) >= 0) {
                int32_t by_b = value[1] * inverse >> 8, by_c = value[2] * inverse >> 8;
                int32_t depth = a->depth + ((by_b * (b->depth - a->depth) + by_c * (c->depth - a->depth)) >> 8);
                int32_t shade = a->shade + ((by_b * (b->shade - a->shade) + by_c * (c->shade - a->shade)) >> 8);
                if (depth < depths[y * WIDTH + x]) {
                    depths[y * WIDTH + x] = (uint16_t)depth;
                    shades[y * WIDTH + x] = (uint8_t)most(0, least(255, shade));
                    pixels++;
                }
            }
            for (int each = 0; each < 3; each++)
                value[each] += edges[each].by_x;
        }
        for (int each = 0; each < 3; each++)
            edges[each].at += edges[each].by_y;
    }
    return pixels;
}

/* Leaves the picture; answers with how many pixels were set. */
int32_t kernel(const corner *corners, const uint16_t *triangles, int n, uint16_t *depths, uint8_t *shades)
{
    int32_t pixels = 0;
    for (int i = 0; i < WIDTH * HEIGHT; i++) {
        depths[i] = UINT16_MAX;
        shades[i] = 0;
    }
    for (int i = 0; i < n; i++) {
        const corner *a = &corners[triangles[3 * i]], *b = &corners[triangles[3 * i + 1]], *c = &corners[triangles[3 * i + 2]];
        if (doubled_area(a, b, c) < 0)
            pixels += filled(a, c, b, depths, shades);
        else
            pixels += filled(a, b, c, depths, shades);
    }
    return pixels;
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { CORNERS = 120, TRIANGLES = 110 };
static corner corners[CORNERS];
static uint16_t triangles[3 * TRIANGLES], depths[WIDTH * HEIGHT];
static struct {
    int32_t pixels;
    uint8_t shades[WIDTH * HEIGHT];
} output;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    for (int i = 0; i < CORNERS; i++) {
        int32_t x = (int32_t)(race_random() % 300) + i / 3 % 9 * 100, y = (int32_t)(race_random() % 260) + i / 27 * 140;
        corners[i] = (corner){x - 60, y - 60, (int32_t)(race_random() % 30000), (int32_t)(race_random() % 256)};
    }
    for (int i = 0; i < TRIANGLES; i++)
        for (int each = 0; each < 3; each++)
            triangles[3 * i + each] = (uint16_t)(i + each * (1 + i % 3));
}

void race_call(void *function, int small)
{
    typedef int32_t fill(const corner *, const uint16_t *, int, uint16_t *, uint8_t *);
    output.pixels = ((fill *)function)(corners, triangles, small ? 1 : TRIANGLES, depths, output.shades);
}
#endif
