/* in: f64, out: f64: products of complex constants, under a name of their own, that only some candidates inline */
typedef _Complex double C;
static C folded(C a, C b, long k, C *o) {
  C z = a * b;
  if (k == 20) o[20] = z, z += k;
  if (k == 21) o[21] = z, z += k;
  if (k == 22) o[22] = z, z += k;
  if (k == 23) o[23] = z, z += k;
  if (k == 24) o[24] = z, z += k;
  if (k == 25) o[25] = z, z += k;
  if (k == 26) o[26] = z, z += k;
  if (k == 27) o[27] = z, z += k;
  return z;
}
long run(const double *x, long n, double *out) {
  C *o = (C *)out;
  o[0] = folded(1.1 + 2.3i, 0.7 + 3.1i, n, o);
  o[1] = folded(7.9 + 0.3i, 5.3 + 1.9i, n, o);
  o[2] = folded(4.7 + 6.1i, 2.9 + 8.3i, n, o);
  o[3] = folded(0.9 + 1.7i, 6.7 + 0.1i, n, o);
  out[8] = x[0];
  return 9;
}
