// Every output is the sum of the 17 by 17 inputs around it, weighted. A block reads what its outputs need into shared
// memory once; a thread makes tile_size_x * tile_size_y outputs, a block's width and height apart.
constexpr int FILTER = 17;
constexpr int WIDE = block_size_x * tile_size_x, HIGH = block_size_y * tile_size_y;
constexpr int ALL_WIDE = WIDE + FILTER - 1, ALL_HIGH = HIGH + FILTER - 1;

extern "C" __global__ void __launch_bounds__(block_size_x *block_size_y)
convolution(float *out, const float *__restrict__ in, const float *__restrict__ weights, int width, int height)
{
    __shared__ float part[ALL_HIGH][ALL_WIDE + use_padding];
    const int left = blockIdx.x * WIDE, top = blockIdx.y * HIGH, in_width = width + FILTER - 1;
    const int in_height = height + FILTER - 1;
    for (int y = threadIdx.y; y < ALL_HIGH; y += block_size_y)
        for (int x = threadIdx.x; x < ALL_WIDE; x += block_size_x)
            if (top + y < in_height && left + x < in_width)
                part[y][x] = in[(top + y) * in_width + left + x];
    __syncthreads();

    float sum[tile_size_y][tile_size_x] = {};
    for (int dy = 0; dy < FILTER; dy++)
        for (int dx = 0; dx < FILTER; dx++) {
            const float weight = weights[dy * FILTER + dx];
#pragma unroll
            for (int j = 0; j < tile_size_y; j++)
#pragma unroll
                for (int i = 0; i < tile_size_x; i++)
                    sum[j][i] += weight * part[threadIdx.y + j * block_size_y + dy][threadIdx.x + i * block_size_x + dx];
        }
#pragma unroll
    for (int j = 0; j < tile_size_y; j++)
#pragma unroll
        for (int i = 0; i < tile_size_x; i++) {
            const int x = left + threadIdx.x + i * block_size_x, y = top + threadIdx.y + j * block_size_y;
            if (x < width && y < height)
                out[y * width + x] = sum[j][i];
        }
}
