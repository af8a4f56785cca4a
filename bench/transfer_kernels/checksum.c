/* The checksum of Fletcher over words of 16 bits, and a table-driven one over bytes. */
void kernel(const float *x, const unsigned *u, unsigned *out)
{
    const unsigned short *words = (const unsigned short *)u;
    const unsigned char *bytes = (const unsigned char *)u;
    unsigned table[256], a = 0, b = 0, crc = ~0u;
    (void)x;
    for (unsigned i = 0; i < 256; i++) {
        unsigned c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
        table[i] = c;
    }
    for (int i = 0; i < 4096; i++) {
        a = (a + words[i]) % 65535;
        b = (b + a) % 65535;
    }
    for (int i = 0; i < 4096; i++)
        crc = table[(crc ^ bytes[i]) & 255] ^ (crc >> 8);
    out[0] = a | b << 16;
    out[1] = ~crc;
}
