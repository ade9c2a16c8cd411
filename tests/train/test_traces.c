/* What TensorBoard's profile page and Chrome's tracing are given of a step: files, events, facts.
 * Ranks: 1, 3 */
#include <check.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/base/json.h"
#include "runtime/isogrid.h"
#include "runtime/train/tensorboard/planes.pb-c.h"
#include "tests/support/data_parallel.h"
#include "tests/support/folder.h"
#include "tests/support/linear.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 26 };

static iso_context *ctx;
static iso_mesh *mesh;
static iso_distribution *distribution;
static char folder[64];

static void set_up(void)
{
    check_ok(make_test_folder(ctx, folder));
}

static void tear_down(void)
{
    check_ok(remove_test_folder(ctx, folder));
}

/* 4 batches an epoch. */
static iso_status fit(iso_model *model, int epochs, iso_callback *callback)
{
    iso_dataset *data = linear_data(ctx, ROWS, NULL, NULL, 8),
                *validation = linear_data(ctx, ROWS, NULL, NULL, 10);
    iso_status status = iso_fit(model, data, .epochs = epochs, .validation = validation, .verbose = ISO_ZERO,
                                .callbacks = (iso_callback *[]){callback, NULL});
    iso_dataset_destroy(validation);
    iso_dataset_destroy(data);
    return status;
}

static double traced_microseconds, traced_begin; /* of all events of the trace as text, added up */

static size_t count_events(const json_t *root)
{
    size_t count = 0, i;
    traced_microseconds = traced_begin = 0;
    const json_t *e;
    json_array_foreach(json_object_get(root, "traceEvents"), i, e)
    {
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X") != 0)
            continue;
        count++;
        traced_microseconds += json_number_value(json_object_get(e, "dur"));
        traced_begin += json_number_value(json_object_get(e, "ts"));
    }
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
    double picoseconds = 0, begin = 0;
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
                picoseconds += (double)line->events[i]->duration_ps;
                begin += (double)line->events[i]->offset_ps;
            }
        }
    ck_assert_uint_eq(lines, 4);
    ck_assert_uint_eq(found, expected);
    ck_assert_double_eq_tol(picoseconds / 1e6, traced_microseconds, 1e-3 * (double)found); /* rounded to ns */
    ck_assert_double_eq_tol(begin / 1e6, traced_begin, 1e-3 * (double)found);
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
    iso_model *model = linear_model_compiled(ctx, iso_adam(0.01), distribution);
    check_ok(fit(model, 2, iso_tensorboard(folder, .profile_batch = 6)));
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
    iso_model_destroy(model);
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
    snprintf(path, sizeof path, "%s/step.json", folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        iso_model *model = linear_model_compiled(ctx, iso_adam(0.01), distribution);
        check_ok(fit(model, cases[i].epochs, iso_profile(path, .step = cases[i].asked)));
        if (iso_is_chief(ctx))
            check_profile(path, cases[i].step, cases[i].step % 4 == 3 ? 2 : 8);
        iso_model_destroy(model);
    }
}
END_TEST

int main(void)
{
    int failed = 1;
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0); /* several hosts where there are several ranks */
    iso_status status = data_parallel_begin("data=4", &ctx, &mesh, &distribution);
    if (status == ISO_OK)
        failed = RUN_TESTS_WITH("traces", 0, set_up, tear_down, a_trace_lies_where_the_plugin_looks,
                                a_profile_of_a_step);
    return data_parallel_end(ctx, mesh, distribution, status) || failed;
}
