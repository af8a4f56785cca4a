// The sum of n floats: one partial sum a block of 256 threads, through warp shuffles and shared memory.
extern "C" __global__ void reduce_sum(const float *__restrict__ x, float *__restrict__ partial, int n) {
    __shared__ float of_warp[8];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    for (int apart = 16; apart > 0; apart /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, apart);
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < 8; warp++)
            sum += of_warp[warp];
        partial[blockIdx.x] = sum;
    }
}
