/* Callbacks: creation, and calling a list of them. */
#include "runtime/train/callbacks.h"
#include "runtime/base/first_error.h"
#include "runtime/base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/program_call.h"
#include "runtime/train/training_impl.h"

iso_callback *iso_callback_no_memory(void)
{
    static const iso_callback no_memory = {.status = ISO_NO_MEMORY}; /* never written */
    return (iso_callback *)&no_memory;
}

iso_callback *iso_callback_of_isogrid(iso_callback *callback)
{
    if (callback->status == ISO_OK) /* otherwise it is the constant */
        callback->built_in = true;
    return callback;
}

iso_program_modes *iso_callback_modes_begin(const iso_callback *callback)
{
    return callback->built_in ? NULL : iso_program_modes_begin();
}

iso_callback *iso_callback_logs(iso_callback *callback, const char *name)
{
    if (callback->status == ISO_OK) /* otherwise it is the constant */
        callback->logs = name;
    return callback;
}

bool iso_callbacks_may_log(iso_callback *const *callbacks, const char *name)
{
    for (int i = 0; callbacks && callbacks[i]; i++)
        if (callbacks[i]->logs ? strcmp(callbacks[i]->logs, name) == 0
                               : callbacks[i]->options.epoch_end != NULL)
            return true;
    return false;
}

iso_callback *iso_callback_create_with(const iso_callback_options *options, size_t size)
{
    iso_callback *callback = iso_new(sizeof *callback);
    if (!callback) {
        if (options->destroy)
            options->destroy(options->user);
        return iso_callback_no_memory();
    }
    iso_options_copy(&callback->options, sizeof *options, options, size);
    return callback;
}

void iso_callback_destroy(iso_callback *callback)
{
    if (!callback || callback->status == ISO_NO_MEMORY)
        return;
    if (callback->options.destroy)
        callback->options.destroy(callback->options.user);
    iso_free(callback);
}

/* The index of this callback's first place in the list. */
static int first_index(iso_callback *const *callbacks, const iso_callback *callback)
{
    int i = 0;
    while (callbacks[i] != callback)
        i++;
    return i;
}

iso_status iso_callbacks_check(iso_callback *const *callbacks)
{
    for (int i = 0; callbacks && callbacks[i]; i++) {
        int first = first_index(callbacks, callbacks[i]);
        if (first < i && callbacks[i]->status == ISO_OK)
            return iso_error(ISO_INVALID, "fit: callbacks %d and %d of the list are the same object", first,
                             i);
    }
    return ISO_OK;
}

void iso_callbacks_destroy(iso_callback *const *callbacks)
{
    for (int i = 0; callbacks && callbacks[i]; i++)
        if (first_index(callbacks, callbacks[i]) == i)
            iso_callback_destroy(callbacks[i]);
}

static iso_callback_function function_of(const iso_callback *callback, iso_moment moment)
{
    const iso_callback_options *options = &callback->options;
    switch (moment) {
    case ISO_TRAIN_BEGIN:
        return options->train_begin;
    case ISO_TRAIN_END:
        return options->train_end;
    case ISO_EPOCH_BEGIN:
        return options->epoch_begin;
    case ISO_EPOCH_END:
        return options->epoch_end;
    case ISO_BATCH_BEGIN:
        return options->batch_begin;
    case ISO_BATCH_END:
        return options->batch_end;
    }
    return NULL;
}

static const char *const moment_names[] = {
    [ISO_TRAIN_BEGIN] = "train_begin", [ISO_TRAIN_END] = "train_end",     [ISO_EPOCH_BEGIN] = "epoch_begin",
    [ISO_EPOCH_END] = "epoch_end",     [ISO_BATCH_BEGIN] = "batch_begin", [ISO_BATCH_END] = "batch_end"};

static iso_status call(const iso_callback *callback, iso_moment moment, iso_fit_state *state)
{
    iso_callback_function function = function_of(callback, moment);
    if (callback->status != ISO_OK)
        return moment == ISO_TRAIN_BEGIN ? iso_error(callback->status, "no memory for a callback") : ISO_OK;
    if (!function)
        return ISO_OK;
    iso_program_modes *modes = iso_callback_modes_begin(callback);
    iso_status status =
        ISO_PROGRAM_CALL(function(callback->options.user, state), "%s of %s", moment_names[moment],
                         callback->options.kind ? callback->options.kind : "a callback");
    iso_program_modes_end(modes);
    return status;
}

iso_status iso_callbacks_call(iso_callback *const *callbacks, iso_moment moment, iso_fit_state *state)
{
    iso_first_error first = {ISO_OK};
    for (int i = 0; callbacks && callbacks[i]; i++) {
        if (callbacks[i]->last)
            continue;
        iso_first_error_keep(&first, call(callbacks[i], moment, state));
        if (moment != ISO_EPOCH_END || !function_of(callbacks[i], moment))
            continue;
        iso_status shared = iso_training_share_logs(state->training);
        if (shared != ISO_OK) /* the same on all ranks; the callbacks after it would act differently on
                                 each */
            return shared;
    }
    for (int i = 0; callbacks && callbacks[i]; i++)
        if (callbacks[i]->last && callbacks[i]->decide)
            iso_first_error_keep(&first, callbacks[i]->decide(callbacks[i]->options.user, state, moment));
    for (int i = 0; callbacks && callbacks[i]; i++)
        if (callbacks[i]->last)
            iso_first_error_keep(&first, call(callbacks[i], moment, state));
    return iso_first_error_get(&first);
}

