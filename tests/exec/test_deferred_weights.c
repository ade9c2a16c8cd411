/* Steps that leave it to the next one to send new weights to other hosts: the bits are those of steps that send
 * them, also where another function, another batch size or a read comes between.
 * Ranks: 1, 3, 5 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/function/deferred_weights.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/exec/value/value.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

enum { ROWS = 17, STEPS = 6 };

static iso_context *ctx;

static void begin(trial *t, const net_kind *kind, const char *mesh)
{
    iso_optimizer adam = iso_adam(0.01);
    trial_begin(t, ctx, kind, ISO_F32, ROWS);
    trial_mesh(t, mesh, NULL);
    trial_make(t, NULL, &adam);
}

/* Trains; `leave`: in the third step an inference comes between, in the fourth the whole state is read. */
static double *trained(const net_kind *kind, const char *mesh, bool leave, double *loss, int64_t *count)
{
    trial t;
    begin(&t, kind, mesh);
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
            double *sent = trained(&net_kinds[k], meshes[m], false, loss[0], &count[0]);
            double *left = trained(&net_kinds[k], meshes[m], true, loss[1], &count[1]);
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

/* The part of every variable that the rank's first slot holds, one after another. */
static double *own_parts(const trial *t, int64_t *count)
{
    double *values = NULL;
    int slot = iso_rank(ctx); /* of a mesh with a slot for each rank */
    *count = 0;
    for (int i = 0; i < iso_graph_variable_count(t->net.graph); i++) {
        iso_variable *variable = iso_graph_variable(t->net.graph, i);
        iso_box box;
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
        begin(&t, &net_kinds[0], mesh);
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

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "1", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("left weights", 0, deferred_weights_change_no_bits, weights_are_left_until_they_are_sent))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
