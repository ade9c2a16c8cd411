/* The state of callbacks in checkpoints: an array of {"kind": ..., "state": ...}, and tensors. */
#include <stdio.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/base/program_call.h"
#include "runtime/train/callbacks_impl.h"

static bool keeps_state(const iso_callback *callback)
{
    return callback->status == ISO_OK && callback->options.kind && callback->options.save &&
           callback->options.restore;
}

/* The number of callbacks of the same kind before it. */
static int callbacks_state_number_of(iso_callback *const *callbacks, int index)
{
    int number = 0;
    for (int i = 0; i < index; i++)
        number += keeps_state(callbacks[i]) &&
                  strcmp(callbacks[i]->options.kind, callbacks[index]->options.kind) == 0;
    return number;
}

/* Adds {"kind": ..., "state": ...}, and checks that the callback's text is JSON. */
static iso_status add_entry(const iso_callback *callback, json_t *list)
{
    const iso_callback_options *options = &callback->options;
    iso_text entry = {0};
    json_t *parsed = NULL;
    char name[160];
    iso_status status;
    iso_text_add(&entry, "{");
    iso_json_put_text(&entry, "kind", options->kind);
    iso_json_key(&entry, "state");
    iso_program_modes *modes = iso_callback_modes_begin(callback);
    status =
        ISO_PROGRAM_CALL(options->save(options->user, &entry), "`save` of the callback '%s'", options->kind);
    iso_program_modes_end(modes);
    ISO_TRY(status);
    iso_text_add(&entry, "}");
    if (entry.failed)
        ISO_TRY(iso_no_memory("the state of callbacks"));
    snprintf(name, sizeof name, "the state of the callback '%s' is not JSON", options->kind);
    ISO_TRY(iso_json_parse(name, iso_text_get(&entry), entry.length, &parsed));
    if (json_array_append(list, parsed))
        status = iso_no_memory("the state of callbacks");
done:
    json_decref(parsed);
    iso_text_free(&entry);
    return status;
}

iso_status iso_callbacks_save(iso_callback *const *callbacks, json_t **list)
{
    json_t *out = json_array();
    iso_status status = ISO_OK;
    for (int i = 0; callbacks && callbacks[i]; i++)
        if (keeps_state(callbacks[i]))
            ISO_TRY(add_entry(callbacks[i], out));
    *list = out;
    return ISO_OK;
done:
    json_decref(out);
    return status;
}

/* The state that the number-th of a kind saved; NULL: there is none. */
static json_t *find_state(const json_t *list, const char *kind, int number)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        if (strcmp(json_string_value(json_object_get(entry, "kind")), kind) == 0 && number-- == 0)
            return json_object_get(entry, "state");
    }
    return NULL;
}

static iso_status check_list(const json_t *list)
{
    if (!json_is_array(list))
        return iso_error(ISO_INVALID, "the state of callbacks is not a list");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        if (!json_is_string(json_object_get(entry, "kind")) || !json_object_get(entry, "state"))
            return iso_error(ISO_INVALID,
                             "the state of callbacks: entry %zu should be {\"kind\": ..., \"state\": ...}",
                             i);
    }
    return ISO_OK;
}

static iso_status restore_one(const iso_callback *callback, json_t *state)
{
    iso_text text = {0};
    iso_json_add(&text, json_incref(state), 0);
    if (text.failed)
        return iso_no_memory("the state of callbacks");
    iso_program_modes *modes = iso_callback_modes_begin(callback);
    iso_status status =
        ISO_PROGRAM_CALL(callback->options.restore(callback->options.user, iso_text_get(&text)), "`restore`");
    iso_program_modes_end(modes);
    iso_text_free(&text);
    if (status != ISO_OK)
        return iso_error_prefix(status, "the state of a callback, %s: ", callback->options.kind);
    return status;
}

iso_status iso_callbacks_restore(iso_callback *const *callbacks, const json_t *list)
{
    iso_status status = ISO_OK;
    ISO_TRY(check_list(list));
    for (int i = 0; callbacks && callbacks[i]; i++) {
        if (!keeps_state(callbacks[i]))
            continue;
        json_t *state = find_state(list, callbacks[i]->options.kind, callbacks_state_number_of(callbacks, i));
        if (state)
            ISO_TRY(restore_one(callbacks[i], state));
    }
done:
    return status;
}

iso_status iso_callbacks_shards(iso_callback *const *callbacks, iso_state_shards *shards)
{
    iso_status status = ISO_OK;
    char path[128];
    for (int i = 0; callbacks && callbacks[i]; i++) {
        if (!keeps_state(callbacks[i]) || !callbacks[i]->options.shards)
            continue;
        snprintf(path, sizeof path, "callbacks/%s/%d", callbacks[i]->options.kind,
                 callbacks_state_number_of(callbacks, i));
        iso_program_modes *modes = iso_callback_modes_begin(callbacks[i]);
        status = ISO_PROGRAM_CALL(callbacks[i]->options.shards(callbacks[i]->options.user, path, shards),
                                  "`shards` of the callback '%s'", callbacks[i]->options.kind);
        iso_program_modes_end(modes);
        ISO_TRY(status);
    }
done:
    return status;
}
