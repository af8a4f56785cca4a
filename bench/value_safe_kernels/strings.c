/* in: u8, out: u8: words counted, turned and copied */
#include <string.h>
long run(const unsigned char *x, long n, unsigned char *out) {
  char word[64];
  long length = 0, k = 0, longest = 0, shortest = 64;
  for (long i = 0; i <= n; i++) {
    if (i < n && x[i] > ' ' && length < 63) {
      word[length++] = (char)x[i];
      continue;
    }
    word[length] = 0;
    for (long a = 0, b = length - 1; a < b; a++, b--) {
      char c = word[a];
      word[a] = word[b];
      word[b] = c;
    }
    longest = length > longest ? length : longest;
    shortest = length < shortest ? length : shortest;
    memcpy(out + k, word, (size_t)length + 1);
    k += (long)strlen(word) + 1;
    out[k++] = (unsigned char)(strchr(word, 'a') ? 1 : memcmp(word, "the", 4) == 0 ? 2 : 0);
    length = 0;
  }
  out[k++] = (unsigned char)longest;
  out[k++] = (unsigned char)shortest;
  return k;
}
