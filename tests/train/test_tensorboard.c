/* Event files of TensorBoard: checksums, messages equal to those of TensorBoard's own writer, what a training
 * writes under which tag at which step, histograms of tensors that lie on many slots. Ranks: 1, 3 */
#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/isogrid.h"
#include "runtime/train/tensorboard/event_file.h"
#include "runtime/train/tensorboard/events.pb-c.h"
#include "runtime/train/tensorboard/planes.pb-c.h"
#include "runtime/train/tensorboard/record.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

typedef Isogrid__Tensorboard__Event event;
typedef Isogrid__Tensorboard__Value value;

static iso_context *ctx;
static char folder[200];

/* ---- reading event files ---- */

enum { MOST_EVENTS = 500 };

typedef struct events {
    int count;
    event *event[MOST_EVENTS];
    unsigned char *packed[MOST_EVENTS];
    size_t bytes[MOST_EVENTS];
} events;

/* The checksum, bit by bit: none of the library's code. */
static uint32_t slow_crc(const unsigned char *data, size_t bytes)
{
    uint32_t rest = ~0u;
    for (size_t i = 0; i < bytes; i++)
        for (int bit = 0; bit < 8; bit++) {
            uint32_t top = (rest ^ (uint32_t)(data[i] >> bit)) & 1;
            rest = (rest >> 1) ^ (top ? 0x82F63B78u : 0);
        }
    return ~rest;
}

static uint64_t number(const unsigned char *at, int bytes)
{
    uint64_t out = 0;
    for (int i = bytes - 1; i >= 0; i--)
        out = out << 8 | at[i];
    return out;
}

static uint32_t masked(const unsigned char *data, size_t bytes)
{
    uint32_t crc = slow_crc(data, bytes);
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

static void read_events(const char *path, events *out)
{
    FILE *file = fopen(path, "rb");
    unsigned char head[12], tail[4];
    ck_assert_msg(file != NULL, "%s is not there", path);
    memset(out, 0, sizeof *out);
    while (fread(head, 1, sizeof head, file) == sizeof head) {
        size_t bytes = (size_t)number(head, 8);
        ck_assert_uint_eq(number(head + 8, 4), masked(head, 8));
        unsigned char *data = malloc(bytes + 1);
        ck_assert_uint_eq(fread(data, 1, bytes, file), bytes);
        ck_assert_uint_eq(fread(tail, 1, 4, file), 4);
        ck_assert_uint_eq(number(tail, 4), masked(data, bytes));
        ck_assert_int_lt(out->count, MOST_EVENTS);
        out->packed[out->count] = data;
        out->bytes[out->count] = bytes;
        out->event[out->count] = isogrid__tensorboard__event__unpack(NULL, bytes, data);
        ck_assert_ptr_nonnull(out->event[out->count++]);
    }
    ck_assert(feof(file));
    fclose(file);
    ck_assert_int_gt(out->count, 0);
    ck_assert_str_eq(out->event[0]->file_version, "brain.Event:2");
}

static void free_events(events *list)
{
    for (int i = 0; i < list->count; i++) {
        isogrid__tensorboard__event__free_unpacked(list->event[i], NULL);
        free(list->packed[i]);
    }
}

static const value *value_of(const events *list, int i)
{
    ck_assert_int_eq(list->event[i]->what_case, ISOGRID__TENSORBOARD__EVENT__WHAT_SUMMARY);
    ck_assert_uint_eq(list->event[i]->summary->n_value, 1);
    return list->event[i]->summary->value[0];
}

/* The value under a tag at a step; NULL: there is none. */
static const value *find(const events *list, const char *tag, int64_t step)
{
    const value *found = NULL;
    for (int i = 1; i < list->count; i++)
        if (strcmp(value_of(list, i)->tag, tag) == 0 && list->event[i]->step == step) {
            ck_assert_msg(!found, "%s is there twice", tag);
            found = value_of(list, i);
        }
    return found;
}

static int count_tag(const events *list, const char *tag)
{
    int count = 0;
    for (int i = 1; i < list->count; i++)
        count += strcmp(value_of(list, i)->tag, tag) == 0;
    return count;
}

static void check_scalar(const events *list, const char *tag, int64_t step, double expected)
{
    const value *v = find(list, tag, step);
    ck_assert_msg(v != NULL, "there is no %s of step %d", tag, (int)step);
    ck_assert_str_eq(v->metadata->plugin_data->plugin_name, "scalars");
    ck_assert_uint_eq(v->tensor->n_float_val, 1);
    ck_assert_msg(v->tensor->float_val[0] == (float)expected, "%s of step %d is %g, not %g", tag, (int)step,
                  (double)v->tensor->float_val[0], expected);
}

/* ---- folders ---- */

/* The n-th event file of a folder, in order of names. */
static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int event_files(const char *part, char path[][300], int most)
{
    char below[250], *names[20];
    int count = 0;
    snprintf(below, sizeof below, "%s/%s", folder, part);
    DIR *list = opendir(below);
    if (!list)
        return 0;
    for (struct dirent *entry = readdir(list); entry; entry = readdir(list))
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) == 0 && count < 20)
            names[count++] = strdup(entry->d_name);
    closedir(list);
    qsort(names, (size_t)count, sizeof names[0], compare_names);
    for (int i = 0; i < count; i++) {
        if (i < most)
            snprintf(path[i], 300, "%.240s/%.50s", below, names[i]);
        free(names[i]);
    }
    return count;
}

