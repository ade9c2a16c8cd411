/* Distributions of one's own: callbacks say how inputs, variables and outputs lie. Data parallel and model
 * parallel are two; here is a third. Ranks: 1, 3 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

enum { STEPS = 4, ROWS = 7 };

static void check_refused_by_chief(iso_status status, const char *part)
{
    ck_assert_msg(status == ISO_INVALID, "status %d instead of a refusal with '%s'", (int)status, part);
    ck_assert_msg(!iso_is_chief(ctx) || strstr(iso_error_message(), part),
                  "the message is '%s', without '%s'", iso_error_message(), part);
}

/* ---- the third: the last dimension of every kernel that divides is sharded, and the biases behind stay
 * whole ---- */

typedef struct last_dimension {
    const iso_mesh *mesh;
    int sharded, asked;
    uint64_t seen; /* what was asked, in order */
} last_dimension;

static void look(last_dimension *how, const char *what, const char *path, const iso_shape *shape)
{
    char text[160];
    how->asked++;
    how->seen = iso_hash_text(iso_hash_text(how->seen, what), path);
    how->seen = iso_hash_text(how->seen, iso_shape_text(shape, text, sizeof text));
}

static iso_status shard_kernels(void *arg, const char *path, const iso_shape *shape, char *layout,
                                size_t size)
{
    last_dimension *how = arg;
    const char *end = strrchr(path, '/');
    look(how, "variable", path, shape);
    if (!end || strcmp(end, "/kernel") != 0 ||
        shape->dim[shape->rank - 1] % iso_mesh_axis_size(how->mesh, 1) != 0)
        return ISO_OK;
    how->sharded++;
    for (int d = 0; d < shape->rank; d++)
        snprintf(layout + strlen(layout), size - strlen(layout), "%s%s", d ? ", " : "",
                 d + 1 < shape->rank ? "-" : iso_mesh_axis_name(how->mesh, 1));
    return ISO_OK;
}

static iso_status rows_alone(void *arg, const char *path, const iso_shape *shape, char *layout, size_t size)
{
    (void)arg;
    (void)path;
    ck_assert_int_eq(shape->dim[0], ISO_BATCH);
    snprintf(layout, size, "data");
    for (int d = 1; d < shape->rank; d++)
        strncat(layout, ", -", size - strlen(layout) - 1);
    return ISO_OK;
}

static iso_status split_rows(void *arg, const char *path, const iso_shape *shape, char *layout, size_t size)
{
    look(arg, "data", path, shape);
    return rows_alone(arg, path, shape, layout, size);
}

static iso_status see_outputs(void *arg, const char *path, const iso_shape *shape, char *layout, size_t size)
{
    (void)layout;
    (void)size;
    look(arg, "output", path, shape);
    return ISO_OK;
}

/* ---- running a network under a distribution ---- */

static iso_status try_to_make(trial *t, const iso_distribution_options *how)
{
    iso_function_options options = {.outputs = {t->net.loss}, .training = true};
    check_ok(iso_distribution_create_with(t->mesh, &t->distribution, how, sizeof *how));
    iso_graph_distribute(t->net.graph, t->distribution);
    options.updates[0] = t->update = iso_minimize(t->net.loss, iso_adam(0.01));
    memcpy(options.inputs, t->net.input, sizeof t->net.input);
    return iso_function_create_with(t->net.graph, &t->train, &options, sizeof options);
}

static void begin(trial *t, const char *kind, const char *mesh)
{
    trial_begin(t, ctx, net_kind_find(kind), ISO_F64, ROWS);
    trial_mesh(t, mesh, NULL);
}

static void alone(const char *kind, double *losses)
{
    trial t;
    iso_optimizer adam = iso_adam(0.01);
    trial_begin(&t, ctx, net_kind_find(kind), ISO_F64, ROWS);
    trial_mesh(&t, "data=1", (const int[]){0});
    trial_make(&t, NULL, &adam);
    for (int i = 0; i < STEPS; i++)
        losses[i] = trial_step(&t, i);
    trial_end(&t);
}

START_TEST(a_third_distribution_gives_the_numbers_of_one_slot)
{
    static const char *const nets[] = {"mlp", "convnet"};
    for (size_t n = 0; n < sizeof nets / sizeof *nets; n++) {
        trial t;
        double losses[STEPS];
        begin(&t, nets[n], "data=4,model=2");
        last_dimension how = {.mesh = t.mesh};
        iso_distribution_options options = {
            .data = split_rows, .variable = shard_kernels, .output = see_outputs, .arg = &how};
        check_ok(try_to_make(&t, &options));
        ck_assert_int_gt(how.sharded, 0);
        ck_assert_int_lt(how.sharded, how.asked);
        alone(nets[n], losses);
        for (int i = 0; i < STEPS; i++) {
            double loss = trial_step(&t, i);
            ck_assert_msg(fabs(loss - losses[i]) <= 1e-12 * fmax(1, fabs(losses[i])),
                          "%s: loss %d is %.17g, not %.17g", nets[n], i, loss, losses[i]);
        }
        trial_end(&t);
    }
}
END_TEST

