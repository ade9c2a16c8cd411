/* Event files of TensorBoard: checksums, messages equal to those of TensorBoard's own writer, what a training
 * writes under which tag at which step, histograms of tensors that lie on many slots. Ranks: 1, 3 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/isogrid.h"
#include "runtime/train/tensorboard/event_file.h"
#include "runtime/train/tensorboard/record.h"
#include "tests/support/event_files.h"
#include "tests/support/folder.h"
#include "tests/support/linear.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static char folder[64];

static void set_up(void)
{
    check_ok(make_test_folder(ctx, folder));
}

static void tear_down(void)
{
    check_ok(remove_test_folder(ctx, folder));
}

/* For another training, which is to find no files. */
static void begin_anew(void)
{
    tear_down();
    set_up();
}

/* ---- framing and messages ---- */

START_TEST(checksums_are_those_of_rfc_3720)
{
    unsigned char zeros[32] = {0}, ones[32], rising[32];
    memset(ones, 0xFF, sizeof ones);
    for (int i = 0; i < 32; i++)
        rising[i] = (unsigned char)i;
    ck_assert_uint_eq(iso_crc32c(zeros, 32), 0x8A9136AAu);
    ck_assert_uint_eq(iso_crc32c(ones, 32), 0x62A8AB43u);
    ck_assert_uint_eq(iso_crc32c(rising, 32), 0x46DD794Eu);
    ck_assert_uint_eq(iso_crc32c("123456789", 9), 0xE3069283u);
    ck_assert_uint_eq(iso_crc32c("", 0), 0);
    ck_assert_uint_eq(slow_crc32c((const unsigned char *)"123456789", 9), 0xE3069283u);
}
END_TEST

/* Packed without the time, which differs. */
static size_t pack(event *e, uint8_t *out, size_t room)
{
    e->wall_time = 0;
    ck_assert_uint_le(isogrid__tensorboard__event__get_packed_size(e), room);
    return isogrid__tensorboard__event__pack(e, out);
}

START_TEST(messages_are_those_of_tensorboard)
{
    static const double data[] = {0, 1, 1.5, 2, 3, 3};
    iso_histogram histogram = {"d/kernel", 0, 3, {0}};
    iso_event_file *file = NULL;
    events golden, ours;
    char path[2][300], part[250];
    uint8_t a[2000], b[2000];
    if (!iso_is_chief(ctx))
        return;
    for (int i = 0; i < 6; i++)
        histogram.count[data[i] == 3 ? 29 : (int)floor(data[i] * 10)]++;
    snprintf(part, sizeof part, "%s/a/b", folder);
    check_ok(iso_event_file_create(part, &file));
    check_ok(iso_event_file_scalar(file, "epoch_loss", 0.25, 7));
    check_ok(iso_event_file_histogram(file, "d/kernel/histogram", &histogram, 8));
    check_ok(iso_event_file_text(file, "hyperparameters", "| a | b |", 0));
    check_ok(iso_event_file_flush(file));
    ck_assert_int_eq(find_event_files(folder, "a/b", path, 2), 1);
    read_events("tests/keras/events.tfevents", &golden);
    read_events(path[0], &ours);
    ck_assert_int_eq(ours.count, golden.count);
    for (int i = 1; i < ours.count; i++) {
        ck_assert(ours.event[i]->wall_time > 1.6e9 && ours.event[i]->wall_time < 1e10);
        /* what our messages do not know would be lost on the way */
        size_t whole = isogrid__tensorboard__event__get_packed_size(golden.event[i]);
        ck_assert_uint_eq(whole, golden.bytes[i]);
        size_t bytes = pack(golden.event[i], a, sizeof a);
        ck_assert_uint_eq(pack(ours.event[i], b, sizeof b), bytes);
        if (strcmp(value_of(&ours, i)->tag, "d/kernel/histogram") != 0) /* edges differ by roundings */
            ck_assert(memcmp(a, b, bytes) == 0);
    }
    const double *edges = (const double *)(const void *)value_of(&ours, 2)->tensor->tensor_content.data;
    const double *theirs = (const double *)(const void *)value_of(&golden, 2)->tensor->tensor_content.data;
    check_near("histogram", edges, theirs, 90, 1e-15);
    free_events(&golden);
    free_events(&ours);
    iso_event_file_close(file);
}
END_TEST