static void remove_folder(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (iso_is_chief(ctx))
        ck_assert_int_eq(system(command), 0);
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
    ck_assert_uint_eq(slow_crc((const unsigned char *)"123456789", 9), 0xE3069283u);
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
    ck_assert_int_eq(event_files("a/b", path, 2), 1);
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

enum { ROWS = 26, FEATURES = 3, UNITS = 7 };

static double inputs[ROWS * FEATURES], targets[ROWS];
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
    iso_dataset *data = NULL;
    iso_dataset_arrays_options options = {.dataset = &data,
                                          .x = {inputs, ISO_F64, ISO_SHAPE(ROWS, FEATURES)},
                                          .y = {targets, ISO_F64, ISO_SHAPE(ROWS)}};
    check_ok(iso_dataset_arrays_with(ctx, &options, sizeof options));
    check_ok(iso_dataset_batch(data, batch));
    return data;
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
    static const char *const lines[] = {"| optimizer | adam |", "| learning_rate | 0.01 |",
                                        "| beta_1 | 0.9 |",     "| batch_size | 8 |",
                                        "| epochs | 3 |",       "| mesh | data=4 |"};
    const value *v = find(train, "hyperparameters", 0);
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
        ck_assert_int_eq(event_files("train", path, 2), 1);
        read_events(path[0], &train);
        ck_assert_int_eq(event_files("validation", path, 2), 1);
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
    remove_folder();
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
        ck_assert_int_eq(event_files("train", path, 2), 1);
        read_events(path[0], &train);
        if (event_files("validation", path, 2))
            read_events(path[0], &validated);
        ck_assert_int_eq(validated.count > 0, validation != NULL);
        check_tags(test, &train, &validated);
        free_events(&train);
        free_events(&validated);
    }
    iso_dataset_destroy(validation);
    iso_dataset_destroy(data);
    discard(model);
    remove_folder();
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
        ck_assert_int_eq(event_files("train", path, 3), 2);
        ck_assert_int_eq(event_files("validation", path, 3), 0);
        for (int run = 0; run < 2; run++) {
            read_events(path[run], &train);
            ck_assert_int_eq(train.count, 1 + 1 + 3);
            free_events(&train);
        }
    }
    iso_dataset_destroy(data);
    discard(model);
    remove_folder();
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
    const value *v = find(train, tag, 2);
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
        ck_assert_int_eq(event_files("train", path, 2), 1);
        read_events(path[0], &train);
        ck_assert_int_eq(count_tag(&train, "a/kernel/histogram"), 2);
        ck_assert_int_eq(count_tag(&train, "optimizer/iteration/histogram"), 0);
    }
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        check_histogram(iso_is_chief(ctx) ? &train : NULL, model, paths[i]);
    free_events(&train);
    discard(model);
    remove_folder();
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

/* ---- traces ---- */

static size_t count_events(const json_t *root)
{
    size_t count = 0, i;
    const json_t *e;
    json_array_foreach(json_object_get(root, "traceEvents"), i, e) count +=
        strcmp(json_string_value(json_object_get(e, "ph")), "X") == 0;
    return count;
}

/* The trace as text, packed; how many events it has. */
static size_t check_text_trace(const char *path)
{
    static char text[1 << 20];
    json_t *root = NULL;
    gzFile file = gzopen(path, "rb");
    ck_assert_msg(file != NULL, "%s cannot be read", path);
    int bytes = gzread(file, text, sizeof text);
    ck_assert_int_gt(bytes, 0);
    gzclose(file);
    check_ok(iso_json_parse(path, text, (size_t)bytes, &root));
    size_t in_all = count_events(root);
    ck_assert_int_eq((int)json_integer_value(json_object_get(json_object_get(root, "otherData"), "step")), 5);
    json_decref(root);
    return in_all;
}

/* The same as planes (a rank each) of lines (a slot each). */
static void check_planes(const char *path, size_t expected)
{
    static uint8_t packed[1 << 20];
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s cannot be read", path);
    size_t bytes = fread(packed, 1, sizeof packed, file), lines = 0, found = 0;
    fclose(file);
    Isogrid__Tensorboard__Space *space = isogrid__tensorboard__space__unpack(NULL, bytes, packed);
    ck_assert_ptr_nonnull(space);
    ck_assert_int_eq((int)space->n_planes, iso_ranks(ctx));
    ck_assert_str_eq(space->planes[0]->name, "/device:CUSTOM:rank 0");
    for (size_t p = 0; p < space->n_planes; p++)
        for (size_t l = 0; l < space->planes[p]->n_lines; l++, lines++) {
            const Isogrid__Tensorboard__Line *line = space->planes[p]->lines[l];
            found += line->n_events;
            for (size_t i = 0; i < line->n_events; i++) {
                int64_t number = line->events[i]->metadata_id;
                ck_assert(number >= 1 && number <= (int64_t)space->planes[p]->n_event_metadata);
                ck_assert_str_ne(space->planes[p]->event_metadata[number - 1]->value->name, "");
                ck_assert(line->events[i]->offset_ps >= 0 && line->events[i]->duration_ps >= 0);
            }
        }
    ck_assert_uint_eq(lines, 4);
    ck_assert_uint_eq(found, expected);
    isogrid__tensorboard__space__free_unpacked(space, NULL);
}

