/* Outputs that stay cut as they lie: of small networks on random meshes with random layouts, whatever a layer
 * gives comes in parts that hold every element once, with the values of the whole output.
 * ISOGRID_TEST_CASE=n repeats one case. Ranks: 1, 3, 5 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/function/function.h"
#include "runtime/graph/layer.h"
#include "runtime/session/session.h"
#include "tests/support/dice.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

enum { CASES = 60, MOST_SLOTS = 8, MOST_OUTPUTS = 12 };

static iso_context *ctx;
static int cut; /* parts so far that were neither whole nor empty */

/* ---- a case ---- */

/* The result of a layer; NULL: it has a name of its own, or the layer returns its input. */
static iso_tensor *result_of(const trial *t, int number)
{
    const iso_layer_record *layer = iso_graph_layer(t->net.graph, number);
    const char *name = iso_tensor_name(layer->output);
    const size_t length = strlen(layer->name);
    const bool own = strncmp(name, layer->name, length) == 0 && strcmp(name + length, "/output") == 0;
    return own ? layer->output : NULL;
}

static void random_layouts(dice *d, int axes, trial *t)
{
    char text[256];
    for (int l = 0; l < iso_graph_layer_count(t->net.graph); l++) {
        iso_tensor *output = result_of(t, l);
        if (throw_dice(d, 2) == 0 || !output)
            continue;
        random_layout(d, axes, iso_tensor_shape(output)->rank, text, sizeof text);
        trial_layout(t, iso_tensor_name(output), text);
    }
    for (int v = 0; v < iso_graph_variable_count(t->net.graph); v++) {
        iso_variable *variable = iso_graph_variable(t->net.graph, v);
        int rank = iso_variable_shape(variable)->rank;
        if (rank == 0 || throw_dice(d, 3))
            continue;
        random_layout(d, axes, rank, text, sizeof text);
        trial_layout(t, iso_variable_path(variable), text);
    }
}

/* The outputs of some layers. */
static int choose_outputs(dice *d, const trial *t, iso_tensor **outputs)
{
    int count = 0;
    for (int l = 0; l < iso_graph_layer_count(t->net.graph) && count < MOST_OUTPUTS; l++) {
        iso_tensor *output = result_of(t, l);
        if (output && iso_tensor_shape(output)->rank > 0 && throw_dice(d, 3))
            outputs[count++] = output;
    }
    return count;
}

static iso_function *make(const trial *t, iso_tensor *const *outputs, int count, bool parts)
{
    iso_function *function = NULL;
    iso_function_options options = {.parts = parts};
    memcpy(options.inputs, t->net.input, sizeof t->net.input);
    memcpy(options.outputs, outputs, (size_t)count * sizeof *outputs);
    trial_ok(t, iso_function_create_with(t->net.graph, &function, &options, sizeof options));
    return function;
}

/* ---- parts ---- */

/* What all ranks hold of an output, and how often each element came. */
static void gather(const trial *t, const iso_function *function, int output, const iso_shape *shape,
                   double *values, double *times)
{
    int ranks = iso_ranks(ctx);
    iso_box whole = iso_box_whole(shape);
    int64_t count = iso_box_count(&whole);
    size_t bytes = 2 * (size_t)count * sizeof(double);
    double *mine = calloc(1, bytes + 1), *all = malloc(bytes * (size_t)ranks + 1);
    for (int i = 0; i < iso_function_part_count(function); i++) {
        iso_output_part part = iso_function_part(function, i);
        if (part.output != output || !part.data)
            continue;
        cut += !iso_box_equal(&part.box, &whole);
        for (int64_t k = 0; k < iso_box_count(&part.box); k++) {
            int64_t at = iso_box_global_index(&part.box, shape, k);
            mine[at] += iso_element_get(part.data, part.dtype, k);
            mine[count + at]++;
        }
    }
    trial_ok(t, iso_gather_all(ctx, mine, bytes, all));
    for (int64_t k = 0; k < count; k++)
        for (int r = 0; r < ranks; r++) {
            values[k] += all[2 * count * r + k];
            times[k] += all[2 * count * r + count + k];
        }
    free(mine);
    free(all);
}

static void check_output(const trial *t, const iso_function *function, int output, iso_tensor *tensor,
                         const double *whole)
{
    iso_shape shape = iso_shape_with_rows(iso_tensor_shape(tensor), t->rows);
    int64_t count = count_elements(tensor, t->rows);
    double *values = calloc((size_t)count + 1, sizeof *values),
           *times = calloc((size_t)count + 1, sizeof *times);
    gather(t, function, output, &shape, values, times);
    for (int64_t k = 0; k < count; k++) {
        ck_assert_msg(times[k] == 1, "%s: element %d of %s comes %g times", t->what, (int)k,
                      iso_tensor_name(tensor), times[k]);
        ck_assert_msg(fabs(values[k] - whole[k]) <= 1e-12 * fmax(1, fabs(whole[k])),
                      "%s: element %d of %s is %.17g, in the whole %.17g", t->what, (int)k,
                      iso_tensor_name(tensor), values[k], whole[k]);
    }
    free(values);
    free(times);
}

