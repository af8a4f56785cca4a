/* Forces between 64 bodies: a square root and a division each. */
float sqrtf(float);

void kernel(const float *x, const unsigned *u, float *out)
{
    (void)u;
    for (int i = 0; i < 64; i++) {
        float fx = 0, fy = 0, fz = 0;
        for (int j = 0; j < 64; j++) {
            float dx = x[3 * j] - x[3 * i], dy = x[3 * j + 1] - x[3 * i + 1], dz = x[3 * j + 2] - x[3 * i + 2];
            float square = dx * dx + dy * dy + dz * dz + 0.01f, f = x[512 + j] / (square * sqrtf(square));
            fx += f * dx, fy += f * dy, fz += f * dz;
        }
        out[3 * i] = fx, out[3 * i + 1] = fy, out[3 * i + 2] = fz;
    }
}
