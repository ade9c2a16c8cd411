/* Benchmarks: run the ops of a step in the plan's order and at the plan's addresses, on all slots of one host at
 * once and without any exchange, so that kernels find their data in the caches as in a step. */
#include "runtime/exec/calibrate/benchmark_impl.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/clock.h"
#include "runtime/base/memory.h"
#include "runtime/exec/calibrate/calibrate.h"

enum { MOST_TRIES = 8 }; /* to find the largest index that all kernels accept */

/* ---- a step of one slot ---- */

static void run_kernel(const benchmark_slot *s, const benchmark_instruction *bound)
{
    if (bound->divided)
        iso_division_run(&bound->division, s->intra_op, bound->kernel, &bound->call);
    else
        bound->kernel->run(&bound->call);
}

static void benchmark_begin_op(benchmark *r, benchmark_slot *s, const iso_plan_op *op)
{
    const iso_instruction *instruction = &r->plan->instructions[op->index];
    switch (op->kind) {
    case ISO_PLAN_OP_READ:
        iso_benchmark_read(r, s, instruction->input);
        break;
    case ISO_PLAN_OP_KERNEL:
        run_kernel(s, &s->bound[op->index]);
        break;
    case ISO_PLAN_OP_COPY:
        iso_box_copy_run(&s->bound[op->index].copy);
        break;
    case ISO_PLAN_OP_EXCHANGE:
        for (int i = 0; i < instruction->n_moves; i++) {
            const iso_move *move = &r->plan->moves[instruction->first_move + i];
            if (instruction->payload == ISO_PAYLOAD_MOVES && !iso_move_in_place(move))
                iso_benchmark_pull(r, s, move->to);
        }
        break;
    default:
        iso_benchmark_end_op(r, s, op);
    }
}

static bool waits(const iso_plan_op *op)
{
    return op->kind == ISO_PLAN_OP_BEGIN || op->kind == ISO_PLAN_OP_EXCHANGE || op->kind == ISO_PLAN_OP_END;
}

/* Where hosts share cores, the time in which others have the core is not an op's. */
static double benchmark_clock(const benchmark *r)
{
    return r->shared ? iso_clock_of_thread() : iso_clock();
}

/* The ops [first, end) of a slot, which are between two barriers. Where hosts share cores, a step lets another have
 * the core between ops, when it asks MPI for messages. */
static void benchmark_ops(benchmark *r, benchmark_slot *s, int first, int end)
{
    const iso_plan_ops *ops = &s->ops;
    for (int i = first; i < end; i++) {
        double begin = benchmark_clock(r);
        benchmark_begin_op(r, s, &ops->op[i]);
        s->seconds[i] = benchmark_clock(r) - begin;
        if (r->shared)
            sched_yield();
    }
}

/* The same for the slots [from, to) of a thread. */
static void benchmark_stretch(benchmark *r, int from, int to, int first, int end)
{
    for (int s = from; s < to; s++)
        benchmark_ops(r, &r->slot[s], first, end);
}

/* The optimizer's ops come after the last barrier. Every other step it goes backwards, as iso_updates_apply. */
static void benchmark_updates(benchmark *r, int slot, int first)
{
    int count = r->slot[slot].ops.count;
    for (int i = first; i < count; i++) {
        int at = r->round % 2 ? first + count - 1 - i : i;
        benchmark_ops(r, &r->slot[slot], at, at + 1);
    }
}

static void benchmark_barrier(benchmark *r, uint32_t *passed)
{
    ++*passed;
    if (iso_count_add(&r->arrived) == *passed * (uint32_t)r->threads)
        iso_count_wake(&r->arrived);
    iso_count_await(&r->arrived, *passed * (uint32_t)r->threads, r->crowded, NULL);
}

/* All slots have the same instructions; only the optimizer's ops at the end differ. */
static void benchmark_thread(void *arg, int thread)
{
    benchmark *r = arg;
    int first = thread * r->n_slots / r->threads, end = (thread + 1) * r->n_slots / r->threads, at = 0;
    uint32_t passed = r->passed;
    for (int s = first; s < end; s++)
        iso_fault_clear(&r->slot[s].fault);
    for (int last = 0; last < r->n_until_end; at = last) {
        for (last = at; !waits(&r->slot[0].ops.op[last]);)
            last++;
        benchmark_stretch(r, first, end, at, last);
        benchmark_barrier(r, &passed);
        last++;
        benchmark_stretch(r, first, end, last - 1, last);
    }
    for (int s = first; s < end; s++)
        benchmark_updates(r, s, at);
}

