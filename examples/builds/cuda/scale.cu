// Enough of a loop that controls have something to decide.
extern "C" __global__ void __launch_bounds__(256, 4) scale(const float *x, float *y, int n) {
    float sum[48];
    for (int i = 0; i < 48; i++) sum[i] = 0;
    for (int j = threadIdx.x; j < n; j += 256)
        #pragma unroll
        for (int i = 0; i < 48; i++) sum[i] += __expf(x[j * 48 + i]) * x[j];
    for (int i = 0; i < 48; i++) y[threadIdx.x * 48 + i] = sum[i];
}
