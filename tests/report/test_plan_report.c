/* What plans state, against theory: the bytes that data parallel, a Megatron-style pair of layers and ZeRO
 * move with one slot on a host, and that nothing else is moved; memory by layout; plans for meshes of any
 * size. Ranks: 1 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/exec/function/function.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/graph/ops/network.h"
#include "runtime/graph/optimizer.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

enum { ROWS = 840, IN = 40, HIDDEN = 840 };
static int64_t rows = ROWS;

/* A planned function and what it is made of. */
typedef struct planned {
    iso_graph *graph;
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_plan_report *report;
} planned;

/* layouts: keys and layouts in turn, up to NULL; batch: the axis of the rows; zero: its level, 0: none. */
static planned make(iso_tensor *(*network)(iso_tensor *x), const char *mesh, const char *const *layouts,
                    int zero, int slots_per_host)
{
    planned p;
    check_ok(iso_mesh_abstract(ctx, mesh, &p.mesh));
    check_ok(iso_layout_map_create(p.mesh, &p.map));
    for (int i = 0; layouts && layouts[i]; i += 2)
        check_ok(iso_layout_map_set(p.map, layouts[i], layouts[i + 1]));
    check_ok(iso_model_parallel_create(p.map, &p.distribution));
    if (zero)
        check_ok(iso_distribution_set_zero(p.distribution, zero));
    p.graph = iso_graph_create(ctx);
    iso_graph_distribute(p.graph, p.distribution);
    iso_tensor *x = iso_input(p.graph, "x", ISO_F32, ISO_SHAPE(IN));
    iso_tensor *loss = iso_mean(iso_square(network(x)));
    iso_update *update = iso_minimize(loss, iso_adam(0.01));
    iso_function_options options = {.inputs = {x}, .outputs = {loss}, .updates = {update}, .training = true};
    check_ok(iso_function_plan(p.graph, rows, slots_per_host, &options, &p.report));
    return p;
}

static void drop(planned *p)
{
    iso_plan_report_destroy(p->report);
    iso_graph_destroy(p->graph);
    iso_distribution_destroy(p->distribution);
    iso_layout_map_destroy(p->map);
    iso_mesh_destroy(p->mesh);
}

static iso_tensor *two_layers(iso_tensor *x)
{
    x = iso_dense(x, HIDDEN, .activation = ISO_RELU, .name = "d1");
    return iso_dense(x, HIDDEN, .name = "d2");
}

static const double kernel_1 = IN * HIDDEN, kernel_2 = (double)HIDDEN * HIDDEN, biases = 2 * HIDDEN;

/* Bytes of scalars: the loss, and the count of faults. */
static double scalars(const iso_plan_report *r)
{
    double bytes = 0;
    for (int i = 0; i < r->n_collectives; i++)
        bytes += strcmp(r->collectives[i].kind, "all-reduce") ? 0 : r->collectives[i].bytes;
    return bytes;
}

static void check_bytes(const char *what, const char *mesh, double bytes, double wanted)
{
    ck_assert_msg(fabs(bytes - wanted) <= 1e-9 * wanted, "%s on %s: %.1f bytes a slot instead of %.1f", what,
                  mesh, bytes, wanted);
}

