/* c = a * b, square and row by row, in tiles of TILE_I x TILE_K x TILE_J. */
void matmul(int n, const float *restrict a, const float *restrict b, float *restrict c)
{
    for (int i = 0; i < n * n; i++)
        c[i] = 0.0f;
    for (int i0 = 0; i0 < n; i0 += TILE_I)
        for (int k0 = 0; k0 < n; k0 += TILE_K)
            for (int j0 = 0; j0 < n; j0 += TILE_J)
                for (int i = i0; i < i0 + TILE_I; i++)
                    for (int k = k0; k < k0 + TILE_K; k++)
                        for (int j = j0; j < j0 + TILE_J; j++)
                            c[i * n + j] += a[i * n + k] * b[k * n + j];
}
