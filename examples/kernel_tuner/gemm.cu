// C = A^T B, where A is k by m and B is k by n, by the tunable parameters of CLBlast's GEMM: a block of MDIMC * NDIMC
// threads makes MWG by NWG of C in steps of KWG rows; it reads A and B as MDIMA and NDIMB columns of threads, in vectors
// of VWM and VWN numbers, through shared memory where SA and SB are 1. All sizes are multiples of these.
constexpr int THREADS = MDIMC * NDIMC, MWI = MWG / MDIMC, NWI = NWG / NDIMC;

template <int numbers> struct alignas(4 * numbers) Vector {
    float at[numbers];
};

// KWG rows of WIDE numbers, read by COLUMNS columns of threads.
template <int WIDE, int COLUMNS, int WIDTH>
__device__ void read_tile(float (*tile)[WIDE], const float *__restrict__ from, int stride)
{
    const int thread = threadIdx.y * MDIMC + threadIdx.x;
#pragma unroll
    for (int row = thread / COLUMNS; row < KWG; row += THREADS / COLUMNS)
#pragma unroll
        for (int column = thread % COLUMNS * WIDTH; column < WIDE; column += COLUMNS * WIDTH)
            *reinterpret_cast<Vector<WIDTH> *>(&tile[row][column]) =
                *reinterpret_cast<const Vector<WIDTH> *>(&from[row * stride + column]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(float *__restrict__ c, const float *__restrict__ a, const float *__restrict__ b, int m, int n, int k)
{
    __shared__ __align__(32) float a_tile[SA ? KWG : 1][MWG], b_tile[SB ? KWG : 1][NWG];
    const int row = blockIdx.y * MWG, column = blockIdx.x * NWG;
    float sum[MWI][NWI] = {};
    for (int step = 0; step < k; step += KWG) {
        if (SA)
            read_tile<MWG, MDIMA, VWM>(a_tile, a + step * m + row, m);
        if (SB)
            read_tile<NWG, NDIMB, VWN>(b_tile, b + step * n + column, n);
        if (SA || SB)
            __syncthreads();
#pragma unroll
        for (int l = 0; l < KWG; l++) {
            const float *a_row = SA ? a_tile[SA * l] : a + (step + l) * m + row;
            const float *b_row = SB ? b_tile[SB * l] : b + (step + l) * n + column;
#pragma unroll
            for (int i = 0; i < MWI; i++)
#pragma unroll
                for (int j = 0; j < NWI; j++)
                    sum[i][j] += a_row[threadIdx.x + i * MDIMC] * b_row[threadIdx.y + j * NDIMC];
        }
        if (SA || SB)
            __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < MWI; i++)
#pragma unroll
        for (int j = 0; j < NWI; j++)
            c[(row + threadIdx.x + i * MDIMC) * n + column + threadIdx.y + j * NDIMC] = sum[i][j];
}