/* 2 (n - 1) / n of the gradients' bytes for each slot, and scalars. */
START_TEST(data_parallel)
{
    static const struct {
        const char *mesh;
        int slots;
    } cases[] = {{"data=1", 1}, {"data=2", 2}, {"data=3", 3}, {"data=8", 8}, {"data=1000", 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int n = cases[i].slots;
        planned p = make(two_layers, cases[i].mesh, NULL, 0, 1);
        double gradients = sizeof(float) * (kernel_1 + kernel_2 + biases);
        ck_assert_int_eq(p.report->n_hosts, n);
        check_bytes("data parallel", cases[i].mesh, (p.report->bytes - scalars(p.report)) / n,
                    2 * (n - 1.0) / n * gradients);
        ck_assert(scalars(p.report) <= 2 * sizeof(double) * n * (n - 1.0));
        drop(&p);
    }
}
END_TEST

static iso_tensor *six_layers(iso_tensor *x)
{
    static const char *const names[] = {"d1", "d2", "d3", "d4", "d5", "d6"};
    for (int i = 0; i < 6; i++) /* 103 kB of weights each, the first 26 kB */
        x = iso_dense(x, 160, .activation = ISO_TANH, .name = names[i]);
    return x;
}

/* Between hosts the gradients of each layer of 64 kB or more leave when the last of them, the kernel's, is
 * computed: the last layer's first. Nothing is left to compute after those of the first layer. On one host all
 * leave at the end of the step. */
START_TEST(gradients_leave_while_slots_compute)
{
    planned p = make(six_layers, "data=4", NULL, 0, 2);
    char layer[] = "d6";
    int end = p.report->n_ops - 1, scatters = 0;
    for (int i = 0; i < p.report->n_collectives; i++) {
        const iso_report_collective *c = &p.report->collectives[i];
        if (strcmp(c->kind, "reduce-scatter"))
            continue;
        scatters++;
        ck_assert_str_eq(c->tensor, "gradients of 2 variables");
        ck_assert_int_eq(c->end, end);
        if (c->begin == end)
            continue;
        const iso_report_op *before = &p.report->ops[c->begin - 1];
        ck_assert_int_eq(p.report->ops[c->begin].kind, ISO_REPORT_BEGIN);
        ck_assert(before->origin.backward && strcmp(before->origin.op, "matmul") == 0);
        ck_assert_msg(strcmp(before->origin.layer, layer) == 0, "after a layer of '%s' instead of '%s'",
                      before->origin.layer, layer);
        ck_assert_int_ge(c->overlaps, 2);
        layer[1]--;
    }
    ck_assert_int_eq(scatters, 6);
    ck_assert_str_eq(layer, "d1");
    drop(&p);
    p = make(six_layers, "data=4", NULL, 0, 4);
    for (int i = 0; i < p.report->n_collectives; i++)
        ck_assert_int_eq(p.report->collectives[i].begin, p.report->n_ops - 1);
    drop(&p);
}
END_TEST

/* ZeRO 2 moves what data parallel does. ZeRO 3 gathers weights twice, so it moves 1.5 times as much - but
 * what the backward pass does not read: biases, and the first kernel, as nobody asks for the input's
 * gradient. */
START_TEST(zero)
{
    for (int n = 2; n <= 8; n *= 2) {
        char mesh[32];
        snprintf(mesh, sizeof mesh, "data=%d", n);
        double part = sizeof(float) * (n - 1.0) / n, all = kernel_1 + kernel_2 + biases;
        planned p = make(two_layers, mesh, NULL, 2, 1);
        check_bytes("ZeRO 2", mesh, (p.report->bytes - scalars(p.report)) / n, part * 2 * all);
        drop(&p);
        p = make(two_layers, mesh, NULL, 3, 1);
        check_bytes("ZeRO 3", mesh, (p.report->bytes - scalars(p.report)) / n, part * (2 * all + kernel_2));
        double times = (p.report->bytes - scalars(p.report)) / n / (part * 2 * all);
        ck_assert_msg(times > 1.45 && times <= 1.5, "ZeRO 3 moves %.3f times what data parallel does", times);
        drop(&p);
    }
}
END_TEST

/* Each slot keeps its part of weights, gradients and optimizer state. */
START_TEST(zero_3_falls_with_the_slots)
{
    planned one = make(two_layers, "data=1", NULL, 0, 1), eight = make(two_layers, "data=8", NULL, 3, 1);
    const iso_report_memory *a = &one.report->slot, *b = &eight.report->slot;
    ck_assert(b->weights < a->weights / 7 && b->gradients < a->gradients / 7 &&
              b->optimizer < a->optimizer / 7);
    drop(&one);
    drop(&eight);
}
END_TEST

/* ---- the pair of Megatron ---- */

static iso_tensor *pair(iso_tensor *x, const char *first, const char *second)
{
    x = iso_dense(x, HIDDEN, .activation = ISO_RELU, .name = first);
    return iso_dense(x, IN, .name = second);
}

static iso_tensor *two_pairs(iso_tensor *x)
{
    return pair(iso_relu(pair(x, "a1", "a2")), "b1", "b2");
}

static const char *const megatron[] = {"[ab]1/kernel", "-, model", "[ab]1/bias", "model",
                                       "[ab]2/kernel", "model, -", NULL};

/* The second pair sums its result once forward and the gradient of its input once backward; the first pair,
 * whose input has no gradient, once forward. Otherwise only the end of the step moves anything. */
START_TEST(a_pair_sums_once_each_way)
{
    static const char *const meshes[] = {"data=1,model=4", "data=2,model=4", "data=3,model=8"};
    for (int m = 0; m < 3; m++) {
        planned p = make(two_pairs, meshes[m], megatron, 0, 1);
        const iso_plan_report *r = p.report;
        int forward = 0, backward = 0;
        for (int i = 0; i < r->n_collectives; i++) {
            const iso_report_collective *c = &r->collectives[i];
            if (c->end >= r->n_ops - 1 || c->next_step)
                continue;
            ck_assert_msg(!strcmp(c->kind, "all-reduce") && !strcmp(c->axes, "model"), "%s: %s over %s of %s",
                          meshes[m], c->kind, c->axes, c->tensor);
            forward += !c->from.backward;
            backward += c->from.backward;
            double model = iso_mesh_axis_size(p.mesh, 1), element = sizeof(float);
            double addends = element * ROWS * IN * model * 2 * (model - 1) / model; /* of all slots */
            check_bytes(c->tensor, meshes[m], c->bytes, addends);
        }
        ck_assert_int_eq(forward, 2);
        ck_assert_int_eq(backward, 1);
        drop(&p);
    }
}
END_TEST

/* ---- any mesh ---- */

/* One sequence of instructions and the same bytes a slot, whatever the size of the batch's axis, where slots
 * are many. */
START_TEST(large_meshes_are_planned_as_small_ones)
{
    rows = 100 * 64;
    planned small = make(two_pairs, "data=100,model=4", megatron, 0, 4);
    rows = 25000 * 64;
    planned large = make(two_pairs, "data=25000,model=4", megatron, 0, 4);
    rows = ROWS;
    ck_assert_int_eq(large.report->n_slots, 100000);
    ck_assert_int_eq(large.report->n_hosts, 25000);
    ck_assert_int_eq(small.report->n_ops, large.report->n_ops);
    for (int i = 0; i < small.report->n_ops; i++) {
        ck_assert_int_eq(small.report->ops[i].kind, large.report->ops[i].kind);
        ck_assert_str_eq(small.report->ops[i].layout, large.report->ops[i].layout);
    }
    ck_assert_int_eq(small.report->n_collectives, large.report->n_collectives);
    ck_assert_int_eq(small.report->slot.weights, large.report->slot.weights);
    drop(&small);
    drop(&large);
}
END_TEST

/* On meshes of more than 64 slots, slots are asked class by class which kernels they take; a wrong answer
 * would end the making of the function, or show in its numbers. */
START_TEST(classes_of_slots_stand_for_all)
{
    static const char *const nets[] = {"mlp", "convnet"};
    iso_optimizer sgd = iso_sgd(0.1);
    for (int k = 0; k < 2; k++) {
        double loss[2];
        for (int many = 0; many < 2; many++) {
            trial t;
            trial_begin(&t, ctx, net_kind_find(nets[k]), ISO_F64, 23);
            trial_mesh(&t, many ? "a=13,b=6" : "a=1,b=1", NULL);
            trial_make(&t, "a", &sgd);
            trial_step(&t, 0);
            loss[many] = trial_step(&t, 1);
            trial_end(&t);
        }
        ck_assert_msg(fabs(loss[0] - loss[1]) <= 1e-10 * fabs(loss[0]), "%s: %.17g on 78 slots, %.17g on one",
                      nets[k], loss[1], loss[0]);
    }
}
END_TEST

/* ---- refusals ---- */

/* While an op runs, what it reads and what it writes are there, the inputs that nobody needs afterwards too.
 */
START_TEST(values_live_while_they_are_needed)
{
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_plan_report *report;
    const double layer = sizeof(float) * ROWS * HIDDEN;
    int found = 0;
    check_ok(iso_mesh_abstract(ctx, "data=1", &mesh));
    check_ok(iso_data_parallel_create(mesh, &distribution));
    iso_graph *graph = iso_graph_create(ctx);
    iso_graph_distribute(graph, distribution);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(IN));
    iso_function_options options = {.inputs = {x}, .outputs = {iso_mean(iso_square(two_layers(x)))}};
    check_ok(iso_function_plan(graph, rows, 1, &options, &report));
    for (int i = 0; i < report->n_ops; i++) {
        const iso_report_op *op = &report->ops[i];
        double live = (double)op->live, least = 0, most = 0;
        if (op->kind != ISO_REPORT_OP || strcmp(op->origin.op, "matmul") != 0)
            continue;
        bool first = strcmp(op->origin.layer, "d1") == 0;
        least = first ? sizeof(float) * ROWS * IN + layer : 2 * layer;
        most = least + 4096;
        ck_assert_msg(live >= least && live <= most, "%s: %.0f bytes are live, of %.0f", op->origin.layer,
                      live, least);
        found++;
    }
    ck_assert_int_eq(found, 2);
    iso_plan_report_destroy(report);
    iso_graph_destroy(graph);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
}
END_TEST

