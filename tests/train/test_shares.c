/* Training on rows in shares (.local) and on generators: losses, metrics, weights and predictions are, to the
 * last bit, those of the same rows in arrays that every rank holds. Ranks: 1, 3   More: 2 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "models/models.h"
#include "runtime/base/random.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/data.h"
#include "runtime/isogrid_mpi.h"
#include "runtime/session/session.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static char folder[64];

enum { ROWS = 37, LAST = 9, BATCH = 7, PIXELS = 36, EPOCHS = 2, OUTPUTS = 3 };

static uint8_t image[ROWS * PIXELS];
static int32_t label[ROWS];
static float weight[ROWS];

static void fill(void)
{
    for (int i = 0; i < ROWS * PIXELS; i++)
        image[i] = (uint8_t)iso_random_word(1, (uint64_t)i, 0);
    for (int i = 0; i < ROWS; i++) {
        label[i] = (int32_t)(iso_random_word(2, (uint64_t)i, 0) % OUTPUTS);
        weight[i] = 0.25f * (float)(1 + i % 5);
    }
}

static iso_model *build(iso_context *of)
{
    iso_graph *g = iso_graph_create(of);
    iso_tensor *x = iso_input(g, "image", ISO_F32, ISO_SHAPE(6, 6, 1));
    iso_tensor *h = iso_conv2d(iso_rescaling(x, 1.0 / 255), 4, 3, .padding = ISO_SAME, .no_bias = true);
    h = iso_relu(iso_batch_norm(h));
    h = iso_dropout(iso_dense(iso_flatten(h), 10, .activation = ISO_RELU, .name = "d1"), 0.4);
    return iso_model_create(g, x, iso_dense(h, OUTPUTS, .name = "d2"));
}

/* ---- who has what ---- */

enum { ALL_RANKS, ON_RANK_0, EVEN, UNEVEN, SOME_EMPTY, WAYS };

static iso_dataset *open_arrays(iso_context *of, int way, bool lend)
{
    iso_dataset *ds = NULL;
    int ranks = iso_ranks(of), rank = iso_rank(of);
    int64_t mine[3] = {way == ON_RANK_0 ? rank == 0
                       : way == EVEN    ? 1
                       : way == UNEVEN  ? 1 + rank * rank
                                        : rank % 2};
    int64_t all = 0, before = 0;
    for (int r = 0; r < ranks; r++) {
        int64_t theirs = way == ON_RANK_0 ? r == 0 : way == EVEN ? 1 : way == UNEVEN ? 1 + r * r : r % 2;
        all += theirs;
        before += r < rank ? theirs : 0;
    }
    if (all == 0) /* one rank */
        all = mine[0] = 1;
    int64_t begin = ROWS * before / all, count = ROWS * (before + mine[0]) / all - begin;
    if (way == ALL_RANKS)
        begin = 0, count = ROWS;
    check_ok(iso_dataset_arrays(of, &ds, .local = way != ALL_RANKS, .lend = lend,
                                .x = {image + begin * PIXELS, ISO_U8, ISO_SHAPE(count, 6, 6)},
                                .y = {label + begin, ISO_I32, ISO_SHAPE(count, 1)},
                                .sample_weight = {weight + begin, ISO_F32, ISO_SHAPE(count)}));
    return ds;
}

/* ---- a training ---- */

typedef struct result {
    double logs[EPOCHS][8], evaluated[3];
    float predicted[LAST * OUTPUTS];
    iso_fingerprint weights;
} result;

typedef struct setting {
    const char *mesh;
    bool some; /* two slots, on the last rank and on the first: others idle */
    int zero;
    bool map, drop; /* a map with prefetch and a cache; the last batch is left out */
} setting;

static iso_status after_epoch(void *user, iso_fit_state *state)
{
    result *r = user;
    for (int i = 0; i < state->logs.count && i < 8; i++)
        r->logs[state->epoch][i] = state->logs.value[i];
    return ISO_OK;
}

