/* The median of every 3 x 3 window of an image of 64 x 64, by a sorting network of comparisons. */
static void order(int *a, int *b)
{
    int low = *a < *b ? *a : *b, high = *a < *b ? *b : *a;
    *a = low, *b = high;
}

void kernel(const float *x, const unsigned *u, int *out)
{
    (void)x;
    for (int r = 1; r < 63; r++)
        for (int c = 1; c < 63; c++) {
            int p[9];
            for (int k = 0; k < 9; k++)
                p[k] = (int)(u[64 * (r + k / 3 - 1) + c + k % 3 - 1] & 4095);
            for (int k = 0; k < 3; k++)
                order(p + 3 * k, p + 3 * k + 1), order(p + 3 * k + 1, p + 3 * k + 2), order(p + 3 * k, p + 3 * k + 1);
            order(p, p + 3), order(p + 3, p + 6), order(p + 1, p + 4), order(p + 4, p + 7), order(p + 1, p + 4);
            order(p + 2, p + 5), order(p + 5, p + 8), order(p + 2, p + 5);
            order(p + 2, p + 4), order(p + 4, p + 6), order(p + 2, p + 4);
            out[64 * r + c] = p[4];
        }
}
