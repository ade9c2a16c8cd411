/* No pretence: what steps compute and move, as counted at run time, against formulas. A slot that computes
 * what a layout lets it share, or takes what could stay where it is, fails.
 * Ranks: 1, 4 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/function/inspect.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

enum { ROWS = 24, IN = 40, HIDDEN = 64, OUT = 16, STEPS = 3 };

/* Two dense layers and the mean square of their result. */
static void pair(net *n)
{
    n->input[n->inputs++] = iso_input(n->graph, "x", ISO_F32, ISO_SHAPE(IN));
    iso_tensor *y = iso_dense(n->input[0], HIDDEN, .activation = ISO_RELU, .name = "d1");
    n->loss = iso_mean(iso_square(iso_dense(y, OUT, .name = "d2")));
}

static const net_kind pair_kind = {"pair", pair};

/* The first without bias and activation. */
static void products(net *n)
{
    n->input[n->inputs++] = iso_input(n->graph, "x", ISO_F32, ISO_SHAPE(IN));
    iso_tensor *y = iso_dense(n->input[0], HIDDEN, .no_bias = true, .name = "d1");
    n->loss = iso_mean(iso_square(iso_dense(y, OUT, .name = "d2")));
}

static const net_kind products_kind = {"products", products};

/* Forward, the kernels' gradients, and the gradient of the second layer's input. */
static const double product_flops = 2.0 * ROWS * (2 * IN * HIDDEN + 3 * HIDDEN * OUT);

typedef struct counts {
    double flops, bytes; /* of one step, of all slots */
    iso_plan_facts facts;
} counts;

static counts count(const net_kind *kind, const char *mesh, const char *const *layouts)
{
    trial t;
    counts c = {0};
    iso_optimizer sgd = iso_sgd(0.1);
    double mine[2], all[2 * 64];
    trial_begin(&t, ctx, kind, ISO_F32, ROWS);
    trial_mesh(&t, mesh, NULL);
    for (int i = 0; layouts && layouts[i]; i += 2)
        trial_layout(&t, layouts[i], layouts[i + 1]);
    trial_make(&t, layouts ? "data" : NULL, &sgd);
    for (int i = 0; i < STEPS; i++)
        trial_step(&t, i);
    check_ok(iso_function_facts(t.train, ROWS, &c.facts));
    iso_plan_report *report;
    check_ok(iso_function_report(t.train, ROWS, &report));
    ck_assert_msg(report->bytes == c.facts.exchanged_bytes && report->flops == c.facts.flops,
                  "%s: the report states %.0f bytes and %.0f operations, the exchanges %.0f and %.0f", mesh,
                  report->bytes, report->flops, c.facts.exchanged_bytes, c.facts.flops);
    iso_plan_report_destroy(report);
    iso_function_counted(t.train, &mine[0], &mine[1]);
    check_ok(iso_gather_all(ctx, mine, sizeof mine, all));
    for (int r = 0; r < iso_ranks(ctx); r++) {
        c.flops += all[2 * r] / STEPS;
        c.bytes += all[2 * r + 1] / STEPS;
    }
    trial_end(&t);
    ck_assert(fabs(c.flops - c.facts.flops) < 1e-6 * c.flops);
    ck_assert(c.bytes == c.facts.exchanged_bytes);
    return c;
}

/* Bytes by which the slots of `group` reduce and update so many elements: each takes the others' addends of
 * its part, and, of slots on other hosts, their new parts. Slots are in blocks, as many on each host. */
static double update_bytes(double elements, int group, int hosts)
{
    double addends = elements * (group - 1);
    return sizeof(float) * (addends + elements * (hosts - 1));
}

/* The sum of faults over all slots, and the loss over those that hold parts of it: float64, taken by every
 * slot. */
static double scalar_bytes(int slots, int group)
{
    return sizeof(double) * (slots * (slots - 1.0) + slots * (group - 1.0));
}

/* Where all slots share memory a slot may take, instead of the others' addends of its part of the kernels'
 * gradients, what these are products of: at most all rows of the others in its group, of both kernels. */