static iso_status invert(const iso_element *in, void *const *out, void *user)
{
    (void)user;
    for (int i = 0; i < PIXELS; i++)
        ((uint8_t *)out[0])[i] = (uint8_t)(255 - ((const uint8_t *)in->data[0])[i]);
    *(int32_t *)out[1] = *(const int32_t *)in->data[1];
    *(float *)out[2] = *(const float *)in->data[2];
    return ISO_OK;
}

static void add_stages(const setting *s, iso_dataset *data, iso_dataset *last)
{
    if (s->map)
        check_ok(iso_dataset_map(data, invert, .threads = 2));
    if (s->map)
        check_ok(iso_dataset_cache(data, NULL));
    check_ok(iso_dataset_shuffle(data, 0));
    check_ok(iso_dataset_batch(data, BATCH, .drop_remainder = s->drop));
    if (s->map)
        check_ok(iso_dataset_prefetch(data, 2));
    check_ok(iso_dataset_batch(last, 4));
}

static void make_distribution(const setting *s, iso_context *of, iso_mesh **mesh,
                              iso_distribution **distribution)
{
    const int last_and_first[] = {iso_ranks(of) - 1, 0};
    check_ok(s->some ? iso_mesh_create_on(of, "data=2", last_and_first, 2, mesh)
                     : iso_mesh_create(of, s->mesh, mesh));
    check_ok(iso_data_parallel_create(*mesh, distribution));
    if (s->zero)
        check_ok(iso_distribution_set_zero(*distribution, s->zero));
}

static void compile(iso_model *model, iso_distribution *distribution)
{
    check_ok(iso_compile(model, .optimizer = iso_adam(1e-2), .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                         .metrics = {ISO_METRIC_SPARSE_ACCURACY}, .sample_weights = true,
                         .distribution = distribution));
}

/* resume: a checkpoint to go on from; save: where to write some. */
static void train(iso_context *of, int way, const setting *s, const char *resume, const char *save,
                  int epochs, result *r)
{
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_model *model = build(of);
    iso_dataset *data = open_arrays(of, way, true), *last;
    iso_callback *callbacks[3] = {iso_callback_create(.epoch_end = after_epoch, .user = r),
                                  save ? iso_model_checkpoint(save, .save_freq = 3) : NULL};
    memset(r, 0, sizeof *r);
    check_ok(iso_dataset_split(data, LAST, &last));
    add_stages(s, data, last);
    make_distribution(s, of, &mesh, &distribution);
    compile(model, distribution);
    check_ok(iso_fit(model, data, .epochs = epochs, .validation = last, .callbacks = callbacks,
                     .resume = resume, .verbose = ISO_ZERO));
    check_ok(
        iso_evaluate(model, last, .loss = r->evaluated, .metrics = r->evaluated + 1, .verbose = ISO_ZERO));
    check_ok(iso_predict(model, last, .outputs = {r->predicted}, .verbose = ISO_ZERO));
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &r->weights));
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    iso_dataset_destroy(last);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
}

static void check_same(const setting *s, int way, const result *a, const result *b)
{
    ck_assert_msg(!memcmp(&a->weights, &b->weights, sizeof a->weights), "mesh %s, way %d: other weights",
                  s->mesh, way);
    ck_assert_msg(!memcmp(a->evaluated, b->evaluated, sizeof a->evaluated), "way %d: another evaluation",
                  way);
    ck_assert_msg(!memcmp(a->predicted, b->predicted, sizeof a->predicted), "way %d: other predictions", way);
    ck_assert_msg(!memcmp(a->logs[EPOCHS - 1], b->logs[EPOCHS - 1], sizeof a->logs[0]), "way %d: other logs",
                  way);
}

static const setting settings[] = {{.mesh = "data=8"},
                                   {.mesh = "data=4,model=2", .zero = 3, .map = true},
                                   {.mesh = "data=8", .drop = true, .map = true},
                                   {.mesh = "", .some = true}};

