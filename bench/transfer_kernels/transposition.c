/* A matrix of 64 x 64 transposed in blocks, its rows scaled by their largest entry. */
void kernel(const float *x, const unsigned *u, float *out)
{
    (void)u;
    for (int bi = 0; bi < 64; bi += 8)
        for (int bj = 0; bj < 64; bj += 8)
            for (int i = bi; i < bi + 8; i++)
                for (int j = bj; j < bj + 8; j++)
                    out[64 * j + i] = x[64 * i + j];
    for (int i = 0; i < 64; i++) {
        float largest = 0;
        for (int j = 0; j < 64; j++)
            largest = out[64 * i + j] > largest ? out[64 * i + j] : largest;
        for (int j = 0; j < 64; j++)
            out[64 * i + j] /= largest;
    }
}
