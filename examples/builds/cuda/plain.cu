extern "C" __global__ void plain(float *x) { x[threadIdx.x] += 1; }
