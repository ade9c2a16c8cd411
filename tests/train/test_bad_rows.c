/* An error of the data names the data set, the row of the batch and the row of the data set, as the user numbers it:
 * after every order of stages, in training and evaluation, in a later epoch, with rows in shares; batches of a
 * generator and rows of a cache file in an order of its own have no such number. Ranks: 1, 3 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/isogrid.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 50, BATCH = 8, WORDS = 3, TABLE = 60, CLASSES = 5, BAD = 37, LAST = 20, UNKNOWN = -1 };

static iso_context *ctx;
static char folder[64];

/* ---- rows: component 0 is [row's number, 0, 0], so that a test can find a row in a batch ---- */

static int32_t word[ROWS * WORDS], label[ROWS];

static void fill(void)
{
    for (int i = 0; i < ROWS; i++) {
        word[i * WORDS] = i;
        label[i] = i % CLASSES;
    }
}

static iso_dataset *open_rows(bool shares)
{
    iso_dataset *ds = NULL;
    int ranks = iso_ranks(ctx), rank = iso_rank(ctx);
    int64_t begin = shares ? ROWS * rank / ranks : 0, end = shares ? ROWS * (rank + 1) / ranks : ROWS;
    check_ok(iso_dataset_arrays(ctx, &ds, .local = shares,
                                .x = {word + begin * WORDS, ISO_I32, ISO_SHAPE(end - begin, WORDS)},
                                .y = {label + begin, ISO_I32, ISO_SHAPE(end - begin, 1)}));
    return ds;
}

/* ---- stages ---- */

static iso_status same(const iso_element *in, void *const *out, void *user)
{
    (void)user;
    memcpy(out[0], in->data[0], (size_t)in->rows * WORDS * sizeof(int32_t));
    memcpy(out[1], in->data[1], (size_t)in->rows * sizeof(int32_t));
    return ISO_OK;
}

static void batched(iso_dataset **ds)
{
    check_ok(iso_dataset_batch(*ds, BATCH));
}

static void shuffled(iso_dataset **ds)
{
    check_ok(iso_dataset_shuffle(*ds, 0));
    batched(ds);
}

static void shuffled_in_a_buffer(iso_dataset **ds)
{
    check_ok(iso_dataset_shuffle(*ds, 5));
    batched(ds);
}

static void shuffled_batches(iso_dataset **ds)
{
    batched(ds);
    check_ok(iso_dataset_shuffle(*ds, 0));
}

static void last_part(iso_dataset **ds)
{
    iso_dataset *last;
    check_ok(iso_dataset_split(*ds, LAST, &last));
    iso_dataset_destroy(*ds);
    *ds = last;
    shuffled(ds);
}

static void mapped_and_cached(iso_dataset **ds)
{
    check_ok(iso_dataset_shuffle(*ds, 0));
    check_ok(iso_dataset_map(*ds, same, .threads = 1));
    check_ok(iso_dataset_cache(*ds, NULL));
    shuffled(ds);
    check_ok(iso_dataset_prefetch(*ds, 2));
}

static void cached_in_a_file(iso_dataset **ds)
{
    check_ok(iso_dataset_map(*ds, same));
    check_ok(iso_dataset_cache(*ds, in_folder(folder, "plain.cache")));
    shuffled(ds);
}

static void cached_in_a_file_in_another_order(iso_dataset **ds)
{
    check_ok(iso_dataset_shuffle(*ds, 0));
    check_ok(iso_dataset_cache(*ds, in_folder(folder, "shuffled.cache")));
    batched(ds);
}

typedef struct order {
    void (*add)(iso_dataset **ds);
    int row; /* of the data set */
    bool shares;
} order;

static const order orders[] = {{batched, BAD, false},
                               {shuffled, BAD, false},
                               {shuffled_in_a_buffer, BAD, false},
                               {shuffled_batches, BAD, false},
                               {last_part, BAD, false},
                               {mapped_and_cached, BAD, false},
                               {cached_in_a_file, BAD, false},
                               {cached_in_a_file_in_another_order, UNKNOWN, false},
                               {batched, BAD, true},
                               {mapped_and_cached, BAD, true}};
enum { ORDERS = sizeof orders / sizeof *orders };

static iso_dataset *open_order(const order *o)
{
    iso_dataset *ds = open_rows(o->shares);
    o->add(&ds);
    return ds;
}

/* Where row BAD stands in its batch of an epoch: read from a data set with the same stages. */
static int64_t row_in_batch(const order *o, int64_t epoch)
{
    iso_dataset *ds = open_order(o);
    const iso_batch *batch;
    int32_t of[BATCH * WORDS];
    int64_t found = -1;
    check_ok(iso_dataset_rewind(ds, epoch));
    for (;;) {
        check_ok(iso_dataset_next(ds, &batch));
        if (!batch)
            break;
        if (batch->prepare)
            check_ok(batch->prepare(batch, &(iso_row_range){0, batch->rows}, 1));
        check_ok(batch->read(batch, 0, 0, batch->rows, ISO_I32, of));
        for (int64_t i = 0; i < batch->rows; i++)
            if (of[i * WORDS] == BAD)
                found = i;
    }
    ck_assert_int_ge(found, 0);
    iso_dataset_destroy(ds);
    return found;
}

