/* Runs of 32 keys sorted by insertion, then merged in pairs. */
static void inserted(unsigned *keys, int count)
{
    for (int i = 1; i < count; i++) {
        unsigned key = keys[i];
        int at = i;
        for (; at > 0 && keys[at - 1] > key; at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
    }
}

void kernel(const float *x, const unsigned *u, unsigned *out)
{
    unsigned *keys = out + 512;
    (void)x;
    for (int i = 0; i < 512; i++)
        keys[i] = u[i];
    for (int i = 0; i < 512; i += 32)
        inserted(keys + i, 32);
    for (int i = 0; i < 512; i += 64)
        for (int left = i, right = i + 32, to = i; to < i + 64; to++)
            out[to] = right >= i + 64 || (left < i + 32 && keys[left] <= keys[right]) ? keys[left++] : keys[right++];
}
