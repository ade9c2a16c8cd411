/* The history of a training: in memory, and as a file of JSON lines. */
#include <math.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/train/callbacks_impl.h"
#include "runtime/train/line_file.h"
#include "runtime/train/model.h"

struct iso_history {
    int epochs, n_values;
    char **name;
    double *values; /* [epochs, values] */
};

iso_status iso_history_create(iso_history **history)
{
    *history = iso_new(sizeof **history);
    return *history ? ISO_OK : iso_no_memory("a history");
}

void iso_history_destroy(iso_history *history)
{
    if (!history)
        return;
    for (int i = 0; i < history->n_values; i++)
        iso_free(history->name[i]);
    iso_free(history->name);
    iso_free(history->values);
    iso_free(history);
}

static int find_name(const iso_history *history, const char *name)
{
    for (int i = 0; i < history->n_values; i++)
        if (strcmp(history->name[i], name) == 0)
            return i;
    return -1;
}

/* Adds a value that earlier epochs did not log: NaN for those. */
static bool add_name(iso_history *history, const char *name)
{
    size_t old = (size_t)history->n_values, epochs = (size_t)history->epochs;
    double *value = iso_new((epochs * (old + 1) + 1) * sizeof *value);
    char **names = iso_grow(history->name, old, old + 1, sizeof *names);
    if (names)
        history->name = names;
    if (!value || !names || !(names[old] = iso_strdup(name))) {
        iso_free(value);
        return false;
    }
    for (size_t e = 0; e < epochs; e++) {
        memcpy(value + e * (old + 1), history->values + e * old, old * sizeof *value);
        value[e * (old + 1) + old] = NAN;
    }
    iso_free(history->values);
    history->values = value;
    history->n_values++;
    return true;
}

static bool add_epoch(iso_history *history)
{
    size_t count = (size_t)history->n_values, old = (size_t)history->epochs * count;
    double *grown = iso_grow(history->values, old, old + count, sizeof(double));
    if (!grown)
        return false;
    for (size_t i = 0; i < count; i++)
        grown[old + i] = NAN;
    history->values = grown;
    history->epochs++;
    return true;
}

iso_status iso_history_add(iso_history *history, const iso_logs *logs)
{
    bool added = true;
    for (int i = 0; i < logs->count && added; i++)
        added = find_name(history, logs->name[i]) >= 0 || add_name(history, logs->name[i]);
    if (!added || !add_epoch(history))
        return iso_no_memory("the history of epoch %d", history->epochs + 1);
    double *last = history->values + (size_t)(history->epochs - 1) * (size_t)history->n_values;
    for (int i = 0; i < logs->count; i++)
        last[find_name(history, logs->name[i])] = logs->value[i];
    return ISO_OK;
}

int iso_history_epochs(const iso_history *history)
{
    if (ISO_ANY_NULL(history))
        return 0;
    return history->epochs;
}

iso_logs iso_history_logs(const iso_history *history, int epoch)
{
    if (ISO_ANY_NULL(history))
        return (iso_logs){0};
    if (epoch < 0 || epoch >= history->epochs)
        return (iso_logs){0};
    return (iso_logs){.count = history->n_values,
                      .name = (const char *const *)history->name,
                      .value = history->values + (size_t)epoch * (size_t)history->n_values};
}

/* ---- the file ---- */

static iso_status history_open_file(void *user, iso_fit_state *state)
{
    return iso_line_file_open(user, state);
}

static iso_status write_epoch(void *user, iso_fit_state *state)
{
    iso_line_file *file = user;
    iso_text line = {0};
    iso_fingerprint fingerprint;
    char text[33];
    iso_status status = iso_graph_fingerprint(iso_model_graph(state->model), &fingerprint);
    if (status != ISO_OK || !file->file)
        return status;
    iso_fingerprint_text(&fingerprint, text);
    iso_text_add(&line, "{");
    iso_json_put(&line, "epoch", "%d", state->epoch + 1);
    for (int i = 0; i < state->logs.count; i++)
        iso_json_put_number(&line, state->logs.name[i], state->logs.value[i]);
    iso_json_put_text(&line, "fingerprint", text);
    iso_text_add(&line, "}\n");
    status =
        line.failed ? iso_no_memory("a line of a history") : iso_line_file_write(file, iso_text_get(&line));
    iso_text_free(&line);
    return status;
}

static iso_status save_file(void *user, iso_text *json)
{
    return iso_line_file_save(user, json);
}

static iso_status restore_file(void *user, const char *json)
{
    return iso_line_file_restore(user, json);
}

static void destroy_file(void *user)
{
    iso_line_file_free(user);
    iso_free(user);
}

iso_callback *iso_history_file(const char *path)
{
    iso_line_file *file = iso_new(sizeof *file);
    if (!file || !iso_line_file_init(file, "history file", path)) {
        iso_free(file);
        return iso_callback_no_memory();
    }
    iso_callback *callback =
        iso_callback_built_in(.train_begin = history_open_file, .epoch_end = write_epoch, .user = file,
                              .destroy = destroy_file, .kind = "history_file", .save = save_file,
                              .restore = restore_file);
    if (callback->status == ISO_OK) /* otherwise it is a constant */
        callback->lines = file->path;
    return iso_callback_logs(callback, "");
}
