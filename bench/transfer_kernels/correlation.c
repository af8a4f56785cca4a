/* Sums, squares and products of two series, in double precision. */
void kernel(const float *x, const unsigned *u, double *out)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0;
    for (int i = 0; i < 4096; i++) {
        double a = x[i], b = (double)(u[i] & 255);
        sx += a, sy += b, sxx += a * a, sxy += a * b, syy += b * b;
    }
    out[0] = (4096 * sxy - sx * sy) / ((4096 * sxx - sx * sx) + (4096 * syy - sy * sy) + 1);
}
