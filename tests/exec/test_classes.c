/* Softmax, cross-entropy, argmax and top-k over classes that are sharded, by values: what one slot computes,
 * also where classes are equal, infinite or NaN; nothing with a dimension of classes is gathered; and wrong
 * labels, and wrong indices of a table in rows, are reported.
 * Ranks: 1, 3 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/session/session.h"
#include "runtime/train/losses.h"
#include "tests/support/once.h"
#include "tests/support/probe.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

enum { ROWS = 7, CLASSES = 10, OUTPUTS = 20 };

/* Everything that goes over the classes of z, in inference and in training. */
typedef struct net {
    iso_graph *graph;
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_tensor *input[3]; /* x, labels, teacher */
    int outputs;
    iso_tensor *output[OUTPUTS];
} net;

static void give(net *n, iso_tensor *y)
{
    n->output[n->outputs++] = y;
}

/* y, and what its weighted sum has as its gradient to z */
static void give_with_gradient(net *n, iso_tensor *z, iso_tensor *y)
{
    iso_tensor *gradient;
    iso_gradients(iso_sum(iso_multiply(y, iso_affine(y, 0.3, 1.1))), &z, 1, &gradient);
    give(n, y);
    give(n, gradient);
}

static void build(net *n, iso_dtype labels_type)
{
    n->input[0] = iso_input(n->graph, "x", ISO_F32, ISO_SHAPE(CLASSES));
    n->input[1] = iso_input(n->graph, "label", labels_type, (iso_shape){0});
    n->input[2] = iso_input(n->graph, "teacher", ISO_F32, ISO_SHAPE(CLASSES));
    iso_tensor *z = iso_affine(n->input[0], 1, 0), *labels = n->input[1], *teacher = n->input[2];
    iso_tensor_set_name(z, "z/output");
    give_with_gradient(n, z, iso_softmax(z, -1));
    give_with_gradient(n, z, iso_log_softmax(z, -1));
    give_with_gradient(n, z, iso_sparse_crossentropy(labels, z, .from_logits = true));
    give_with_gradient(n, z, iso_categorical_crossentropy(teacher, z, .from_logits = true));
    iso_tensor *p = iso_softmax(z, -1);
    give_with_gradient(n, z, iso_sparse_crossentropy(labels, p));
    give_with_gradient(n, z, iso_binary_crossentropy(teacher, z, .from_logits = true));
    give(n, iso_argmax(z, -1));
    give(n, iso_argmax(iso_cast(iso_affine(z, 1.5, 0), ISO_I32), -1));
    give(n, iso_argmax(iso_greater(z, iso_affine(z, 0, 0.5)), -1));
    give(n, iso_in_top_k(z, labels, 3));
    give(n, iso_reduce_min(z, (const int[]){-1}, 1, false));
}

static void begin(net *n, const char *mesh, const char *layout, iso_dtype precision, iso_dtype labels_type)
{
    memset(n, 0, sizeof *n);
    n->graph = iso_graph_create(ctx);
    iso_graph_set_precision(n->graph, precision);
    const int first[1] = {0};
    check_ok(layout ? iso_mesh_create(ctx, mesh, &n->mesh)
                    : iso_mesh_create_on(ctx, mesh, first, 1, &n->mesh));
    check_ok(iso_layout_map_create(n->mesh, &n->map));
    if (layout)
        check_ok(iso_layout_map_set(n->map, "z/output", layout));
    build(n, labels_type);
    check_ok(iso_model_parallel_create(n->map, &n->distribution,
                                       .batch_axis = strstr(mesh, "data") ? "data" : NULL));
    iso_graph_distribute(n->graph, n->distribution);
}

static void end(net *n)
{
    iso_graph_destroy(n->graph);
    iso_distribution_destroy(n->distribution);
    iso_layout_map_destroy(n->map);
    iso_mesh_destroy(n->mesh);
}

/* ---- values ---- */

