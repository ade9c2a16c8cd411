/* Suggested layouts: as good as the best that trying all finds, never worse than data parallel or the layouts
 * that people use, within the memory asked for, and what they are said to cost. Ranks: 1 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/exec/suggest.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd.h"
#include "runtime/train/optimizers.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

enum { ROWS = 96, IN = 60, HIDDEN = 480 };

typedef struct subject {
    iso_graph *graph;
    iso_mesh *mesh;
    iso_function_options function;
} subject;

static subject make(const char *mesh)
{
    subject s = {.graph = iso_graph_create(ctx)};
    check_ok(iso_mesh_imagine(ctx, mesh, &s.mesh));
    iso_tensor *x = iso_input(s.graph, "x", ISO_F32, ISO_SHAPE(IN));
    iso_tensor *y = iso_dense(x, HIDDEN, .no_bias = true, .activation = ISO_RELU, .name = "d1");
    iso_tensor *loss = iso_mean(iso_square(iso_dense(y, IN, .no_bias = true, .name = "d2")));
    s.function = (iso_function_options){
        .inputs = {x}, .outputs = {loss}, .updates = {iso_minimize(loss, iso_adam(0.1))}, .training = true};
    return s;
}

static void drop(subject *s)
{
    iso_graph_destroy(s->graph);
    iso_mesh_destroy(s->mesh);
}

/* What a step costs with these layouts, keys and layouts in turn; *memory: of a slot. */
static double cost(subject *s, const char *const *layouts, int count, double *memory)
{
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_plan_report *report;
    check_ok(iso_layout_map_create(s->mesh, &map));
    for (int i = 0; i < count; i++)
        check_ok(iso_layout_map_set(map, layouts[2 * i], layouts[2 * i + 1]));
    check_ok(iso_model_parallel_create(map, &distribution));
    iso_graph_distribute(s->graph, distribution);
    check_ok(iso_function_plan(s->graph, ROWS, 1, &s->function, &report));
    double found = (report->flops + ISO_SUGGEST_BALANCE * report->bytes) / report->slots;
    *memory = (double)report->slot.total;
    iso_graph_distribute(s->graph, NULL);
    iso_plan_report_destroy(report);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    return found;
}

static iso_suggestion *suggest(subject *s, double memory)
{
    iso_suggestion *suggestion;
    iso_suggest_options how = {.rows = ROWS, .slots_per_host = 1, .memory = memory, .memory_of_slot = true};
    check_ok(iso_function_suggest(s->graph, s->mesh, &s->function, &how, &suggestion));
    return suggestion;
}

static const char *const kernels[] = {"-, -",        "-, model",      "-, data",
                                      "model, -",    "data, -",       "data, model",
                                      "model, data", "data+model, -", "-, data+model"};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

/* The least cost of all layouts of the two kernels, with rows over "data" and over both axes. */
static double best_of_all(subject *s, double memory)
{
    double best = INFINITY, needs;
    for (int k = 0; k < 2 * KERNELS * KERNELS; k++) {
        const char *layouts[] = {"d1/kernel", kernels[k % KERNELS],
                                 "d2/kernel", kernels[k / KERNELS % KERNELS],
                                 "x/output",  "data+model, -"};
        double found = cost(s, layouts, k < KERNELS * KERNELS ? 2 : 3, &needs);
        best = needs <= memory && found < best ? found : best;
    }
    return best;
}

START_TEST(as_good_as_trying_all)
{
    static const char *const meshes[] = {"data=2,model=2", "data=1,model=4", "data=4,model=3"};
    for (int m = 0; m < 3; m++) {
        subject s = make(meshes[m]);
        iso_suggestion *found = suggest(&s, 0);
        double best = best_of_all(&s, INFINITY);
        ck_assert_msg(found->cost <= best * 1.002, "%s: the suggestion costs %.0f, the best %.0f", meshes[m],
                      found->cost, best);
        ck_assert(found->fits);
        iso_suggestion_destroy(found);
        drop(&s);
    }
}
END_TEST

/* The suggestion, set as a user would set it, costs and needs what it says. */
START_TEST(it_is_what_it_says)
{
    subject s = make("data=2,model=4");
    iso_suggestion *found = suggest(&s, 0);
    const char *layouts[16];
    double needs, none;
    ck_assert_int_le(found->layouts, 8);
    for (int i = 0; i < found->layouts; i++) {
        layouts[2 * i] = found->layout[i].path;
        layouts[2 * i + 1] = found->layout[i].layout;
    }
    ck_assert(fabs(cost(&s, layouts, found->layouts, &needs) - found->cost) <= 1e-9 * found->cost);
    ck_assert(needs == (double)found->slot_bytes);
    ck_assert(found->cost < cost(&s, NULL, 0, &none));
    iso_suggestion_destroy(found);
    drop(&s);
}
END_TEST

START_TEST(memory_is_kept_to)
{
    subject s = make("data=4,model=2");
    double most, least;
    const char *const sharded[] = {"d1/kernel", "-, data+model", "d2/kernel", "data+model, -"};
    cost(&s, NULL, 0, &most);
    cost(&s, sharded, 2, &least);
    ck_assert(least < most);
    for (int k = 1; k <= 3; k++) {
        double limit = least + (most - least) * k / 4;
        iso_suggestion *found = suggest(&s, limit);
        ck_assert_msg(found->fits && (double)found->slot_bytes <= limit, "within %.0f: %lld", limit,
                      (long long)found->slot_bytes);
        iso_suggestion_destroy(found);
    }
    iso_suggestion *none = suggest(&s, 1000);
    ck_assert(!none->fits && (double)none->slot_bytes <= least);
    iso_suggestion_destroy(none);
    drop(&s);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("suggest", 0, as_good_as_trying_all, it_is_what_it_says, memory_is_kept_to))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
