/* Activation checkpointing: networks of every kind of layer, computed again for the backward pass, have the bits of
 * losses, weights and predictions that they have without, on 1, 2, 3, 5 and 8 slots, with random numbers, batch
 * statistics and sharded weights; the backward pass reads nothing that was to be computed again. Ranks: 1, 3 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/graph_impl.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

enum { ROWS = 13, STEPS = 2 };

/* The network that `again` builds within a recomputation. */
static const net_kind *plain;

static void build_again(net *n)
{
    iso_recompute_begin(n->graph);
    plain->build(n);
    iso_recompute_end(n->graph);
}

static const char *const layouts[] = {"d1/kernel", "-, model", "d2/kernel", "model, -",
                                      "d/kernel",  "model, -", "q/kernel",  "-, model",
                                      "a/kernel",  "-, model", NULL};

static void begin(trial *t, bool again, const char *mesh, int zero)
{
    const net_kind within = {plain->name, build_again};
    iso_optimizer adam = iso_adam(1e-3);
    bool model = strstr(mesh, "model") != NULL;
    trial_begin(t, ctx, again ? &within : plain, ISO_F32, ROWS);
    t->zero = zero;
    trial_mesh(t, mesh, NULL);
    for (int i = 0; model && layouts[i]; i += 2)
        if (iso_graph_find_variable(t->net.graph, layouts[i]))
            trial_layout(t, layouts[i], layouts[i + 1]);
    trial_make(t, model || zero ? "data" : NULL, &adam);
}

static void same_doubles(const trial *t, const char *what, const double *a, const double *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(memcmp(&a[i], &b[i], sizeof *a) == 0,
                      "%s, %s: %s %lld computed again is %.17g, else %.17g", plain->name, t->what, what,
                      (long long)i, a[i], b[i]);
}

static void check_mesh(const char *mesh, int zero)
{
    trial once, again;
    double loss[STEPS + 1], other[STEPS + 1];
    int64_t count, others;
    begin(&once, false, mesh, zero);
    begin(&again, true, mesh, zero);
    for (int i = 0; i < STEPS; i++) {
        loss[i] = trial_step(&once, i);
        other[i] = trial_step(&again, i);
    }
    loss[STEPS] = trial_infer(&once, 0);
    other[STEPS] = trial_infer(&again, 0);
    same_doubles(&again, "loss", other, loss, STEPS + 1);
    double *weights = trial_weights(&once, &count), *same = trial_weights(&again, &others);
    ck_assert_int_eq(count, others);
    same_doubles(&again, "weight", same, weights, count);
    free(weights);
    free(same);
    trial_end(&once);
    trial_end(&again);
}

START_TEST(no_bit_changes)
{
    for (plain = net_kinds; plain->name; plain++) {
        if (iso_ranks(ctx) == 1) {
            check_mesh("data=1", 0);
            check_mesh("data=2", 0);
            check_mesh("data=3", 0);
        }
        check_mesh("data=5", 3);
        check_mesh("data=4,model=2", 0);
    }
}
END_TEST

static bool is_kept(const iso_op *op)
{
    return op->recomputation == 0 || op->type == &iso_op_input || op->type == &iso_op_variable ||
           op->type == &iso_op_constant;
}

/* Gradients read what was computed again. */
START_TEST(gradients_read_what_is_computed_again)
{
    for (plain = net_kinds; plain->name; plain++) {
        trial t;
        int again = 0;
        begin(&t, true, "data=3", 0);
        for (int k = 0; k < t.net.graph->n_ops; k++) {
            const iso_op *op = t.net.graph->ops[k];
            again += op->again != NULL;
            for (int i = 0; op->backward_of && i < op->n_inputs; i++)
                ck_assert_msg(is_kept(op->inputs[i]->producer), "%s: %s reads an activation of %s",
                              plain->name, op->type->name, op->inputs[i]->producer->type->name);
        }
        ck_assert_msg(again > 0, "%s: nothing is computed again", plain->name);
        trial_end(&t);
    }
}
END_TEST

/* The outermost scope counts; what was computed outside is read as it is. */
START_TEST(scopes_nest)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(4)), *before = iso_exp(x), *gradient = NULL;
    iso_recompute_begin(graph);
    iso_tensor *a = iso_exp(before);
    iso_recompute_begin(graph);
    iso_tensor *b = iso_exp(a);
    iso_recompute_end(graph);
    iso_tensor *c = iso_exp(b);
    iso_recompute_end(graph);
    iso_tensor *loss = iso_sum(iso_exp(c));
    iso_gradients(loss, &x, 1, &gradient);
    ck_assert_int_eq(iso_graph_error(graph), ISO_OK);
    ck_assert_int_eq(a->producer->recomputation, b->producer->recomputation);
    ck_assert_int_eq(a->producer->recomputation, c->producer->recomputation);
    ck_assert_int_eq(loss->producer->recomputation, 0);
    int again = 0;
    for (int k = loss->producer->id + 1; k < graph->n_ops; k++) {
        const iso_op *op = graph->ops[k];
        again += op->again != NULL;
        if (op->again == a->producer)
            ck_assert_ptr_eq(op->inputs[0], before);
        if (op->again == b->producer)
            ck_assert_ptr_eq(op->inputs[0]->producer->again, a->producer);
    }
    ck_assert_int_eq(again, 3);
    iso_recompute_end(graph);
    check_refused(iso_graph_error(graph), "iso_recompute_end without iso_recompute_begin");
    iso_graph_destroy(graph);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("recomputation", 0, no_bit_changes, gradients_read_what_is_computed_again, scopes_nest))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