/* ---- trainings ---- */

enum { ROWS = 26, FEATURES = LINEAR_FEATURES, UNITS = 7 };

static iso_mesh *mesh;
static iso_layout_map *map;
static iso_distribution *distribution;

static iso_model *compiled(const char *axes, const char *key, const char *layout)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(FEATURES));
    iso_tensor *h = iso_batch_norm(iso_dense(x, UNITS, .name = "a", .activation = ISO_RELU), .name = "n");
    iso_model *model = iso_model_create(graph, x, iso_dense(h, 1, .name = "b"));
    check_ok(iso_mesh_create(ctx, axes, &mesh));
    check_ok(iso_layout_map_create(mesh, &map));
    if (key)
        check_ok(iso_layout_map_set(map, key, layout));
    check_ok(iso_model_parallel_create(map, &distribution, .batch_axis = "data"));
    check_ok(iso_compile(model, .optimizer = iso_adam(0.01), .loss = ISO_LOSS_MSE,
                         .metrics = {ISO_METRIC_MAE}, .distribution = distribution));
    return model;
}

static void discard(iso_model *model)
{
    iso_model_destroy(model);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}

static iso_dataset *data_set(int64_t batch)
{
    return linear_data(ctx, ROWS, NULL, NULL, batch);
}

typedef struct noted {
    double loss[50]; /* by batch, from 1 */
    int batches;
} noted;

static iso_status note_batch(void *user, iso_fit_state *state)
{
    noted *n = user;
    n->loss[++n->batches] = iso_logs_get(&state->logs, "loss");
    return ISO_OK;
}

static iso_status fit(iso_model *model, int epochs, iso_callback *callback, noted *n, iso_history **history)
{
    iso_dataset *data = data_set(8), *validation = data_set(10); /* 4 batches an epoch */
    iso_callback *list[] = {callback, iso_callback_create(.batch_end = n ? note_batch : NULL, .user = n),
                            NULL};
    iso_status status = iso_fit(model, data, .epochs = epochs, .validation = validation, .verbose = ISO_ZERO,
                                .callbacks = list, .history = history);
    iso_dataset_destroy(validation);
    iso_dataset_destroy(data);
    return status;
}

static void check_epochs(const events *train, const events *validation, const iso_history *history)
{
    for (int epoch = 0; epoch < 3; epoch++) {
        iso_logs logs = iso_history_logs(history, epoch);
        check_scalar(train, "epoch_loss", epoch, iso_logs_get(&logs, "loss"));
        check_scalar(train, "epoch_mae", epoch, iso_logs_get(&logs, "mae"));
        check_scalar(train, "epoch_learning_rate", epoch, 0.01);
        check_scalar(validation, "epoch_loss", epoch, iso_logs_get(&logs, "val_loss"));
        check_scalar(validation, "epoch_mae", epoch, iso_logs_get(&logs, "val_mae"));
        check_scalar(validation, "evaluation_loss_vs_iterations", 4 * (epoch + 1),
                     iso_logs_get(&logs, "val_loss"));
        check_scalar(validation, "evaluation_mae_vs_iterations", 4 * (epoch + 1),
                     iso_logs_get(&logs, "val_mae"));
    }
}

static void check_text(const events *train)
{
    char
        parameters[64]; /* of a, n and b that are trained: no moving statistics, nothing of the optimizer's */
    snprintf(parameters, sizeof parameters, "| parameters | %d |",
             (FEATURES + 1) * UNITS + 2 * UNITS + UNITS + 1);
    const char *const lines[] = {
        "| optimizer | adam |", "| learning_rate | 0.01 |", "| beta_1 | 0.9 |", "| batch_size | 8 |",
        "| epochs | 3 |",       "| mesh | data=4 |",        parameters};
    const event_value *v = find_value(train, "hyperparameters", 0);
    ck_assert_ptr_nonnull(v);
    ck_assert_str_eq(v->metadata->plugin_data->plugin_name, "text");
    ck_assert_uint_eq(v->tensor->n_string_val, 1);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        ck_assert_msg(
            memmem(v->tensor->string_val[0].data, v->tensor->string_val[0].len, lines[i], strlen(lines[i])),
            "the text lacks '%s'", lines[i]);
}