START_TEST(bad_questions)
{
    iso_plan_report *report = NULL;
    iso_mesh *mesh = NULL;
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(4)), *loss = iso_mean(x);
    iso_function_options options = {.inputs = {x}, .outputs = {loss}};
    ck_assert_int_eq(iso_function_plan(graph, 8, 1, &options, &report), ISO_INVALID); /* no distribution */
    planned p = make(two_layers, "data=2", NULL, 0, 1);
    iso_graph_distribute(graph, p.distribution);
    ck_assert_int_eq(iso_function_plan(graph, 0, 1, &options, &report), ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "0 rows"));
    ck_assert_int_eq(iso_function_plan(graph, 8, -1, &options, &report), ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "-1"));
    ck_assert_int_eq(iso_mesh_abstract(ctx, "data=2000000000", &mesh), ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "2000000000"));
    ck_assert(!report && !mesh);
    drop(&p);
    iso_graph_destroy(graph);
}
END_TEST

enum { TABLE = 1000000, WIDTH = 8 };

/* The gradient of the table is that of its mean, to which the rows are added that were looked up. */
static iso_tensor *averaged_table(iso_tensor *x)
{
    iso_variable *variable =
        iso_variable_create(iso_tensor_graph(x), "table", ISO_F32, ISO_SHAPE(TABLE, WIDTH),
                            (iso_initializer){.kind = ISO_INIT_ONES}, true);
    iso_tensor *table = iso_variable_value(variable);
    iso_tensor *looked_up = iso_embedding_op(table, iso_cast(x, ISO_I32));
    return iso_add(iso_mean(looked_up), iso_mean(table));
}

