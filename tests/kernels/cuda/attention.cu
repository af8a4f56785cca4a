// Attention for one query row a thread, 32 values a head, softmax on the fly. The bounds leave 64 registers a thread,
// which the compiler's own choices exceed: it spills.
extern "C" __global__ void __launch_bounds__(256, 4)
attention(const float *__restrict__ q, const float *__restrict__ k, const float *__restrict__ v,
          float *__restrict__ out, int keys) {
    float query[32], sum[32], most = -1e30f, total = 0.0f;
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < 32; i++) {
        query[i] = q[row * 32 + i];
        sum[i] = 0.0f;
    }
    for (int key = 0; key < keys; key++) {
        float score = 0.0f;
#pragma unroll
        for (int i = 0; i < 32; i++)
            score += query[i] * k[key * 32 + i];
        float now = fmaxf(most, score), keep = __expf(most - now), weight = __expf(score - now);
        total = total * keep + weight;
#pragma unroll
        for (int i = 0; i < 32; i++)
            sum[i] = sum[i] * keep + weight * v[key * 32 + i];
        most = now;
    }
    for (int i = 0; i < 32; i++)
        out[row * 32 + i] = sum[i] / total;
}
