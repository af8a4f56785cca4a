// C = A B for row-major n x n floats, n a multiple of 64: 64 x 64 tiles in shared memory, 4 x 4 results a thread.
extern "C" __global__ void __launch_bounds__(256)
matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n) {
    __shared__ float tile_a[16][64], tile_b[16][64];
    int column = threadIdx.x % 16, row = threadIdx.x / 16;
    const float *from_a = a + (size_t)blockIdx.y * 64 * n, *from_b = b + blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k = 0; k < n; k += 16) {
        for (int part = threadIdx.x; part < 64 * 16; part += 256) {
            tile_a[part % 16][part / 16] = from_a[(size_t)(part / 16) * n + k + part % 16];
            tile_b[part / 64][part % 64] = from_b[(size_t)(k + part / 64) * n + part % 64];
        }
        __syncthreads();
        for (int step = 0; step < 16; step++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sum[i][j] += tile_a[step][row * 4 + i] * tile_b[step][column * 4 + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(size_t)(blockIdx.y * 64 + row * 4 + i) * n + blockIdx.x * 64 + column * 4 + j] = sum[i][j];
}
