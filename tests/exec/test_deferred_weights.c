/* Steps that leave it to the next one to send new weights to other hosts: the bits are those of steps that send
 * them, also where another function, another batch size or a read comes between. Steps that only accumulate gradients
 * send none, also after an error and where the host sets the iteration: all hosts have the same weights.
 * Ranks: 1, 3   More: 5 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/device.h"
#include "runtime/exec/function/deferred_weights.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/exec/value/value.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

enum { ROWS = 17, STEPS = 6 };

static iso_context *ctx;

static void begin(trial *t, const net_kind *kind, const char *mesh, int accumulation)
{
    iso_optimizer adam = iso_adam(0.01, .accumulation = accumulation, .use_ema = true,
                                  .ema_overwrite_frequency = accumulation > 1 ? 0 : 3);
    trial_begin(t, ctx, kind, ISO_F32, ROWS);
    trial_mesh(t, mesh, NULL);
    trial_make(t, NULL, &adam);
}

/* Trains; `leave`: in the third step an inference comes between, in the fourth the whole state is read. */
static double *trained(const net_kind *kind, const char *mesh, int accumulation, bool leave, double *loss,
                       int64_t *count)
{
    trial t;
    begin(&t, kind, mesh, accumulation);
    for (int i = 0; i < STEPS; i++) {
        iso_function_defer_weights(t.train, leave && i < STEPS - 1);
        loss[i] = trial_step(&t, i);
        if (i == 2)
            loss[STEPS] = trial_infer(&t, i);
        if (i == 3)
            free(trial_weights(&t, count));
    }
    double *weights = trial_weights(&t, count);
    trial_end(&t);
    return weights;
}

START_TEST(deferred_weights_change_no_bits)
{
    const char *meshes[] = {"data=5", "data=8"};
    for (int k = 0; net_kinds[k].name; k++)
        for (int m = 0; m < 2; m++) {
            double loss[2][STEPS + 1];
            int64_t count[2];
            int accumulation = 1 + k % 3;
            double *sent = trained(&net_kinds[k], meshes[m], accumulation, false, loss[0], &count[0]);
            double *left = trained(&net_kinds[k], meshes[m], accumulation, true, loss[1], &count[1]);
            ck_assert_int_eq(count[0], count[1]);
            ck_assert_msg(memcmp(loss[0], loss[1], sizeof loss[0]) == 0, "%s on %s: other losses",
                          net_kinds[k].name, meshes[m]);
            ck_assert_msg(memcmp(sent, left, (size_t)count[0] * sizeof *sent) == 0, "%s on %s: other weights",
                          net_kinds[k].name, meshes[m]);
            free(sent);
            free(left);
        }
}
END_TEST

/* The part of every weight that the rank's first slot holds, one after another. */
static double *own_parts(const trial *t, int64_t *count)
{
    double *values = NULL;
    int slot = iso_rank(ctx); /* of a mesh with a slot for each rank */
    *count = 0;
    for (int i = 0; i < iso_graph_variable_count(t->net.graph); i++) {
        iso_variable *variable = iso_graph_variable(t->net.graph, i);
        iso_box box;
        if (!iso_variable_trainable(variable))
            continue;
        trial_ok(t, iso_variable_box(variable, slot, &box));
        int64_t n = iso_box_count(&box);
        values = realloc(values, (size_t)(*count + n + 1) * sizeof *values);
        trial_ok(t, iso_variable_read_part(variable, slot, &box, ISO_F64, values + *count));
        *count += n;
    }
    return values;
}

/* Something is left: on several hosts what a rank reads itself changes when the weights are sent, and only then. */
START_TEST(weights_are_left_until_they_are_sent)
{
    char mesh[32];
    snprintf(mesh, sizeof mesh, "data=%d", iso_ranks(ctx));
    for (int leave = 0; leave < 2; leave++) {
        trial t;
        int64_t count;
        begin(&t, &net_kinds[0], mesh, 1);
        iso_function_defer_weights(t.train, leave);
        for (int i = 0; i < 2; i++)
            trial_step(&t, i);
        double *before = own_parts(&t, &count);
        iso_graph_send_deferred_weights(t.net.graph);
        double *after = own_parts(&t, &count);
        double differ = memcmp(before, after, (size_t)count * sizeof *before) != 0;
        check_ok(iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_F64, &differ, 1));
        ck_assert_int_eq(differ > 0, leave && iso_hosts(ctx) > 1);
        free(before);
        free(after);
        trial_end(&t);
    }
}
END_TEST

/* ---- accumulation ---- */

enum { OVER = 3 };

static double bytes_so_far(const trial *t)
{
    double flops, bytes;
    iso_function_counted(t->train, &flops, &bytes);
    check_ok(iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_F64, &bytes, 1));
    return bytes;
}

