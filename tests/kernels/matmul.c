/* Naive product of square row-major matrices: the loop order that a textbook gives. */
void matmul(const float *restrict a, const float *restrict b, float *restrict product, int n)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            product[i * n + j] = sum;
        }
    }
}