static void run_case(int number)
{
    dice d = dice_for(number);
    const net_kind *kind = &net_kinds[throw_dice(&d, net_kind_count())];
    int64_t rows = 1 + throw_dice(&d, 13);
    char mesh[128];
    int rank_of_slot[MOST_SLOTS];
    trial t;
    iso_tensor *outputs[MOST_OUTPUTS];
    double *whole[MOST_OUTPUTS];
    trial_begin(&t, ctx, kind, ISO_F64, rows);
    snprintf(t.what, sizeof t.what, "case %d, %s, %d rows: ", number, kind->name, (int)rows);
    int axes = random_mesh(&d, iso_ranks(ctx), mesh, sizeof mesh);
    dice of_ranks = dice_for(-number);
    random_ranks(&of_ranks, 1 + throw_dice(&d, iso_ranks(ctx)), MOST_SLOTS, rank_of_slot);
    trial_mesh(&t, mesh, rank_of_slot);
    random_layouts(&d, axes, &t);
    iso_optimizer sgd = iso_sgd(0.1);
    trial_make(&t, dice_axis[throw_dice(&d, axes)], &sgd);
    int count = choose_outputs(&d, &t, outputs);
    if (count > 0) {
        iso_function *all = make(&t, outputs, count, false), *parts = make(&t, outputs, count, true);
        ck_assert_int_eq(iso_function_part_count(parts), 0);
        for (int i = 0; i < count; i++)
            whole[i] = malloc((size_t)count_elements(outputs[i], rows) * sizeof(double) + 1);
        trial_run(&t, all, 0, whole);
        trial_run_parts(&t, parts, 0);
        for (int i = 0; i < count; i++) {
            check_output(&t, parts, i, outputs[i], whole[i]);
            free(whole[i]);
        }
        iso_function_destroy(all);
        iso_function_destroy(parts);
    }
    trial_end(&t);
}

START_TEST(parts_are_the_whole)
{
    const char *only = getenv("ISOGRID_TEST_CASE");
    if (only)
        run_case(atoi(only));
    for (int i = 0; !only && i < CASES; i++)
        run_case(i + iso_ranks(ctx) * 100000);
    ck_assert_int_gt(cut, only ? -1 : CASES / 4 / iso_ranks(ctx)); /* else nothing was tried */
}
END_TEST

/* Each kind of function takes its own call only. */
START_TEST(functions_of_the_other_kind)
{
    trial t;
    trial_begin(&t, ctx, &net_kinds[0], ISO_F64, 3);
    trial_mesh(&t, "data=8", NULL);
    iso_optimizer sgd = iso_sgd(0.1);
    trial_make(&t, NULL, &sgd);
    iso_tensor *loss[] = {t.net.loss};
    iso_function *all = make(&t, loss, 1, false), *parts = make(&t, loss, 1, true);
    check_refused(iso_function_step(all, NULL), "without .parts");
    check_refused(iso_function_evaluate(parts, NULL, NULL), "with .parts");
    check_refused(iso_function_step(parts, NULL), "no batch");
    ck_assert_int_eq(iso_function_part_count(parts), 0);
    iso_function_destroy(all);
    iso_function_destroy(parts);
    trial_end(&t);
}
END_TEST

/* The parts of this rank that have data, over all ranks. */
static int64_t parts_with_data(const iso_function *function)
{
    int64_t count = 0;
    for (int i = 0; i < iso_function_part_count(function); i++)
        count += iso_function_part(function, i).data != NULL;
    check_ok(iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_I64, &count, 1));
    return count;
}

/* Every slot holds a scalar, whose box cannot be empty: one part has it. */
START_TEST(one_part_has_a_scalar)
{
    trial t;
    double loss;
    trial_begin(&t, ctx, &net_kinds[0], ISO_F64, 3);
    trial_mesh(&t, "data=4,model=2", NULL);
    iso_optimizer sgd = iso_sgd(0.1);
    trial_make(&t, "data", &sgd);
    iso_function *all = make(&t, &t.net.loss, 1, false), *parts = make(&t, &t.net.loss, 1, true);
    trial_run_parts(&t, parts, 0);
    ck_assert_int_eq(parts_with_data(parts), 1);
    int count = iso_function_part_count(parts);
    trial_run(&t, all, 0, (double *[]){&loss}); /* another function leaves the parts, and may change them */
    ck_assert_int_eq(iso_function_part_count(parts), count);
    trial_run_parts(&t, parts, 1);
    check_refused(iso_function_step(parts, NULL), "no batch");
    ck_assert_int_eq(iso_function_part_count(parts), 0);
    iso_function_destroy(all);
    iso_function_destroy(parts);
    trial_end(&t);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0); /* several hosts where there are several ranks */
    iso_status status = iso_init(&argc, &argv, &ctx);
    int failed = status == ISO_OK && RUN_TESTS("parts", 0, parts_are_the_whole, functions_of_the_other_kind,
                                               one_part_has_a_scalar);
    if (failed)
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