typedef struct data {
    double x[ROWS * CLASSES], label[ROWS], teacher[ROWS * CLASSES];
    memory_batch batch;
} data;

/* `odd`: rows of equal classes, and with infinities and NaN. */
static void make_data(data *d, bool odd)
{
    for (int i = 0; i < ROWS * CLASSES; i++) {
        d->x[i] = 3 * random_number(1, i);
        d->teacher[i] = i % 4 ? fabs(random_number(2, i)) : 0;
    }
    for (int r = 0; r < ROWS; r++)
        d->label[r] = (r * 7 + 3) % CLASSES;
    for (int c = 0; odd && c < CLASSES; c++) {
        d->x[1 * CLASSES + c] = c % 3;
        d->x[2 * CLASSES + c] = -INFINITY;
    }
    if (odd) {
        d->x[2 * CLASSES + 5] = 1;
        d->x[3 * CLASSES + 7] = NAN;
        d->x[4 * CLASSES] = NAN;
        d->x[5 * CLASSES + 4] = INFINITY;
    }
    memory_batch_begin(&d->batch, ROWS);
    memory_batch_add(&d->batch, ISO_SHAPE(CLASSES), d->x);
    memory_batch_add(&d->batch, (iso_shape){0}, d->label);
    memory_batch_add(&d->batch, ISO_SHAPE(CLASSES), d->teacher);
}

typedef struct results {
    double *value[OUTPUTS];
    int64_t count[OUTPUTS];
} results;

static iso_function *make_function(net *n, bool scalars)
{
    iso_function *function;
    iso_function_options options = {.inputs = {n->input[0], n->input[1], n->input[2]}, .training = true};
    for (int i = 0; i < n->outputs; i++)
        options.outputs[i] = scalars ? iso_sum(iso_cast(n->output[i], ISO_F64)) : n->output[i];
    check_ok(iso_function_create_with(n->graph, &function, &options, sizeof options));
    return function;
}

static void evaluate(net *n, const data *d, results *r)
{
    iso_function *function = make_function(n, false);
    for (int i = 0; i < n->outputs; i++) {
        r->count[i] = count_elements(n->output[i], ROWS);
        r->value[i] = calloc((size_t)r->count[i], sizeof(double));
    }
    check_ok(iso_function_evaluate(function, &d->batch.batch, r->value));
    iso_function_destroy(function);
}