static double product_bytes(int slots, int group)
{
    double rows = (double)ROWS * (group - 1) / group;
    return iso_hosts(ctx) > 1 ? 0 : sizeof(float) * slots * rows * (IN + HIDDEN + HIDDEN + OUT);
}

static const double parameters = IN * HIDDEN + HIDDEN + HIDDEN * OUT + OUT;

/* ---- data parallel ---- */

START_TEST(data_parallel_shares_all_work)
{
    double one = count(&pair_kind, iso_ranks(ctx) == 1 ? "data=1" : "data=4", NULL).flops;
    ck_assert(one >= product_flops && one <= 1.1 * product_flops);
    for (int slots = 4; slots <= 12; slots += 4) {
        char mesh[32];
        snprintf(mesh, sizeof mesh, "data=%d", slots);
        double many = count(&pair_kind, mesh, NULL).flops;
        ck_assert_msg(fabs(many - one) <= 8 * slots, "%d slots count %.0f operations, fewer slots %.0f",
                      slots, many, one);
    }
}
END_TEST

/* With one slot on a host each slot takes 2 (n - 1) / n of the gradients' bytes, and scalars. */
START_TEST(data_parallel_moves_what_an_all_reduce_moves)
{
    int hosts = iso_hosts(ctx);
    ck_assert_int_eq(hosts, iso_ranks(ctx));
    double four = count(&pair_kind, "data=4", NULL).bytes;
    double wanted = update_bytes(parameters, 4, hosts) + scalar_bytes(4, 4);
    /* on one host products of small batches are made from the others' inputs, where those are smaller */
    ck_assert_msg(hosts == 1 ? four <= wanted : four == wanted,
                  "4 slots on %d hosts take %.0f bytes instead of %.0f", hosts, four, wanted);
    if (hosts == 4) {
        double per_slot = (four - scalar_bytes(4, 4)) / 4;
        ck_assert(per_slot == 2 * 3.0 / 4 * sizeof(float) * parameters);
    }
    double eight = count(&pair_kind, "data=8", NULL).bytes;
    wanted = update_bytes(parameters, 8, hosts) + scalar_bytes(8, 8);
    ck_assert_msg(hosts == 1 ? eight <= wanted : eight == wanted,
                  "8 slots on %d hosts take %.0f bytes instead of %.0f", hosts, eight, wanted);
}
END_TEST

/* ---- model parallel ---- */

static const char *const columns_then_rows[] = {"d1/kernel", "-, model", "d1/bias", "model",
                                                "d2/kernel", "model, -", NULL};

/* The pair of Megatron: the hidden layer stays sharded, one sum of the result forward, none backward. */
START_TEST(a_sharded_pair_shares_all_work)
{
    counts c = count(&pair_kind, "data=2,model=4", columns_then_rows);
    double one = count(&pair_kind, iso_ranks(ctx) == 1 ? "data=1" : "data=4", NULL).flops;
    /* the loss and the second bias are the same on the slots along "model" */
    ck_assert_msg(c.flops <= one + 3.0 * ROWS * OUT * 8, "%.0f operations, one slot %.0f", c.flops, one);
    c = count(&pair_kind, "data=1,model=8", columns_then_rows);
    ck_assert_msg(c.flops <= one + 7.0 * ROWS * OUT * 8, "%.0f operations, one slot %.0f", c.flops, one);
}
END_TEST

START_TEST(a_sharded_pair_moves_one_sum)
{
    int model = 4, data = 2, slots = 8;
    double bytes = count(&pair_kind, "data=2,model=4", columns_then_rows).bytes;
    double shards = IN * HIDDEN + HIDDEN + HIDDEN * OUT, copies = OUT;
    double result =
        sizeof(float) * ROWS * OUT * model * (model - 1.0); /* every slot takes the others' addends */
    double most = result + update_bytes(shards, data, iso_hosts(ctx) > 1 ? 2 : 1) +
                  update_bytes(copies, slots, iso_hosts(ctx)) + scalar_bytes(slots, data) +
                  product_bytes(slots, data);
    ck_assert_msg(bytes <= most, "%.0f bytes instead of %.0f", bytes, most);
}
END_TEST