/* What ops compute of a gradient one after the other is in its place among the gradients from the beginning. */
START_TEST(gradients_need_no_other_memory)
{
    planned p = make(averaged_table, "data=1", NULL, 0, 1);
    const double table = (double)TABLE * WIDTH * sizeof(float);
    int added = 0;
    for (int i = 0; i < p.report->n_ops; i++)
        added += p.report->ops[i].kernel && strcmp(p.report->ops[i].origin.op, "embedding_grad_add") == 0;
    ck_assert_int_eq(added, 1);
    ck_assert_msg((double)p.report->slot.gradients >= table, "gradients take %lld bytes",
                  (long long)p.report->slot.gradients);
    ck_assert_msg((double)p.report->slot.activations < 1.5 * table, "activations take %lld bytes",
                  (long long)p.report->slot.activations);
    drop(&p);
}
END_TEST

/* What is stated of each variable is what is stated in all, but for the ends of lines. */
static void check_gradients_of_variables(const iso_plan_report *report)
{
    int64_t bytes = 0;
    for (int i = 0; i < report->n_variables; i++)
        bytes += report->variables[i].gradient_bytes;
    ck_assert_msg(bytes <= report->slot.gradients &&
                      bytes + report->n_variables * 64 >= report->slot.gradients,
                  "%lld bytes of gradients in all, %lld of single variables",
                  (long long)report->slot.gradients, (long long)bytes);
}

/* Gradients that the optimizer computes in parts take no memory, others that of their elements, in lines. */
START_TEST(gradients_in_parts_are_not_stored)
{
    const int64_t line = 16, stored = 2 * (HIDDEN + line - 1) / line * line;
    const double whole = sizeof(float) * (kernel_1 + kernel_2);
    rows = 96;
    planned one = make(two_layers, "data=1", NULL, 0, 1), three = make(two_layers, "data=3", NULL, 0, 3),
            apart = make(two_layers, "data=3", NULL, 0, 1);
    rows = ROWS;
    check_gradients_of_variables(one.report);
    check_gradients_of_variables(three.report);
    check_gradients_of_variables(apart.report);
    ck_assert_int_eq(one.report->slot.gradients, stored * (int64_t)sizeof(float));
    ck_assert_int_eq(
        three.report->slot.gradients, /* a third of the first kernel is smaller than its inputs */
        one.report->slot.gradients + (int64_t)(sizeof(float) * kernel_1));
    ck_assert_msg((double)apart.report->slot.gradients >= whole, "one slot a host: gradients take %lld bytes",
                  (long long)apart.report->slot.gradients);
    drop(&one);
    drop(&three);
    drop(&apart);
}
END_TEST

enum { CLASSES = 5000 };

static iso_tensor *classified(iso_tensor *x)
{
    return iso_sparse_crossentropy_op(iso_argmax(x, -1), iso_dense(x, CLASSES, .name = "logits"));
}

/* The gradient of a cross-entropy takes the memory of the logits. */
START_TEST(logits_have_no_second_copy)
{
    planned p = make(classified, "data=1", NULL, 0, 1);
    const double logits = (double)ROWS * CLASSES * sizeof(float);
    int found = 0;
    for (int i = 0; i < p.report->n_ops; i++) {
        const iso_report_op *op = &p.report->ops[i];
        if (!op->kernel || strcmp(op->origin.op, "sparse_crossentropy_grad") != 0)
            continue;
        ck_assert_msg((double)op->live < 1.5 * logits, "%lld bytes live, and the logits take %.0f",
                      (long long)op->live, logits);
        found++;
    }
    ck_assert_int_eq(found, 1);
    drop(&p);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("report", 0, data_parallel, gradients_leave_while_slots_compute, zero,
                  zero_3_falls_with_the_slots, a_pair_sums_once_each_way,
                  large_meshes_are_planned_as_small_ones, classes_of_slots_stand_for_all,
                  values_live_while_they_are_needed, gradients_need_no_other_memory,
                  gradients_in_parts_are_not_stored, logits_have_no_second_copy, bad_questions))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
