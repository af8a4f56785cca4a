/* Geometry: rays through a hierarchy of boxes around spheres; the nearest hit of each, by a stack. */
#include <math.h>
#include <stdint.h>

typedef struct {
    float x, y, z;
} vector;

typedef struct {
    vector low, high;
    int32_t first, count; /* spheres of a leaf; of others count is 0 and the second child is at `first` */
} node;

typedef struct {
    vector centre;
    float radius;
} sphere;

typedef struct {
    vector origin, direction;
} ray;

static float dot(vector a, vector b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

static vector difference(vector a, vector b)
{
    return (vector){a.x - b.x, a.y - b.y, a.z - b.z};
}

static void clip(float low, float high, float origin, float inverse, float *enter, float *leave)
{
    float a = (low - origin) * inverse, b = (high - origin) * inverse;
    float near = a < b ? a : b, far = a < b ? b : a;
    *enter = near > *enter ? near : *enter;
    *leave = far < *leave ? far : *leave;
}

/* Where the ray enters the box, or a negative number. */
static float entered(const node *box, const ray *ray, vector inverse, float nearest)
{
    float enter = 0, leave = nearest;
    clip(box->low.x, box->high.x, ray->origin.x, inverse.x, &enter, &leave);
    clip(box->low.y, box->high.y, ray->origin.y, inverse.y, &enter, &leave);
    clip(box->low.z, box->high.z, ray->origin.z, inverse.z, &enter, &leave);
    return enter <= leave ? enter : -1;
}

static float met(const sphere *ball, const ray *ray)
{
    vector to = difference(ball->centre, ray->origin);
    float along = dot(to, ray->direction), square = dot(ray->direction, ray->direction);
    float rest = along * along - square * (dot(to, to) - ball->radius * ball->radius);
    if (rest < 0)
        return -1;
    return (along - sqrtf(rest)) / square;
}

static int32_t nearest_hit(const node *nodes, const sphere *spheres, const ray *ray, float *distance, int *visits)
{
    vector inverse = {1 / ray->direction.x, 1 / ray->direction.y, 1 / ray->direction.z};
    int32_t stack[32], hit = -1, at = 0;
    int held = 0;
    float nearest = 1e9f;
    for (;;) {
        const node *here = &nodes[at];
        ++*visits;
        for (int32_t i = here->first; i < here->first + here->count; i++) {
            float distance_of = met(&spheres[i], ray);
            if (distance_of > 0 && distance_of < nearest) {
                nearest = distance_of;
                hit = i;
            }
        }
        if (!here->count) {
            int32_t left = at + 1, right = here->first;
            float to_left = entered(&nodes[left], ray, inverse, nearest);
            float to_right = entered(&nodes[right], ray, inverse, nearest);
            if (to_left >= 0 && to_right >= 0) {
                stack[held++] = to_left < to_right ? right : left;
                at = to_left < to_right ? left : right;
                continue;
            }
            if (to_left >= 0 || to_right >= 0) {
                at = to_left >= 0 ? left : right;
                continue;
            }
        }
        if (!held)
            break;
        at = stack[--held];
    }
    *distance = nearest;
    return hit;
}

void kernel(const node *nodes, const sphere *spheres, const ray *rays, int n, int32_t *hits, float *distances)
{
    int visits = 0;
    for (int i = 0; i < n; i++)
        hits[i] = nearest_hit(nodes, spheres, &rays[i], &distances[i], &visits);
    hits[n] = visits;
}

#ifdef RACE_DRIVER
#include <stdlib.h>
#include "race_driver.h"
enum { SPHERES = 256, LEAF = 4, RAYS = 150 };
static sphere spheres[SPHERES];
static node nodes[2 * SPHERES];
static ray rays[RAYS];
static int nodes_made, axis;
static struct {
    int32_t hits[RAYS + 1];
    float distances[RAYS];
} output;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&output;
const size_t race_output_bytes = sizeof output;

static int by_axis(const void *left, const void *right)
{
    float a = (&((const sphere *)left)->centre.x)[axis], b = (&((const sphere *)right)->centre.x)[axis];
    return (a > b) - (a < b);
}

static void grow(int first, int count, int depth)
{
    node *here = &nodes[nodes_made++];
    for (int side = 0; side < 3; side++) {
        float *low = &here->low.x + side, *high = &here->high.x + side;
        *low = 1e9f, *high = -1e9f;
        for (int i = first; i < first + count; i++) {
            float at = (&spheres[i].centre.x)[side];
            *low = at - spheres[i].radius < *low ? at - spheres[i].radius : *low;
            *high = at + spheres[i].radius > *high ? at + spheres[i].radius : *high;
        }
    }
    here->first = first, here->count = count;
    if (count > LEAF) {
        axis = depth % 3;
        qsort(spheres + first, (size_t)count, sizeof *spheres, by_axis);
        here->count = 0;
        grow(first, count / 2, depth + 1);
        here->first = nodes_made;
        grow(first + count / 2, count - count / 2, depth + 1);
    }
}

static vector drawn(double scale, double shift)
{
    return (vector){(float)(scale * race_uniform() + shift), (float)(scale * race_uniform() + shift), (float)(scale * race_uniform() + shift)};
}

void race_prepare(void)
{
    for (int i = 0; i < SPHERES; i++)
        spheres[i] = (sphere){drawn(10, 0), (float)(0.1 + 0.3 * race_uniform())};
    for (int i = 0; i < RAYS; i++)
        rays[i] = (ray){drawn(1, -2), drawn(1, 0.3)};
    grow(0, SPHERES, 0);
}

void race_call(void *function, int small)
{
    ((void (*)(const node *, const sphere *, const ray *, int, int32_t *, float *))function)(nodes, spheres, rays, small ? 4 : RAYS, output.hits, output.distances);
}
#endif
