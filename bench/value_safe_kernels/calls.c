/* in: u32, out: u32: recursion, tail calls and functions by pointer */
static unsigned depth(unsigned m, unsigned n) { return m == 0 ? n + 1 : n == 0 ? depth(m - 1, 1) : depth(m - 1, depth(m, n - 1)); }
static unsigned gcd(unsigned a, unsigned b) { return b == 0 ? a : gcd(b, a % b); }
static unsigned odd(unsigned n);
static unsigned even(unsigned n) { return n == 0 ? 1 : odd(n - 1); }
static unsigned odd(unsigned n) { return n == 0 ? 0 : even(n - 1); }
static unsigned sum(unsigned a, unsigned b) { return a + b; }
static unsigned product(unsigned a, unsigned b) { return a * b; }
static unsigned (*const table[])(unsigned, unsigned) = {gcd, sum, product};
long run(const unsigned *x, long n, unsigned *out) {
  for (long i = 0; i < n; i++) {
    unsigned a = table[x[i] % 3](x[i], (unsigned)i + 1);
    out[i] = a + even(x[i] & 63) + (i % 64 ? 0 : depth(2, x[i] & 3));
  }
  return n;
}
