/* Checkpoints that are named by their folder, or by the files `latest` and `best` in it. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/file_names.h"
#include "runtime/session/session.h"

typedef enum way { A_FILE, A_FOLDER, LATEST, BEST } way;

static way way_of(const char *path)
{
    struct stat about;
    const char *name = iso_file_name(path);
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return A_FOLDER;
    return !strcmp(name, "latest") ? LATEST : !strcmp(name, "best") ? BEST : A_FILE;
}

/* "ck/latest" -> "ck" */
static char *folder_of(const char *path, way how)
{
    return how == A_FOLDER ? iso_strdup(path) : iso_file_folder(path);
}

bool iso_is_pointer_name(const char *name)
{
    return !strcmp(name, "latest") || !strcmp(name, "best") || !strcmp(name, "finished");
}

iso_status iso_checkpoint_folder(const char *path, char **folder)
{
    way how = way_of(path);
    *folder = how == A_FILE ? NULL : folder_of(path, how);
    return how == A_FILE || *folder ? ISO_OK : iso_no_memory("the folder of '%s'", path);
}

static iso_status find_newest(iso_context *ctx, const char *use, const char *folder, char **found)
{
    iso_saved_file *file = NULL;
    iso_status status = iso_checkpoint_newest(ctx, use, folder, NULL, &file);
    if (status == ISO_OK && !file)
        status =
            iso_error(ISO_INVALID, "%s: there is no complete checkpoint in the folder '%s'", use, folder);
    if (status == ISO_OK && !(*found = iso_strdup(iso_saved_file_path(file))))
        status = iso_no_memory("the path of a checkpoint");
    iso_saved_file_close(file);
    return iso_agree(ctx, status);
}

/* The checkpoint that the file `best` names. */
static iso_status newest_read_best(const char *use, const char *path, const char *folder, char **found)
{
    char *name = NULL;
    iso_status status = iso_checkpoint_pointed(folder, "best", &name);
    if (status != ISO_OK)
        return iso_error_prefix(ISO_INVALID, "%s ", use);
    if (!name || !*name)
        status = iso_error(ISO_INVALID,
                           "%s '%s': the folder '%s' has no best checkpoint; a training marks one if it "
                           "is told what is best (--save-best)",
                           use, path, folder);
    else if (!(*found = iso_file_join(folder, name)))
        status = iso_no_memory("the path of a checkpoint");
    iso_free(name);
    return status;
}

/* A file that is there and may not be read is the user's error. */
static iso_status newest_check_readable(const char *use, const char *path)
{
    bool refused = access(path, R_OK) != 0 && errno == EACCES;
    return refused ? iso_error(ISO_INVALID, "%s '%s': it cannot be read: %s", use, path, strerror(errno))
                   : ISO_OK;
}

iso_status iso_checkpoint_resolve(iso_context *ctx, const char *use, const char *path, char **found)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AGREED(ctx, use, path, found);
    way how = way_of(path);
    *found = NULL;
    iso_status status = iso_broadcast(ctx, &how, sizeof how); /* the chief's counts */
    if (status != ISO_OK)
        return status;
    if (how == A_FILE)
        return iso_agree(ctx, newest_check_readable(use, path));
    char *folder = folder_of(path, how);
    ISO_TRY(iso_agree(ctx, folder ? ISO_OK : iso_no_memory("the name '%s'", path)));
    ISO_TRY(how == BEST ? iso_agree(ctx, newest_read_best(use, path, folder, found))
                        : find_newest(ctx, use, folder, found));
done:
    iso_free(folder);
    return status;
}

iso_status iso_checkpoint_open(iso_context *ctx, const char *use, const char *path, iso_saved_file **file)
{
    ISO_DEFAULT_MODES();
    char *found = NULL;
    ISO_NEED_AGREED(ctx, use, path, file);
    iso_status status = iso_checkpoint_resolve(ctx, use, path, &found);
    if (status == ISO_OK) {
        status = iso_saved_file_open(ctx, found ? found : path, file);
        status = status == ISO_OK ? ISO_OK : iso_error_prefix(status, "%s: ", use);
    }
    iso_free(found);
    return status;
}
