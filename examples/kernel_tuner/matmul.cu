// C = A B of square matrices, whose size is a multiple of what a block makes: block_size_x rows and
// block_size_x * tile_size_x columns, since block_size_x == block_size_y * tile_size_y.
constexpr int SIDE = block_size_x, COLUMNS = block_size_x * tile_size_x;
static_assert(SIDE == block_size_y * tile_size_y, "the tiles of A and B have block_size_x rows");

extern "C" __global__ void __launch_bounds__(block_size_x *block_size_y)
matmul(float *__restrict__ c, const float *__restrict__ a, const float *__restrict__ b, int n)
{
    __shared__ float a_tile[SIDE][SIDE], b_tile[SIDE][COLUMNS];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * SIDE, column = blockIdx.x * COLUMNS;
    float sum[tile_size_y][tile_size_x] = {};
    for (int k = 0; k < n; k += SIDE) {
        __syncthreads();
#pragma unroll
        for (int j = 0; j < tile_size_y; j++) {
            const int at = y + j * block_size_y;
            a_tile[at][x] = a[(row + at) * n + k + x];
#pragma unroll
            for (int i = 0; i < tile_size_x; i++)
                b_tile[at][x + i * SIDE] = b[(k + at) * n + column + x + i * SIDE];
        }
        __syncthreads();
#pragma unroll
        for (int l = 0; l < SIDE; l++)
#pragma unroll
            for (int j = 0; j < tile_size_y; j++)
#pragma unroll
                for (int i = 0; i < tile_size_x; i++)
                    sum[j][i] += a_tile[y + j * block_size_y][l] * b_tile[l][x + i * SIDE];
    }
#pragma unroll
    for (int j = 0; j < tile_size_y; j++)
#pragma unroll
        for (int i = 0; i < tile_size_x; i++)
            c[(row + y + j * block_size_y) * n + column + x + i * SIDE] = sum[j][i];
}
