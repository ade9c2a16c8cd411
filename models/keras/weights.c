/* The weights in a .keras file. HDF5 wants a file with a name, so on each host the first rank unpacks them
 * into one of its own in TMPDIR, for the time in which they are read. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "models/keras/archive.h"
#include "models/keras/keras.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/session/session.h"

enum { PATH_ROOM = 4096 };

/* ---- the temporary file ---- */

/* "/tmp/isogrid-ab12cd-net.weights.h5" for "models/net.keras": messages may name it. */
static iso_status make_file(const char *archive, char path[PATH_ROOM], int *file)
{
    char end[100];
    const char *folder = getenv("TMPDIR"), *slash = strrchr(archive, '/'),
               *name = slash ? slash + 1 : archive;
    folder = folder && *folder ? folder : "/tmp";
    size_t length = strlen(name), tail = strlen(".keras");
    if (length > tail && strcmp(name + length - tail, ".keras") == 0)
        length -= tail;
    snprintf(end, sizeof end, "-%.*s.weights.h5", length < 60 ? (int)length : 60, name);
    if (snprintf(path, PATH_ROOM, "%s/isogrid-XXXXXX%s", folder, end) < PATH_ROOM &&
        (*file = mkostemps(path, (int)strlen(end), O_CLOEXEC)) >= 0)
        return ISO_OK;
    *path = 0;
    return iso_error(ISO_IO, "cannot make a file in '%s' (TMPDIR names another folder): %s", folder,
                     strerror(errno));
}

/* Unpacks the weights into a new file; it is the caller's to unlink, also after an error ("": none). */
static iso_status unpack(const char *path, char unpacked[PATH_ROOM])
{
    iso_keras_archive *archive = NULL;
    int file = -1;
    iso_status status;
    ISO_TRY(iso_keras_archive_open(path, &archive));
    ISO_TRY(make_file(path, unpacked, &file));
    ISO_TRY(iso_keras_archive_unpack(archive, ISO_KERAS_WEIGHTS, file, unpacked));
done:
    if (file >= 0 && close(file) != 0 && status == ISO_OK)
        status = iso_error(ISO_IO, "cannot write '%s': %s", unpacked, strerror(errno));
    iso_keras_archive_close(archive);
    return status;
}

iso_status iso_keras_unpack_weights(const char *path, char *unpacked, size_t size)
{
    char made[PATH_ROOM] = "";
    iso_status status = unpack(path, made);
    if (snprintf(unpacked, size, "%s", made) < (int)size)
        return status;
    unlink(made);
    *unpacked = 0;
    return iso_error(ISO_FAILED, "the path '%s' is too long", made);
}

iso_status iso_keras_read_member(const char *path, const char *member, char **text, size_t *bytes)
{
    iso_keras_archive *archive = NULL;
    iso_status status;
    ISO_TRY(iso_keras_archive_open(path, &archive));
    ISO_TRY(iso_keras_archive_read(archive, member, text, bytes));
done:
    iso_keras_archive_close(archive);
    return status;
}

/* ---- on every host ---- */

static bool is_first_of_host(iso_context *ctx)
{
    int rank = iso_rank(ctx);
    for (int r = 0; r < rank; r++)
        if (iso_host_of_rank(ctx, r) == iso_host_of_rank(ctx, rank))
            return false;
    return true;
}

/* Everyone gets the path of the first rank of its host. Collective. */
static iso_status share_path(iso_context *ctx, char path[PATH_ROOM])
{
    int rank = iso_rank(ctx), first = 0;
    char *all = iso_new((size_t)iso_ranks(ctx) * PATH_ROOM);
    iso_status status = iso_agree(ctx, all ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory for the paths"));
    if (status == ISO_OK)
        status = iso_gather_all(ctx, path, PATH_ROOM, all);
    while (iso_host_of_rank(ctx, first) != iso_host_of_rank(ctx, rank))
        first++;
    if (status == ISO_OK)
        memcpy(path, all + (size_t)first * PATH_ROOM, PATH_ROOM);
    iso_free(all);
    return status;
}

/* Messages speak of the file that the user knows. */
static iso_status rename_in_message(iso_status status, const char *unpacked, const char *path)
{
    iso_text text = {0};
    const char *at = iso_error_message();
    char *message = iso_strdup(at), *rest = message, *found;
    while (rest && (found = strstr(rest, unpacked))) {
        iso_text_add(&text, "%.*s%s: " ISO_KERAS_WEIGHTS, (int)(found - rest), rest, path);
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
    iso_load_weights_options options = {0};
    char unpacked[PATH_ROOM] = "";
    iso_status status;
    iso_context *ctx = iso_graph_context(iso_model_graph(model));
    bool unpacks = is_first_of_host(ctx);
    memcpy(&options, given, size < sizeof options ? size : sizeof options);
    const char *path = options.path;
    ISO_TRY(iso_agree(ctx, unpacks ? unpack(path, unpacked) : ISO_OK));
    ISO_TRY(share_path(ctx, unpacked));
    options.path = unpacked;
    status = iso_model_load_weights_with(model, &options, sizeof options);
    if (status != ISO_OK)
        rename_in_message(status, unpacked, path);
done:
    if (unpacks && *unpacked)
        unlink(unpacked);
    return status;
}