START_TEST(scalars_of_a_training)
{
    iso_history *history = NULL;
    noted n = {.batches = 0};
    char path[2][300];
    events train, validation;
    iso_model *model = compiled("data=4", NULL, NULL);
    check_ok(fit(model, 3, iso_tensorboard(folder, .update_freq = 3, .write_steps_per_second = true), &n,
                 &history));
    if (iso_is_chief(ctx)) {
        ck_assert_int_eq(find_event_files(folder, "train", path, 2), 1);
        read_events(path[0], &train);
        ck_assert_int_eq(find_event_files(folder, "validation", path, 2), 1);
        read_events(path[0], &validation);
        check_epochs(&train, &validation, history);
        check_text(&train);
        for (int batch = 3; batch <= 12; batch += 3)
            check_scalar(&train, "batch_loss", batch, n.loss[batch]);
        ck_assert_int_eq(count_tag(&train, "batch_loss"), 4);
        ck_assert_int_eq(count_tag(&train, "batch_steps_per_second"), 4);
        ck_assert_int_eq(count_tag(&train, "epoch_steps_per_second"), 3);
        ck_assert_int_eq(train.count, 2 + 3 * 4 + 4 * 3);
        ck_assert_int_eq(validation.count, 1 + 3 * 4);
        free_events(&train);
        free_events(&validation);
    }
    iso_history_destroy(history);
    discard(model);
}
END_TEST

/* ---- Keras's tags ---- */

/* How often a value is there, in the files of a folder. */
static int count_value(const events *list, const char *tag, int64_t step)
{
    int count = 0;
    for (int i = 1; i < list->count; i++)
        count += strcmp(value_of(list, i)->tag, tag) == 0 && list->event[i]->step == step;
    return count;
}

static bool keras_writes(const json_t *written, const char *tag, int64_t step)
{
    size_t i;
    const json_t *entry;
    json_array_foreach(written, i,
                       entry) if (strcmp(json_string_value(json_array_get(entry, 1)), tag) == 0 &&
                                  json_integer_value(json_array_get(entry, 2)) == step) return true;
    return false;
}

/* All that Keras writes is there once. Where update_freq is more than one batch it leaves out the values of
 * epochs whose last batch is not among them, and we do not. */
static void check_tags(const json_t *test, const events *train, const events *validation)
{
    const json_t *written = json_object_get(test, "written"), *entry;
    int64_t every = json_integer_value(json_object_get(json_object_get(test, "options"), "update_freq"));
    size_t i;
    json_array_foreach(written, i, entry)
    {
        const char *part = json_string_value(json_array_get(entry, 0)),
                   *tag = json_string_value(json_array_get(entry, 1));
        int64_t step = json_integer_value(json_array_get(entry, 2));
        int count = count_value(strcmp(part, "train") == 0 ? train : validation, tag, step);
        ck_assert_msg(count == 1, "%s, %s of step %d is there %d times", part, tag, (int)step, count);
    }
    for (int k = 1; k < train->count; k++) {
        const char *tag = value_of(train, k)->tag;
        bool ours = strcmp(tag, "hyperparameters") == 0 || (every > 1 && strncmp(tag, "batch_", 6) != 0);
        ck_assert_msg(ours || keras_writes(written, tag, train->event[k]->step),
                      "Keras does not write %s of step %d", tag, (int)train->event[k]->step);
    }
    if (every <= 1)
        ck_assert_uint_eq(json_array_size(written),
                          (size_t)(train->count - 2 + (validation->count ? validation->count - 1 : 0)));
}

static void check_case(const json_t *test)
{
    char path[2][300];
    events train = {.count = 0}, validated = {.count = 0};
    const json_t *options = json_object_get(test, "options");
    iso_model *model = compiled("data=4", NULL, NULL);
    iso_dataset *data = data_set(8),
                *validation = json_is_true(json_object_get(test, "validation")) ? data_set(10) : NULL;
    iso_callback *callback = iso_tensorboard(
        folder, .update_freq = json_integer_value(json_object_get(options, "update_freq")),
        .histogram_freq = (int)json_integer_value(json_object_get(options, "histogram_freq")),
        .write_steps_per_second = json_is_true(json_object_get(options, "write_steps_per_second")));
    check_ok(iso_fit(model, data, .epochs = 3, .validation = validation, .verbose = ISO_ZERO,
                     .callbacks = (iso_callback *[]){callback, NULL}));
    if (iso_is_chief(ctx)) {
        ck_assert_int_eq(find_event_files(folder, "train", path, 2), 1);
        read_events(path[0], &train);
        if (find_event_files(folder, "validation", path, 2))
            read_events(path[0], &validated);
        ck_assert_int_eq(validated.count > 0, validation != NULL);
        check_tags(test, &train, &validated);
        free_events(&train);
        free_events(&validated);
    }
    iso_dataset_destroy(validation);
    iso_dataset_destroy(data);
    discard(model);
    begin_anew();
}