START_TEST(test_training)
{
    for (int s = 0; s < 4; s++) {
        result one, other;
        train(ctx, ALL_RANKS, &settings[s], NULL, NULL, EPOCHS, &one);
        for (int way = s ? UNEVEN + s % 2 : ON_RANK_0; way < (s ? UNEVEN + s % 2 + 1 : WAYS); way++) {
            train(ctx, way, &settings[s], NULL, NULL, EPOCHS, &other);
            check_same(&settings[s], way, &one, &other);
        }
    }
}
END_TEST

/* A training goes on with the rows in other shares. */
START_TEST(test_resumption)
{
    char save[200], from[200];
    result whole, first, second;
    snprintf(save, sizeof save, "%s/{epoch}-{batch}.weights.h5", folder);
    snprintf(from, sizeof from, "%s/1-3.weights.h5", folder); /* within the first epoch */
    train(ctx, ALL_RANKS, &settings[0], NULL, NULL, EPOCHS, &whole);
    train(ctx, UNEVEN, &settings[0], NULL, save, 1, &first);
    train(ctx, SOME_EMPTY, &settings[0], from, NULL, EPOCHS, &second);
    check_same(&settings[0], SOME_EMPTY, &whole, &second);
}
END_TEST

/* ---- a communicator of the caller's ---- */

START_TEST(test_own_communicator)
{
    MPI_Comm halves;
    iso_context *half = NULL;
    result one, other;
    int running = 0, rank = iso_rank(ctx);
    MPI_Initialized(&running);
    if (!running)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &halves); /* two trainings at once, ranks turned round */
    check_ok(iso_init_on(halves, NULL, NULL, &half));
    train(half, ALL_RANKS, &settings[0], NULL, NULL, EPOCHS, &one);
    train(half, UNEVEN, &settings[0], NULL, NULL, EPOCHS, &other);
    check_same(&settings[0], UNEVEN, &one, &other);
    ck_assert_int_eq(iso_finish(half, ISO_OK), 0);
    MPI_Comm_free(&halves);
    check_ok(iso_agree(ctx, ISO_OK));
}
END_TEST

/* ---- a rank that fails alone ---- */

static iso_status fail_on_rank_0(const iso_element *in, void *const *out, void *user)
{
    iso_status status = invert(in, out, user);
    if (*(const int32_t *)in->data[1] == 2 && iso_rank(ctx) == 0)
        return iso_error(ISO_FAILED, "my map does not like label 2");
    return status;
}

START_TEST(test_a_map_that_fails_on_one_rank)
{
    for (int64_t ahead = 0; ahead < 3; ahead += 2) {
        iso_model *model = build(ctx);
        iso_dataset *data = open_arrays(ctx, EVEN, false);
        check_ok(iso_dataset_map(data, fail_on_rank_0, .threads = (int)ahead));
        check_ok(iso_dataset_shuffle(data, 0));
        check_ok(iso_dataset_batch(data, BATCH));
        check_ok(iso_dataset_prefetch(data, ahead));
        compile(model, NULL);
        iso_status status = iso_fit(model, data, .verbose = ISO_ZERO);
        ck_assert(status != ISO_OK && strstr(iso_error_message(), "my map does not like label 2"));
        iso_model_destroy(model);
        iso_dataset_destroy(data);
    }
}
END_TEST

/* The data set of one rank alone cannot go on: the others get their rows and the error. */
START_TEST(test_a_data_set_that_fails_on_one_rank)
{
    iso_model *model = build(ctx);
    iso_dataset *data = open_arrays(ctx, EVEN, false);
    check_ok(iso_dataset_batch(data, BATCH));
    compile(model, NULL);
    if (iso_rank(ctx) == iso_ranks(ctx) - 1)
        ck_assert_int_eq(iso_dataset_shuffle(data, -1), ISO_INVALID);
    iso_status status = iso_fit(model, data, .verbose = ISO_ZERO);
    ck_assert_int_eq(status, ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), "a buffer of -1"), "%s", iso_error_message());
    iso_model_destroy(model);
    iso_dataset_destroy(data);
}
END_TEST

/* ---- generators ---- */