static void compare(const char *mesh, const results *one, const results *many, int outputs, double tolerance)
{
    for (int i = 0; i < outputs; i++)
        for (int64_t k = 0; k < one->count[i]; k++) {
            double a = many->value[i][k], b = one->value[i][k];
            ck_assert_msg((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= tolerance * fmax(1, fabs(b)),
                          "%s: element %lld of output %d is %.17g, on one slot %.17g", mesh, (long long)k, i,
                          a, b);
        }
    for (int i = 0; i < outputs; i++) {
        free(one->value[i]);
        free(many->value[i]);
    }
}

static const struct {
    const char *mesh, *layout;
} meshes[] = {
    {"data=1,model=4", "-, model"},    {"data=1,model=8", "data, model"}, {"data=2,model=3", "data, model"},
    {"model=3,data=2", "data, model"}, {"data=2,a=2,b=2", "data, a+b"},   {"data=1,a=2,b=4", "-, b+a"},
    {"data=1,model=12", "-, model"},
};
enum { MESHES = sizeof meshes / sizeof *meshes };

static void check_values(int m, bool odd, iso_dtype precision)
{
    net one, many;
    data d;
    results alone, spread;
    iso_dtype labels = m % 2 ? ISO_F64 : ISO_I32;
    make_data(&d, odd);
    begin(&one, "data=1", NULL, precision, labels);
    begin(&many, meshes[m].mesh, meshes[m].layout, precision, labels);
    evaluate(&one, &d, &alone);
    evaluate(&many, &d, &spread);
    compare(meshes[m].mesh, &alone, &spread, one.outputs, precision == ISO_F64 ? 1e-13 : 3e-6);
    end(&one);
    end(&many);
}

START_TEST(values_are_those_of_one_slot)
{
    for (int m = 0; m < MESHES; m++)
        for (int odd = 0; odd < 2; odd++) {
            check_values(m, odd, ISO_F64);
            check_values(m, odd, ISO_F32);
        }
}
END_TEST

/* Along each of two sharded dimensions of one tensor: the statistics of one are not those of the other. */
static void softmax_both(bool spread, double *along[2])
{
    enum { HIGH = 2, WIDE = CLASSES / 2 };
    const int first[1] = {0};
    net n = {.graph = iso_graph_create(ctx)};
    data d;
    iso_function *function;
    make_data(&d, false);
    memory_batch_begin(&d.batch, ROWS);
    memory_batch_add(&d.batch, ISO_SHAPE(HIGH, WIDE), d.x);
    check_ok(spread ? iso_mesh_create(ctx, "data=2,a=2,b=3", &n.mesh)
                    : iso_mesh_create_on(ctx, "data=1", first, 1, &n.mesh));
    check_ok(iso_layout_map_create(n.mesh, &n.map));
    if (spread)
        check_ok(iso_layout_map_set(n.map, "z/output", "data, a, b"));
    iso_graph_set_precision(n.graph, ISO_F64);
    iso_tensor *x = iso_input(n.graph, "x", ISO_F32, ISO_SHAPE(HIGH, WIDE)), *z = iso_affine(x, 1, 0);
    iso_tensor_set_name(z, "z/output");
    check_ok(iso_model_parallel_create(n.map, &n.distribution, .batch_axis = "data"));
    iso_graph_distribute(n.graph, n.distribution);
    check_ok(iso_function_create(n.graph, &function, .inputs = {x},
                                 .outputs = {iso_softmax(z, 1), iso_softmax(z, 2)}));
    for (int i = 0; i < 2; i++)
        along[i] = calloc(ROWS * CLASSES, sizeof(double));
    check_ok(iso_function_evaluate(function, &d.batch.batch, along));
    iso_function_destroy(function);
    end(&n);
}

START_TEST(two_dimensions_have_two_statistics)
{
    double *one[2], *many[2];
    softmax_both(false, one);
    softmax_both(true, many);
    for (int i = 0; i < 2; i++) {
        check_near(i ? "along columns" : "along rows", many[i], one[i], ROWS * CLASSES, 1e-13);
        free(one[i]);
        free(many[i]);
    }
}
END_TEST

/* ---- nothing is gathered ---- */

static int cuts(const iso_layout *layout, int dim)
{
    return layout->dim[dim].count;
}

START_TEST(classes_are_never_gathered)
{
    for (int m = 0; m < MESHES; m++) {
        net n;
        begin(&n, meshes[m].mesh, meshes[m].layout, ISO_F64, ISO_I32);
        iso_function *function = make_function(&n, true);
        const iso_program *program = function->program;
        int shards = 0;
        for (int i = 0; i < program->n_steps; i++) {
            const iso_program_step *step = &program->steps[i];
            const iso_program_value *from = &program->values[step->input[0]],
                                    *to = &program->values[step->output[0]];
            shards += step->op && strncmp(step->op->type->name, "class_", 6) == 0;
            int last = from->tensor->shape.rank - 1;
            bool has_classes = last >= 0 && from->tensor->shape.dim[last] == CLASSES;
            ck_assert_msg(step->op || !has_classes || cuts(&from->layout, last) <= cuts(&to->layout, last),
                          "%s: the classes of %s are gathered", meshes[m].mesh,
                          iso_tensor_name(from->tensor));
        }
        ck_assert_int_gt(shards, 10);
        iso_function_destroy(function);
        end(&n);
    }
}
END_TEST

/* Loss, gradient and accuracy have the statistics of the logits in common. */
START_TEST(statistics_are_computed_once)
{
    net n;
    begin(&n, "data=1,model=4", "-, model", ISO_F64, ISO_I32);
    iso_function *function = make_function(&n, true);
    int maxima = 0;
    for (int i = 0; i < function->program->n_steps; i++) {
        const iso_op *op = function->program->steps[i].op;
        maxima += op && strcmp(op->type->name, "class_max") == 0;
    }
    ck_assert_int_eq(maxima, 4); /* of z; of the log of its softmax; of integers; of what is true */
    iso_function_destroy(function);
    end(&n);
}
END_TEST

/* ---- one slot ---- */

START_TEST(one_slot_keeps_the_ops)
{
    net n;
    begin(&n, "data=1", NULL, ISO_F64, ISO_I32);
    iso_function *function = make_function(&n, true);
    ck_assert_ptr_null(function->program->decomposed);
    iso_function_destroy(function);
    end(&n);
}
END_TEST

/* ---- faults ---- */

START_TEST(labels_outside_the_classes_are_reported)
{
    static const double bad[] = {CLASSES, -1, 2.5, NAN};
    for (int m = 0; m < MESHES; m++)
        for (int k = 0; k < 4; k++) {
            net n;
            data d;
            double sums[OUTPUTS];
            make_data(&d, false);
            d.label[ROWS - 1] = bad[k];
            begin(&n, meshes[m].mesh, meshes[m].layout, ISO_F32, ISO_F64);
            iso_function *function = make_function(&n, true);
            ck_assert_int_eq(iso_function_run(function, &d.batch.batch, sums), ISO_INVALID);
            ck_assert_msg(strstr(iso_error_message(), "of row 6 of the batch is not one of the 10 classes"),
                          "%s", iso_error_message());
            iso_function_destroy(function);
            end(&n);
        }
}
END_TEST

/* A table in rows: every slot sees that the index is none, whoever has the rows around. */
START_TEST(indices_outside_a_table_in_rows_are_reported)
{
    static const double bad[] = {11, -1, 1000};
    for (int k = 0; k < 3; k++) {
        net n = {.graph = iso_graph_create(ctx)};
        memory_batch batch;
        double words[ROWS] = {0, 10, 3, 4, 5, bad[k], 2}, sum = 7;
        check_ok(iso_mesh_create(ctx, "data=2,model=4", &n.mesh));
        check_ok(iso_layout_map_create(n.mesh, &n.map));
        check_ok(iso_layout_map_set(n.map, "table/embeddings", "model, -"));
        iso_tensor *x = iso_input(n.graph, "words", ISO_I32, (iso_shape){0});
        iso_tensor *y = iso_sum(iso_embedding(x, 11, 3, .name = "table"));
        check_ok(iso_model_parallel_create(n.map, &n.distribution));
        iso_graph_distribute(n.graph, n.distribution);
        iso_function *function;
        check_ok(iso_function_create(n.graph, &function, .inputs = {x}, .outputs = {y}));
        memory_batch_begin(&batch, ROWS);
        memory_batch_add(&batch, (iso_shape){0}, words);
        ck_assert_int_eq(iso_function_run(function, &batch.batch, &sum), ISO_INVALID);
        ck_assert_msg(strstr(iso_error_message(), "of row 5 of the batch is not one of the 11 rows"), "%s",
                      iso_error_message());
        ck_assert(sum == 7);
        words[5] = 6;
        check_ok(iso_function_run(function, &batch.batch, &sum));
        iso_function_destroy(function);
        end(&n);
    }
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("classes", 0, values_are_those_of_one_slot, two_dimensions_have_two_statistics,
                  classes_are_never_gathered, statistics_are_computed_once, one_slot_keeps_the_ops,
                  labels_outside_the_classes_are_reported, indices_outside_a_table_in_rows_are_reported))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
