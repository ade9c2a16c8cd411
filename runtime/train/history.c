/* The history of a training: in memory, and as a file of JSON lines. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/memory.h"
#include "runtime/session/session.h"
#include "runtime/train/callbacks_impl.h"
#include "runtime/train/model.h"

struct iso_history {
    int epochs, values;
    char **name;
    double *value; /* [epochs, values] */
};

iso_status iso_history_create(iso_history **history)
{
    *history = iso_new(sizeof **history);
    return *history ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory for a history");
}

void iso_history_destroy(iso_history *history)
{
    if (!history)
        return;
    for (int i = 0; i < history->values; i++)
        iso_free(history->name[i]);
    iso_free(history->name);
    iso_free(history->value);
    iso_free(history);
}

static bool take_names(iso_history *history, const iso_logs *logs)
{
    history->name = iso_new((size_t)logs->count * sizeof(char *));
    if (!history->name)
        return false;
    history->values = logs->count;
    for (int i = 0; i < logs->count; i++)
        if (!(history->name[i] = iso_strdup(logs->name[i])))
            return false;
    return true;
}

static iso_status check_names(const iso_history *history, const iso_logs *logs)
{
    int most = logs->count > history->values ? logs->count : history->values;
    for (int i = 0; i < most; i++) {
        const char *now = i < logs->count ? logs->name[i] : "nothing";
        const char *before = i < history->values ? history->name[i] : "nothing";
        if (strcmp(now, before) != 0)
            return iso_error(ISO_INVALID, "an epoch logs '%s' where the one before it logged '%s'", now,
                             before);
    }
    return ISO_OK;
}

iso_status iso_history_add(iso_history *history, const iso_logs *logs)
{
    size_t count = (size_t)logs->count, old = (size_t)history->epochs * count;
    double *grown = NULL;
    if (history->name) {
        iso_status status = check_names(history, logs);
        if (status != ISO_OK)
            return status;
    }
    if (history->name || take_names(history, logs))
        grown = iso_grow(history->value, old, old + count, sizeof(double));
    if (!grown)
        return iso_error(ISO_NO_MEMORY, "no memory for the history of epoch %d", history->epochs + 1);
    memcpy(grown + old, logs->value, count * sizeof(double));
    history->value = grown;
    history->epochs++;
    return ISO_OK;
}

int iso_history_epochs(const iso_history *history)
{
    return history->epochs;
}

iso_logs iso_history_logs(const iso_history *history, int epoch)
{
    return (iso_logs){.count = history->values,
                      .name = (const char *const *)history->name,
                      .value = history->value + (size_t)epoch * (size_t)history->values};
}

/* ---- the file ---- */

typedef struct history_file {
    char *path;
    FILE *file;   /* of the chief, while training */
    bool written; /* a line of this training */
} history_file;

static iso_context *context_of(const iso_fit_state *state)
{
    return iso_graph_context(iso_model_graph(state->model));
}

static iso_status open_file(void *user, iso_fit_state *state)
{
    history_file *history = user;
    iso_context *ctx = context_of(state);
    if (!history->path)
        return iso_error(ISO_NO_MEMORY, "no memory for the name of a history file");
    if (ctx && !iso_is_chief(ctx))
        return ISO_OK;
    history->file = fopen(history->path, "a"); /* emptied at the end of the first epoch */
    if (!history->file)
        return iso_error(ISO_IO, "history file %s: %s", history->path, strerror(errno));
    return ISO_OK;
}

static void write_line(FILE *file, const iso_fit_state *state, const char *fingerprint)
{
    fprintf(file, "{\"epoch\": %d", state->epoch + 1);
    for (int i = 0; i < state->logs.count; i++) {
        double value = state->logs.value[i];
        if (isfinite(value))
            fprintf(file, ", \"%s\": %.17g", state->logs.name[i], value);
        else /* JSON has no such numbers */
            fprintf(file, ", \"%s\": \"%s\"", state->logs.name[i],
                    isnan(value) ? "nan"
                    : value > 0  ? "inf"
                                 : "-inf");
    }
    fprintf(file, ", \"fingerprint\": \"%s\"}\n", fingerprint);
}

static iso_status write_epoch(void *user, iso_fit_state *state)
{
    history_file *history = user;
    iso_fingerprint fingerprint;
    char text[33];
    iso_status status = iso_graph_fingerprint(iso_model_graph(state->model), &fingerprint);
    if (status != ISO_OK || !history->file)
        return status;
    iso_fingerprint_text(&fingerprint, text);
    /* A run that fails in its first epoch leaves the file as it was. EINVAL: a pipe or a terminal. */
    bool emptied = history->written || ftruncate(fileno(history->file), 0) == 0 || errno == EINVAL;
    history->written = true;
    write_line(history->file, state, text);
    if (!emptied || fflush(history->file) != 0 || ferror(history->file))
        return iso_error(ISO_IO, "history file %s: %s", history->path, strerror(errno));
    return ISO_OK;
}

static void destroy_file(void *user)
{
    history_file *history = user;
    if (!history)
        return;
    if (history->file)
        fclose(history->file);
    iso_free(history->path);
    iso_free(history);
}

static iso_status no_memory(void *user, iso_fit_state *state)
{
    (void)user, (void)state;
    return iso_error(ISO_NO_MEMORY, "no memory for a history file");
}

iso_callback *iso_history_file(const char *path)
{
    history_file *history = iso_new(sizeof *history);
    if (!history)
        return iso_callback_create(.train_begin = no_memory);
    history->path = iso_strdup(path);
    return iso_callback_create(.train_begin = open_file, .epoch_end = write_epoch, .user = history,
                               .destroy = destroy_file);
}