enum { BATCHES = (ROWS + BATCH - 1) / BATCH };

typedef enum trouble {
    NONE,
    ERROR_IN_NEXT,
    ERROR_IN_READ,
    OTHER_SHAPE,
    OTHER_TYPE,
    NO_READ,
    TOO_MANY_ROWS,
    EARLY_END,
    FEWER_ROWS,
} trouble;

/* What a generator keeps: where it is, which of the batch's rows this rank may be asked for, and what goes
 * wrong, on which rank (-1: all), at batch 2. */
typedef struct source {
    trouble trouble;
    int rank;
    bool ends; /* it says where the epoch ends */
    int64_t begin, calls, last_epoch, last_number;
    iso_row_range own[8];
    int owned;
} source;

static bool in_trouble(const source *s, trouble which)
{
    return s->trouble == which && s->last_number == 2 && (s->rank < 0 || s->rank == iso_rank(ctx));
}

static iso_status note_rows(const iso_batch *batch, const iso_row_range *ranges, int count)
{
    source *s = batch->impl;
    ck_assert_int_le(count, 8);
    memcpy(s->own, ranges, (size_t)count * sizeof *ranges);
    s->owned = count;
    return ISO_OK;
}

static bool owns(const source *s, int64_t begin, int64_t count)
{
    for (int i = 0; i < s->owned; i++)
        if (begin >= s->own[i].begin && begin + count <= s->own[i].begin + s->own[i].count)
            return true;
    return false;
}

static iso_status read_rows(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            iso_dtype dtype, void *out)
{
    static const size_t bytes[] = {PIXELS, sizeof label[0], sizeof weight[0]};
    static const char *const rows[] = {(char *)image, (char *)label, (char *)weight};
    const source *s = batch->impl;
    if (in_trouble(s, ERROR_IN_READ))
        return iso_error(ISO_FAILED, "the simulation is not ready");
    if (!owns(s, begin, count) || dtype != batch->dtype[component])
        return iso_error(ISO_INVALID, "rows that this rank has not");
    memcpy(out, rows[component] + (size_t)(s->begin + begin) * bytes[component],
           (size_t)count * bytes[component]);
    return ISO_OK;
}

static iso_status next_batch(void *user, int64_t epoch, int64_t number, iso_batch *batch)
{
    source *s = user;
    s->calls++;
    s->last_epoch = epoch;
    s->last_number = number;
    s->begin = number * BATCH;
    batch->read = in_trouble(s, NO_READ) ? NULL : read_rows;
    batch->prepare = note_rows;
    batch->impl = s;
    if (in_trouble(s, ERROR_IN_NEXT))
        return iso_error(ISO_FAILED, "my solver diverged");
    if (in_trouble(s, OTHER_SHAPE))
        batch->shape[0] = ISO_SHAPE(6, 7);
    if (in_trouble(s, OTHER_TYPE))
        batch->dtype[1] = ISO_F32;
    if (s->ends)
        batch->rows = number == BATCHES ? 0 : number == BATCHES - 1 ? ROWS - s->begin : BATCH;
    if (in_trouble(s, TOO_MANY_ROWS))
        batch->rows = BATCH + 1;
    if (in_trouble(s, EARLY_END))
        batch->rows = 0;
    if (in_trouble(s, FEWER_ROWS))
        batch->rows = 3;
    return ISO_OK;
}

static iso_dataset *open_generator(source *s, int64_t rows, int64_t batches)
{
    iso_dataset *ds = NULL;
    check_ok(iso_dataset_generator(ctx, &ds, .next = next_batch, .user = s, .batch_size = BATCH, .rows = rows,
                                   .batches = batches, .inputs = 1, .targets = 1,
                                   .shape = {ISO_SHAPE(6, 6), ISO_SHAPE(1), ISO_SCALAR},
                                   .dtype = {ISO_U8, ISO_I32, ISO_F32}));
    return ds;
}

