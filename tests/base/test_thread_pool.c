/* The threads of a rank, and initial values against what Keras's initializers have
 * (tests/keras/initializers.json). Ranks: 1 */
#include <check.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/memory/runtime_impl.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

/* ---- threads ---- */

enum { THREADS = 5, ROUNDS = 2000 };

typedef struct tally {
    int runs[THREADS];
    _Atomic int all;
} tally;

static void count(void *arg, int thread)
{
    tally *t = arg;
    t->runs[thread]++;
    atomic_fetch_add(&t->all, 1);
}

START_TEST(every_thread_runs_once_a_round)
{
    for (int threads = 1; threads <= THREADS; threads += 2) {
        iso_thread_pool *pool;
        tally t = {0};
        check_ok(iso_thread_pool_create(threads, false, &pool));
        for (int i = 1; i <= ROUNDS; i++) {
            iso_thread_pool_run(pool, count, &t);
            ck_assert_int_eq(t.all, i * threads);
        }
        for (int k = 0; k < threads; k++)
            ck_assert_int_eq(t.runs[k], ROUNDS);
        iso_thread_pool_destroy(pool);
    }
}
END_TEST

START_TEST(a_pool_may_end_before_its_first_round)
{
    iso_thread_pool *pool;
    for (int i = 0; i < 50; i++) {
        check_ok(iso_thread_pool_create(3, i % 2, &pool));
        iso_thread_pool_destroy(pool);
    }
    iso_thread_pool_destroy(NULL);
}
END_TEST

enum { BLOCKS = 97 };

typedef struct loop_tally {
    _Atomic int runs[BLOCKS];
    _Atomic int64_t held_back; /* block 0 waits until so many others are done: other threads take its range */
} loop_tally;

static void count_block(void *arg, int64_t block, int thread)
{
    loop_tally *t = arg;
    ck_assert_int_lt(thread, THREADS);
    atomic_fetch_add(&t->runs[block], 1);
    while (block == 0 && atomic_load(&t->held_back) > 0)
        sched_yield();
    atomic_fetch_sub(&t->held_back, 1);
}

START_TEST(every_block_of_a_loop_runs_once)
{
    for (int threads = 0; threads <= THREADS; threads++) {
        iso_thread_pool *pool = NULL;
        if (threads > 0)
            check_ok(iso_thread_pool_create(threads, true, &pool));
        ck_assert_int_eq(iso_thread_pool_size(pool), threads > 0 ? threads : 1);
        for (int blocks = 0; blocks <= BLOCKS; blocks += blocks < 8 ? 1 : 89) {
            loop_tally t = {.held_back = threads > 1 ? blocks - 1 : 0};
            iso_parallel_for(pool, blocks, count_block, &t);
            for (int i = 0; i < BLOCKS; i++)
                ck_assert_int_eq(t.runs[i], i < blocks);
        }
        iso_thread_pool_destroy(pool);
    }
}
END_TEST

/* ---- initial values ---- */

typedef struct moments {
    double mean, deviation, most;
} moments;

static moments measure(const char *path, iso_initializer init, iso_shape shape)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_variable *variable = iso_variable_create(graph, path, ISO_F64, shape, init, true);
    iso_box box = iso_box_whole(&shape);
    int64_t n = iso_box_count(&box);
    double *values = malloc((size_t)n * sizeof *values);
    moments m = {0, 0, 0};
    ck_assert_int_eq(iso_initialize(variable, 1337, &box, values), ISO_OK);
    for (int64_t i = 0; i < n; i++)
        m.mean += values[i];
    m.mean /= (double)n;
    for (int64_t i = 0; i < n; i++) {
        m.deviation += (values[i] - m.mean) * (values[i] - m.mean) / (double)n;
        m.most = fmax(m.most, fabs(values[i]));
    }
    m.deviation = sqrt(m.deviation);
    free(values);
    iso_graph_destroy(graph);
    return m;
}

