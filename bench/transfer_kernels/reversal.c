/* The bits of each word reversed, counted, and its trailing zeros found. */
void kernel(const float *x, const unsigned *u, unsigned *out)
{
    (void)x;
    for (int i = 0; i < 2048; i++) {
        unsigned v = u[i], bits = 0, zeros = 0;
        v = ((v >> 1) & 0x55555555u) | ((v & 0x55555555u) << 1);
        v = ((v >> 2) & 0x33333333u) | ((v & 0x33333333u) << 2);
        v = ((v >> 4) & 0x0f0f0f0fu) | ((v & 0x0f0f0f0fu) << 4);
        v = (v >> 24) | ((v >> 8) & 0xff00u) | ((v & 0xff00u) << 8) | (v << 24);
        for (unsigned w = v; w; w &= w - 1)
            bits++;
        while (zeros < 32 && !((v >> zeros) & 1))
            zeros++;
        out[i] = v + 37 * bits + 41 * zeros;
    }
}
