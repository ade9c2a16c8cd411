/* What the program's own functions return (`read` of a batch, of a generator's too, and a map) is the status
 * of the call that needed the rows, on all ranks, with the message; a generator's says of which batch it is. What
 * records no message does not get that of an earlier error. So do callbacks.
 * Ranks: 1, 3 */
#include <check.h>
#include <string.h>

#include "runtime/isogrid.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 16, BAD_BATCH = 1 };

static iso_context *ctx;
static iso_status code; /* that the function returns, on the last rank alone */
static int64_t number;  /* of the generator's batch */

static const iso_status codes[] = {ISO_INVALID, ISO_NO_MEMORY, ISO_IO, ISO_FAILED};

static bool silent; /* it records no message */

static iso_status fail_on_last(void)
{
    if (silent)
        return iso_rank(ctx) == iso_ranks(ctx) - 1 ? code : ISO_OK;
    return iso_rank(ctx) == iso_ranks(ctx) - 1 ? iso_error(code, "the program's own message") : ISO_OK;
}

static iso_status read_rows(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            iso_dtype dtype, void *out)
{
    (void)begin;
    memset(out, 0, (size_t)count * iso_dtype_size(dtype) * (component ? 1 : 3));
    return batch->impl && number < BAD_BATCH ? ISO_OK : fail_on_last();
}

static iso_status next(void *user, int64_t epoch, int64_t batch, iso_batch *out)
{
    (void)user, (void)epoch;
    number = batch;
    out->read = read_rows;
    out->impl = &number;
    return ISO_OK;
}

static iso_status map(const iso_element *in, void *const *out, void *user)
{
    (void)user;
    for (int i = 0; i < in->components; i++)
        memcpy(out[i], in->data[i], (i ? 1 : 3) * sizeof(float));
    return fail_on_last();
}

static void check_code(iso_status status)
{
    ck_assert_msg(status == code, "%d, not %d: %s", status, code, iso_error_message());
    const char *message = silent ? "recorded no message" : "the program's own message";
    ck_assert_msg(strstr(iso_error_message(), message) != NULL, "%s", iso_error_message());
}

/* An error that has nothing to do with what follows. */
static void fail_before(void)
{
    iso_error(ISO_INVALID, "an unrelated error");
    silent = true;
}

static void check_silent(iso_status status, const char *what)
{
    check_code(status);
    ck_assert_msg(strstr(iso_error_message(), what) != NULL, "%s", iso_error_message());
    ck_assert_msg(strstr(iso_error_message(), "unrelated") == NULL, "%s", iso_error_message());
    silent = false;
}

START_TEST(of_a_batch)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(3));
    iso_function *function;
    iso_batch batch = {
        .rows = ROWS, .n_components = 1, .shape = {ISO_SHAPE(3)}, .dtype = {ISO_F32}, .read = read_rows};
    double mean;
    check_ok(iso_function_create(graph, &function, .inputs = {x}, .outputs = {iso_mean(x)}));
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        code = codes[i];
        check_code(iso_function_run(function, &batch, &mean));
    }
    fail_before();
    check_silent(iso_function_run(function, &batch, &mean), "`read` of a batch returned ISO_FAILED");
    code = ISO_OK;
    check_ok(iso_function_run(function, &batch, &mean));
    iso_function_destroy(function);
    iso_graph_destroy(graph);
}
END_TEST

static void check_training(iso_dataset *data, const char *h5_path, const char *what)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(3));
    iso_model *model = iso_model_create(graph, x, iso_dense(x, 1));
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE));
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        code = codes[i];
        check_code(iso_fit(model, data, .verbose = ISO_ZERO));
        ck_assert_msg(strstr(iso_error_message(), h5_path) != NULL, "%s", iso_error_message());
    }
    fail_before();
    check_silent(iso_fit(model, data, .verbose = ISO_ZERO), what);
    code = ISO_OK;
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO));
    iso_model_destroy(model);
    iso_dataset_destroy(data);
}

START_TEST(of_a_generator)
{
    iso_dataset *data;
    check_ok(iso_dataset_generator(ctx, &data, .next = next, .batch_size = ROWS, .batches = 2,
                                   .shape = {ISO_SHAPE(3), ISO_SHAPE(1)}, .dtype = {ISO_F32, ISO_F32}));
    check_training(data, "generator, epoch 0, batch 1: the program's own message",
                   "batch 1: `read` returned ISO_FAILED");
}
END_TEST

static iso_status no_next(void *user, int64_t epoch, int64_t batch, iso_batch *out)
{
    (void)user, (void)epoch, (void)batch;
    out->read = read_rows;
    return fail_on_last();
}

START_TEST(of_a_generator_that_fails_at_once)
{
    iso_dataset *data;
    const iso_batch *batch;
    check_ok(iso_dataset_generator(ctx, &data, .next = no_next, .batch_size = ROWS, .batches = 2,
                                   .shape = {ISO_SHAPE(3), ISO_SHAPE(1)}, .dtype = {ISO_F32, ISO_F32}));
    fail_before();
    code = ISO_IO;
    check_silent(iso_dataset_next(data, &batch), "batch 0: `next` returned ISO_IO");
    iso_dataset_destroy(data);
}
END_TEST

START_TEST(of_a_map)
{
    iso_dataset *data;
    check_ok(iso_dataset_random(ctx, 2 * ROWS, &data, .shape = ISO_SHAPE(3), .targets = ISO_SHAPE(1)));
    check_ok(iso_dataset_map(data, map));
    check_ok(iso_dataset_batch(data, ROWS));
    check_training(data, "map of element ", ": the function returned ISO_FAILED");
}
END_TEST

START_TEST(of_a_map_whose_batches_are_fetched_ahead)
{
    iso_dataset *data;
    check_ok(iso_dataset_random(ctx, 2 * ROWS, &data, .shape = ISO_SHAPE(3), .targets = ISO_SHAPE(1)));
    check_ok(iso_dataset_map(data, map, .threads = 2));
    check_ok(iso_dataset_batch(data, ROWS));
    check_ok(iso_dataset_prefetch(data, 2));
    check_training(data, "map of element ", ": the function returned ISO_FAILED");
}
END_TEST

static iso_status epoch_end(void *user, iso_fit_state *state)
{
    (void)user, (void)state;
    return fail_on_last();
}

START_TEST(of_a_callback)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(3));
    iso_model *model = iso_model_create(graph, x, iso_dense(x, 1));
    iso_dataset *data;
    check_ok(iso_dataset_random(ctx, 2 * ROWS, &data, .shape = ISO_SHAPE(3), .targets = ISO_SHAPE(1)));
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE));
    code = ISO_IO;
    check_code(iso_fit(model, data, .verbose = ISO_ZERO,
                       .callbacks = (iso_callback *[]){iso_callback_create(.epoch_end = epoch_end), NULL}));
    fail_before();
    check_silent(iso_fit(model, data, .verbose = ISO_ZERO,
                         .callbacks = (iso_callback *[]){iso_callback_create(.epoch_end = epoch_end), NULL}),
                 "epoch_end of a callback returned ISO_IO");
    iso_model_destroy(model);
    iso_dataset_destroy(data);
}
END_TEST

int main(void)
{
    int failed = 1;
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status == ISO_OK)
        failed = RUN_TESTS("user errors", 0, of_a_batch, of_a_generator, of_a_generator_that_fails_at_once,
                           of_a_map, of_a_callback, of_a_map_whose_batches_are_fetched_ahead);
    return iso_finish(ctx, status) || failed;
}
