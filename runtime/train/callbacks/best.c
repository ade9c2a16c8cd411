#include "runtime/train/callbacks/best_impl.h"

#include <math.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/session/session.h"

static void forget(iso_best_file *file)
{
    iso_free(file->name);
    *file = (iso_best_file){0};
}

bool iso_best_init(iso_best *best, bool used, const char *name, iso_mode mode)
{
    *best = (iso_best){.used = used};
    return iso_monitor_init(&best->monitor, "ModelCheckpoint", name, mode, 0);
}

void iso_best_free(iso_best *best)
{
    iso_monitor_free(&best->monitor);
    forget(&best->kept);
    forget(&best->begun);
}

iso_status iso_best_begin(iso_best *best, const iso_fit_state *state, bool needed)
{
    forget(&best->kept);
    forget(&best->begun);
    return best->used ? iso_monitor_begin(&best->monitor, state, needed) : ISO_OK;
}

/* ---- saving ---- */

bool iso_best_improves(iso_best *best, const iso_fit_state *state, double *value, bool *missing)
{
    *missing = !iso_monitor_read(&best->monitor, state, value);
    return !*missing && !isnan(*value) && iso_monitor_improves(&best->monitor, *value);
}

iso_status iso_best_save_begins(iso_best *best, double value, const char *name, uint64_t number)
{
    forget(&best->begun);
    best->saving = true;
    best->value = value;
    best->begun = (iso_best_file){name ? iso_strdup(name) : NULL, number};
    return best->begun.name || !name ? ISO_OK : iso_no_memory("the name of the checkpoint '%s'", name);
}

void iso_best_save_ends(iso_best *best, bool committed)
{
    if (best->saving && committed) {
        forget(&best->kept);
        best->kept = best->begun;
        best->begun = (iso_best_file){0};
        best->monitor.has_best = true;
        best->monitor.best = best->value;
    }
    best->saving = false;
    forget(&best->begun);
}

/* ---- the state in checkpoints ---- */

/* Names that are not UTF-8 are left out, as JSON cannot hold them. */
static json_t *state_of(const iso_monitor *monitor, const iso_best_file *file)
{
    json_t *state = json_object();
    iso_monitor_save(monitor, state);
    json_t *name = file->name ? json_string(file->name) : NULL;
    if (name) {
        json_object_set_new(state, "file", name);
        json_object_set_new(state, "number", json_integer((json_int_t)file->number));
    }
    return state;
}

/* While a better checkpoint is being saved, the state is that after its commit, because most often it is the state in
 * this very file. "before" is the best without it. */
json_t *iso_best_state(const iso_best *best)
{
    if (!best->used)
        return json_pack("{s:n}", "best");
    if (!best->saving)
        return state_of(&best->monitor, &best->kept);
    iso_monitor monitor = best->monitor;
    monitor.has_best = true;
    monitor.best = best->value;
    json_t *state = state_of(&monitor, &best->begun);
    if (json_object_get(state, "file"))
        json_object_set_new(state, "before", state_of(&best->monitor, &best->kept));
    return state;
}

static iso_status read_file(const json_t *state, iso_best_file *file)
{
    const char *name = json_string_value(json_object_get(state, "file"));
    forget(file);
    if (!name || strchr(name, '/'))
        return ISO_OK;
    *file = (iso_best_file){iso_strdup(name), (uint64_t)json_integer_value(json_object_get(state, "number"))};
    return file->name ? ISO_OK : iso_no_memory("the name of the best checkpoint");
}

iso_status iso_best_restore(iso_best *best, const json_t *state)
{
    const json_t *before = json_object_get(state, "before");
    iso_status status = ISO_OK;
    bool other;
    if (!best->used)
        return ISO_OK;
    ISO_TRY(iso_monitor_restore(&best->monitor, state, &other));
    if (other)
        return ISO_OK;
    ISO_TRY(read_file(state, before ? &best->begun : &best->kept));
    if (!before)
        return ISO_OK;
    best->saving = true;
    best->value = best->monitor.best;
    ISO_TRY(iso_monitor_restore(&best->monitor, before, NULL));
    ISO_TRY(read_file(before, &best->kept));
done:
    return status;
}

/* Whether the folder has this checkpoint, by the number that the chief knows. Collective. */
static iso_status is_there(iso_context *ctx, const char *folder, const iso_best_file *wanted, bool *there)
{
    iso_saved_file *file = NULL;
    uint64_t number;
    *there = false;
    if (!folder || !wanted->name)
        return ISO_OK;
    char *path = iso_file_join(folder, wanted->name);
    iso_status status = path ? ISO_OK : iso_no_memory("the path of the checkpoint '%s'", wanted->name);
    ISO_TRY(iso_agree(ctx, status));
    status = iso_saved_file_open(ctx, path, &file);
    if (status == ISO_OK)
        *there = iso_saved_file_committed(file, &number) && number == wanted->number;
    iso_saved_file_close(file);
    if (status != ISO_OK && status != ISO_INVALID)
        ISO_TRY(iso_error_prefix(status, "ModelCheckpoint: the best checkpoint: "));
    status = iso_broadcast(ctx, there, sizeof *there);
done:
    iso_free(path);
    return status;
}

iso_status iso_best_find(iso_best *best, iso_context *ctx, const char *folder)
{
    bool there;
    iso_status status = ISO_OK;
    ISO_TRY(is_there(ctx, folder, &best->begun, &there));
    iso_best_save_ends(best, there);
    if (there || !best->kept.name)
        return ISO_OK;
    ISO_TRY(is_there(ctx, folder, &best->kept, &there));
    if (there)
        return ISO_OK;
    best->monitor.has_best = false;
    forget(&best->kept);
done:
    return status;
}
