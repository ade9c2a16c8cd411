/* State from outside of steps: variables are read and assigned, shards cover every element once, the
 * fingerprint knows no layout, and initial values follow Keras's initializers.
 * Ranks: 1, 3, 8 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/device.h"
#include "runtime/base/hash.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/exec/memory/runtime_impl.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

static void begin(trial *t, bool spread)
{
    const int alone[1] = {0};
    iso_optimizer adam = iso_adam(0.01);
    trial_begin(t, ctx, net_kind_find("mlp"), ISO_F32, 11);
    trial_mesh(t, spread ? "data=2,model=4" : "data=1", spread ? NULL : alone);
    if (spread) {
        trial_layout(t, "a/kernel", "data, model");
        trial_layout(t, "a/bias", "model");
        trial_layout(t, "b/kernel", "model+data, -");
        trial_layout(t, "c/kernel", "-, model");
        trial_layout(t, "d/kernel", "-, data");
    }
    trial_make(t, spread ? "data" : NULL, &adam);
}

static int64_t elements(const iso_variable *variable)
{
    int64_t count;
    check_ok(iso_shape_count(iso_variable_shape(variable), &count));
    return count;
}

/* ---- reading and assigning ---- */

START_TEST(variables_are_read_as_they_were_assigned)
{
    trial t;
    begin(&t, true);
    for (int v = 0; v < iso_graph_variable_count(t.net.graph); v++) {
        iso_variable *variable = iso_graph_variable(t.net.graph, v);
        int64_t count = elements(variable);
        double *in = malloc((size_t)count * sizeof *in), *out = malloc((size_t)count * sizeof *out);
        for (int64_t i = 0; i < count; i++)
            in[i] = (double)(i - v) / 4;
        if (iso_variable_dtype(variable) == ISO_I64)
            in[0] = 5;
        check_ok(iso_variable_assign(variable, in, count));
        check_ok(iso_variable_read(variable, out, count));
        for (int64_t i = 0; i < count; i++)
            ck_assert_msg(in[i] == out[i], "%s: element %lld is %g, was assigned %g",
                          iso_variable_path(variable), (long long)i, out[i], in[i]);
        free(in);
        free(out);
    }
    trial_end(&t);
}
END_TEST

START_TEST(ranks_assign_the_same_values)
{
    trial t;
    double values[5] = {1, 2, 3, 4, 5}, now[5];
    begin(&t, true);
    iso_variable *bias = iso_graph_find_variable(t.net.graph, "d/bias");
    check_ok(iso_variable_assign(bias, values, 5));
    values[4] += iso_rank(ctx) == iso_ranks(ctx) - 1;
    if (iso_ranks(ctx) > 1)
        check_refused_naming(iso_variable_assign(bias, values, 5),
                             "differs from rank 0 in the values of a variable: rank 0 has 'd/bias: 1..,",
                             "has 'd/bias: 1..,");
    values[4] = 5;
    check_ok(iso_variable_read(bias, now, 5));
    ck_assert(memcmp(now, values, sizeof now) == 0);
    trial_end(&t);
}
END_TEST

START_TEST(wrong_counts_are_refused)
{
    trial t;
    double values[1000];
    begin(&t, true);
    iso_variable *bias = iso_graph_find_variable(t.net.graph, "d/bias");
    ck_assert_int_eq(iso_variable_read(bias, values, 6), ISO_INVALID);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "variable 'd/bias' has 5 elements, 6 were given"));
    ck_assert_int_eq(iso_variable_assign(bias, values, 4), ISO_INVALID);
    trial_end(&t);
}
END_TEST

START_TEST(variables_need_a_function)
{
    double value;
    iso_state_shards shards;
    iso_graph *graph = iso_graph_create(ctx);
    iso_variable *variable = iso_variable_create(graph, "v", ISO_F32, ISO_SCALAR, (iso_initializer){0}, true);
    ck_assert_int_eq(iso_variable_read(variable, &value, 1), ISO_INVALID);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "'v'"));
    ck_assert_int_eq(iso_graph_shards(graph, &shards), ISO_INVALID);
    iso_graph_destroy(graph);
}
END_TEST