START_TEST(all_ranks_are_asked_alike)
{
    trial t;
    begin(&t, "mlp", "data=4,model=2");
    last_dimension how = {.mesh = t.mesh};
    iso_distribution_options options = {
        .data = split_rows, .variable = shard_kernels, .output = see_outputs, .arg = &how};
    check_ok(try_to_make(&t, &options));
    uint64_t seen[8];
    ck_assert_int_le(iso_ranks(ctx), 8);
    check_ok(iso_gather_all(ctx, &how.seen, sizeof how.seen, seen));
    for (int r = 0; r < iso_ranks(ctx); r++)
        ck_assert_uint_eq(seen[r], how.seen);
    trial_end(&t);
}
END_TEST

typedef struct path_log {
    int paths;
    char path[64][64];
} path_log;

/* Lays out the last two, and logs every path that it is asked for. */
static iso_status log_outputs(void *arg, const char *path, const iso_shape *shape, char *layout, size_t size)
{
    path_log *log = arg;
    ck_assert_int_lt(log->paths, 64);
    snprintf(log->path[log->paths++], sizeof log->path[0], "%s", path);
    if (shape->rank == 2 && strcmp(path, "block/a/output") != 0)
        snprintf(layout, size, "data, model");
    return ISO_OK;
}

/* By its own name, and by that of the block that it is the output of. */
START_TEST(an_output_is_asked_for_once_in_each_function)
{
    iso_mesh *mesh = NULL;
    iso_distribution *distribution = NULL;
    iso_function *function = NULL;
    path_log log = {0};
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(6));
    iso_name_scope_begin(g, "block");
    iso_tensor *z = iso_sum(iso_name_scope_end(g, iso_dense(iso_dense(x, 8, .name = "a"), 4, .name = "b")));
    check_ok(iso_mesh_create(ctx, "data=2,model=2", &mesh));
    check_ok(iso_distribution_create(mesh, &distribution, .output = log_outputs, .arg = &log));
    iso_graph_distribute(g, distribution);
    check_ok(iso_function_create(g, &function, .inputs = {x}, .outputs = {z}));
    static const char *const paths[] = {"block/a/output", "block/b/output", "block/output"};
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
        int asked = 0;
        for (int i = 0; i < log.paths; i++)
            asked += strcmp(log.path[i], paths[k]) == 0;
        ck_assert_msg(asked == 1, "'%s' is asked for %d times", paths[k], asked);
    }
    iso_function_destroy(function);
    iso_graph_destroy(g);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
}
END_TEST

/* The same by a map: one mechanism, one program. */
static iso_status by_map(void *arg, const char *path, const iso_shape *shape, char *layout, size_t size)
{
    iso_layout found;
    const char *key;
    iso_status status = iso_layout_map_find(arg, path, shape, &found, &key);
    if (status == ISO_OK && key)
        iso_layout_text(iso_layout_map_mesh(arg), &found, layout, size);
    return status;
}

START_TEST(a_map_behind_callbacks_is_model_parallel)
{
    double loss[2][STEPS];
    for (int own = 0; own < 2; own++) {
        trial t;
        iso_optimizer adam = iso_adam(0.01);
        begin(&t, "mlp", "data=2,model=4");
        trial_layout(&t, "a/kernel", "-, model");
        trial_layout(&t, ".*/bias", "model");
        trial_layout(&t, "d/output", "data, -");
        iso_distribution_options options = {
            .data = rows_alone, .variable = by_map, .output = by_map, .arg = t.map};
        if (own)
            check_ok(try_to_make(&t, &options));
        else
            trial_make(&t, "data", &adam);
        for (int i = 0; i < STEPS; i++)
            loss[own][i] = trial_step(&t, i);
        trial_end(&t);
    }
    ck_assert_mem_eq(loss[0], loss[1], sizeof loss[0]);
}
END_TEST

/* ---- callbacks that answer wrongly ---- */

static iso_status answer(void *arg, const char *path, const iso_shape *shape, char *layout, size_t size)
{
    (void)shape;
    if (strcmp(path, "a/kernel") == 0 || strcmp(path, "a/output") == 0 || strncmp(path, "x/", 2) == 0)
        snprintf(layout, size, "%s", (const char *)arg);
    return ISO_OK;
}

