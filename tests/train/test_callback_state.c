/* What checkpoints keep of callbacks, and copies of weights in memory. Ranks: 1, 3 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/isogrid.h"
#include "runtime/isogrid_extend.h"
#include "runtime/train/callbacks_impl.h"
#include "runtime/train/snapshot.h"
#include "tests/support/callback_state.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

/* ---- lists of states ---- */

typedef struct counter {
    int value;
} counter;

static iso_status save(void *user, iso_text *json)
{
    iso_text_add(json, "{\"value\": %d}", ((counter *)user)->value);
    return ISO_OK;
}

static iso_status restore(void *user, const char *json)
{
    if (sscanf(json, "{\"value\": %d}", &((counter *)user)->value) != 1)
        return iso_error(ISO_INVALID, "this is no counter: %s", json);
    return ISO_OK;
}

static iso_callback *counting(const char *kind, counter *c)
{
    return iso_callback_create(.kind = kind, .save = save, .restore = restore, .user = c);
}

static void destroy_all(iso_callback **list)
{
    for (int i = 0; list[i]; i++)
        iso_callback_destroy(list[i]);
}

START_TEST(states_go_by_kind_and_number)
{
    counter old[] = {{1}, {2}, {3}}, fresh[] = {{-1}, {-1}, {-1}, {-1}};
    iso_callback *before[] = {counting("a", &old[0]), counting("b", &old[1]),
                              iso_callback_create(.user = NULL), counting("a", &old[2]), NULL};
    iso_callback *after[] = {counting("b", &fresh[0]), counting("c", &fresh[1]), counting("a", &fresh[2]),
                             counting("a", &fresh[3]), NULL};
    iso_text json = {0};
    check_ok(save_state(before, &json));
    ck_assert_str_eq(iso_text_get(&json), "[{\"kind\": \"a\", \"state\": {\"value\": 1}}, "
                                          "{\"kind\": \"b\", \"state\": {\"value\": 2}}, "
                                          "{\"kind\": \"a\", \"state\": {\"value\": 3}}]");
    check_ok(restore_state(after, iso_text_get(&json)));
    ck_assert_int_eq(fresh[0].value, 2);
    ck_assert_int_eq(fresh[1].value, -1);
    ck_assert_int_eq(fresh[2].value, 1);
    ck_assert_int_eq(fresh[3].value, 3);
    destroy_all(before);
    destroy_all(after);
    iso_text_free(&json);
}
END_TEST

START_TEST(no_callbacks_keep_nothing)
{
    iso_text json = {0};
    iso_state_shards shards = {0};
    check_ok(save_state(NULL, &json));
    ck_assert_str_eq(iso_text_get(&json), "[]");
    check_ok(restore_state(NULL, "[{\"kind\": \"a\", \"state\": 1}]"));
    check_ok(iso_callbacks_shards(NULL, &shards));
    ck_assert_int_eq(shards.count, 0);
    iso_text_free(&json);
}
END_TEST

START_TEST(wrong_states_are_refused)
{
    counter c = {7};
    iso_callback *list[] = {counting("a", &c), NULL};
    check_refused(restore_state(list, "{}"), "not a list");
    check_refused(restore_state(list, "[3]"), "entry 0");
    check_refused(restore_state(list, "[{\"kind\": 3, \"state\": 1}]"), "entry 0");
    check_refused(restore_state(list, "[{\"kind\": \"a\"}]"), "entry 0");
    check_refused(restore_state(list, "[{\"kind\": \"a\", \"state\": \"x\"}]"), "no counter");
    ck_assert_int_eq(c.value, 7);
    destroy_all(list);
}
END_TEST

static iso_status save_nonsense(void *user, iso_text *json)
{
    iso_text_add(json, "%s", (const char *)user);
    return ISO_OK;
}

/* A callback of one's own that saves no JSON is named; its kind may hold anything. */
START_TEST(what_is_no_json_is_told_by_kind)
{
    static const char *const wrong[] = {"", "{\"a\": ", "1}, {\"kind\": \"b\", \"state\": 1", "nothing"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        iso_text json = {0};
        iso_callback *list[] = {iso_callback_create(.kind = "mine", .save = save_nonsense, .restore = restore,
                                                    .user = (void *)(uintptr_t)wrong[i]),
                                NULL};
        check_refused(save_state(list, &json), "'mine' is not JSON");
        destroy_all(list);
        iso_text_free(&json);
    }
    counter old = {5}, fresh = {-1};
    iso_callback *quoted[] = {counting("a \"b\"", &old), NULL},
                 *again[] = {counting("a \"b\"", &fresh), NULL};
    iso_text json = {0};
    check_ok(save_state(quoted, &json));
    check_ok(restore_state(again, iso_text_get(&json)));
    ck_assert_int_eq(fresh.value, 5);
    destroy_all(quoted);
    destroy_all(again);
    iso_text_free(&json);
}
END_TEST

/* ---- copies of weights ---- */

enum { FEATURES = 5, UNITS = 7, KERNEL = FEATURES * UNITS };

static iso_mesh *mesh;
static iso_layout_map *map;
static iso_distribution *distribution;

static iso_model *compiled(const char *axes, const char *layout)
{
    check_ok(iso_mesh_create(ctx, axes, &mesh));
    check_ok(iso_layout_map_create(mesh, &map));
    if (layout)
        check_ok(iso_layout_map_set(map, "d/kernel", layout));
    check_ok(iso_model_parallel_create(map, &distribution, .batch_axis = "data"));
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(FEATURES));
    iso_model *model =
        iso_model_create(graph, x, iso_dense(iso_batch_norm(iso_dense(x, UNITS, .name = "d")), 1));
    check_ok(
        iso_compile(model, .optimizer = iso_adam(0.1), .loss = ISO_LOSS_MSE, .distribution = distribution));
    return model;
}

