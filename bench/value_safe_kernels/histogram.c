/* in: u8, out: i32: a histogram, its prefix sums, a smallest and a largest */
long run(const unsigned char *x, long n, int *out) {
  for (int i = 0; i < 260; i++) out[i] = 0;
  for (long i = 0; i < n; i++) out[x[i]]++;
  for (int i = 1; i < 256; i++) out[i] += out[i - 1];
  int low = 255, high = 0, sum = 0;
  for (long i = 0; i < n; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    sum += x[i] * (int)(signed char)x[i];
  }
  out[256] = low, out[257] = high, out[258] = sum;
  return 259;
}
