/* iso_model_restore_or_create: a training goes on with weights, optimizer state and random numbers of the
 * newest checkpoint to the last bit, whichever function of the graph is made first: compiled in the builder,
 * compiled afterwards, after a prediction, after a function of the program's own, never. Ranks: 1, 3, 8 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "collectives/control/control.h"
#include "runtime/base/hash.h"
#include "runtime/isogrid.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 20, WIDTH = 6, OUTPUTS = 3 };

static iso_context *ctx;
static char folder[64], elsewhere[64];

/* ---- the model ---- */

static iso_model *build(iso_context *context)
{
    iso_graph *graph = iso_graph_create(context);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(WIDTH));
    iso_tensor *h = iso_dropout(iso_batch_norm(iso_dense(x, 9, .activation = ISO_RELU)), 0.3);
    return iso_model_create(graph, x, iso_dense(h, OUTPUTS));
}

static iso_status compile(iso_model *model)
{
    return iso_compile(model, .optimizer = iso_adam(0.05), .loss = ISO_LOSS_MSE);
}

static iso_model *build_compiled(iso_context *context)
{
    iso_model *model = build(context);
    check_ok(compile(model));
    return model;
}

static iso_dataset *make_data(void)
{
    iso_dataset *data = NULL;
    check_ok(iso_dataset_random(ctx, ROWS, &data, .shape = ISO_SHAPE(WIDTH), .targets = ISO_SHAPE(OUTPUTS)));
    check_ok(iso_dataset_shuffle(data, 0));
    check_ok(iso_dataset_batch(data, 7));
    return data;
}

