/* How many times as much arithmetic the cores of this process do together as one of them does alone. Less than their
 * number: they share something, such as virtual cores that are threads of one core, or the machine has other work.
 * Prints the least of the rounds, and the number of cores.
 *     build/tests/bench/cores [ROUNDS] */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/clock.h"

enum { MOST_CORES = 256, SUMS = 16, BLOCK = 1000 };
static const double BURST = 0.05; /* seconds */

typedef struct core {
    int number;
    double blocks; /* computed in a burst */
    double sum;    /* so that the compiler keeps the arithmetic */
} core;

static void *compute(void *at)
{
    core *c = at;
    cpu_set_t set;
    double sum[SUMS] = {0}, begin;
    CPU_ZERO(&set);
    CPU_SET(c->number, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    for (c->blocks = 0, begin = iso_clock(); iso_clock() - begin < BURST; c->blocks++)
        for (int k = 0; k < BLOCK; k++)
            for (int i = 0; i < SUMS; i++)
                sum[i] = sum[i] * 0.999 + 1;
    for (int i = 0; i < SUMS; i++)
        c->sum += sum[i];
    return NULL;
}

/* The blocks that the first n cores compute in a burst; less than 0: a thread cannot be started. */
static double together(core *cores, int n)
{
    pthread_t thread[MOST_CORES];
    double blocks = 0;
    int started = 0;
    while (started < n && !pthread_create(&thread[started], NULL, compute, &cores[started]))
        started++;
    for (int i = 0; i < started; i++) {
        pthread_join(thread[i], NULL);
        blocks += cores[i].blocks;
    }
    return started == n ? blocks : -1;
}

int main(int argc, char **argv)
{
    static core cores[MOST_CORES];
    int n = 0, rounds = argc > 1 ? atoi(argv[1]) : 5;
    double least = MOST_CORES;
    cpu_set_t allowed;
    if (rounds < 1 || sched_getaffinity(0, sizeof allowed, &allowed)) {
        fprintf(stderr, "usage: cores [ROUNDS]\n");
        return 2;
    }
    for (int i = 0; i < CPU_SETSIZE && n < MOST_CORES; i++)
        if (CPU_ISSET(i, &allowed))
            cores[n++].number = i;
    for (int r = 0; r < rounds; r++) {
        double one = together(cores, 1), all = together(cores, n);
        if (all < 0)
            return 1;
        least = all / one < least ? all / one : least;
    }
    printf("%.2f of %d\n", least, n);
    return 0;
}
