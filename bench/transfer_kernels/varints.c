/* Numbers written as bytes of seven bits each, and read again through a switch over their tags. */
void kernel(const float *x, const unsigned *u, unsigned char *out)
{
    unsigned char *to = out + 8;
    unsigned sums[4] = {0};
    (void)x;
    for (int i = 0; i < 512; i++) {
        unsigned v = u[i] >> (u[i] & 31);
        *to++ = (unsigned char)(u[i] & 3);
        for (; v > 127; v >>= 7)
            *to++ = (unsigned char)(v | 128);
        *to++ = (unsigned char)v;
    }
    for (const unsigned char *at = out + 8; at < to;) {
        unsigned tag = *at++, v = 0;
        for (int shift = 0;; shift += 7) {
            unsigned c = *at++;
            v |= (c & 127) << shift;
            if (c < 128)
                break;
        }
        switch (tag) {
        case 0: sums[0] += v; break;
        case 1: sums[1] ^= v; break;
        case 2: sums[2] -= v; break;
        default: sums[3] = sums[3] * 31 + v;
        }
    }
    *(unsigned *)out = sums[0] + sums[1] + sums[2] + sums[3];
}