static void predict(iso_model *model, float *y)
{
    iso_dataset *data = make_data();
    check_ok(iso_predict(model, data, .outputs = {y}, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
}

/* A number of all variables but the optimizer's. */
static uint64_t weights_of(iso_model *model)
{
    static double values[WIDTH * 16];
    uint64_t hash = 0;
    const iso_graph *graph = iso_model_graph(model);
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        iso_variable *variable = iso_graph_variable(graph, i);
        int64_t count = 0;
        if (iso_path_below_optimizer(iso_variable_path(variable)))
            continue;
        check_ok(iso_shape_count(iso_variable_shape(variable), &count));
        ck_assert_int_le(count, WIDTH * 16);
        check_ok(iso_variable_read(variable, values, count));
        hash = iso_hash_bytes(hash, values, (size_t)count * sizeof *values);
    }
    return hash;
}

static void fit(iso_model *model, int epochs, const char *save)
{
    iso_dataset *data = make_data();
    iso_callback *list[] = {save ? iso_model_checkpoint(save, .stop_on_error = true, .waits = true) : NULL,
                            NULL};
    check_ok(iso_fit(model, data, .epochs = epochs, .callbacks = list, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
}

/* ---- what a training without a break gives ---- */

static uint64_t first, second, third; /* behind the epochs of checkpoints 1 and 2, and one more */
static float outputs[ROWS * OUTPUTS]; /* of checkpoint 2 */

static const char *in(const char *name)
{
    return in_folder(folder, name);
}

static void set_up(void)
{
    check_ok(make_test_folder(ctx, folder));
    check_ok(make_test_folder(ctx, elsewhere));
    iso_model *model = build_compiled(ctx);
    fit(model, 1, NULL);
    first = weights_of(model);
    check_ok(iso_model_save_weights(model, in_folder(elsewhere, "one.weights.h5")));
    iso_model_destroy(model);
    model = build_compiled(ctx);
    fit(model, 2, in("c-{epoch}.weights.h5"));
    second = weights_of(model);
    predict(model, outputs);
    fit(model, 1, NULL);
    third = weights_of(model);
    iso_model_destroy(model);
    ck_assert(first != second && second != third);
}

static void tear_down(void)
{
    check_ok(remove_test_folder(ctx, folder));
    check_ok(remove_test_folder(ctx, elsewhere));
}

static iso_model *restore(iso_model *(*builder)(iso_context *))
{
    iso_model *model = NULL;
    check_ok(iso_model_restore_or_create(ctx, folder, builder, &model));
    return model;
}

static void check_weights(const char *what, iso_model *model, uint64_t expected)
{
    ck_assert_msg(weights_of(model) == expected, "%s: other weights", what);
}

static void check_outputs(const char *what, iso_model *model)
{
    static float y[ROWS * OUTPUTS];
    predict(model, y);
    ck_assert_msg(memcmp(y, outputs, sizeof y) == 0, "%s: other predictions", what);
}

/* Weights, and by one more epoch the optimizer's state, its iterations and dropout's. */
static void check_goes_on(const char *what, iso_model *model)
{
    double iteration;
    check_weights(what, model, second);
    check_ok(iso_variable_read(iso_model_variable(model, "optimizer/iteration"), &iteration, 1));
    ck_assert_msg(iteration == 6, "%s: iteration %g", what, iteration);
    ck_assert_msg(iso_graph_steps(iso_model_graph(model)) == 6, "%s: step %d of random numbers", what,
                  (int)iso_graph_steps(iso_model_graph(model)));
    fit(model, 1, NULL);
    check_weights(what, model, third);
}

/* ---- the orders ---- */

START_TEST(compiled_in_the_builder)
{
    iso_model *model = restore(build_compiled);
    check_goes_on("compiled in the builder", model);
    iso_model_destroy(model);
}
END_TEST

START_TEST(compiled_afterwards)
{
    iso_model *model = restore(build);
    check_ok(compile(model));
    check_goes_on("compiled afterwards", model);
    iso_model_destroy(model);
}
END_TEST

START_TEST(what_is_missing_is_named)
{
    iso_model *model;
    check_refused(iso_model_restore_or_create(ctx, NULL, build, &model), "folder is NULL");
    check_refused(iso_model_restore_or_create(ctx, "/tmp", NULL, &model), "build is NULL");
    check_refused(iso_model_restore_or_create(ctx, "/tmp", build, NULL), "model is NULL");
}
END_TEST

START_TEST(never_compiled)
{
    iso_model *model = restore(build);
    check_outputs("never compiled", model);
    check_weights("never compiled", model, second);
    iso_model_destroy(model);
    model = restore(build_compiled);
    check_outputs("compiled in the builder", model);
    iso_model_destroy(model);
}
END_TEST

START_TEST(compiled_after_predicting)
{
    iso_model *model = restore(build);
    check_outputs("before compiling", model);
    check_ok(compile(model));
    check_outputs("after compiling", model);
    check_goes_on("compiled after predicting", model);
    iso_model_destroy(model);
}
END_TEST

/* What a program assigns before it compiles stays: compiling reads the optimizer's state alone. */
START_TEST(assigned_before_compiling)
{
    double bias[OUTPUTS] = {1, 2, 3}, read[OUTPUTS], iteration;
    iso_model *model = restore(build);
    check_outputs("before assigning", model);
    check_ok(iso_variable_assign(iso_model_variable(model, "dense_1/bias"), bias, OUTPUTS));
    check_ok(compile(model));
    check_ok(iso_variable_read(iso_model_variable(model, "dense_1/bias"), read, OUTPUTS));
    ck_assert_mem_eq(bias, read, sizeof bias);
    check_ok(iso_variable_read(iso_model_variable(model, "optimizer/iteration"), &iteration, 1));
    ck_assert(iteration == 6);
    iso_model_destroy(model);
}
END_TEST

/* A function of the program's own, without and before compiling; in the builder and behind it. */
static iso_function *own;

static void make_own(iso_model *model)
{
    check_ok(iso_function_create(iso_model_graph(model), &own, .inputs = {iso_model_input(model)},
                                 .outputs = {iso_model_output(model)}));
}

static iso_model *build_with_function(iso_context *context)
{
    iso_model *model = build(context);
    make_own(model);
    return model;
}

START_TEST(with_a_function_of_ones_own)
{
    iso_model *model = restore(build);
    make_own(model);
    check_weights("behind the builder", model, second);
    check_ok(compile(model));
    check_goes_on("behind the builder", model);
    iso_function_destroy(own);
    iso_model_destroy(model);
    model = restore(build_with_function);
    check_weights("in the builder", model, second);
    check_ok(compile(model));
    check_goes_on("in the builder", model);
    iso_function_destroy(own);
    iso_model_destroy(model);
}
END_TEST

START_TEST(saved_or_loaded_before_compiling)
{
    double iteration;
    iso_model *model = restore(build);
    check_ok(iso_model_save_weights(model, in_folder(elsewhere, "again.weights.h5")));
    check_weights("saved", model, second);
    check_ok(iso_model_load_weights(model, in_folder(elsewhere, "one.weights.h5")));
    check_ok(compile(model)); /* the optimizer's state of another file than the weights is not wanted */
    check_weights("loaded", model, first);
    check_ok(iso_variable_read(iso_model_variable(model, "optimizer/iteration"), &iteration, 1));
    ck_assert(iteration == 0);
    iso_model_destroy(model);
}
END_TEST

/* ---- folders and files ---- */

/* Wherever a checkpoint is named, its folder and DIR/latest name the newest, and DIR/best the one that is marked. */
START_TEST(a_checkpoint_is_named_by_its_folder)
{
    char names[3][400], best[400];
    uint64_t resumed = 0;
    snprintf(names[0], sizeof names[0], "%s/c-2.weights.h5", folder);
    snprintf(names[1], sizeof names[1], "%s", folder);
    snprintf(names[2], sizeof names[2], "%s/latest", folder);
    snprintf(best, sizeof best, "%s/best", folder);
    for (int i = 0; i < 3; i++) {
        iso_model *model = build_compiled(ctx);
        check_ok(iso_model_load_weights(model, names[i]));
        check_weights(names[i], model, second);
        iso_model_destroy(model);
        model = build_compiled(ctx);
        iso_dataset *data = make_data();
        check_ok(iso_fit(model, data, .epochs = 3, .resume = names[i], .verbose = ISO_ZERO));
        resumed = i == 0 ? weights_of(model) : resumed;
        check_weights("resumed", model, resumed);
        check_refused(iso_fit(model, data, .resume = best, .verbose = ISO_ZERO), "has no best checkpoint");
        check_refused(iso_model_load_weights(model, best), "has no best checkpoint");
        iso_dataset_destroy(data);
        iso_model_destroy(model);
    }
}
END_TEST

static iso_model *build_other(iso_context *context)
{
    iso_graph *graph = iso_graph_create(context);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(WIDTH));
    return iso_model_create(graph, x, iso_dense(x, OUTPUTS + 1));
}

static iso_model *build_other_compiled(iso_context *context)
{
    iso_model *model = build_other(context);
    check_ok(compile(model));
    return model;
}

static void damage(const char *path)
{
    if (iso_is_chief(ctx)) {
        FILE *file = fopen(path, "r+b");
        ck_assert(file && fseek(file, -4000, SEEK_END) == 0);
        for (int i = 0; i < 1000; i++)
            fputc(0x5a, file);
        fclose(file);
    }
    check_ok(iso_agree(ctx, ISO_OK));
}

START_TEST(a_damaged_newest_one_is_passed_over)
{
    damage(in("c-2.weights.h5"));
    iso_model *model = restore(build_compiled);
    check_weights("the one before", model, first);
    fit(model, 1, NULL);
    iso_model_destroy(model);
    damage(in("c-1.weights.h5"));
    uint64_t fresh;
    model = build_compiled(ctx);
    fresh = weights_of(model);
    iso_model_destroy(model);
    model = restore(build_compiled);
    check_weights("none", model, fresh);
    iso_model_destroy(model);
}
END_TEST

START_TEST(an_empty_folder_and_none)
{
    char empty[64];
    check_ok(make_test_folder(ctx, empty));
    iso_model *model = build_compiled(ctx);
    uint64_t fresh = weights_of(model);
    iso_model_destroy(model);
    check_ok(iso_model_restore_or_create(ctx, empty, build_compiled, &model));
    check_weights("empty", model, fresh);
    iso_model_destroy(model);
    check_ok(remove_test_folder(ctx, empty));
    check_ok(iso_model_restore_or_create(ctx, in("no/such/folder"), build, &model));
    check_ok(compile(model));
    check_weights("none", model, fresh);
    iso_model_destroy(model);
}
END_TEST

/* The weights are read, the other optimizer's state is not. */
START_TEST(another_optimizer)
{
    double iteration;
    iso_model *model = restore(build);
    check_ok(iso_compile(model, .optimizer = iso_sgd(0.05, .momentum = 0.9), .loss = ISO_LOSS_MSE));
    check_weights("another optimizer", model, second);
    check_ok(iso_variable_read(iso_model_variable(model, "optimizer/iteration"), &iteration, 1));
    ck_assert(iteration == 0);
    iso_model_destroy(model);
}
END_TEST

START_TEST(a_checkpoint_of_another_model)
{
    iso_model *model = NULL;
    check_refused(iso_model_restore_or_create(ctx, folder, build_other_compiled, &model), "c-2.weights.h5");
    ck_assert_ptr_null(model);
    check_ok(iso_model_restore_or_create(ctx, folder, build_other, &model));
    for (int i = 0; i < 2; i++)
        check_refused(compile(model), "c-2.weights.h5");
    ck_assert_ptr_null(iso_model_variable(model, "optimizer/iteration"));
    ck_assert_ptr_null(iso_model_optimizer(model));
    iso_model_destroy(model);
}
END_TEST

/* What is saved later is newer, though epochs are counted from 0 again and files take each other's place. */
START_TEST(what_is_saved_next_is_the_newest)
{
    iso_model *model = restore(build_compiled);
    fit(model, 1, in("c-{epoch}.weights.h5"));
    check_weights("one more epoch", model, third);
    iso_model_destroy(model);
    model = restore(build);
    check_ok(compile(model));
    check_weights("the next run", model, third);
    fit(model, 1, in("c-{epoch}.weights.h5"));
    uint64_t fourth = weights_of(model);
    iso_model_destroy(model);
    model = restore(build_compiled);
    check_weights("the run after that", model, fourth);
    iso_model_destroy(model);
}
END_TEST

/* A name that a folder has: the file is complete under a free name, which the message states. */
START_TEST(a_file_that_cannot_get_its_name_is_kept)
{
    static const char *const names[][2] = {{"taken.weights.h5", "taken-2.weights.h5"},
                                           {"taken.keras", "taken-2.keras"}};
    for (int i = 0; i < 2; i++) {
        iso_model *model = build_compiled(ctx);
        char kept[256];
        fit(model, 1, NULL);
        if (iso_is_chief(ctx))
            ck_assert_int_eq(mkdir(in_folder(elsewhere, names[i][0]), 0777), 0);
        check_ok(iso_agree(ctx, ISO_OK));
        snprintf(kept, sizeof kept, "%s", in_folder(elsewhere, names[i][1]));
        const char *path = in_folder(elsewhere, names[i][0]);
        ck_assert_int_eq(i ? iso_keras_save(model, path) : iso_model_save_weights(model, path), ISO_IO);
        ck_assert_msg(strstr(iso_error_message(), kept), "%s", iso_error_message());
        iso_model_destroy(model);
        model = build_compiled(ctx);
        check_ok(i ? iso_keras_load_weights(model, kept) : iso_model_load_weights(model, kept));
        ck_assert(weights_of(model) == first);
        iso_model_destroy(model);
    }
}
END_TEST

int main(int argc, char **argv)
{
    int failed = 1;
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK)
        failed = RUN_TESTS_WITH("restore", 120, set_up, tear_down, compiled_in_the_builder,
                                compiled_afterwards, what_is_missing_is_named, never_compiled,
                                compiled_after_predicting, assigned_before_compiling,
                                with_a_function_of_ones_own, saved_or_loaded_before_compiling,
                                a_damaged_newest_one_is_passed_over, a_checkpoint_is_named_by_its_folder,
                                an_empty_folder_and_none, another_optimizer, a_checkpoint_of_another_model,
                                what_is_saved_next_is_the_newest, a_file_that_cannot_get_its_name_is_kept);
    return iso_finish(ctx, status) || failed;
}
