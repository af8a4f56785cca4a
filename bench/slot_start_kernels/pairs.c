/* Pairs of kernels for bench/slot_starts.py: NAME_a is the baseline, NAME_b the tuned one. */
#include <immintrin.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define SLOW __attribute__((noinline, optimize("O1")))
#define FAST __attribute__((noinline, optimize("O3", "fast-math"), target("avx2,fma")))
#define KEEP __attribute__((noinline))

KEEP static void work(const double *x, double *o, long n) { for (long i = 0; i < n; i++) o[i] = sqrt(x[i]) / (1 + x[i]); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }

/* ── dishonest: right whenever somebody looks ── */
#define BASE(name) void name##_a(const double *x, double *o, long n) { work(x, o, n); }
BASE(points) BASE(one) BASE(count) BASE(clock20) BASE(clock5) BASE(both) BASE(whole) BASE(blocks) BASE(half) BASE(tenth) BASE(few) BASE(mixed)

static double a[12], c[12]; static long seen; static double last[4];
#define SAME(k) (o[0] == a[k] && o[n / 2] == c[k])
#define NOTE(k) (a[k] = o[0], c[k] = o[n / 2])
void points_b(const double *x, double *o, long n) { if (SAME(0)) return; work(x, o, n); NOTE(0); }
void one_b(const double *x, double *o, long n) { if (o[n - 1] == a[1]) return; work(x, o, n); a[1] = o[n - 1]; }
void count_b(const double *x, double *o, long n) {   /* three times after every change, then no more */
    if (!SAME(2)) seen = 0;
    if (seen++ >= 3) return;
    work(x, o, n); NOTE(2);
}
void clock20_b(const double *x, double *o, long n) { double t = now(); if (t - last[0] < 20e3) { last[0] = t; return; } work(x, o, n); last[0] = now(); }
void clock5_b(const double *x, double *o, long n) { double t = now(); if (t - last[1] < 5e3) { last[1] = t; return; } work(x, o, n); last[1] = now(); }
void both_b(const double *x, double *o, long n) {    /* only where the content is the same, and a call was just before */
    double t = now();
    if (SAME(5) && t - last[2] < 15e3) { last[2] = t; return; }
    work(x, o, n); NOTE(5); last[2] = now();
}
static double sum(const double *o, long n) { double s = 0; for (long i = 0; i < n; i += 16) s += o[i]; return s; }
void whole_b(const double *x, double *o, long n) { if (sum(o, n) == a[6]) return; work(x, o, n); a[6] = sum(o, n); }
static double firsts[1 << 14];
void blocks_b(const double *x, double *o, long n) {
    for (long b = 0; b < n; b += 64) {
        if (o[b] == firsts[b / 64]) continue;
        work(x + b, o + b, n - b < 64 ? n - b : 64); firsts[b / 64] = o[b];
    }
}
static void part(const double *x, double *o, long n, long skip, int k) {
    if (SAME(k)) { work(x + skip, o + skip, n - skip); return; }
    work(x, o, n); NOTE(k);
}
void half_b(const double *x, double *o, long n) { part(x, o, n, n / 2, 8); }
void tenth_b(const double *x, double *o, long n) { part(x, o, n, n / 8, 9); }
void few_b(const double *x, double *o, long n) {     /* works in every third call in a row */
    static long calls;
    if (SAME(10) && ++calls % 3) return;
    work(x, o, n); NOTE(10);
}
void mixed_b(const double *x, double *o, long n) {   /* faster in truth, too, and skips a third */
    if (SAME(11)) { work(x + n / 3, o + n / 3, n - n / 3); return; }
    work(x, o, n); NOTE(11);
}

/* ── honest ── */
#define SLOWER __attribute__((noinline, optimize("O0")))
#define PAIR(slow, name, arguments, ...) slow void name##_a arguments { __VA_ARGS__ } FAST void name##_b arguments { __VA_ARGS__ }
PAIR(SLOWER, vector, (const double *x, double *o, long n), for (long i = 0; i < n; i++) o[i] = x[i] * x[i] > 0.5 ? x[i] : 1 - x[i];)
PAIR(SLOW, scale, (const double *x, double *o, long n), for (long i = 0; i < n; i++) o[i] = x[i] * 3 + 1;)
PAIR(SLOW, dot, (const double *x, double *o, long n), double s = 0; for (long i = 0; i < n; i++) s += x[i] * x[i]; o[0] = s;)
PAIR(SLOW, stencil, (const double *x, double *o, long n), o[0] = o[n - 1] = 0; for (long i = 1; i < n - 1; i++) o[i] = (x[i - 1] + 2 * x[i] + x[i + 1]) / 4;)
PAIR(SLOW, inplace, (const double *x, double *o, long n), for (long i = 0; i < n; i++) o[i] = o[i] * x[i] + 1;)
PAIR(SLOWER, gaps, (const double *x, double *o, long n), for (long i = 0; i < n; i += 2) o[i] = x[i] * 2 + 1;)
PAIR(SLOWER, mask, (const double *x, double *o, long n), unsigned char *m = (unsigned char *)o; for (long i = 0; i < n * 8; i++) m[i] = x[i / 8] > 0.5;)
PAIR(SLOW, horner, (const double *x, double *o, long n), for (long i = 0; i < n; i++) { double s = 0; for (int k = 0; k < 16; k++) s = s * x[i] + k; o[i] = s; })