/* data is trained on, checked on, and where `predicted` predicted; all are destroyed. */
static void train_on(iso_dataset *data, const char *resume, const char *save, int epochs, int64_t steps,
                     float *predicted, result *r)
{
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_model *model = build(ctx);
    iso_callback *callbacks[3] = {iso_callback_create(.epoch_end = after_epoch, .user = r),
                                  save ? iso_model_checkpoint(save, .save_freq = 4) : NULL};
    memset(r, 0, sizeof *r);
    make_distribution(&settings[0], ctx, &mesh, &distribution);
    compile(model, distribution);
    check_ok(iso_fit(model, data, .epochs = epochs, .callbacks = callbacks, .validation = data,
                     .resume = resume, .steps_per_epoch = steps, .verbose = ISO_ZERO));
    check_ok(
        iso_evaluate(model, data, .loss = r->evaluated, .metrics = r->evaluated + 1, .verbose = ISO_ZERO));
    if (predicted)
        check_ok(iso_predict(model, data, .outputs = {predicted}, .verbose = ISO_ZERO));
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &r->weights));
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
}

static iso_dataset *in_order(bool drop)
{
    iso_dataset *data = open_arrays(ctx, ALL_RANKS, false);
    check_ok(iso_dataset_batch(data, BATCH, .drop_remainder = drop));
    return data;
}

START_TEST(test_generators)
{
    static float wanted[ROWS * OUTPUTS], predicted[ROWS * OUTPUTS];
    result one, other;
    source known = {0}, ending = {.ends = true}, full = {0}, endless = {0};
    train_on(in_order(false), NULL, NULL, EPOCHS, 0, wanted, &one);
    train_on(open_generator(&known, ROWS, 0), NULL, NULL, EPOCHS, 0, predicted, &other);
    check_same(&settings[0], 100, &one, &other);
    ck_assert(!memcmp(wanted, predicted, sizeof wanted));
    train_on(open_generator(&ending, 0, 0), NULL, NULL, EPOCHS, 0, NULL, &other);
    check_same(&settings[0], 101, &one, &other);
    ck_assert_int_eq(ending.calls, (2 * EPOCHS + 1) * (BATCHES + 1));
    train_on(in_order(true), NULL, NULL, EPOCHS, 0, NULL, &one);
    train_on(open_generator(&full, 0, BATCHES - 1), NULL, NULL, EPOCHS, 0, NULL, &other);
    check_same(&settings[0], 102, &one, &other);
    train_on(in_order(false), NULL, NULL, EPOCHS, 3, NULL, &one);
    train_on(open_generator(&endless, ROWS, 0), NULL, NULL, EPOCHS, 3, NULL, &other);
    check_same(&settings[0], 103, &one, &other);
}
END_TEST

/* It goes on with the batch that was next. */
START_TEST(test_generators_are_resumed)
{
    char save[200], from[200];
    result whole, first, second;
    for (int ends = 0; ends < 2; ends++) {
        source a = {.ends = ends}, b = {.ends = ends}, c = {.ends = ends};
        snprintf(save, sizeof save, "%s/g%d-{epoch}-{batch}.weights.h5", folder, ends);
        snprintf(from, sizeof from, "%s/g%d-1-4.weights.h5", folder, ends);
        train_on(open_generator(&a, ends ? 0 : ROWS, 0), NULL, NULL, EPOCHS, 0, NULL, &whole);
        train_on(open_generator(&b, ends ? 0 : ROWS, 0), NULL, save, 1, 0, NULL, &first);
        train_on(open_generator(&c, ends ? 0 : ROWS, 0), from, NULL, EPOCHS, 0, NULL, &second);
        check_same(&settings[0], ends, &whole, &second);
    }
}
END_TEST

static void expect_trouble(trouble which, int rank, bool ends, const char *text)
{
    source s = {.trouble = which, .rank = rank, .ends = ends};
    iso_model *model = build(ctx);
    iso_dataset *data = open_generator(&s, ends ? 0 : ROWS, 0);
    compile(model, NULL);
    iso_status status = iso_fit(model, data, .verbose = ISO_ZERO);
    ck_assert_msg(status != ISO_OK, "'%s' is no error", text);
    ck_assert_msg(strstr(iso_error_message(), text), "'%s' is not in '%s'", text, iso_error_message());
    iso_model_destroy(model);
    iso_dataset_destroy(data);
}

