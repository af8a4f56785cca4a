/* in: u8, out: u64, of: xxhash.h */
#define XXH_INLINE_ALL
#include "xxhash.h"
long run(const unsigned char *x, long n, unsigned long *out) {
  long k = 0;
  for (long i = 0; i + 8 < n; i += n / 16 + 1) {
    out[k++] = XXH32(x + i, (size_t)(n - i), 7);
    out[k++] = XXH64(x + i, (size_t)(n - i), 7);
    out[k++] = XXH3_64bits(x + i, (size_t)(n - i));
  }
  return k;
}