static iso_status read_nothing(const iso_batch *batch, int component, int64_t begin, int64_t count,
                               iso_dtype dtype, void *out)
{
    (void)batch, (void)component, (void)begin, (void)count, (void)dtype, (void)out;
    return iso_error(ISO_IO, "the rows are gone");
}

/* A step that changes nothing. */
static void fail_step(trial *t)
{
    double loss;
    iso_batch bad = {.rows = t->rows, .read = read_nothing, .n_components = t->net.inputs};
    for (int i = 0; i < t->net.inputs; i++) {
        iso_shape row = *iso_tensor_shape(t->net.input[i]);
        for (int d = 0; d + 1 < row.rank; d++)
            row.dim[d] = row.dim[d + 1];
        row.rank--;
        bad.shape[i] = row;
        bad.dtype[i] = iso_tensor_dtype(t->net.input[i]);
    }
    ck_assert_int_eq(iso_function_run(t->train, &bad, &loss), ISO_IO);
    iso_graph_send_deferred_weights(t->net.graph);
}

static void set_iteration(const trial *t, double value)
{
    check_ok(iso_variable_assign(iso_graph_find_variable(t->net.graph, "optimizer/iteration"), &value, 1));
}

/* As a checkpoint that is restored does, which every rank reads. */
static void write_iteration(const trial *t, int64_t value)
{
    iso_state_shards shards;
    check_ok(iso_graph_shards(t->net.graph, &shards));
    for (int i = 0; i < shards.count; i++)
        if (strcmp(shards.shards[i].path, "optimizer/iteration") == 0)
            check_ok(iso_shard_write(&shards.shards[i], &value));
    iso_state_shards_free(&shards);
    check_ok(iso_agree(ctx, ISO_OK));
}

/* All ranks hold all weights, with the same bits. */
static void check_copies(const trial *t)
{
    int64_t count;
    iso_graph_send_deferred_weights(t->net.graph);
    double *mine = own_parts(t, &count), *first = malloc((size_t)count * sizeof *first);
    memcpy(first, mine, (size_t)count * sizeof *first);
    check_ok(iso_broadcast_from(ctx, 0, first, (size_t)count * sizeof *first));
    ck_assert_msg(memcmp(mine, first, (size_t)count * sizeof *first) == 0, "rank %d has other weights",
                  iso_rank(ctx));
    free(first);
    free(mine);
}

/* Steps from `iteration` on: each takes the bytes of an update or of an accumulation. Weights that a step leaves are
 * counted with the next one. */
static void check_steps(trial *t, int64_t iteration, int steps)
{
    iso_plan_facts facts;
    double planned = 0, before = bytes_so_far(t);
    check_ok(iso_function_facts(t->train, t->rows, &facts));
    for (int i = 0; i < steps; i++) {
        trial_step(t, i);
        planned += (iteration + i + 1) % OVER ? facts.accumulation_bytes : facts.exchanged_bytes;
    }
    iso_graph_send_deferred_weights(t->net.graph);
    double counted = bytes_so_far(t) - before;
    ck_assert_msg(counted == planned, "iterations %d to %d: %.0f bytes, not %.0f", (int)iteration,
                  (int)iteration + steps - 1, counted, planned);
    if (iso_hosts(ctx) > 1)
        ck_assert(facts.accumulation_bytes < facts.exchanged_bytes);
    check_copies(t);
}

/* Each step alone, so that it is known which one sends; then as they go on after what changes the iteration. */
static void check_accumulation(trial *t)
{
    for (int i = 0; i < 2 * OVER; i++)
        check_steps(t, i, 1);
    check_steps(t, 2 * OVER, OVER - 1);
    fail_step(t);
    check_steps(t, 3 * OVER - 1, 2);
    set_iteration(t, 40);
    check_steps(t, 40, 4);
    write_iteration(t, 2);
    check_steps(t, 2, 5);
    trial_infer(t, 0);
    check_steps(t, 7, 1);
    fail_step(t);
    check_steps(t, 8, 4);
}

START_TEST(steps_that_accumulate_send_no_weights)
{
    char mesh[32];
    snprintf(mesh, sizeof mesh, "data=%d", iso_ranks(ctx));
    for (int leave = 0; leave < 2; leave++) {
        trial t;
        begin(&t, net_kind_find("mlp"), mesh, OVER);
        iso_function_defer_weights(t.train, leave);
        check_accumulation(&t);
        trial_end(&t);
    }
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "1", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("left weights", 0, deferred_weights_change_no_bits, weights_are_left_until_they_are_sent,
                  steps_that_accumulate_send_no_weights))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
