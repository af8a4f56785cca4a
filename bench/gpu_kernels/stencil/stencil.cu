// One Jacobi step: every inner point of a rows x columns grid becomes the mean of its four neighbours.
extern "C" __global__ void jacobi(const float *__restrict__ before, float *__restrict__ after, int rows, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < 1 || row >= rows - 1 || column < 1 || column >= columns - 1)
        return;
    const float *here = before + (size_t)row * columns + column;
    after[(size_t)row * columns + column] = (here[-1] + here[1] + here[-columns] + here[columns]) / 4.0f;
}
