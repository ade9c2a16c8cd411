#include "tests/support/trial.h"
#include "runtime/exec/function/inspect.h"
#include "tests/support/dice.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/random.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"

static void note(trial *t, const char *a, const char *b)
{
    size_t used = strlen(t->what);
    snprintf(t->what + used, sizeof t->what - used, "%s%s ", a, b);
}

void trial_ok(const trial *t, iso_status status)
{
    ck_assert_msg(status == ISO_OK, "%s: status %d: %s", t->what, (int)status, iso_error_message());
}

void trial_begin(trial *t, iso_context *ctx, const net_kind *kind, iso_dtype precision, int64_t rows)
{
    memset(t, 0, sizeof *t);
    t->ctx = ctx;
    t->rows = rows;
    t->net.graph = iso_graph_create(ctx);
    iso_graph_set_precision(t->net.graph, precision);
    kind->build(&t->net);
    note(t, kind->name, "");
    trial_ok(t, iso_graph_error(t->net.graph));
}

void trial_end(trial *t)
{
    iso_function_destroy(t->train);
    iso_function_destroy(t->infer);
    iso_graph_destroy(t->net.graph);
    iso_distribution_destroy(t->distribution);
    iso_layout_map_destroy(t->map);
    iso_mesh_destroy(t->mesh);
}

void trial_mesh(trial *t, const char *mesh, const int *rank_of_slot)
{
    note(t, "mesh ", mesh);
    trial_ok(t, rank_of_slot ? iso_mesh_create_on(t->ctx, mesh, rank_of_slot, slots_of_mesh(mesh), &t->mesh)
                             : iso_mesh_create(t->ctx, mesh, &t->mesh));
    trial_ok(t, iso_layout_map_create(t->mesh, &t->map));
}

void trial_layout(trial *t, const char *key, const char *layout)
{
    note(t, key, "=");
    note(t, "'", layout);
    trial_ok(t, iso_layout_map_set(t->map, key, layout));
}

void trial_make(trial *t, const char *batch_axis, const iso_optimizer *optimizer)
{
    iso_function_options options = {.outputs = {t->net.loss}, .training = true};
    note(t, "batch over ", batch_axis ? batch_axis : "all");
    trial_ok(t, batch_axis ? iso_model_parallel_create(t->map, &t->distribution, .batch_axis = batch_axis)
                           : iso_data_parallel_create(t->mesh, &t->distribution));
    if (t->zero)
        trial_ok(t, iso_distribution_set_zero(t->distribution, t->zero));
    if (t->zero) {
        note(t, "zero ", (const char *[]){"1", "2", "3"}[t->zero - 1]);
        trial_ok(t, iso_distribution_set_zero(t->distribution, t->zero));
    }
    iso_graph_distribute(t->net.graph, t->distribution);
    options.updates[0] = t->update = iso_minimize(t->net.loss, *optimizer);
    memcpy(options.inputs, t->net.input, sizeof t->net.input);
    trial_ok(t, iso_function_create_with(t->net.graph, &t->train, &options, sizeof options));
}

/* Inputs of a batch: uniform in -1..1, or whole numbers. */
static double *make_input(const trial *t, int input, int number)
{
    int64_t count = count_elements(t->net.input[input], t->rows), classes = t->net.classes[input];
    double *values = malloc(((size_t)count + 1) * sizeof *values);
    uint64_t key = iso_random_key(99, iso_tensor_name(t->net.input[input]));
    for (int64_t i = 0; i < count; i++) {
        uint32_t word = iso_random_word(key, (uint64_t)number, (uint64_t)i);
        values[i] = classes ? word % (uint64_t)classes : (double)word * 0x1p-31 - 1;
    }
    return values;
}

static void make_batch(const trial *t, int number, memory_batch *memory, double **values)
{
    memory_batch_begin(memory, t->rows);
    for (int i = 0; i < t->net.inputs; i++) {
        iso_shape row = {.rank = iso_tensor_shape(t->net.input[i])->rank - 1};
        memcpy(row.dim, iso_tensor_shape(t->net.input[i])->dim + 1, sizeof row.dim - sizeof row.dim[0]);
        values[i] = make_input(t, i, number);
        memory_batch_add(memory, row, values[i]);
    }
}