static const struct {
    const char *name;
    iso_initializer_kind kind;
} kinds[] = {{"glorot_uniform", ISO_INIT_GLOROT_UNIFORM},
             {"glorot_normal", ISO_INIT_GLOROT_NORMAL},
             {"he_uniform", ISO_INIT_HE_UNIFORM},
             {"he_normal", ISO_INIT_HE_NORMAL},
             {"lecun_uniform", ISO_INIT_LECUN_UNIFORM},
             {"lecun_normal", ISO_INIT_LECUN_NORMAL},
             {"zeros", ISO_INIT_ZEROS},
             {"ones", ISO_INIT_ONES},
             {"uniform", ISO_INIT_RANDOM_UNIFORM},
             {"normal", ISO_INIT_RANDOM_NORMAL},
             {"truncated_normal", ISO_INIT_TRUNCATED_NORMAL}};

static iso_initializer initializer_of(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return (iso_initializer){.kind = kinds[i].kind};
    ck_abort_msg("no initializer is named '%s'", name);
}

/* A number behind "key": in one case's text, or `otherwise`. */
static double number_of(const char *text, const char *key, double otherwise)
{
    const char *at = strstr(text, key);
    return at ? atof(at + strlen(key)) : otherwise;
}

static iso_shape shape_of(const char *text)
{
    iso_shape shape = {0};
    const char *at = strstr(text, "\"shape\": [");
    if (!at)
        return ISO_SHAPE(300, 200);
    for (at = strchr(at, '[') + 1; shape.rank < ISO_MAX_RANK;) {
        char *end;
        shape.dim[shape.rank++] = strtol(at, &end, 10);
        at = end + strspn(end, ", \n");
        if (*at == ']')
            break;
    }
    return shape;
}

/* Within five standard errors; the largest near its limit, where there is one, and never beyond. */
static void check_case(const char *text)
{
    char name[64];
    ck_assert_int_eq(sscanf(strstr(text, "\"name\": \"") + 9, "%63[a-z_]", name), 1);
    iso_shape shape = shape_of(text);
    iso_box box = iso_box_whole(&shape);
    double n = (double)iso_box_count(&box), deviation = number_of(text, "\"stddev\": ", -1),
           limit = number_of(text, "\"limit\": ", INFINITY), mean = number_of(text, "\"mean\": ", 0);
    moments m = measure("layer/kernel", initializer_of(name), shape);
    ck_assert_msg(fabs(m.mean - mean) <= 5 * deviation / sqrt(n), "%s: the mean of %g numbers is %g", name, n,
                  m.mean);
    ck_assert_msg(fabs(m.deviation - deviation) <= 5 * deviation / sqrt(2 * n),
                  "%s: the deviation of %g numbers is %g, Keras has %g", name, n, m.deviation, deviation);
    ck_assert_msg(m.most <= limit + mean, "%s: %g lies beyond %g", name, m.most, limit);
    if (isfinite(limit) && n > 1000)
        ck_assert_msg(m.most - mean >= 0.97 * limit, "%s: the largest is %g, the limit %g", name, m.most,
                      limit);
}

START_TEST(initial_values_are_keras_s)
{
    static char text[1 << 16];
    FILE *file = fopen("tests/keras/initializers.json", "r");
    int cases = 0;
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    for (char *at = strstr(text, "\"name\""); at; cases++) {
        char *next = strstr(at + 1, "\"name\"");
        char kept = next ? *next : 0;
        if (next)
            *next = 0;
        check_case(at);
        if (next)
            *next = kept;
        at = next;
    }
    ck_assert_int_eq(cases, 29);
}
END_TEST