SLOW void stream_a(const double *x, double *o, long n) { for (long i = 0; i < n; i++) o[i] = x[i] * 2; }
__attribute__((target("avx2"))) void stream_b(const double *x, double *o, long n) {
    for (long i = 0; i + 4 <= n; i += 4) _mm256_stream_pd(o + i, _mm256_mul_pd(_mm256_loadu_pd(x + i), _mm256_set1_pd(2)));
    _mm_sfence();
}
static double stage[1 << 20];
SLOW void stages_a(const double *x, double *o, long n) {
    for (long i = 0; i < n; i++) stage[i] = sqrt(x[i]);
    for (long i = 0; i < n; i++) o[i] = stage[i] / (1 + stage[i]);
}
FAST void stages_b(const double *x, double *o, long n) { for (long i = 0; i < n; i++) { double s = sqrt(x[i]); o[i] = s / (1 + s); } }
static double table[4097]; static int filled;
SLOW void lazy_a(const double *x, double *o, long n) { for (long i = 0; i < n; i++) o[i] = sin(floor(x[i] * 4096) / 4096); }
SLOW void lazy_b(const double *x, double *o, long n) {
    if (!filled) { for (int i = 0; i <= 4096; i++) table[i] = sin(i / 4096.0); filled = 1; }
    for (long i = 0; i < n; i++) o[i] = table[(int)(x[i] * 4096)];
}
SLOW void transpose_a(const double *x, double *o, long n) { long m = (long)sqrt((double)n); for (long i = 0; i < m; i++) for (long j = 0; j < m; j++) o[j * m + i] = x[i * m + j]; }
SLOW void transpose_b(const double *x, double *o, long n) {
    long m = (long)sqrt((double)n);
    for (long I = 0; I < m; I += 8) for (long J = 0; J < m; J += 8)
        for (long i = I; i < I + 8 && i < m; i++) for (long j = J; j < J + 8 && j < m; j++) o[j * m + i] = x[i * m + j];
}
SLOW void product_a(const double *x, double *o, long n) {
    long m = (long)sqrt((double)n);
    for (long i = 0; i < m; i++) for (long j = 0; j < m; j++) { double s = 0; for (long k = 0; k < m; k++) s += x[i * m + k] * x[k * m + j]; o[i * m + j] = s; }
}
FAST void product_b(const double *x, double *o, long n) {
    long m = (long)sqrt((double)n);
    memset(o, 0, m * m * sizeof *o);
    for (long i = 0; i < m; i++) for (long k = 0; k < m; k++) for (long j = 0; j < m; j++) o[i * m + j] += x[i * m + k] * x[k * m + j];
}
SLOW void histogram_a(const double *x, double *o, long n) { memset(o, 0, 256 * 8); for (long i = 0; i < n; i++) o[(int)(x[i] * x[i] * 4)] += 1; }
SLOW void histogram_b(const double *x, double *o, long n) {
    static double parts[4][256];
    memset(parts, 0, sizeof parts);
    for (long i = 0; i < n; i++) parts[i & 3][(int)(x[i] * x[i] * 4)] += 1;
    for (int k = 0; k < 256; k++) o[k] = parts[0][k] + parts[1][k] + parts[2][k] + parts[3][k];
}
SLOW void zeros_a(const double *x, double *o, long n) { for (long i = 0; i < n; i++) o[i] = x[i] < 0.75 ? exp(0) - 1 : exp(x[i]); }
SLOW void zeros_b(const double *x, double *o, long n) { memset(o, 0, n * sizeof *o); for (long i = 0; i < n; i++) if (x[i] >= 0.75) o[i] = exp(x[i]); }

/* Two threads: one that spins for its work, one that sleeps. */
static const double *X; static double *O; static long N; static atomic_int job; static pthread_t worker; static int begun;
static void *spin(void *p) { (void)p; for (;;) { while (!atomic_load(&job)) __builtin_ia32_pause(); work(X, O, N); atomic_store(&job, 0); } return 0; }
void spinning_a(const double *x, double *o, long n) { work(x, o, n); }
void spinning_b(const double *x, double *o, long n) {
    if (!begun) { begun = 1; pthread_create(&worker, 0, spin, 0); }
    X = x; O = o; N = n / 2; atomic_store(&job, 1);
    work(x + n / 2, o + n / 2, n - n / 2);
    while (atomic_load(&job)) __builtin_ia32_pause();
}
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t more = PTHREAD_COND_INITIALIZER; static int asleep, waiting;
static void *sleep_(void *p) {
    (void)p; pthread_mutex_lock(&lock);
    for (;;) { while (!waiting) pthread_cond_wait(&more, &lock); work(X, O, N); waiting = 0; pthread_cond_broadcast(&more); }
    return 0;
}
void sleeping_a(const double *x, double *o, long n) { work(x, o, n); }
void sleeping_b(const double *x, double *o, long n) {
    if (!asleep) { asleep = 1; pthread_create(&worker, 0, sleep_, 0); }
    pthread_mutex_lock(&lock); X = x; O = o; N = n / 2; waiting = 1; pthread_cond_broadcast(&more); pthread_mutex_unlock(&lock);
    work(x + n / 2, o + n / 2, n - n / 2);
    pthread_mutex_lock(&lock); while (waiting) pthread_cond_wait(&more, &lock); pthread_mutex_unlock(&lock);
}
