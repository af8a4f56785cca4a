/* in: u8, out: u8, of: lz4.c */
#include "lz4.c"
long run(const unsigned char *x, long n, unsigned char *out) {
  int packed = LZ4_compress_default((const char *)x, (char *)out, (int)n, LZ4_compressBound((int)n));
  return packed + LZ4_decompress_safe((const char *)out, (char *)out + packed, packed, (int)n);
}