iso_status iso_callbacks_resumed(iso_callback *const *callbacks, iso_fit_state *state)
{
    iso_status status = ISO_OK;
    for (int i = 0; callbacks && callbacks[i]; i++)
        if (callbacks[i]->resumed)
            ISO_TRY(callbacks[i]->resumed(callbacks[i]->options.user, state));
done:
    return status;
}

static iso_status save_now(const iso_callback *callback, iso_fit_state *state, iso_text *file)
{
    iso_text own = {0};
    iso_status status = callback->save_now(callback->options.user, state, &own);
    if (!file->length)
        iso_text_add(file, "%s", iso_text_get(&own));
    iso_text_free(&own);
    return status;
}

iso_status iso_callbacks_save_now(iso_callback *const *callbacks, iso_fit_state *state, iso_text *file)
{
    iso_first_error first = {ISO_OK};
    for (int i = 0; callbacks && callbacks[i]; i++)
        if (callbacks[i]->save_now && callbacks[i]->backup)
            return save_now(callbacks[i], state, file);
    for (int i = 0; callbacks && callbacks[i]; i++)
        if (callbacks[i]->save_now)
            iso_first_error_keep(&first, save_now(callbacks[i], state, file));
    return iso_first_error_get(&first);
}

/* ---- comparing lists: ranks with different ones would wait for each other for ever ---- */

iso_callback *iso_callback_set_same(iso_callback *callback, const iso_callback_same *same)
{
    if (callback->status == ISO_OK)
        callback->same = *same;
    return callback;
}

static const char *name_of(const iso_callback *callback)
{
    const char *name = callback->same.name ? callback->same.name : callback->options.kind;
    return name ? name : "of the program";
}

static void describe_functions(const iso_callback *callback, iso_text *lines)
{
    iso_text_add(lines, "functions =");
    for (iso_moment moment = ISO_TRAIN_BEGIN; moment <= ISO_BATCH_END; moment++)
        if (function_of(callback, moment))
            iso_text_add(lines, " %s", moment_names[moment]);
    iso_text_add(lines, "%s\n", callback->options.collective ? ", collective" : "");
}

void iso_callbacks_describe(iso_callback *const *callbacks, iso_text *lines)
{
    for (int i = 0; callbacks && callbacks[i]; i++) {
        const iso_callback_same *same = &callbacks[i]->same;
        char of[80];
        snprintf(of, sizeof of, "callback %d (%s): ", i, name_of(callbacks[i]));
        if (same->monitor)
            iso_text_add(lines, "%smonitor = %s\n", of, same->monitor);
        if (same->best)
            iso_text_add(lines, "%sbest = %s\n", of, same->best);
        for (const iso_setting *setting = same->settings; setting && setting->name; setting++)
            iso_text_add(lines, "%s%s = %.17g\n", of, setting->name, iso_setting_get(setting, same->options));
        iso_text_add(lines, "%s", of);
        describe_functions(callbacks[i], lines);
    }
}

bool iso_callbacks_want(iso_callback *const *callbacks, iso_moment moment)
{
    for (int i = 0; callbacks && callbacks[i]; i++)
        if (function_of(callbacks[i], moment))
            return true;
    return false;
}

bool iso_callbacks_are_rank_local(iso_callback *const *callbacks)
{
    for (int i = 0; callbacks && callbacks[i]; i++)
        if (!callbacks[i]->options.collective &&
            (callbacks[i]->options.batch_begin || callbacks[i]->options.batch_end))
            return true;
    return false;
}

iso_callback *iso_callback_sends_weights(iso_callback *callback)
{
    if (callback->status == ISO_OK)
        callback->sends_weights = true;
    return callback;
}

bool iso_callbacks_allow_deferred_weights(iso_callback *const *callbacks)
{
    for (int i = 0; callbacks && callbacks[i]; i++)
        if (!callbacks[i]->sends_weights && !callbacks[i]->options.async &&
            (callbacks[i]->options.batch_begin || callbacks[i]->options.batch_end))
            return false;
    return true;
}

bool iso_callbacks_are_async(iso_callback *const *callbacks)
{
    for (int i = 0; callbacks && callbacks[i]; i++)
        if (!callbacks[i]->options.async &&
            (callbacks[i]->options.batch_begin || callbacks[i]->options.batch_end))
            return false;
    return true;
}

double iso_logs_get(const iso_logs *logs, const char *name)
{
    if (ISO_ANY_NULL(logs, name))
        return 0;
    for (int i = 0; i < logs->count; i++)
        if (strcmp(logs->name[i], name) == 0)
            return logs->value[i];
    return NAN;
}
