/* Checks that a run can write its files, before anything is read or trained. When training begins,
 * runtime/checkpoint checks that every rank can write a checkpoint. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/train_impl.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/session/roles.h"

static iso_status refused(const char *option, const char *path, const char *folder)
{
    return iso_error(ISO_INVALID, "%s'%s': nothing can be written into the folder '%s': %s", option, path,
                     folder, strerror(errno));
}

/* The folder of a path, in place: "a/b" -> "a", "a" -> ".", "/a" -> "/". */
static void go_up(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        slash[slash == path] = 0;
    else
        memcpy(path, ".", 2);
}

/* Whether a file can be made in the folder. makes: a missing folder is made. Changes the text `folder`. */
static iso_status check_folder(const char *option, const char *path, char *folder, bool makes)
{
    struct stat about;
    while (stat(folder, &about) != 0) {
        bool missing = errno == ENOENT || errno == ENOTDIR;
        if (!makes || !missing || !strcmp(folder, ".") || !strcmp(folder, "/"))
            return refused(option, path, folder);
        go_up(folder);
    }
    return iso_folder_is_writable(folder) ? ISO_OK : refused(option, path, folder);
}

enum { LONGEST_ADDED = 17 }; /* to a name while its file is written: ".", ".saving-" and eight digits */

/* Whether the name is short enough. The values in a name of --checkpoint may be shorter than their places: its
 * callback checks that name. */
static iso_status check_length(const char *option, const char *path, bool replaces)
{
    const char *name = iso_file_name(path);
    size_t length = strlen(name), most = NAME_MAX - (replaces ? LONGEST_ADDED : 0);
    if (length <= most || (replaces && strchr(name, '{')))
        return ISO_OK;
    return iso_error(ISO_INVALID, "%s'%s': the name has %zu characters, at most %zu are possible", option,
                     path, length, most);
}

/* Whether a file can be written: in place, or (`replaces`) as a new file in its folder. */
static iso_status check_file(const char *option, const char *path, char *folder, bool replaces, bool makes)
{
    struct stat about;
    iso_status length = check_length(option, path, replaces);
    if (length != ISO_OK)
        return length;
    const bool there = stat(path, &about) == 0;
    if ((there && S_ISDIR(about.st_mode)) || replaces) {
        iso_status status = iso_file_check_name(path);
        if (status != ISO_OK)
            return iso_error_prefix(status, "%s", option);
    }
    if (there && !replaces)
        return access(path, W_OK) == 0 ? ISO_OK
                                       : iso_error(ISO_INVALID, "%s'%s': the file cannot be written: %s",
                                                   option, path, strerror(errno));
    go_up(folder);
    return check_folder(option, path, folder, makes);
}

/* Whether the file is not written in place. */
static bool is_replaced(const char *path, iso_target_kind kind)
{
    struct stat about;
    const bool special = lstat(path, &about) == 0 && !S_ISREG(about.st_mode);
    return kind != ISO_TARGET_IN_PLACE && !(kind == ISO_TARGET_REPLACED && special);
}

iso_status iso_output_path_check(const char *option, const char *path, iso_target_kind kind)
{
    iso_status status;
    char *folder = iso_strdup(path);
    if (!folder)
        return iso_no_memory("the name '%s'", path);
    if (kind == ISO_TARGET_FOLDER)
        status = check_folder(option, path, folder, true);
    else
        status = check_file(option, path, folder, is_replaced(path, kind), kind == ISO_TARGET_BELOW);
    iso_free(folder);
    return status;
}

/* A path with {rank} or {role}: the chief's. */
static iso_status check_named(const char *option, const char *path, iso_target_kind kind)
{
    char *name;
    iso_status status = iso_role_path(NULL, ISO_WORKER, path, &name);
    if (status != ISO_OK)
        return status;
    status = iso_output_path_check(option, name, kind);
    iso_free(name);
    return status;
}

iso_status iso_output_paths_check(const iso_train_options *options)
{
    const struct {
        const char *option, *path;
        iso_target_kind kind;
    } targets[] = {
        {"--save-adapter ", options->save_adapter, ISO_TARGET_FOLDER},
        {"--save ", options->save,
         options->save && iso_output_is_folder(options->save) ? ISO_TARGET_FOLDER : ISO_TARGET_BELOW},
        {"--checkpoint ", options->checkpoint, ISO_TARGET_BELOW},
        {"--backup ", options->backup, ISO_TARGET_FOLDER},
        {"--tensorboard ", options->tensorboard, ISO_TARGET_FOLDER},
        {"--history ", options->history, ISO_TARGET_IN_PLACE},
        {"--csv ", options->csv, ISO_TARGET_IN_PLACE},
        {"--profile ", options->profile, ISO_TARGET_IN_PLACE},
        {"--timings ", options->timings, ISO_TARGET_IN_PLACE},
    };
    iso_status status = iso_overwrites_check(options);
    for (size_t i = 0; i < sizeof targets / sizeof *targets && status == ISO_OK; i++)
        if (targets[i].path)
            status = check_named(targets[i].option, targets[i].path, targets[i].kind);
    return status;
}