static void discard(iso_model *model)
{
    iso_model_destroy(model);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}

static void train(iso_model *model)
{
    iso_dataset *data = NULL;
    check_ok(iso_dataset_random(ctx, 24, &data, .shape = ISO_SHAPE(FEATURES), .targets = ISO_SHAPE(1)));
    check_ok(iso_dataset_batch(data, 7));
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
}

enum { MOST = 200 };

/* All variables but the optimizer's, one after another. */
static int64_t weights_of(iso_model *model, double weights[MOST])
{
    iso_graph *graph = iso_model_graph(model);
    int64_t at = 0, count;
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        iso_variable *variable = iso_graph_variable(graph, i);
        if (strncmp(iso_variable_path(variable), "optimizer/", 10) == 0)
            continue;
        check_ok(iso_shape_count(iso_variable_shape(variable), &count));
        ck_assert_int_le(at + count, MOST);
        check_ok(iso_variable_read(variable, weights + at, count));
        at += count;
    }
    return at;
}

/* The weights come back, the optimizer stays where it is. */
static void check_snapshot(const char *axes, const char *layout)
{
    double taken[MOST], now[MOST], iteration;
    iso_snapshot *snapshot = NULL;
    size_t held = iso_memory_held();
    iso_model *model = compiled(axes, layout);
    train(model);
    int64_t count = weights_of(model, taken);
    check_ok(iso_snapshot_create(iso_model_graph(model), &snapshot));
    for (int again = 0; again < 2; again++) {
        train(model);
        weights_of(model, now);
        for (int64_t i = 0; i < count; i++)
            ck_assert(now[i] != taken[i]);
        check_ok(iso_snapshot_put(snapshot));
        weights_of(model, now);
        check_near("weights", now, taken, count, 0);
        train(model);
        weights_of(model, taken);
        check_ok(iso_snapshot_take(snapshot));
    }
    check_ok(iso_variable_read(iso_graph_find_variable(iso_model_graph(model), "optimizer/iteration"),
                               &iteration, 1));
    ck_assert_double_eq(iteration, 20);
    iso_snapshot_destroy(snapshot);
    discard(model);
    ck_assert_uint_eq(iso_memory_held(), held);
}

START_TEST(weights_come_back_on_any_mesh)
{
    if (iso_ranks(ctx) == 1)
        check_snapshot("data=1", NULL);
    check_snapshot("data=5", NULL);
    check_snapshot("data=3,model=2", "-, model");
    check_snapshot("data=2,model=4", "model, data"); /* parts that are empty */
}
END_TEST

/* The shards of a snapshot have the names that a file gives them, and are the copy itself. */
START_TEST(a_snapshot_has_shards)
{
    iso_snapshot *snapshot = NULL;
    iso_state_shards shards = {0};
    iso_model *model = compiled("data=4", NULL);
    check_ok(iso_graph_shards(iso_model_graph(model), &shards));
    int before = shards.count;
    size_t held = iso_memory_held();
    check_ok(iso_snapshot_create(iso_model_graph(model), &snapshot));
    size_t taken = iso_memory_held() - held, bytes = 0;
    check_ok(iso_snapshot_shards(snapshot, "callbacks/x/1", &shards));
    for (int i = before; i < shards.count; i++) {
        ck_assert_int_eq(strncmp(shards.shards[i].path, "callbacks/x/1/", 14), 0);
        ck_assert_ptr_null(strstr(shards.shards[i].path, "optimizer"));
        bytes += (size_t)shards.shards[i].count * iso_dtype_size(shards.shards[i].dtype);
        for (int64_t k = 0; k < shards.shards[i].count; k++)
            iso_element_set(shards.shards[i].data, shards.shards[i].dtype, k, 3);
    }
    ck_assert_uint_ge(taken, bytes);
    check_ok(iso_snapshot_put(snapshot));
    double bias[UNITS], threes[UNITS] = {3, 3, 3, 3, 3, 3, 3};
    check_ok(iso_variable_read(iso_model_variable(model, "d/bias"), bias, UNITS));
    check_near("bias", bias, threes, UNITS, 0);
    iso_state_shards_free(&shards);
    iso_snapshot_destroy(snapshot);
    discard(model);
}
END_TEST

START_TEST(paths_of_optimizers)
{
    ck_assert(iso_path_below_optimizer("optimizer/iteration"));
    ck_assert(iso_path_below_optimizer("optimizer_12/adam/d/kernel/velocity"));
    ck_assert(!iso_path_below_optimizer("optimizers/kernel"));
    ck_assert(!iso_path_below_optimizer("optimizer_x/kernel"));
    ck_assert(!iso_path_below_optimizer("optimizer_/kernel"));
    ck_assert(!iso_path_below_optimizer("optimizer"));
    ck_assert(!iso_path_below_optimizer("d/kernel"));
}
END_TEST

int main(void)
{
    int failed = 1;
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0); /* several hosts where there are several ranks */
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status == ISO_OK)
        failed = RUN_TESTS("callback_state", 0, states_go_by_kind_and_number, no_callbacks_keep_nothing,
                           wrong_states_are_refused, what_is_no_json_is_told_by_kind,
                           weights_come_back_on_any_mesh, a_snapshot_has_shards, paths_of_optimizers);
    return iso_finish(ctx, status) || failed;
}