START_TEST(tags_are_those_of_keras)
{
    json_error_t error;
    size_t i;
    const json_t *test;
    json_t *file = json_load_file("tests/keras/tensorboard.json", 0, &error);
    ck_assert_msg(file != NULL, "tests/keras/tensorboard.json: %s", error.text);
    json_array_foreach(json_object_get(file, "cases"), i, test) check_case(test);
    ck_assert_uint_ge(i, 8);
    json_decref(file);
}
END_TEST

/* A second training of a folder adds a file; without validation and batches there is less in it. */
START_TEST(a_folder_takes_several_trainings)
{
    char path[3][300];
    events train;
    iso_model *model = compiled("data=3", NULL, NULL);
    iso_dataset *data = data_set(8);
    for (int run = 0; run < 2; run++)
        check_ok(iso_fit(model, data, .verbose = ISO_ZERO,
                         .callbacks = (iso_callback *[]){iso_tensorboard(folder), NULL}));
    if (iso_is_chief(ctx)) {
        ck_assert_int_eq(find_event_files(folder, "train", path, 3), 2);
        ck_assert_int_eq(find_event_files(folder, "validation", path, 3), 0);
        for (int run = 0; run < 2; run++) {
            read_events(path[run], &train);
            ck_assert_int_eq(train.count, 1 + 1 + 3);
            free_events(&train);
        }
    }
    iso_dataset_destroy(data);
    discard(model);
}
END_TEST

/* ---- histograms ---- */

static void check_histogram(const events *train, iso_model *model, const char *path)
{
    char tag[100];
    double values[FEATURES * UNITS], counts[30] = {0}, least = INFINITY, greatest = -INFINITY;
    int64_t n = 0;
    iso_variable *variable = iso_model_variable(model, path);
    check_ok(iso_shape_count(iso_variable_shape(variable), &n));
    ck_assert_int_le(n, FEATURES * UNITS);
    check_ok(iso_variable_read(variable, values, n));
    if (!train)
        return;
    for (int i = 0; i < n; i++) {
        least = fmin(least, values[i]);
        greatest = fmax(greatest, values[i]);
    }
    for (int i = 0; i < n; i++) {
        int bucket = greatest > least ? (int)floor((values[i] - least) / ((greatest - least) / 30)) : 29;
        counts[bucket < 29 ? bucket : 29]++;
    }
    snprintf(tag, sizeof tag, "%s/histogram", path);
    const event_value *v = find_value(train, tag, 2);
    ck_assert_msg(v != NULL, "there is no %s", tag);
    const double(*rows)[3] = (const void *)v->tensor->tensor_content.data;
    ck_assert_uint_eq(v->tensor->tensor_content.len, sizeof(double[30][3]));
    ck_assert(rows[0][0] == least && rows[29][1] == greatest);
    for (int b = 0; b < 30; b++)
        ck_assert_msg(rows[b][2] == counts[b], "%s: bucket %d has %g of %g elements", tag, b, rows[b][2],
                      counts[b]);
}

static void check_histograms(const char *axes, const char *key, const char *layout)
{
    static const char *const paths[] = {"a/kernel", "a/bias", "n/moving_variance", "b/kernel", "b/bias"};
    char path[2][300];
    events train = {.count = 0};
    iso_model *model = compiled(axes, key, layout);
    check_ok(fit(model, 3, iso_tensorboard(folder, .histogram_freq = 2), NULL, NULL));
    if (iso_is_chief(ctx)) {
        ck_assert_int_eq(find_event_files(folder, "train", path, 2), 1);
        read_events(path[0], &train);
        ck_assert_int_eq(count_tag(&train, "a/kernel/histogram"), 2);
        ck_assert_int_eq(count_tag(&train, "optimizer/iteration/histogram"), 0);
    }
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        check_histogram(iso_is_chief(ctx) ? &train : NULL, model, paths[i]);
    free_events(&train);
    discard(model);
    begin_anew();
}

