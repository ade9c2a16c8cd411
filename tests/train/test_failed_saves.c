/* A save that fails while training goes on. With stop_on_error the steps end soon, with its error, and no other save
 * begins; otherwise the chief warns then. Later trainings of the context do not stop. Ranks: 1, 3 */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "runtime/base/log.h"
#include "runtime/isogrid.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { STEPS = 2500, FREQUENCY = 1000 };

static iso_context *ctx;
static iso_model *model;
static iso_dataset *data;
static char folder[64];
static int64_t step, warned_at; /* steps that have ended; when the first warning came, 0: it has not */
static int warnings;
static char warning[1024];

static void set_up(void)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(2));
    model = iso_model_create(graph, x, iso_dense(x, 3));
    check_ok(iso_dataset_random(ctx, 3 * STEPS, &data, .shape = ISO_SHAPE(2), .targets = ISO_SHAPE(3)));
    check_ok(iso_dataset_batch(data, 3));
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE, .optimizer = iso_sgd(0.01)));
    check_ok(make_test_folder(ctx, folder));
    step = warned_at = warnings = 0;
}

static void tear_down(void)
{
    check_ok(remove_test_folder(ctx, folder));
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}

/* A file cannot take the place of a folder, so the save of a file of this name fails when it is committed. */
static void block(const char *name)
{
    if (iso_is_chief(ctx))
        ck_assert_int_eq(mkdir(in_folder(folder, name), 0777), 0);
}

/* After the save has begun, steps take long until its failure is known, and so the next save is far away then. */
static iso_status count_step(void *user, iso_fit_state *state)
{
    (void)user;
    step = state->batch + 1;
    if (step == FREQUENCY - 1)
        block("1000.weights.h5");
    if (step > FREQUENCY && step < 2 * FREQUENCY && !warned_at && iso_is_chief(ctx))
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    return ISO_OK;
}

static void note_warning(void *user, const char *text)
{
    (void)user;
    warnings++;
    snprintf(warning, sizeof warning, "%s", text);
    warned_at = warned_at ? warned_at : step;
}

static iso_status train(bool stop_on_error)
{
    iso_callback *list[] = {iso_model_checkpoint(in_folder(folder, "{batch}.weights.h5"),
                                                 .save_freq = FREQUENCY, .stop_on_error = stop_on_error),
                            iso_callback_create(.batch_end = count_step), NULL};
    return iso_fit(model, data, .callbacks = list, .verbose = ISO_ZERO);
}

START_TEST(it_ends_the_steps)
{
    ck_assert_int_eq(train(true), ISO_IO);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "1000.weights.h5: "));
    ck_assert_int_gt(step, FREQUENCY);
    ck_assert_int_lt(step, 2 * FREQUENCY);
    ck_assert(!iso_stop_requested(ctx));
    check_ok(iso_evaluate(model, data, .verbose = ISO_ZERO));
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO));
}
END_TEST

/* The first save fails when it is committed, the second one when it begins: a file has the name of its folder. */
static iso_status block_two(void *user, iso_fit_state *state)
{
    (void)user;
    if (state->batch == 0) {
        block("1");
        block("1/a.weights.h5");
        FILE *file = iso_is_chief(ctx) ? fopen(in_folder(folder, "2"), "w") : NULL;
        if (file)
            fclose(file);
    }
    return ISO_OK;
}

START_TEST(the_first_one_is_named)
{
    iso_callback *list[] = {iso_model_checkpoint(in_folder(folder, "{batch}/a.weights.h5"), .save_freq = 1,
                                                 .stop_on_error = true),
                            iso_callback_create(.batch_end = block_two), NULL};
    ck_assert_int_eq(iso_fit(model, data, .callbacks = list, .verbose = ISO_ZERO), ISO_IO);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "/1/a.weights.h5: "));
}
END_TEST

START_TEST(it_is_told_at_once)
{
    iso_set_warning_handler(note_warning, NULL);
    check_ok(train(false));
    iso_set_warning_handler(NULL, NULL);
    ck_assert_int_eq(step, STEPS);
    ck_assert_int_eq(warnings, iso_is_chief(ctx));
    if (iso_is_chief(ctx)) {
        ck_assert_ptr_nonnull(strstr(warning, "1000.weights.h5: "));
        ck_assert_int_gt(warned_at, FREQUENCY);
        ck_assert_int_lt(warned_at, 2 * FREQUENCY);
    }
}
END_TEST

int main(void)
{
    int failed = 1;
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status == ISO_OK)
        failed = RUN_TESTS_WITH("failed saves", 0, set_up, tear_down, it_ends_the_steps,
                                the_first_one_is_named, it_is_told_at_once);
    return iso_finish(ctx, status) || failed;
}
