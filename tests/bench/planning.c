/* How long planning takes, against the number of ops and against the number of slots, in one run on one
 * process: make build/tests/bench/planning && build/tests/bench/planning Each line gives the seconds, and how
 * much faster they grew than n log n since the line above: at most about 1. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/base/clock.h"
#include "runtime/exec/function/function.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/graph/optimizer.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd.h"

/* Dense layers with normalisation and a skip connection: about 42 ops a layer, backward and update included.
 */
static iso_tensor *block(iso_tensor *x)
{
    iso_tensor *y = iso_dense(iso_relu(iso_batch_norm(x)), 64, .activation = ISO_RELU);
    return iso_add(x, iso_dense(y, 64));
}

typedef struct case_times {
    int ops;
    double build, plan;
} case_times;

static iso_status measure(iso_context *ctx, int blocks, const char *mesh_text, case_times *times)
{
    iso_status status;
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *distribution = NULL;
    iso_plan_report *report = NULL;
    double begin = iso_clock();
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *input = iso_input(graph, "x", ISO_F32, ISO_SHAPE(64)), *x = input;
    for (int i = 0; i < blocks; i++)
        x = block(x);
    iso_tensor *loss = iso_mean(iso_square(x));
    iso_update *update = iso_minimize(loss, iso_adam(1e-3));
    ISO_TRY(iso_mesh_abstract(ctx, mesh_text, &mesh));
    ISO_TRY(iso_layout_map_create(mesh, &map));
    if (iso_mesh_axes(mesh) > 1) {
        ISO_TRY(iso_layout_map_set(map, "dense(_[0-9]*[02468])?/kernel", "-, model"));
        ISO_TRY(iso_layout_map_set(map, "dense_[0-9]*[13579]/kernel", "model, -"));
    }
    ISO_TRY(iso_model_parallel_create(map, &distribution));
    iso_graph_distribute(graph, distribution);
    times->build = iso_clock() - begin;
    iso_function_options options = {
        .inputs = {input}, .outputs = {loss}, .updates = {update}, .training = true};
    begin = iso_clock();
    ISO_TRY(iso_function_plan(graph, 16 * (int64_t)iso_mesh_slots(mesh), 8, &options, &report));
    times->plan = iso_clock() - begin;
    times->ops = report->n_ops;
done:
    iso_plan_report_destroy(report);
    iso_graph_destroy(graph);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
    return status;
}

static void print(const char *what, double n, double before, const case_times *t, const case_times *last)
{
    double allowed = before ? n * log2(n) / (before * log2(before)) : 1;
    printf("%-24s %7d %9.4f %9.4f", what, t->ops, t->build, t->plan);
    if (before)
        printf("   %5.2f", t->plan / last->plan / allowed);
    printf("\n");
    fflush(stdout);
}

static iso_status against_ops(iso_context *ctx, const char *mesh)
{
    case_times t, last = {0};
    printf("\n%-24s %7s %9s %9s   of n log n\n", "blocks", "ops", "graph s", "plan s");
    for (int blocks = 1; blocks <= 256; blocks *= 4) {
        char what[64];
        iso_status status = measure(ctx, blocks, mesh, &t);
        if (status != ISO_OK)
            return status;
        snprintf(what, sizeof what, "%d on %s", blocks, mesh);
        print(what, t.ops, last.ops, &t, &last);
        last = t;
    }
    return ISO_OK;
}

static iso_status against_slots(iso_context *ctx, const char *format)
{
    case_times t, last = {0};
    double before = 0;
    printf("\n%-24s %7s %9s %9s   of n log n\n", "mesh", "ops", "graph s", "plan s");
    for (int slots = 8; slots <= 100000; slots *= 5) {
        char mesh[64];
        snprintf(mesh, sizeof mesh, format, slots);
        iso_status status = measure(ctx, 8, mesh, &t);
        if (status != ISO_OK)
            return status;
        double n = slots * (strchr(format, ',') ? 4 : 1);
        print(mesh, n, before, &t, &last);
        before = n;
        last = t;
    }
    return ISO_OK;
}

int main(int argc, char **argv)
{
    iso_context *ctx;
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK)
        status = against_ops(ctx, "data=8");
    if (status == ISO_OK)
        status = against_ops(ctx, "data=4,model=2");
    if (status == ISO_OK)
        status = against_slots(ctx, "data=%d");
    if (status == ISO_OK)
        status = against_slots(ctx, "data=%d,model=4");
    return iso_finish(ctx, status);
}
