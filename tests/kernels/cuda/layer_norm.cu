// y = (x - mean) / sqrt(variance + eps) * weight + bias over rows of 1024 floats: a block a row, four values a thread.
extern "C" __global__ void __launch_bounds__(256)
layer_norm(const float *__restrict__ x, const float *__restrict__ weight, const float *__restrict__ bias,
           float *__restrict__ y, float eps) {
    __shared__ float of_warp[2][8];
    const float4 *row = reinterpret_cast<const float4 *>(x + (size_t)blockIdx.x * 1024);
    float4 v = row[threadIdx.x];
    float sum = v.x + v.y + v.z + v.w, squares = v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    for (int apart = 16; apart > 0; apart /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, apart);
        squares += __shfl_xor_sync(0xffffffffu, squares, apart);
    }
    if (threadIdx.x % 32 == 0) {
        of_warp[0][threadIdx.x / 32] = sum;
        of_warp[1][threadIdx.x / 32] = squares;
    }
    __syncthreads();
    sum = squares = 0.0f;
    for (int warp = 0; warp < 8; warp++) {
        sum += of_warp[0][warp];
        squares += of_warp[1][warp];
    }
    float mean = sum / 1024.0f, scale = rsqrtf(squares / 1024.0f - mean * mean + eps);
    float4 w = reinterpret_cast<const float4 *>(weight)[threadIdx.x], b = reinterpret_cast<const float4 *>(bias)[threadIdx.x];
    reinterpret_cast<float4 *>(y + (size_t)blockIdx.x * 1024)[threadIdx.x] =
        make_float4((v.x - mean) * scale * w.x + b.x, (v.y - mean) * scale * w.y + b.y,
                    (v.z - mean) * scale * w.z + b.z, (v.w - mean) * scale * w.w + b.w);
}