/* Rows or columns, whichever are fewer, are orthonormal, times the scale; any part is that of the whole. */
static void check_orthogonal(iso_shape shape, int64_t rows, int64_t columns)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_initializer init = {.kind = ISO_INIT_ORTHOGONAL, .scale = 2};
    iso_variable *variable = iso_variable_create(graph, "v", ISO_F64, shape, init, true);
    iso_box box = iso_box_whole(&shape), part = box;
    double q[512], some[512];
    ck_assert_int_eq(iso_initialize(variable, 1337, &box, q), ISO_OK);
    int64_t few = rows < columns ? rows : columns, many = rows < columns ? columns : rows;
    int64_t along = rows < columns ? 1 : columns, across = rows < columns ? columns : 1;
    for (int64_t i = 0; i < few; i++)
        for (int64_t j = 0; j < few; j++) {
            double sum = 0;
            for (int64_t k = 0; k < many; k++)
                sum += q[i * across + k * along] * q[j * across + k * along];
            ck_assert_msg(fabs(sum - (i == j ? 4 : 0)) < 1e-12, "%lld and %lld: %g", (long long)i,
                          (long long)j, sum);
        }
    part.offset[0] = 1;
    part.extent[0] = 2;
    ck_assert_int_eq(iso_initialize(variable, 1337, &part, some), ISO_OK);
    int64_t row = iso_box_count(&box) / shape.dim[0];
    ck_assert_mem_eq(some, q + row, (size_t)(2 * row) * sizeof *q);
    iso_graph_destroy(graph);
}

START_TEST(matrices_to_begin_with)
{
    check_orthogonal(ISO_SHAPE(5, 9), 5, 9);
    check_orthogonal(ISO_SHAPE(9, 5), 9, 5);
    check_orthogonal(ISO_SHAPE(3, 2, 4, 6), 24, 6);
    check_orthogonal(ISO_SHAPE(3, 2, 12), 6, 12);
    moments m = measure("v", (iso_initializer){.kind = ISO_INIT_IDENTITY, .scale = 3}, ISO_SHAPE(4, 6));
    ck_assert(m.mean == 0.5 && m.most == 3);
}
END_TEST

START_TEST(settings_of_initializers_are_taken)
{
    iso_shape shape = ISO_SHAPE(300, 200);
    moments m = measure("v", (iso_initializer){.kind = ISO_INIT_CONSTANT, .value = -3}, shape);
    ck_assert(m.mean == -3 && m.deviation == 0);
    m = measure("v", (iso_initializer){.kind = ISO_INIT_RANDOM_UNIFORM, .low = 1, .high = 3}, shape);
    ck_assert(fabs(m.mean - 2) < 0.02 && fabs(m.deviation - 2 / sqrt(12)) < 0.02 && m.most < 3 &&
              m.most > 2.99);
    m = measure("v", (iso_initializer){.kind = ISO_INIT_RANDOM_NORMAL, .mean = 5, .stddev = 2}, shape);
    ck_assert(fabs(m.mean - 5) < 0.05 && fabs(m.deviation - 2) < 0.05);
    iso_initializer scaling = {.kind = ISO_INIT_VARIANCE_SCALING, .scale = 2};
    m = measure("v", scaling, shape);
    ck_assert(fabs(m.deviation - sqrt(2.0 / 300)) < 1e-3);
    scaling.mode = ISO_FAN_OUT;
    scaling.distribution = ISO_FAN_NORMAL;
    m = measure("v", scaling, shape);
    ck_assert(fabs(m.deviation - sqrt(2.0 / 200)) < 1e-3 && m.most > 0.3);
    scaling.mode = ISO_FAN_AVERAGE;
    scaling.distribution = ISO_FAN_UNIFORM;
    m = measure("v", scaling, shape);
    ck_assert(fabs(m.deviation - sqrt(2.0 / 250)) < 1e-3 && m.most < sqrt(6.0 / 250));
    m = measure("v", (iso_initializer){.kind = ISO_INIT_RANDOM_NORMAL, .mean = 5, .stddev = 2}, shape);
    moments other =
        measure("w", (iso_initializer){.kind = ISO_INIT_RANDOM_NORMAL, .mean = 5, .stddev = 2}, shape);
    ck_assert(m.mean != other.mean); /* another path, other numbers */
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("pool", 0, every_thread_runs_once_a_round, a_pool_may_end_before_its_first_round,
                  every_block_of_a_loop_runs_once, initial_values_are_keras_s,
                  settings_of_initializers_are_taken, matrices_to_begin_with))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