/* The only entry of a folder, its path put behind. */
static void descend(char *path, size_t size)
{
    DIR *list = opendir(path);
    size_t length = strlen(path);
    int count = 0;
    ck_assert_msg(list != NULL, "%s is not there", path);
    for (struct dirent *entry = readdir(list); entry; entry = readdir(list))
        if (entry->d_name[0] != '.' && count++ == 0)
            snprintf(path + length, size - length, "/%.100s", entry->d_name);
    closedir(list);
    ck_assert_int_eq(count, 1);
}

START_TEST(a_trace_lies_where_the_plugin_looks)
{
    char path[600], host[200] = "", name[900];
    iso_model *model = compiled("data=4", NULL, NULL);
    check_ok(fit(model, 2, iso_tensorboard(folder, .profile_batch = 6), NULL, NULL));
    if (iso_is_chief(ctx)) {
        gethostname(host, sizeof host - 1);
        snprintf(path, sizeof path, "%s/train/plugins/profile", folder);
        descend(path, sizeof path);
        snprintf(name, sizeof name, "%s/%s.trace.json.gz", path, host);
        size_t traced = check_text_trace(name);
        ck_assert_uint_gt(traced, 4 * 10);
        snprintf(name, sizeof name, "%s/%s.xplane.pb", path, host);
        check_planes(name, traced);
    }
    discard(model);
    remove_folder();
}
END_TEST

static void check_profile(const char *path, int64_t step, int rows)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    ck_assert_msg(root != NULL, "%s: %s", path, error.text);
    const json_t *facts = json_object_get(root, "otherData");
    ck_assert_int_eq(json_integer_value(json_object_get(facts, "step")), step);
    ck_assert_int_eq(json_integer_value(json_object_get(facts, "rows")), rows);
    json_decref(root);
}

/* The file of iso_profile(): of a step in the middle of training, or of the one that was asked for. */
START_TEST(a_profile_of_a_step)
{
    static const struct {
        int epochs;
        int64_t asked, step; /* step: as the trace has it, from 0 */
    } cases[] = {{1, 0, 2}, {2, 0, 6}, {5, 0, 6}, {1, 1, 0}, {2, 8, 7}};
    char path[250];
    snprintf(path, sizeof path, "%s.json", folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        iso_model *model = compiled("data=4", NULL, NULL);
        check_ok(fit(model, cases[i].epochs, iso_profile(path, .step = cases[i].asked), NULL, NULL));
        if (iso_is_chief(ctx))
            check_profile(path, cases[i].step, cases[i].step % 4 == 3 ? 2 : 8);
        discard(model);
    }
    if (iso_is_chief(ctx))
        remove(path);
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
    check_fails(iso_tensorboard("/proc/nothing/here"), ISO_IO, "TensorBoard's /proc/nothing/here/train: ");
    check_fails(iso_tensorboard(NULL), ISO_INVALID, "no folder");
    check_fails(iso_tensorboard(""), ISO_INVALID, "no folder");
    check_fails(iso_tensorboard(folder, .update_freq = -1), ISO_INVALID, "update_freq -1");
    check_fails(iso_tensorboard(folder, .histogram_freq = -2), ISO_INVALID, "histogram_freq -2");
    check_fails(iso_profile("/nowhere/p.json"), ISO_IO, "profile /nowhere/p.json: No such file");
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
    remove_folder();
}
END_TEST

int main(void)
{
    int failed = 1;
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0); /* several hosts where there are several ranks */
    iso_status status = iso_init(NULL, NULL, &ctx);
    snprintf(folder, sizeof folder, "/tmp/isogrid-tensorboard-%d", (int)getpid());
    for (int i = 0; i < ROWS * FEATURES; i++)
        inputs[i] = sin(i * 1.7);
    for (int i = 0; i < ROWS; i++)
        targets[i] = 2 * inputs[3 * i] - inputs[3 * i + 1] + 0.5;
    if (status == ISO_OK)
        failed =
            RUN_TESTS("tensorboard", 0, checksums_are_those_of_rfc_3720, messages_are_those_of_tensorboard,
                      scalars_of_a_training, tags_are_those_of_keras, a_folder_takes_several_trainings,
                      histograms_are_of_the_whole_tensor, what_is_no_number_is_not_counted,
                      a_trace_lies_where_the_plugin_looks, a_profile_of_a_step,
                      what_cannot_be_written_is_told_before_training, a_full_disk_ends_training_on_all_ranks);
    return iso_finish(ctx, status) || failed;
}
