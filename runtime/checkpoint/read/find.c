/* Finds the newest complete checkpoint of a folder. */
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/checkpoint/read/listing_impl.h"
#include "runtime/checkpoint/read/saved_file_impl.h"
#include "runtime/session/session.h"

/* Copies a text of the chief (NULL on the others) to every rank; iso_free. Collective. */
static iso_status share_text(iso_context *ctx, const char *text, char **copy)
{
    uint64_t bytes = text ? strlen(text) + 1 : 0;
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(ctx, iso_broadcast(ctx, &bytes, sizeof bytes)));
    *copy = iso_new((size_t)bytes);
    ISO_TRY(iso_agree(ctx, *copy ? ISO_OK : iso_no_memory("a path")));
    if (text)
        memcpy(*copy, text, (size_t)bytes);
    status = iso_agree(ctx, iso_broadcast(ctx, *copy, (size_t)bytes));
done:
    return status;
}

/* A file that is damaged, or is no checkpoint, is passed over. One that cannot be read may be a good one: to go back
 * to an older one, or to begin anew, would lose training, and the rotation of later saves would remove it. */
static iso_status pass_over(void *lines, iso_status status)
{
    if (status == ISO_INVALID)
        iso_text_add(lines, "%s\n", iso_error_message());
    return status == ISO_INVALID ? ISO_OK : status;
}

static iso_status open_whole(iso_context *ctx, const char *path, iso_saved_file **out)
{
    iso_saved_file *file = NULL;
    iso_status status;
    ISO_TRY(iso_saved_file_open(ctx, path, &file));
    if (!iso_saved_file_committed(file, NULL))
        ISO_TRY(iso_error(ISO_INVALID, "'%s' has lost its commit record", path));
    ISO_TRY(iso_saved_file_verify(file));
    *out = file;
    return ISO_OK;
done:
    iso_saved_file_close(file);
    return status;
}

/* Opens the first complete checkpoint of the chief's list, newest first. The reasons against those before it
 * are added to the chief's `passed_over`. ISO_IO: one of them cannot be read. Collective. */
static iso_status first_whole(iso_context *ctx, const iso_listing *list, iso_saved_file **file,
                              iso_text *passed_over)
{
    int count = list->count;
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(ctx, iso_broadcast(ctx, &count, sizeof count)));
    for (int i = count - 1; i >= 0; i--) {
        char *path = NULL;
        ISO_TRY(share_text(ctx, i < list->count ? list->items[i].path : NULL, &path));
        status = open_whole(ctx, path, file);
        iso_free(path);
        if (status == ISO_OK)
            return ISO_OK;
        ISO_TRY(pass_over(passed_over, status));
    }
done:
    return status;
}

iso_status iso_checkpoint_find(iso_context *ctx, const char *folder, const char *pattern,
                               iso_saved_file **file, iso_text *passed_over)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AGREED(ctx, folder, file);
    bool chief = iso_is_chief(ctx);
    iso_listing list = {0};
    iso_text passed = {0};
    iso_saved_file *found = NULL;
    char *lines = NULL;
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(ctx, chief ? iso_listing_make(folder, pattern, &list, pass_over, &passed) : ISO_OK));
    ISO_TRY(first_whole(ctx, &list, &found, &passed));
    ISO_TRY(share_text(ctx, chief ? iso_text_get(&passed) : NULL, &lines));
    if (passed_over && *lines)
        iso_text_add(passed_over, "%s", lines);
    *file = found;
    found = NULL;
done:
    if (status == ISO_IO)
        iso_error_prefix(status, "the newest checkpoint is not known, and no other is taken in its place: ");
    iso_saved_file_close(found);
    iso_free(lines);
    iso_listing_free(&list);
    iso_text_free(&passed);
    return status;
}

iso_status iso_checkpoint_newest(iso_context *ctx, const char *what, const char *folder, const char *pattern,
                                 iso_saved_file **file)
{
    ISO_DEFAULT_MODES();
    iso_text passed_over = {0};
    ISO_NEED_AGREED(ctx, what, folder, file);
    iso_status status = iso_checkpoint_find(ctx, folder, pattern, file, &passed_over);
    if (status == ISO_IO)
        iso_error_prefix(status, "%s: ", what);
    if (status == ISO_OK && passed_over.length > 0 && iso_is_chief(ctx))
        iso_warn("%s skips\n%.*s", what, (int)passed_over.length - 1, iso_text_get(&passed_over));
    iso_text_free(&passed_over);
    return status;
}
