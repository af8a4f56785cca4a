/* in: u8, out: u32: structures copied, passed by value and packed */
#include <string.h>
typedef struct { unsigned char kind; unsigned short width; unsigned height; } box;
typedef struct { unsigned low : 5, middle : 11, high : 16; } fields;
typedef struct { box boxes[4]; fields bits; } record;
static record changed(record r, unsigned by) {
  for (int i = 0; i < 4; i++) r.boxes[i].height += by * r.boxes[3 - i].width;
  r.bits.middle += by;
  r.bits.high ^= r.bits.low;
  return r;
}
long run(const unsigned char *x, long n, unsigned *out) {
  record all[8];
  memset(all, 0, sizeof all);
  for (long i = 0; i < n; i++) {
    record *r = &all[x[i] & 7];
    r->boxes[i & 3].kind = x[i];
    r->boxes[(i + 1) & 3].width += x[i];
    r->bits.low += x[i];
    if (i % 5 == 0) all[(x[i] + 1) & 7] = changed(*r, (unsigned)i);
  }
  long k = 0;
  for (int i = 0; i < 8; i++) {
    for (int j = 0; j < 4; j++) out[k++] = all[i].boxes[j].height + all[i].boxes[j].width + all[i].boxes[j].kind;
    out[k++] = all[i].bits.low + all[i].bits.middle * 3u + all[i].bits.high * 5u;
  }
  return k;
}
