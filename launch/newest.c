/* Checkpoints that are named by their folder, or by the marks `latest` and `best` in it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "collectives/control/control.h"
#include "launch/train_impl.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/checkpoint/checkpoint.h"

typedef enum way { A_FILE, A_FOLDER, LATEST, BEST } way;

static way way_of(const char *path)
{
    struct stat about;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return A_FOLDER;
    return !strcmp(name, "latest") ? LATEST : !strcmp(name, "best") ? BEST : A_FILE;
}

/* "ck/latest" -> "ck" */
static char *folder_of(const char *path, way how)
{
    const char *slash = strrchr(path, '/');
    char *folder = iso_strdup(how == A_FOLDER || slash ? path : ".");
    if (folder && how != A_FOLDER && slash)
        folder[slash == path ? 1 : slash - path] = 0;
    return folder;
}

static iso_status find_newest(iso_context *ctx, const char *option, const char *folder, char **found)
{
    iso_text passed_over = {0};
    iso_saved_file *file = NULL;
    iso_status status = iso_checkpoint_find(ctx, folder, NULL, &file, &passed_over);
    if (status == ISO_OK && passed_over.length > 0 && iso_is_chief(ctx))
        iso_warn("%s passes over\n%.*s", option, (int)passed_over.length - 1, iso_text_get(&passed_over));
    iso_text_free(&passed_over);
    if (status == ISO_OK && !file)
        status =
            iso_error(ISO_INVALID, "%s: there is no whole checkpoint in the folder '%s'", option, folder);
    if (status == ISO_OK && !(*found = iso_strdup(iso_saved_file_path(file))))
        status = iso_error(ISO_NO_MEMORY, "no memory for the path of a checkpoint");
    iso_saved_file_close(file);
    return iso_agree(ctx, status);
}

/* What a mark names: the first line of the file. */
static iso_status read_mark(const char *option, const char *path, const char *folder, char **found)
{
    char name[4096];
    FILE *file = fopen(path, "r");
    bool read = file && fgets(name, sizeof name, file);
    if (file)
        fclose(file);
    if (!read)
        return iso_error(ISO_INVALID, "%s '%s': it cannot be read: %s", option, path,
                         file ? "it is empty" : strerror(errno));
    name[strcspn(name, "\n")] = 0;
    *found = iso_file_join(folder, name);
    return *found ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory for the path of a checkpoint");
}

iso_status iso_checkpoint_resolve(iso_context *ctx, const char *option, const char *path, char **found)
{
    way how = way_of(path);
    *found = NULL;
    iso_status status = iso_broadcast(ctx, &how, sizeof how); /* the chief's counts */
    if (status != ISO_OK || how == A_FILE)
        return status;
    char *folder = folder_of(path, how);
    ISO_TRY(iso_agree(ctx, folder ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory for the name '%s'", path)));
    ISO_TRY(how == BEST ? iso_agree(ctx, read_mark(option, path, folder, found))
                        : find_newest(ctx, option, folder, found));
done:
    iso_free(folder);
    return status;
}
