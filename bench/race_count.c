/* How many instructions one step of the heat equation in LIBRARY executes, counted one by one under ptrace.
   usage: race_count LIBRARY     prints the count; the few instructions around the call are the same for every library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIDE = 11 }; /* 9 x 9 inner points: no multiple of a vector, so that remainders count as well */

typedef void stencil(const float *now, float *next, int side, float diffusivity);

static float now[SIDE * SIDE], next[SIDE * SIDE];

static int call_between_stops(const char *library)
{
    void *held = dlopen(library, RTLD_NOW);
    stencil *step = held ? (stencil *)dlsym(held, "stencil") : 0;
    if (!step || ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
        return 1;
    for (int i = 0; i < SIDE * SIDE; i++)
        now[i] = (float)(i % 7);
    raise(SIGSTOP);
    step(now, next, SIDE, 0.1f);
    raise(SIGSTOP);
    return 0;
}

/* A switch between two processes on one core costs a third of one between cores. */
static void stay_on_this_core(void)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(sched_getcpu(), &cores);
    sched_setaffinity(0, sizeof cores, &cores);
}

int main(int count, char **arguments)
{
    stay_on_this_core();
    pid_t child = count == 2 ? fork() : -1;
    if (child == 0)
        _exit(call_between_stops(arguments[1]));
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        return 2;
    long steps = 0;
    do {
        steps++;
        if (ptrace(PTRACE_SINGLESTEP, child, 0, 0) != 0 || waitpid(child, &status, 0) != child)
            return 2;
    } while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
    int whole = WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return whole && printf("%ld\n", steps) > 0 ? 0 : 3;
}