START_TEST(histograms_are_of_the_whole_tensor)
{
    check_histograms("data=3", NULL, NULL);
    check_histograms("data=2,model=4", "a/kernel", "-, model");
    check_histograms("data=5,model=2", ".*/kernel", "model, data"); /* parts that are empty */
}
END_TEST

START_TEST(what_is_no_number_is_not_counted)
{
    iso_histogram *list = NULL;
    int count = 0;
    double kernel[FEATURES * UNITS] = {1, NAN, 2, INFINITY, -INFINITY}, bias[UNITS];
    iso_model *model = compiled("data=3", NULL, NULL);
    for (int i = 0; i < UNITS; i++)
        bias[i] = NAN;
    check_ok(iso_variable_assign(iso_model_variable(model, "a/kernel"), kernel, FEATURES * UNITS));
    check_ok(iso_variable_assign(iso_model_variable(model, "a/bias"), bias, UNITS));
    check_ok(iso_graph_histograms(iso_model_graph(model), &list, &count));
    for (int i = 0; i < count; i++) {
        double sum = 0;
        for (int b = 0; b < ISO_HISTOGRAM_BUCKETS; b++)
            sum += list[i].count[b];
        if (strcmp(list[i].path, "a/kernel") == 0)
            ck_assert(list[i].least == 0 && list[i].greatest == 2 && sum == FEATURES * UNITS - 3);
        if (strcmp(list[i].path, "a/bias") == 0)
            ck_assert(list[i].least == 0 && list[i].greatest == 0 && sum == 0);
    }
    iso_free(list);
    discard(model);
}
END_TEST

/* ---- what is refused ---- */

static void check_fails(iso_callback *callback, iso_status expected, const char *part)
{
    noted n = {.batches = 0};
    iso_model *model = compiled("data=3", NULL, NULL);
    ck_assert_int_eq(fit(model, 1, callback, &n, NULL), expected);
    ck_assert_msg(strstr(iso_error_message(), part), "'%s' lacks '%s'", iso_error_message(), part);
    ck_assert_int_eq(n.batches, 0);
    discard(model);
}

START_TEST(what_cannot_be_written_is_told_before_training)
{
    check_fails(iso_tensorboard("/proc/nothing/here"), ISO_INVALID,
                "TensorBoard's /proc/nothing/here/train: ");
    check_fails(iso_tensorboard(NULL), ISO_INVALID, "no folder");
    check_fails(iso_tensorboard(""), ISO_INVALID, "no folder");
    check_fails(iso_tensorboard(folder, .update_freq = -1), ISO_INVALID, "update_freq -1");
    check_fails(iso_tensorboard(folder, .histogram_freq = -2), ISO_INVALID, "histogram_freq -2");
    check_fails(iso_profile("/nowhere/p.json"), ISO_INVALID,
                "profile /nowhere/p.json: it cannot be written: No such file");
    check_fails(iso_profile("/tmp/p.json", .step = -3), ISO_INVALID, "step -3");
}
END_TEST

/* The chief's disk is full in the middle of an epoch: all ranks learn it where the epoch ends. */
START_TEST(a_full_disk_ends_training_on_all_ranks)
{
    noted n = {.batches = 0};
    iso_model *model = compiled("data=3", NULL, NULL);
    iso_status status = fit(model, 2, iso_profile("/dev/full"), &n, NULL);
    ck_assert_int_eq(status, ISO_IO);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "/dev/full: No space left"));
    ck_assert_int_eq(n.batches, 8);
    discard(model);
}
END_TEST

int main(void)
{
    int failed = 1;
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0); /* several hosts where there are several ranks */
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status == ISO_OK)
        failed = RUN_TESTS_WITH("tensorboard", 0, set_up, tear_down, checksums_are_those_of_rfc_3720,
                                messages_are_those_of_tensorboard, scalars_of_a_training,
                                tags_are_those_of_keras, a_folder_takes_several_trainings,
                                histograms_are_of_the_whole_tensor, what_is_no_number_is_not_counted,

                                what_cannot_be_written_is_told_before_training,
                                a_full_disk_ends_training_on_all_ranks);
    return iso_finish(ctx, status) || failed;
}
