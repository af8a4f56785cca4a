/* in: u8, out: u32: a small interpreter: a switch, branches and state */
static unsigned rotated(unsigned x, unsigned by) { return x << (by & 31) | x >> (-by & 31); }
long run(const unsigned char *code, long n, unsigned *out) {
  unsigned stack[16] = {0}, top = 0, a = 1;
  for (long i = 0; i < n; i++) {
    switch (code[i] & 15) {
    case 0: a += code[i]; break;
    case 1: a *= 31; break;
    case 2: a ^= a >> 7; break;
    case 3: stack[top++ & 15] = a; break;
    case 4: a -= stack[--top & 15]; break;
    case 5: a = rotated(a, code[i]); break;
    case 6: a = a > 1000 ? a / 7 : a + 7; break;
    case 7: if (a & 1) i++; break;
    case 8: a = ~a; break;
    case 9: a = a % (code[i] + 1u); break;
    case 10: for (unsigned k = 0; k < (a & 7); k++) a += k * k; break;
    case 11: a |= 0x80; break;
    default: a += 3; break;
    }
    out[i < n ? i : n - 1] = a;
  }
  return n;
}