static void benchmark_round(benchmark *r, iso_thread_pool *pool)
{
    iso_thread_pool_run(pool, benchmark_thread, r);
    r->passed += (uint32_t)r->n_barriers;
    r->round++;
}

/* ---- indices that kernels accept ---- */

/* Makes indices smaller until all kernels accept them. */
static iso_status benchmark_try(benchmark *r, iso_thread_pool *pool)
{
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        const iso_fault *fault = NULL;
        benchmark_round(r, pool);
        for (int s = 0; s < r->n_slots && !fault; s++)
            fault = iso_fault_raised(&r->slot[s].fault) ? &r->slot[s].fault : NULL;
        if (!fault)
            return ISO_OK;
        if ((fault->code != ISO_FAULT_INTEGER && fault->code != ISO_FAULT_REAL) || fault->count < 1)
            return iso_error(ISO_FAILED, "a kernel refuses synthetic values: %s", fault->text);
        r->whole |= fault->code == ISO_FAULT_REAL;
        iso_benchmark_set_bound(r, fault->count < r->bound ? fault->count : r->bound / 2);
    }
    return iso_error(ISO_FAILED, "no indices were found that all kernels accept");
}

/* ---- times ---- */

static int by_total(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The seconds of each op of each slot in each round. */
typedef struct rounds {
    int count, ops;
    double *total;  /* [count] of the round: at each barrier the threads wait for the slowest */
    double *second; /* [count * ops] */
} rounds;

/* Adds up the ops of [first, end) that exist: *slowest is increased by the time of the slowest thread, *mean by
 * the mean. */
static void add_ops(const benchmark *r, int first, int end, double *slowest, double *mean)
{
    double most = 0;
    for (int t = 0; t < r->threads; t++) {
        double of_thread = 0;
        for (int s = t * r->n_slots / r->threads; s < (t + 1) * r->n_slots / r->threads; s++)
            for (int i = first; i < end && i < r->slot[s].ops.count; i++)
                of_thread += r->slot[s].seconds[i];
        most = of_thread > most ? of_thread : most;
        *mean += of_thread / r->threads;
    }
    *slowest += most;
}

/* The times of a round. Waiting for the slowest thread is counted with the ops, in proportion. */
static void note_round(const benchmark *r, rounds *list, int round)
{
    double *out = list->second + (size_t)round * (size_t)list->ops, mean = 0;
    list->total[round] = 0;
    for (int at = 0, last; at < r->n_until_end; at = last + 1) {
        for (last = at; !waits(&r->slot[0].ops.op[last]);)
            last++;
        add_ops(r, at, last, &list->total[round], &mean);
    }
    add_ops(r, r->n_until_end, INT_MAX, &list->total[round], &mean);
    double scale = mean > 0 ? list->total[round] / mean : 1;
    for (int s = 0; s < r->n_slots; s++)
        for (int i = 0; i < r->slot[s].ops.count; i++)
            *out++ = scale * r->slot[s].seconds[i];
}

/* The mean of the rounds whose whole time is at most `most`: without those in which something else ran on the
 * machine. A mean, unlike a median, counts the waits that slots cause each other. */
static double mean_of(const rounds *list, double most, int op)
{
    double sum = 0, count = 0;
    for (int i = 0; i < list->count; i++)
        if (list->total[i] <= most) {
            sum += list->second[(size_t)i * (size_t)list->ops + (size_t)op];
            count++;
        }
    return count > 0 ? sum / count : 0;
}

typedef struct same_op {
    double seconds;
    int count;
} same_op;

/* Works of one key: the mean of their times. */
static iso_status put_times(const benchmark *r, const rounds *list, double most, iso_calibration *into)
{
    static const double resolution = 1e-9; /* of the clock, in seconds: no op takes no time */
    iso_status status = ISO_OK;
    iso_calibration *means = iso_calibration_create();
    same_op *same = iso_new(((size_t)list->ops + 1) * sizeof *same);
    int n = 0;
    if (!means || !same)
        ISO_TRY(iso_no_memory("the times of a benchmark"));
    for (int s = 0; s < r->n_slots; s++)
        for (int i = 0; i < r->slot[s].ops.count; i++, n++) {
            const iso_plan_op *op = &r->slot[s].ops.op[i];
            iso_calibrated_op fresh = {.key = op->key,
                                       .type = (char *)op->type,
                                       .busy = r->threads,
                                       .flops = op->flops,
                                       .bytes = op->bytes};
            if (!op->key)
                continue;
            if (!iso_calibration_find(means, op->key))
                ISO_TRY(iso_calibration_put(means, &fresh));
            same_op *of = &same[iso_calibration_find(means, op->key) - means->op];
            of->seconds += mean_of(list, most, n);
            of->count++;
        }
    for (int i = 0; i < means->n_ops; i++) {
        means->op[i].seconds = same[i].seconds / same[i].count;
        if (means->op[i].seconds < resolution)
            means->op[i].seconds = resolution;
        ISO_TRY(iso_calibration_put(into, &means->op[i]));
    }
done:
    iso_calibration_destroy(means);
    iso_free(same);
    return status;
}

/* The longest time of a round that counts: nine of ten rounds count, and none that takes far longer than the
 * median. Two threads may run on one core for tenths of a second, until the kernel moves one of them. */
static double longest_counted(const double *total, int count, double *sorted)
{
    static const double kept = 0.9, far = 1.25;
    memcpy(sorted, total, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_total);
    double most = sorted[(int)(kept * (count - 1))], limit = far * sorted[count / 2];
    return most < limit ? most : limit;
}

/* The number of rounds that take about three seconds. */
static int count_rounds(benchmark *r, iso_thread_pool *pool)
{
    static const double seconds = 3, least = 10, most = 20000;
    double begin = iso_clock();
    benchmark_round(r, pool);
    double count = seconds / (iso_clock() - begin + 1e-9);
    return (int)(count < least ? least : count > most ? most : count);
}

static iso_status benchmark_measure(benchmark *r, iso_thread_pool *pool, int count, iso_calibration *into)
{
    rounds list = {0};
    iso_status status = ISO_OK;
    ISO_TRY(benchmark_try(r, pool));
    count = count > 0 ? count : count_rounds(r, pool);
    list.count = count;
    for (int s = 0; s < r->n_slots; s++)
        list.ops += r->slot[s].ops.count;
    list.total = iso_new(2 * (size_t)count * sizeof *list.total);
    list.second = iso_new((size_t)count * (size_t)list.ops * sizeof *list.second);
    if (!list.total || !list.second)
        ISO_TRY(iso_no_memory("the times of a benchmark"));
    for (int i = 0; i < count; i++) {
        benchmark_round(r, pool);
        note_round(r, &list, i);
    }
    ISO_TRY(put_times(r, &list, longest_counted(list.total, count, list.total + count), into));
done:
    iso_free(list.total);
    iso_free(list.second);
    return status;
}

/* The threads that divide ops with each thread of the slots. pools: [threads], zeroed. */
static iso_status start_intra_op(benchmark *r, iso_thread_pool **pools)
{
    iso_status status = ISO_OK;
    for (int t = 0; r->intra_op_threads > 1 && t < r->threads && status == ISO_OK; t++)
        status = iso_thread_pool_create(r->intra_op_threads, r->crowded, &pools[t]);
    for (int t = 0; t < r->threads; t++)
        for (int s = t * r->n_slots / r->threads; s < (t + 1) * r->n_slots / r->threads; s++)
            r->slot[s].intra_op = pools[t];
    return status;
}

iso_status iso_function_benchmark(iso_graph *graph, const iso_function_options *function,
                                  const iso_benchmark_options *options, iso_calibration *into)
{
    ISO_NEED(graph, function, options, into);
    iso_status status;
    iso_dry_plan dry;
    benchmark r = {0};
    iso_thread_pool *pool = NULL, **intra_op = NULL;
    ISO_TRY(iso_dry_plan_make(graph, options->rows, options->slots_per_host, function, false, &dry));
    ISO_TRY(iso_benchmark_make(&dry, graph, options, &r));
    ISO_TRY(iso_thread_pool_create(r.threads, r.crowded, &pool));
    intra_op = iso_new((size_t)r.threads * sizeof *intra_op);
    ISO_TRY(intra_op ? start_intra_op(&r, intra_op) : iso_no_memory("the threads of ops"));
    ISO_TRY(benchmark_measure(&r, pool, options->repetitions, into));
done:
    iso_thread_pool_destroy(pool);
    for (int t = 0; intra_op && t < r.threads; t++)
        iso_thread_pool_destroy(intra_op[t]);
    iso_free(intra_op);
    iso_benchmark_free(&r);
    iso_dry_plan_free(&dry);
    return status;
}