/* ---- shards ---- */

enum { KINDS = 3, MOST_ELEMENTS = 4096 };

/* Which variable's value (0) or optimizer slot (1, 2) a path names, as a number of its own. */
static int kind_of(const iso_graph *graph, const char *path, const iso_variable **variable)
{
    static const char *const slots[] = {"momentum", "velocity"};
    char text[256];
    for (int v = 0; v < iso_graph_variable_count(graph); v++) {
        *variable = iso_graph_variable(graph, v);
        if (strcmp(path, iso_variable_path(*variable)) == 0)
            return 0;
        for (int k = 0; k < 2; k++) {
            snprintf(text, sizeof text, "optimizer/adam/%s/%s", iso_variable_path(*variable), slots[k]);
            if (strcmp(path, text) == 0)
                return k + 1;
        }
    }
    ck_abort_msg("a shard has the path '%s'", path);
}

/* Where the counts of a variable's elements begin. */
static int64_t first_count(const iso_graph *graph, const iso_variable *variable, int kind)
{
    int64_t at = 0;
    for (int v = 0; iso_graph_variable(graph, v) != variable; v++)
        at += KINDS * elements(iso_graph_variable(graph, v));
    return at + kind * elements(variable);
}

static void count_shards(const trial *t, const iso_state_shards *shards, int *count)
{
    const iso_variable *variable;
    for (int i = 0; i < shards->count; i++) {
        const iso_state_shard *shard = &shards->shards[i];
        int kind = kind_of(t->net.graph, shard->path, &variable);
        int64_t first = first_count(t->net.graph, variable, kind);
        ck_assert_int_le(shard->begin + shard->count, iso_box_count(&shard->box));
        for (int64_t k = 0; shard->writer && k < shard->count; k++)
            count[first + iso_box_global_index(&shard->box, &shard->shape, shard->begin + k)]++;
    }
}

static void check_counts(const trial *t, const int *mine)
{
    int *all = malloc(sizeof(int) * MOST_ELEMENTS * (size_t)iso_ranks(ctx));
    check_ok(iso_gather_all(ctx, mine, sizeof(int) * MOST_ELEMENTS, all));
    for (int v = 0; v < iso_graph_variable_count(t->net.graph); v++) {
        const iso_variable *variable = iso_graph_variable(t->net.graph, v);
        for (int kind = 0; kind < (iso_variable_trainable(variable) ? KINDS : 1); kind++)
            for (int64_t i = 0; i < elements(variable); i++) {
                int writers = 0;
                for (int r = 0; r < iso_ranks(ctx); r++)
                    writers += all[r * MOST_ELEMENTS + first_count(t->net.graph, variable, kind) + i];
                ck_assert_msg(writers == 1, "element %lld of '%s' (kind %d) has %d writers", (long long)i,
                              iso_variable_path(variable), kind, writers);
            }
    }
    free(all);
}

/* All copies, those without a writer too, hold what the variable has. */
static void check_copies(const iso_state_shards *shards, const iso_graph *graph)
{
    double values[MOST_ELEMENTS];
    for (int v = 0; v < iso_graph_variable_count(graph); v++) {
        iso_variable *variable = iso_graph_variable(graph, v);
        check_ok(iso_variable_read(variable, values, elements(variable)));
        for (int i = 0; i < shards->count; i++) {
            const iso_state_shard *shard = &shards->shards[i];
            double copy[MOST_ELEMENTS];
            if (strcmp(shard->path, iso_variable_path(variable)) != 0)
                continue;
            check_ok(iso_shard_read(shard, copy));
            for (int64_t k = 0; k < shard->count; k++)
                ck_assert(iso_element_get(copy, shard->dtype, k) ==
                          values[iso_box_global_index(&shard->box, &shard->shape, shard->begin + k)]);
        }
    }
}