/* ---- a model ---- */

static iso_model *build(void)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "words", ISO_I32, ISO_SHAPE(WORDS));
    iso_tensor *h = iso_flatten(iso_embedding(x, TABLE, 4));
    iso_model *model = iso_model_create(g, x, iso_dense(h, CLASSES));
    check_ok(iso_compile(model, .optimizer = iso_adam(1e-2), .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS));
    return model;
}

/* The name of the data set, and the beginning and the end of the message with the rows between. */
static void check_says(iso_status status, const char *begin, int64_t row, int source, const char *end)
{
    char of[64] = "", text[256];
    if (source != UNKNOWN)
        snprintf(of, sizeof of, " (row %d of the data set)", source);
    snprintf(text, sizeof text, "%s%s of row %d of the batch%s%s",
             source == UNKNOWN ? "" : "data set arrays: ", begin, (int)row, of, end);
    ck_assert_int_eq(status, ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), text) != NULL, "%s\nhas not: %s", iso_error_message(), text);
}

static void check_order(const order *o)
{
    const char *label_end = " is not one of the 5 classes",
               *word_end = ", position 2 is not one of the 60 rows of the table, in layer '";
    iso_model *model = build();
    int32_t kept = label[BAD];
    label[BAD] = 77;
    for (int epoch = 0; epoch < 3; epoch += 2) {
        iso_dataset *ds = open_order(o);
        check_says(iso_fit(model, ds, .verbose = ISO_ZERO, .epochs = epoch + 1, .initial_epoch = epoch),
                   "label 77", row_in_batch(o, epoch), o->row, label_end);
        iso_dataset_destroy(ds);
    }
    label[BAD] = kept;
    word[BAD * WORDS + 2] = 67;
    iso_dataset *ds = open_order(o);
    check_says(iso_evaluate(model, ds, .verbose = ISO_ZERO), "index 67", row_in_batch(o, 0), o->row,
               word_end);
    iso_dataset_destroy(ds);
    word[BAD * WORDS + 2] = 0;
    iso_model_destroy(model);
}

START_TEST(rows_of_the_data_set_are_named)
{
    for (int i = 0; i < ORDERS; i++) {
        check_ok(make_test_folder(ctx, folder));
        check_order(&orders[i]);
        check_ok(remove_test_folder(ctx, folder));
    }
}
END_TEST

/* The data set's rows are [words, 1], the model's [words]: the batch is read through another one. */
START_TEST(rows_of_another_shape_are_named)
{
    iso_model *model = build();
    iso_dataset *ds = NULL;
    label[BAD] = -1;
    check_ok(iso_dataset_arrays(ctx, &ds, .x = {word, ISO_I32, ISO_SHAPE(ROWS, WORDS, 1)},
                                .y = {label, ISO_I32, ISO_SHAPE(ROWS)}));
    check_says(iso_fit(model, ds, .verbose = ISO_ZERO), "label -1", BAD % 32, BAD,
               " is not one of the 5 classes");
    label[BAD] = 0;
    iso_dataset_destroy(ds);
    iso_model_destroy(model);
}
END_TEST

/* ---- generators ---- */

static iso_status read_generated(const iso_batch *batch, int component, int64_t begin, int64_t count,
                                 iso_dtype dtype, void *out)
{
    int64_t number = *(const int64_t *)batch->impl;
    ck_assert_int_eq(dtype, ISO_I32);
    for (int64_t i = 0; i < count * (component ? 1 : WORDS); i++)
        ((int32_t *)out)[i] = component && number == 2 && begin + i == 3 ? 9 : 0;
    return ISO_OK;
}

static iso_status next_batch(void *user, int64_t epoch, int64_t number, iso_batch *batch)
{
    (void)epoch;
    *(int64_t *)user = number;
    batch->read = read_generated;
    batch->impl = user;
    return ISO_OK;
}

START_TEST(rows_of_a_generator_have_no_number)
{
    iso_model *model = build();
    iso_dataset *ds = NULL;
    int64_t number = 0;
    check_ok(iso_dataset_generator(ctx, &ds, .next = next_batch, .user = &number, .batch_size = BATCH,
                                   .batches = 4, .shape = {ISO_SHAPE(WORDS), ISO_SHAPE(1)},
                                   .dtype = {ISO_I32, ISO_I32}));
    check_says(iso_fit(model, ds, .verbose = ISO_ZERO), "label 9", 3, UNKNOWN,
               " is not one of the 5 classes");
    iso_dataset_destroy(ds);
    iso_model_destroy(model);
}
END_TEST

int main(int argc, char **argv)
{
    if (iso_init(&argc, &argv, &ctx) != ISO_OK)
        return iso_finish(ctx, ISO_INVALID);
    fill();
    int code = RUN_TESTS("bad rows", 120, rows_of_the_data_set_are_named, rows_of_another_shape_are_named,
                         rows_of_a_generator_have_no_number);
    int end = iso_finish(ctx, ISO_OK);
    return code ? code : end;
}
