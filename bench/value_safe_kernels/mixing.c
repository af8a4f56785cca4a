/* in: u64, out: u64 */
#include <stdint.h>
typedef uint64_t word;
static word mixed(word h) {
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdULL;
  return h ^ h >> 29;
}
long run(const word *x, long n, word *out) {
  word a = 1, b = 2;
  for (long i = 0; i < n; i++) {
    a = mixed(a + x[i]) + (word)__builtin_popcountll(x[i]);
    b = (b << 13 | b >> 51) ^ x[i] / ((a & 1023) + 1) ^ x[i] % 1000003;
    out[i] = a - b;
  }
  return n;
}
