/* Reads the weights of a .keras file into a model. HDF5 needs a named file, so the first rank of each host unpacks
 * them. */
#include <string.h>

#include "collectives/control/control.h"
#include "models/keras/archive.h"
#include "models/keras/keras.h"
#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/session/session.h"

enum { PATH_ROOM = sizeof((iso_keras_unpacked *)0)->path };

/* Messages name the file that the user gave, and its member. */
static iso_status rename_in_message(iso_status status, const char *unpacked, const char *name)
{
    iso_text text = {0};
    const char *at = iso_error_message();
    char *message = iso_strdup(at), *rest = message, *found;
    while (rest && (found = strstr(rest, unpacked))) {
        iso_text_add(&text, "%.*s%s", (int)(found - rest), rest, name);
        rest = found + strlen(unpacked);
    }
    if (rest)
        iso_text_add(&text, "%s", rest);
    if (rest && !text.failed)
        iso_error(status, "%s", iso_text_get(&text));
    iso_text_free(&text);
    iso_free(message);
    return status;
}

iso_status iso_keras_load_weights_with(iso_model *model, const iso_load_weights_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    iso_load_weights_options options = {0};
    iso_keras_unpacked own = {.file = -1};
    iso_text name = {0};
    char unpacked[PATH_ROOM] = "";
    iso_status status;
    iso_context *ctx = iso_graph_context(iso_model_graph(model));
    iso_options_copy(&options, sizeof options, given, size);
    ISO_NEED_AGREED_AS(ctx, "path", options.path);
    const char *path = options.path;
    ISO_TRY(iso_agree(ctx, iso_is_host_leader(ctx) ? iso_keras_unpack_weights(path, &own) : ISO_OK));
    memcpy(unpacked, own.path, sizeof unpacked);
    ISO_TRY(iso_broadcast_in_hosts(ctx, unpacked, sizeof unpacked));
    options.path = unpacked;
    iso_text_add(&name, "%s: " ISO_KERAS_WEIGHTS, path);
    ISO_TRY(iso_agree(ctx, name.failed ? iso_no_memory("the name of a file") : ISO_OK));
    options.name = options.name ? options.name : iso_text_get(&name);
    status = iso_model_load_weights_with(model, &options, sizeof options);
    if (status != ISO_OK)
        rename_in_message(status, unpacked, iso_text_get(&name));
done:
    iso_text_free(&name);
    iso_keras_unpacked_remove(&own);
    return status;
}
