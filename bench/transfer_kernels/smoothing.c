/* Five points of an image of 64 x 64 averaged, twice. */
static void smooth(const float *from, float *to)
{
    for (int r = 1; r < 63; r++)
        for (int c = 1; c < 63; c++)
            to[64 * r + c] = 0.2f * (from[64 * r + c] + from[64 * r + c - 1] + from[64 * r + c + 1]
                                     + from[64 * (r - 1) + c] + from[64 * (r + 1) + c]);
}

void kernel(const float *x, const unsigned *u, float *out)
{
    (void)u;
    smooth(x, out + 4096);
    smooth(out + 4096, out);
}