START_TEST(shards_cover_every_element_once)
{
    static int count[MOST_ELEMENTS];
    trial t;
    iso_state_shards shards;
    begin(&t, true);
    trial_step(&t, 0);
    memset(count, 0, sizeof count);
    check_ok(iso_graph_shards(t.net.graph, &shards));
    count_shards(&t, &shards, count);
    check_counts(&t, count);
    check_copies(&shards, t.net.graph);
    iso_state_shards_free(&shards);
    trial_end(&t);
}
END_TEST

/* ---- fingerprints ---- */

static iso_fingerprint fingerprint(const trial *t)
{
    iso_fingerprint sum;
    check_ok(iso_graph_fingerprint(t->net.graph, &sum));
    return sum;
}

static bool same(iso_fingerprint a, iso_fingerprint b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

START_TEST(fingerprints_know_no_layout)
{
    trial alone, spread;
    double bias[5];
    begin(&alone, false);
    begin(&spread, true);
    iso_fingerprint first = fingerprint(&alone);
    ck_assert(same(first, fingerprint(&spread)));
    iso_variable *variable = iso_graph_find_variable(spread.net.graph, "d/bias");
    check_ok(iso_variable_read(variable, bias, 5));
    bias[3] = nextafterf((float)bias[3], 1);
    check_ok(iso_variable_assign(variable, bias, 5));
    ck_assert(!same(first, fingerprint(&spread)));
    check_ok(iso_variable_assign(iso_graph_find_variable(alone.net.graph, "d/bias"), bias, 5));
    ck_assert(same(fingerprint(&alone), fingerprint(&spread)));
    double swapped[5] = {bias[0], bias[3], bias[2], bias[1], bias[4]}; /* the place counts */
    check_ok(iso_variable_assign(variable, swapped, 5));
    ck_assert(!same(fingerprint(&alone), fingerprint(&spread)));
    trial_end(&alone);
    trial_end(&spread);
}
END_TEST

/* A number that moves to the same place of another variable is another number. */
START_TEST(fingerprints_know_the_variable)
{
    trial t;
    double first[MOST_ELEMENTS], second[MOST_ELEMENTS];
    begin(&t, true);
    iso_variable *a = iso_graph_find_variable(t.net.graph, "a/bias"),
                 *d = iso_graph_find_variable(t.net.graph, "d/bias");
    check_ok(iso_variable_read(a, first, elements(a)));
    check_ok(iso_variable_read(d, second, elements(d)));
    first[2] = 0.25;
    second[2] = 0.75;
    check_ok(iso_variable_assign(a, first, elements(a)));
    check_ok(iso_variable_assign(d, second, elements(d)));
    iso_fingerprint before = fingerprint(&t);
    first[2] = 0.75;
    second[2] = 0.25;
    check_ok(iso_variable_assign(a, first, elements(a)));
    check_ok(iso_variable_assign(d, second, elements(d)));
    ck_assert(!same(before, fingerprint(&t)));
    trial_end(&t);
}
END_TEST

/* ---- initial values ---- */

START_TEST(initial_values_know_no_layout)
{
    trial t;
    begin(&t, true);
    for (int v = 0; v < iso_graph_variable_count(t.net.graph); v++) {
        double values[MOST_ELEMENTS], whole[MOST_ELEMENTS];
        iso_variable *variable = iso_graph_variable(t.net.graph, v);
        iso_box box = iso_box_whole(iso_variable_shape(variable));
        iso_initialize(variable, iso_graph_seed(t.net.graph), &box, whole);
        check_ok(iso_variable_read(variable, values, elements(variable)));
        for (int64_t i = 0; i < elements(variable); i++)
            ck_assert(values[i] == iso_element_get(whole, iso_variable_dtype(variable), i));
    }
    trial_end(&t);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "3", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("state", 0, variables_are_read_as_they_were_assigned, ranks_assign_the_same_values,
                  wrong_counts_are_refused, variables_need_a_function, shards_cover_every_element_once,
                  fingerprints_know_no_layout, fingerprints_know_the_variable, initial_values_know_no_layout))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
