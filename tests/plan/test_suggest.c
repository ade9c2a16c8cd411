/* Suggested layouts: as good as the best that trying all finds, never worse than data parallel or the layouts
 * that people use, within the memory asked for, and what they are said to cost. Ranks: 1 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/exec/auto_sharding/suggest.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/graph/optimizer.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd.h"
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
    check_ok(iso_mesh_abstract(ctx, mesh, &s.mesh));
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
    double found = iso_suggest_cost(report);
    *memory = (double)report->slot.total;
    iso_graph_distribute(s->graph, NULL);
    iso_plan_report_destroy(report);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    return found;
}

static iso_suggestion *suggest_for(subject *s, int64_t rows, double memory)
{
    iso_suggestion *suggestion;
    iso_suggest_options how = {.rows = rows, .slots_per_host = 1, .memory = memory, .memory_of_slot = true};
    check_ok(iso_function_suggest(s->graph, s->mesh, &s->function, &how, &suggestion));
    return suggestion;
}

static iso_suggestion *suggest(subject *s, double memory)
{
    return suggest_for(s, ROWS, memory);
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
        double best = best_of_all(&s, INFINITY), memory, plain = cost(&s, NULL, 0, &memory);
        bool clear = best < 0.9 * plain; /* what is not is not suggested */
        ck_assert_msg(found->cost <= (clear ? best * 1.002 : plain),
                      "%s: the suggestion costs %.0f, the best %.0f", meshes[m], found->cost, best);
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
    ck_assert_int_le(found->n_layouts, 8);
    for (int i = 0; i < found->n_layouts; i++) {
        layouts[2 * i] = found->layouts[i].path;
        layouts[2 * i + 1] = found->layouts[i].layout;
    }
    ck_assert(fabs(cost(&s, layouts, found->n_layouts, &needs) - found->cost) <= 1e-9 * found->cost);
    ck_assert(needs == (double)found->slot_bytes);
    ck_assert(found->cost < cost(&s, NULL, 0, &none));
    iso_suggestion_destroy(found);
    drop(&s);
}
END_TEST

/* What is suggested for two inputs and a number without rows, in a network whose rows are best split over both axes.
 */
static iso_suggestion *suggest_for_inputs(const char *first, const char *second)
{
    subject s = {.graph = iso_graph_create(ctx)};
    check_ok(iso_mesh_abstract(ctx, "data=2,model=2", &s.mesh));
    iso_tensor *x = iso_input(s.graph, first, ISO_F32, ISO_SHAPE(IN)),
               *z = iso_input(s.graph, second, ISO_F32, ISO_SHAPE(1, IN)),
               *scale = iso_input_unbatched(s.graph, "scale", ISO_F32, ISO_SCALAR);
    iso_tensor *y = iso_add(iso_multiply(x, scale), iso_flatten(z));
    iso_tensor *loss = iso_mean(iso_square(iso_dense(y, 2, .no_bias = true, .name = "d1")));
    s.function = (iso_function_options){.inputs = {x, z, scale},
                                        .outputs = {loss},
                                        .updates = {iso_minimize(loss, iso_adam(0.1))},
                                        .training = true};
    iso_suggestion *found = suggest_for(&s, 40000, 0);
    drop(&s);
    return found;
}

static bool has_key(const iso_suggestion *suggestion, const char *key)
{
    bool found = false;
    for (int i = 0; i < suggestion->n_layouts; i++)
        found = found || strcmp(suggestion->layouts[i].path, key) == 0;
    return found;
}

/* Inputs of one name cannot be told apart by keys. */
START_TEST(inputs_get_keys_of_their_own)
{
    iso_suggestion *apart = suggest_for_inputs("x", "z"), *alike = suggest_for_inputs("x", "x");
    ck_assert(has_key(apart, "x/output") && has_key(apart, "z/output") && !has_key(apart, "scale/output"));
    ck_assert(!has_key(alike, "x/output") && !has_key(alike, "scale/output"));
    iso_suggestion_destroy(apart);
    iso_suggestion_destroy(alike);
}
END_TEST

