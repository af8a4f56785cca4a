extern "C" __global__ void scale(const float *x, float *y, float by, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = by / x[i];
}
template <int N> __global__ void shift(float *x) { x[threadIdx.x] += N; }
template __global__ void shift<3>(float *);
