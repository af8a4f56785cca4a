/* Times and counts the calls of one kernel: each library in a process of its own, forked where all inputs are ready.
   usage: race_serve BASELINE, with lines `LIBRARY SAMPLES` on standard input; 0 samples: its instructions are counted.
   Each is answered by one line: `ok` and numbers, or `wrong`, `crash` or `timeout`; then `after` and processor seconds.
   A sample is the median of three calls over the median of three calls of the baseline, in turn; it is taken again when
   another process had the core meanwhile.
   An execution is counted by the processor's trap flag: one signal an instruction. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "race_driver.h"

enum { CALLS = 3, COLD = 6, RETRIES = 20, LIMIT_S = 3, WRONG = 3 };

static void *baseline;
static unsigned char *expected[2]; /* what the baseline leaves, of a whole call and of a small one */
static volatile sig_atomic_t steps;

static void *function_of(const char *library)
{
    void *held = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *function = held ? dlsym(held, race_symbol) : NULL;
    if (!function)
        fprintf(stderr, "race_serve: %s\n", dlerror());
    return function;
}

static void call_on_clean_output(void *function, int small)
{
    memset(race_output, 0, race_output_bytes);
    race_call(function, small);
}

static double seconds(void *function)
{
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    race_call(function, 0);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    return (double)(ended.tv_sec - begun.tv_sec) + 1e-9 * (double)(ended.tv_nsec - begun.tv_nsec);
}

static double median(const double *three)
{
    double low = three[0] < three[1] ? three[0] : three[1], high = three[0] < three[1] ? three[1] : three[0];
    return three[2] < low ? low : three[2] > high ? high : three[2];
}

static long preemptions(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

static double disturbed_ratio(void *function)
{
    double theirs[CALLS], ours[CALLS];
    for (int each = 0; each < CALLS; each++) {
        theirs[each] = seconds(baseline);
        ours[each] = seconds(function);
    }
    return median(ours) / median(theirs);
}

static double ratio(void *function)
{
    for (int retry = 0;; retry++) {
        long before = preemptions();
        double taken = disturbed_ratio(function);
        if (preemptions() == before || retry == RETRIES)
            return taken;
    }
}

static void count_step(int number)
{
    (void)number;
    steps++;
}

static void count_steps_of(void *function)
{
    signal(SIGTRAP, count_step);
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    race_call(function, 1);
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

static void answer(const char *library, int samples)
{
    alarm(LIMIT_S);
    void *function = function_of(library);
    if (!function)
        abort();
    int small = samples == 0;
    call_on_clean_output(function, small);
    if (memcmp(race_output, expected[small], race_output_bytes) != 0)
        _exit(WRONG);
    if (small)
        count_steps_of(function);
    printf("ok");
    if (small)
        printf(" %ld", (long)steps);
    for (int each = 0; samples && each < COLD; each++)
        ratio(function); /* not told: caches and branch predictors are still cold */
    for (int each = 0; each < samples; each++)
        printf(" %.5f", ratio(function));
    fflush(stdout);
    _exit(0);
}

static void serve(const char *library, int samples)
{
    int status;
    struct rusage used;
    pid_t child = fork();
    if (child == 0)
        answer(library, samples);
    if (child < 0 || wait4(child, &status, 0, &used) != child)
        exit(2);
    if (WIFSIGNALED(status))
        printf(WTERMSIG(status) == SIGALRM ? "timeout" : "crash");
    else if (WEXITSTATUS(status) != 0)
        printf(WEXITSTATUS(status) == WRONG ? "wrong" : "crash");
    printf(" after %.6f\n", (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                                1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec));
    fflush(stdout);
}

int main(int count, char **arguments)
{
    /* Where things lie in memory is part of a time: it must be the same in every run. */
    if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
        personality(ADDR_NO_RANDOMIZE);
        execv("/proc/self/exe", arguments);
    }
    baseline = count == 2 ? function_of(arguments[1]) : NULL;
    if (!baseline)
        return 2;
    race_prepare();
    for (int small = 0; small < 2; small++) {
        call_on_clean_output(baseline, small);
        expected[small] = malloc(race_output_bytes);
        memcpy(expected[small], race_output, race_output_bytes);
    }
    char library[4000];
    int samples;
    while (scanf("%3999s %d", library, &samples) == 2)
        serve(library, samples);
    return 0;
}