/* Layers of one kind have one layout, and what hardly saves anything is not suggested. */
START_TEST(like_layers_are_laid_out_alike)
{
    subject s = {.graph = iso_graph_create(ctx)};
    check_ok(iso_mesh_abstract(ctx, "data=4,model=2", &s.mesh));
    iso_tensor *x = iso_input(s.graph, "x", ISO_F32, ISO_SHAPE(IN)), *y = x;
    for (int i = 0; i < 4; i++)
        y = iso_dense(iso_dense(y, HIDDEN, .no_bias = true, .activation = ISO_RELU), IN, .no_bias = true);
    iso_tensor *loss = iso_mean(iso_square(y));
    s.function = (iso_function_options){
        .inputs = {x}, .outputs = {loss}, .updates = {iso_minimize(loss, iso_adam(0.1))}, .training = true};
    iso_suggestion *found = suggest(&s, 0);
    int of_kind[2] = {0};
    for (int i = 0; i < found->n_layouts; i++) {
        const char *path = found->layouts[i].path, *number = strpbrk(path, "0123456789");
        if (strncmp(path, "dense", 5) != 0)
            continue;
        int kind = number ? atoi(number) % 2 : 0, first = 0;
        while (strncmp(found->layouts[first].path, "dense", 5) != 0 ||
               (strpbrk(found->layouts[first].path, "0123456789")
                    ? atoi(strpbrk(found->layouts[first].path, "0123456789")) % 2
                    : 0) != kind)
            first++;
        ck_assert_str_eq(found->layouts[i].layout, found->layouts[first].layout);
        of_kind[kind]++;
    }
    ck_assert_msg(of_kind[0] % 4 == 0 && of_kind[1] % 4 == 0 && of_kind[0] + of_kind[1] > 0, "%d and %d of 4",
                  of_kind[0], of_kind[1]);
    ck_assert_int_lt(found->tried, 400);
    iso_suggestion_destroy(found);
    drop(&s);
}
END_TEST

/* With little work for each slot, meetings cost more than what sharded kernels save. */
START_TEST(what_is_not_clearly_better_is_not_suggested)
{
    subject s = {.graph = iso_graph_create(ctx)};
    check_ok(iso_mesh_abstract(ctx, "data=2", &s.mesh));
    iso_tensor *x = iso_input(s.graph, "x", ISO_F32, ISO_SHAPE(16));
    iso_tensor *loss = iso_mean(iso_square(iso_dense(iso_dense(x, 16), 16)));
    s.function = (iso_function_options){
        .inputs = {x}, .outputs = {loss}, .updates = {iso_minimize(loss, iso_adam(0.1))}, .training = true};
    iso_suggestion *found = suggest(&s, 0);
    ck_assert_int_eq(found->n_layouts, 0);
    iso_suggestion_destroy(found);
    drop(&s);
}
END_TEST

/* Of many rows data parallel costs least. In less memory than it needs there are layouts that cost more. */
START_TEST(what_fits_is_preferred_to_what_costs_less)
{
    subject s = make("data=4,model=2");
    iso_suggestion *any = suggest_for(&s, 40 * ROWS, 0), *least = suggest_for(&s, 40 * ROWS, 1000);
    ck_assert(any->fits && !least->fits);
    ck_assert(least->slot_bytes < any->slot_bytes);
    double limit = (double)(least->slot_bytes + any->slot_bytes) / 2;
    iso_suggestion *fitting = suggest_for(&s, 40 * ROWS, limit);
    ck_assert_msg(fitting->fits && (double)fitting->slot_bytes <= limit, "%lld bytes of %.0f",
                  (long long)fitting->slot_bytes, limit);
    ck_assert_msg(fitting->cost > any->cost, "costs %g, more memory %g", fitting->cost, any->cost);
    iso_suggestion_destroy(fitting);
    iso_suggestion_destroy(least);
    iso_suggestion_destroy(any);
    drop(&s);
}
END_TEST

/* The search is bounded by counts, never by a clock: the same call gives the same layouts. */
START_TEST(it_is_the_same_every_time)
{
    subject s = make("data=4,model=3");
    iso_suggestion *a = suggest(&s, 0), *b = suggest(&s, 0);
    ck_assert_int_eq(a->tried, b->tried);
    ck_assert_int_eq(a->n_layouts, b->n_layouts);
    for (int i = 0; i < a->n_layouts; i++) {
        ck_assert_str_eq(a->layouts[i].path, b->layouts[i].path);
        ck_assert_str_eq(a->layouts[i].layout, b->layouts[i].layout);
    }
    iso_suggestion_destroy(a);
    iso_suggestion_destroy(b);
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
    if (status == ISO_OK && RUN_TESTS("suggest", 0, as_good_as_trying_all, it_is_what_it_says,
                                      memory_is_kept_to, what_fits_is_preferred_to_what_costs_less,
                                      like_layers_are_laid_out_alike, inputs_get_keys_of_their_own,
                                      what_is_not_clearly_better_is_not_suggested, it_is_the_same_every_time))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