double trial_step(trial *t, int number)
{
    memory_batch memory;
    double *values[NET_INPUTS] = {0}, loss = 0;
    make_batch(t, number, &memory, values);
    trial_ok(t, iso_function_run(t->train, &memory.batch, &loss));
    for (int i = 0; i < NET_INPUTS; i++)
        free(values[i]);
    return loss;
}

void trial_run(trial *t, iso_function *function, int number, double *const *outputs)
{
    memory_batch memory;
    double *values[NET_INPUTS] = {0};
    make_batch(t, number, &memory, values);
    trial_ok(t, iso_function_evaluate(function, &memory.batch, outputs));
    for (int i = 0; i < NET_INPUTS; i++)
        free(values[i]);
}

void trial_run_parts(trial *t, iso_function *function, int number)
{
    memory_batch memory;
    double *values[NET_INPUTS] = {0};
    make_batch(t, number, &memory, values);
    trial_ok(t, iso_function_step(function, &memory.batch));
    for (int i = 0; i < NET_INPUTS; i++)
        free(values[i]);
}

double trial_infer(trial *t, int number)
{
    iso_function_options options = {.outputs = {t->net.loss}};
    double loss = 0;
    memcpy(options.inputs, t->net.input, sizeof t->net.input);
    if (!t->infer)
        trial_ok(t, iso_function_create_with(t->net.graph, &t->infer, &options, sizeof options));
    trial_run(t, t->infer, number, (double *const[]){&loss});
    return loss;
}

double *trial_weights(const trial *t, int64_t *count)
{
    int64_t total = 0;
    double *values = NULL;
    for (int v = 0; v < iso_graph_variable_count(t->net.graph); v++) {
        iso_variable *variable = iso_graph_variable(t->net.graph, v);
        int64_t n = count_elements(iso_variable_value(variable), 0);
        values = realloc(values, ((size_t)(total + n) + 1) * sizeof *values);
        trial_ok(t, iso_variable_read(variable, values + total, n));
        total += n;
    }
    *count = total;
    return values;
}

/* What `isogrid plan` would state of it without a fabric is what its exchanges state. */
static void check_report(const trial *t, const iso_plan_facts *facts)
{
    iso_plan_report *report;
    trial_ok(t, iso_function_report(t->train, t->rows, &report));
    ck_assert_msg(report->flops == facts->flops, "%s: the report states %.17g operations instead of %.17g",
                  t->what, report->flops, facts->flops);
    ck_assert_msg(report->bytes == facts->exchanged_bytes,
                  "%s: the report states %.17g bytes instead of %.17g", t->what, report->bytes,
                  facts->exchanged_bytes);
    ck_assert_msg(report->accumulation_bytes == facts->accumulation_bytes,
                  "%s: of a step that accumulates the report states %.17g bytes instead of %.17g", t->what,
                  report->accumulation_bytes, facts->accumulation_bytes);
    iso_plan_report_destroy(report);
}

void trial_check_counts(const trial *t, int steps, int accumulation)
{
    int updates = accumulation > 1 ? steps / accumulation : steps;
    iso_plan_facts facts;
    double mine[2], *all = malloc(2 * sizeof *all * (size_t)iso_ranks(t->ctx)), flops = 0, bytes = 0;
    trial_ok(t, iso_function_facts(t->train, t->rows, &facts));
    check_report(t, &facts);
    iso_function_counted(t->train, &mine[0], &mine[1]);
    trial_ok(t, iso_gather_all(t->ctx, mine, sizeof mine, all));
    for (int r = 0; r < iso_ranks(t->ctx); r++) {
        flops += all[2 * r];
        bytes += all[2 * r + 1];
    }
    free(all);
    ck_assert_msg(fabs(flops - steps * facts.flops) <= 1e-9 * flops,
                  "%s: counted %.17g operations, planned %.17g", t->what, flops, steps * facts.flops);
    double planned = updates * facts.exchanged_bytes + (steps - updates) * facts.accumulation_bytes;
    ck_assert_msg(bytes == planned, "%s: counted %.17g bytes, planned %.17g", t->what, bytes, planned);
}
