// C = A B for row-major n x n floats, n a multiple of 32: 32 x 32 tiles in shared memory, 4 results a thread.
extern "C" __global__ void matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c,
                                  int n) {
    __shared__ float tile_a[32][32], tile_b[32][32];
    int column = threadIdx.x, first = threadIdx.y * 4;
    const float *from_a = a + (size_t)blockIdx.y * 32 * n, *from_b = b + blockIdx.x * 32;
    float sum[4] = {};
    for (int k = 0; k < n; k += 32) {
        for (int row = first; row < first + 4; row++) {
            tile_a[row][column] = from_a[(size_t)row * n + k + column];
            tile_b[row][column] = from_b[(size_t)(k + row) * n + column];
        }
        __syncthreads();
        for (int step = 0; step < 32; step++)
            for (int row = 0; row < 4; row++)
                sum[row] += tile_a[first + row][step] * tile_b[step][column];
        __syncthreads();
    }
    for (int row = 0; row < 4; row++)
        c[((size_t)blockIdx.y * 32 + first + row) * n + blockIdx.x * 32 + column] = sum[row];
}
