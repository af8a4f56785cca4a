/* A sparse matrix times a vector: 512 rows of eight entries at most. */
void kernel(const float *x, const unsigned *u, float *out)
{
    for (int row = 0; row < 512; row++) {
        int entries = 1 + (int)(u[row] & 7);
        float sum = 0;
        for (int e = 0; e < entries; e++) {
            unsigned at = u[(8 * row + e) & 4095];
            sum += x[at & 4095] * x[(at >> 12) & 4095];
        }
        out[row] = sum;
    }
}
