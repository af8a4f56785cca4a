/* The product of two matrices of 40 x 40. */
void kernel(const float *x, const unsigned *u, float *out)
{
    const float *y = x + 1600;
    (void)u;
    for (int i = 0; i < 40; i++)
        for (int j = 0; j < 40; j++) {
            float sum = 0;
            for (int k = 0; k < 40; k++)
                sum += x[40 * i + k] * y[40 * k + j];
            out[40 * i + j] = sum;
        }
}
