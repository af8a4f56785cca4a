/* Running sums, the longest rise, and the largest sum of neighbours of a series of integers. */
void kernel(const float *x, const unsigned *u, int *out)
{
    int sum = 0, rise = 0, longest = 0, ending = 0, largest = 0;
    (void)x;
    for (int i = 0; i < 4096; i++) {
        int v = (int)(u[i] & 1023) - 512;
        sum += v;
        out[i] = sum;
        rise = i && u[i] > u[i - 1] ? rise + 1 : 0;
        longest = rise > longest ? rise : longest;
        ending = ending + v > 0 ? ending + v : 0;
        largest = ending > largest ? ending : largest;
    }
    out[4096] = longest;
    out[4097] = largest;
}
