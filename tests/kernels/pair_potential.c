/* Softened Coulomb potential at every particle from every particle: potential[i] = sum_j charge[j] / r_ij. */
#include <math.h>

#include "pair_potential.h"

void pair_potential(const float *restrict x, const float *restrict y, const float *restrict z,
                    const float *restrict charge, float *restrict potential, int n)
{
    for (int i = 0; i < n; i++)
        potential[i] = 0.0f;
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < n; i++) {
            float dx = x[i] - x[j];
            float dy = y[i] - y[j];
            float dz = z[i] - z[j];
            potential[i] += charge[j] / sqrtf(dx * dx + dy * dy + dz * dz + SOFTENING);
        }
    }
}
