/* in: u8, out: u32 */
long run(const unsigned char *x, long n, unsigned *out) {
  unsigned table[256], c = ~0u;
  for (unsigned i = 0; i < 256; i++) {
    unsigned v = i;
    for (int k = 0; k < 8; k++) v = v & 1 ? 0xedb88320u ^ v >> 1 : v >> 1;
    table[i] = v;
  }
  for (long i = 0; i < n; i++) out[i] = c = table[(c ^ x[i]) & 255] ^ c >> 8;
  return n;
}