START_TEST(test_generators_in_trouble)
{
    int last = iso_ranks(ctx) - 1;
    char text[200];
    for (int rank = -1; rank <= last; rank += last + 1) { /* all, the last */
        expect_trouble(ERROR_IN_NEXT, rank, false, "generator, epoch 0, batch 2: my solver diverged");
        expect_trouble(OTHER_SHAPE, rank, false,
                       "batch 2: component 0 is uint8 [6, 7] a row; the data set was made with uint8 [6, 6]");
        expect_trouble(OTHER_TYPE, rank, true, "batch 2: component 1 is float32");
        expect_trouble(NO_READ, rank, false, "batch 2: the batch has no `read`");
        expect_trouble(TOO_MANY_ROWS, rank, true, "batch 2: the function gave 8 rows; it must give 0 to 7");
        expect_trouble(FEWER_ROWS, rank, false, "batch 2: 3 rows instead of 7");
        expect_trouble(EARLY_END, rank, false, "batch 2: the epoch ends here, and should have 37 rows");
    }
    expect_trouble(ERROR_IN_READ, 0, false, "the simulation is not ready");
    if (last == 0)
        return;
    snprintf(text, sizeof text,
             "rank %d differs from rank 0 in the rows of batch 2 of epoch 0 of a generator: rank 0 has '7 "
             "rows', rank %d has 'the end'",
             last, last);
    expect_trouble(EARLY_END, last, true, text);
}
END_TEST

START_TEST(test_what_generators_refuse)
{
    iso_dataset *ds = NULL;
    source s = {.ends = true};
    float out[OUTPUTS];
    iso_model *model = build(ctx);
    iso_dataset *data = open_generator(&s, 0, 0);
    check_refused(iso_dataset_shuffle(data, 0), "takes no stages");
    check_refused(iso_dataset_check(data), "cannot be checked");
    check_refused(iso_predict(model, data, .outputs = {out}), "give it .rows or .batches");
    iso_dataset_destroy(data);
    iso_model_destroy(model);
    check_refused(iso_dataset_generator(ctx, &ds, .batch_size = 3), "no function");
    check_refused(iso_dataset_generator(ctx, &ds, .next = next_batch, .batch_size = -1),
                  "batches of -1 rows");
    check_refused(iso_dataset_generator(ctx, &ds, .next = next_batch, .rows = 3, .batches = 3),
                  "give one of them");
    check_refused(iso_dataset_generator(ctx, &ds, .next = next_batch), "0 components");
    check_refused(iso_dataset_generator(ctx, &ds, .next = next_batch, .inputs = 2, .dtype = {ISO_F32}),
                  "2 inputs");
    if (iso_ranks(ctx) > 1)
        check_refused(iso_dataset_generator(ctx, &ds, .next = next_batch, .dtype = {ISO_F32},
                                            .batch_size = 8 + iso_rank(ctx)),
                      "the generator");
    ck_assert_ptr_null(ds);
}
END_TEST

static void set_up(void)
{
    fill();
    check_ok(make_test_folder(ctx, folder));
}

static void tear_down(void)
{
    check_ok(remove_test_folder(ctx, folder));
}

int main(int argc, char **argv)
{
    if (iso_init(&argc, &argv, &ctx) != ISO_OK)
        return iso_finish(ctx, ISO_INVALID);
    int code = RUN_TESTS_WITH(
        "shares", 120, set_up, tear_down, test_training, test_resumption, test_own_communicator,
        test_a_map_that_fails_on_one_rank, test_a_data_set_that_fails_on_one_rank, test_generators,
        test_generators_are_resumed, test_generators_in_trouble, test_what_generators_refuse);
    int end = iso_finish(ctx, ISO_OK);
    return code ? code : end;
}
