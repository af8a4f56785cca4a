// A partial sum for each block, of vectors of one, two or four numbers a thread.
template <int numbers> struct alignas(4 * numbers) Vector {
    float at[numbers];
};

extern "C" __global__ void __launch_bounds__(block_size_x)
sum_floats(float *sums, const Vector<vector> *__restrict__ in, int n)
{
    float sum = 0;
    for (int i = blockIdx.x * block_size_x + threadIdx.x; i < n / vector; i += block_size_x * gridDim.x) {
        const Vector<vector> read = in[i];
#pragma unroll
        for (int j = 0; j < vector; j++)
            sum += read.at[j];
    }
    __shared__ float part[block_size_x];
    part[threadIdx.x] = sum;
    __syncthreads();
    // Halves are added, until a warp is left that may do it in registers.
    for (int half = block_size_x / 2; half >= (use_shuffle ? 32 : 1); half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
#if use_shuffle
    sum = threadIdx.x < 32 ? part[threadIdx.x] : 0;
    for (int half = 16; half > 0; half /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, half);
#else
    sum = part[0];
#endif
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}