/* Weights sharded over the batch's axis are gathered where they are used, and nothing else is. */
START_TEST(sharded_weights_are_gathered_once_each_way)
{
    static const char *const layouts[] = {"d1/kernel", "-, data", "d1/bias", "data", "d2/kernel",
                                          "data, -",   "d2/bias", "data",    NULL};
    counts c = count(&pair_kind, "data=4", layouts);
    double one = count(&pair_kind, iso_ranks(ctx) == 1 ? "data=1" : "data=4", NULL).flops;
    ck_assert_msg(c.flops <= 1.001 * one, "%.0f operations, one slot %.0f", c.flops, one);
    /* a gather is 3 times the elements over 4 slots, a scatter of gradients as much; d2's kernel is dropped
     * after the forward pass and gathered again for the slopes */
    double most = sizeof(float) * (parameters * 2 + HIDDEN * OUT) * 3 + scalar_bytes(4, 4);
    ck_assert_msg(c.bytes <= most, "%.0f bytes instead of %.0f", c.bytes, most);
}
END_TEST

/* A sum that is wanted in other parts is scattered first: at once every slot would take all four addends of a
 * quarter of the rows. Then 3.5 of an eighth (half of the slots have none of theirs), and the other eighth.
 */
START_TEST(a_sum_goes_by_a_stop)
{
    iso_optimizer sgd = iso_sgd(0.1);
    iso_plan_facts facts;
    trial t;
    trial_begin(&t, ctx, &products_kind, ISO_F32, ROWS);
    trial_mesh(&t, "data=2,model=4", NULL);
    trial_layout(&t, "d1/kernel", "model, -");
    trial_layout(&t, "d1/output", "model, -");
    trial_make(&t, "data", &sgd);
    trial_infer(&t, 0);
    check_ok(iso_function_facts(t.infer, ROWS, &facts));
    double sum = sizeof(float) * ROWS * HIDDEN * (3.5 + 1);
    ck_assert_msg(facts.exchanged_bytes == sum + scalar_bytes(8, 4), "%.0f bytes instead of %.0f and %.0f",
                  facts.exchanged_bytes, sum, scalar_bytes(8, 4));
    trial_end(&t);
}
END_TEST

/* ---- convolutions ---- */

START_TEST(convolutions_share_all_work)
{
    static const char *const filters[] = {"c2/kernel", "-, -, -, model", "c2/bias", "model", NULL};
    double one = count(net_kind_find("convnet"), "data=4", NULL).flops;
    double eight = count(net_kind_find("convnet"), "data=8", NULL).flops;
    ck_assert_msg(eight <= 1.01 * one, "8 slots count %.0f operations, 4 count %.0f", eight, one);
    double sharded = count(net_kind_find("convnet"), "data=2,model=2", filters).flops;
    ck_assert_msg(sharded < 2 * one, "%.0f operations with sharded filters, %.0f without", sharded, one);
}
END_TEST

/* ---- attention ---- */

static void attention(net *n)
{
    n->input[n->inputs++] = iso_input(n->graph, "x", ISO_F32, ISO_SHAPE(6, 8));
    n->loss = iso_mean(iso_square(iso_multi_head_attention(n->input[0], n->input[0], 1, 4, .name = "one")));
}

static const net_kind attention_kind = {"attention", attention};

/* Each slot computes all weights for its features of the values. `count` compares with the plan. */
START_TEST(attention_with_sharded_values_repeats_its_weights)
{
    static const char *const values[] = {"one/value/kernel", "-, -, model", NULL};
    double one = count(&attention_kind, "data=4", NULL).flops;
    double sharded = count(&attention_kind, "data=2,model=2", values).flops;
    ck_assert_msg(sharded > one, "%.0f operations with sharded values, %.0f without", sharded, one);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "1", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("facts", 0, data_parallel_shares_all_work, data_parallel_moves_what_an_all_reduce_moves,
                  a_sharded_pair_shares_all_work, a_sharded_pair_moves_one_sum,
                  sharded_weights_are_gathered_once_each_way, a_sum_goes_by_a_stop,
                  convolutions_share_all_work, attention_with_sharded_values_repeats_its_weights))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
