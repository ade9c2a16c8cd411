/* What the cores reach together: products of 2048 x 2048 x 2048 by oneDNN, one on each core, in float32 and in
 * bfloat16 with sums in float32, in GFLOP/s; and the triad a = b + 3 c over arrays that no cache holds, in GB/s.
 * Prints a line of JSON: the medians of the rounds; 0 for bfloat16 where the processor has no instructions for it.
 *     build/tests/bench/limit [ROUNDS] */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/backend/cpu/onednn.h"
#include "runtime/base/clock.h"

enum { SIZE = 2048, ELEMENTS = 16 << 20, MOST_CORES = 256, MOST_ROUNDS = 99, KINDS = 3 };
static const double BURST = 0.15; /* seconds at least of each core in a round */

typedef struct core {
    float *a, *b, *c;
    void *scratch;
    pthread_barrier_t *begin;
    int rounds;
    double rate[KINDS][MOST_ROUNDS];
} core;

static double product(core *x)
{
    iso_onednn_sgemm(&(iso_product){.m = SIZE, .n = SIZE, .k = SIZE}, x->a, x->b, x->c);
    return 2e-9 * SIZE * SIZE * SIZE;
}

static double half_product(core *x)
{
    const iso_product p = {.m = SIZE, .n = SIZE, .k = SIZE};
    if (!x->scratch ||
        !iso_onednn_bf16_gemm(&p, (uint16_t *)x->a, (uint16_t *)x->b, ISO_F32, x->c, x->scratch))
        return 0;
    return 2e-9 * SIZE * SIZE * SIZE;
}

static double triad(core *x)
{
    for (int i = 0; i < ELEMENTS; i++)
        x->a[i] = x->b[i] + 3 * x->c[i];
    return 3e-9 * ELEMENTS * sizeof *x->a;
}

static double measure(core *x, double (*work)(core *))
{
    double done = 0, begin, now;
    work(x); /* not counted */
    pthread_barrier_wait(x->begin);
    begin = now = iso_clock();
    for (; now - begin < BURST; now = iso_clock())
        done += work(x);
    return done / (now - begin);
}

static void *run_core(void *at)
{
    static double (*const works[KINDS])(core *) = {product, half_product, triad};
    core *x = at;
    for (int round = 0; round < x->rounds; round++)
        for (int kind = 0; kind < KINDS; kind++)
            x->rate[kind][round] = measure(x, works[kind]);
    return NULL;
}

static bool prepare(core *x)
{
    float **const arrays[] = {&x->a, &x->b, &x->c};
    for (int i = 0; i < 3; i++) {
        *arrays[i] = aligned_alloc(64, ELEMENTS * sizeof(float));
        if (!*arrays[i])
            return false;
        memset(*arrays[i], 0, ELEMENTS * sizeof(float));
    }
    const iso_product p = {.m = SIZE, .n = SIZE, .k = SIZE};
    if (!iso_onednn_has_bf16())
        return true;
    x->scratch = aligned_alloc(64, (iso_onednn_bf16_scratch(&p, ISO_F32) + 63) / 64 * 64 + 64);
    return x->scratch != NULL;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median over the rounds of the sum over the cores. */
static double together(const core *cores, int count, int rounds, int kind)
{
    double sums[MOST_ROUNDS] = {0};
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < count; i++)
            sums[round] += cores[i].rate[kind][round];
    qsort(sums, (size_t)rounds, sizeof *sums, compare);
    return sums[rounds / 2];
}

int main(int argc, char **argv)
{
    static core cores[MOST_CORES];
    int rounds = argc > 1 ? atoi(argv[1]) : 5, count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    pthread_barrier_t begin;
    pthread_t threads[MOST_CORES];
    if (rounds < 1 || rounds > MOST_ROUNDS || count > MOST_CORES)
        return fprintf(stderr, "limit: rounds are 1 to %d, cores at most %d\n", MOST_ROUNDS, MOST_CORES), 2;
    pthread_barrier_init(&begin, NULL, (unsigned)count);
    for (int i = 0; i < count; i++) {
        cores[i].begin = &begin;
        cores[i].rounds = rounds;
        if (!prepare(&cores[i]))
            return fprintf(stderr, "limit: no memory\n"), 1;
    }
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, run_core, &cores[i]);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("{\"cores\": %d, \"gflops\": %.1f, \"half_gflops\": %.1f, \"triad\": %.1f}\n", count,
           together(cores, count, rounds, 0), together(cores, count, rounds, 1),
           together(cores, count, rounds, 2));
    return 0;
}