static iso_status refuse(void *arg, const char *path, const iso_shape *shape, char *layout, size_t size)
{
    (void)shape;
    (void)layout;
    (void)size;
    return strcmp(path, "a/bias") ? ISO_OK : iso_error(ISO_INVALID, "%s", (const char *)arg);
}

static iso_status refuse_on_one_rank(void *arg, const char *path, const iso_shape *shape, char *layout,
                                     size_t size)
{
    return iso_rank(ctx) + 1 == iso_ranks(ctx) ? refuse(arg, path, shape, layout, size) : ISO_OK;
}

static iso_status differ(void *arg, const char *path, const iso_shape *shape, char *layout, size_t size)
{
    (void)arg;
    if (strcmp(path, "a/kernel") == 0 && iso_rank(ctx) == 1)
        snprintf(layout, size, "-, model");
    (void)shape;
    return ISO_OK;
}

/* An answer that changes nothing of the program is one that ranks must agree on too. */
static iso_status differ_in_words(void *arg, const char *path, const iso_shape *shape, char *layout,
                                  size_t size)
{
    (void)arg;
    if (strcmp(path, "a/output") == 0 && iso_rank(ctx) == 1)
        snprintf(layout, size, "data+model, -");
    (void)shape;
    return ISO_OK;
}

START_TEST(a_wrong_answer_names_the_path)
{
    static char words[] = "no room for it";
    static char rank[] = "model", axis[] = "-, depth", twice[] = "data, data", text[] = "-; -";
    const struct {
        iso_distribution_options how;
        const char *message;
    } wrong[] = {
        {{.variable = answer, .arg = rank}, "'a/kernel': layout 'model' has 1 entry, its shape is [7, 13]"},
        {{.variable = answer, .arg = axis},
         "'a/kernel': layout '-, depth', position 4: the mesh data=4,model=2 has no axis 'depth'"},
        {{.variable = answer, .arg = twice},
         "'a/kernel': layout 'data, data': an axis for the second time at position 7"},
        {{.variable = answer, .arg = text}, "'a/kernel': layout '-; -'"},
        {{.output = answer, .arg = rank}, "'a/output': layout 'model' has 1 entry"},
        {{.data = answer, .arg = rank}, "'x/output': layout 'model' has 1 entry"},
        {{.variable = refuse, .arg = words}, "the layout of 'a/bias': no room for it"},
        {{.variable = refuse_on_one_rank, .arg = words}, "the layout of 'a/bias': no room for it"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        trial t;
        begin(&t, "mlp", "data=4,model=2");
        check_refused_by_chief(try_to_make(&t, &wrong[i].how), wrong[i].message);
        ck_assert_ptr_null(t.train);
        trial_end(&t);
    }
}
END_TEST

START_TEST(ranks_that_are_told_different_things_notice)
{
    static const iso_layout_callback callbacks[] = {differ, differ_in_words};
    static const char *const messages[] = {
        "rank 0 has 'layout of 'a/kernel': (-, -)', rank 1 has 'layout of 'a/kernel': (-, model)'",
        "rank 0 has 'no other layout is given', rank 1 has 'layout of 'a/output': (data+model, -)'"};
    for (int i = 0; i < 2 && iso_ranks(ctx) > 1; i++) {
        trial t;
        iso_distribution_options how = {.variable = i ? NULL : callbacks[0],
                                        .output = i ? callbacks[1] : NULL};
        begin(&t, "mlp", "data=4,model=2");
        check_refused_by_chief(try_to_make(&t, &how), messages[i]);
        trial_end(&t);
    }
}
END_TEST

START_TEST(layouts_stay_as_the_first_function_found_them)
{
    trial t;
    iso_optimizer sgd = iso_sgd(0.1);
    iso_function *again = NULL;
    iso_function_options options = {.outputs = {NULL}};
    begin(&t, "mlp", "data=2,model=2");
    trial_make(&t, "data", &sgd);
    trial_layout(&t, "a/kernel", "-, model");
    options.outputs[0] = t.net.loss;
    memcpy(options.inputs, t.net.input, sizeof t.net.input);
    check_refused_by_chief(iso_function_create_with(t.net.graph, &again, &options, sizeof options),
                           "variable 'a/kernel' has layout '-, -' since the graph's first function and "
                           "cannot change to '-, model'");
    trial_end(&t);
}
END_TEST

/* Slots of optimizers, too: the callback is asked for each, and what it says is the numbers' affair no more
 * than other layouts. */
static iso_status cut_slots(void *arg, const char *path, const iso_shape *shape, char *layout, size_t size)
{
    look(arg, "slot", path, shape);
    if (strcmp(path, "optimizer:a/kernel/momentum") == 0)
        snprintf(layout, size, "-, data+model");
    else if (strcmp(path, "optimizer:b/bias/velocity") == 0)
        snprintf(layout, size, "model");
    return ISO_OK;
}

static iso_status wrong_slot(void *arg, const char *path, const iso_shape *shape, char *layout, size_t size)
{
    (void)arg;
    (void)shape;
    if (strcmp(path, "optimizer:a/kernel/velocity") == 0)
        snprintf(layout, size, "modle");
    return ISO_OK;
}

START_TEST(slots_of_optimizers_are_asked_for)
{
    trial t;
    double losses[STEPS];
    begin(&t, "mlp", "data=2,model=4");
    last_dimension how = {.mesh = t.mesh};
    iso_distribution_options options = {.optimizer = cut_slots, .arg = &how};
    check_ok(try_to_make(&t, &options));
    ck_assert_int_gt(how.asked, 0);
    alone("mlp", losses);
    for (int i = 0; i < STEPS; i++) {
        double loss = trial_step(&t, i);
        ck_assert_msg(fabs(loss - losses[i]) <= 1e-12 * fmax(1, fabs(losses[i])),
                      "loss %d is %.17g, not %.17g", i, loss, losses[i]);
    }
    trial_end(&t);
    begin(&t, "mlp", "data=2,model=4");
    options = (iso_distribution_options){.optimizer = wrong_slot};
    check_refused_by_chief(try_to_make(&t, &options),
                           "'optimizer:a/kernel/velocity': layout 'modle', position 1: the mesh");
    trial_end(&t);
}
END_TEST

/* Keys of what a function does not need are no mistakes: the dropout's output is another in training. */
START_TEST(keys_of_what_other_functions_need_are_taken)
{
    trial t;
    iso_function *infer = NULL;
    iso_function_options options = {.outputs = {NULL}};
    begin(&t, "mlp", "data=2,model=2");
    trial_layout(&t, "drop/output", "data, model");
    trial_layout(&t, "label/output", "-");
    trial_layout(&t, "optimizer:.*velocity", "model, -"); /* nobody knows of an optimizer yet */
    iso_layout_map_set_strict(t.map, true);
    check_ok(iso_model_parallel_create(t.map, &t.distribution));
    iso_graph_distribute(t.net.graph, t.distribution);
    options.outputs[0] = t.net.loss;
    memcpy(options.inputs, t.net.input, sizeof t.net.input);
    check_ok(iso_function_create_with(t.net.graph, &infer, &options, sizeof options));
    options.training = true;
    options.updates[0] = iso_minimize(t.net.loss, iso_sgd(0.1)); /* has no slots */
    check_refused_by_chief(iso_function_create_with(t.net.graph, &t.train, &options, sizeof options),
                           "layout key 'optimizer:.*velocity' (model, -) matches no");
    iso_function_destroy(infer);
    trial_end(&t);
}
END_TEST

/* The layer's and the block's layout of one tensor: the block's stays. */
START_TEST(a_block_has_the_last_word)
{
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *distribution = NULL;
    iso_function *function = NULL;
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(6));
    iso_name_scope_begin(g, "block");
    iso_tensor *y = iso_name_scope_end(g, iso_dense(x, 8, .name = "d"));
    iso_tensor *z = iso_sum(iso_square(y));
    check_ok(iso_mesh_create(ctx, "data=2,model=2", &mesh));
    check_ok(iso_layout_map_create(mesh, &map));
    iso_layout_map_set_strict(map, true);
    check_ok(iso_layout_map_set(map, "block/d/output", "data, model"));
    check_ok(iso_layout_map_set(map, "block/output", "-, data+model"));
    check_ok(iso_model_parallel_create(map, &distribution));
    iso_graph_distribute(g, distribution);
    check_ok(iso_function_create(g, &function, .inputs = {x}, .outputs = {z}));
    iso_layout last = {0};
    for (int v = 0; v < function->program->n_values; v++)
        if (function->program->values[v].tensor == y)
            last = function->program->values[v].layout;
    char text[ISO_LAYOUT_TEXT];
    ck_assert_str_eq(iso_layout_text(mesh, &last, text, sizeof text), "-, data+model");
    iso_function_destroy(function);
    iso_graph_destroy(g);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("distributions", 60, a_third_distribution_gives_the_numbers_of_one_slot,
                  all_ranks_are_asked_alike, an_output_is_asked_for_once_in_each_function,
                  a_map_behind_callbacks_is_model_parallel, a_wrong_answer_names_the_path,
                  ranks_that_are_told_different_things_notice, layouts_stay_as_the_first_function_found_them,
                  slots_of_optimizers_are_asked_for, keys_of_what_other_functions_need_are_taken,
                  a_block_has_the_last_word))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
