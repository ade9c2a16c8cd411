#include "runtime/checkpoint/write/joint_file_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/checkpoint/file_io_impl.h"

/* Adds the file's name to a message that lacks it. */
static iso_status of_file(const iso_joint_file *file, iso_status status)
{
    return status == ISO_OK ? ISO_OK : iso_error_prefix(status, "'%s': ", file->path.whole);
}

/* A number for the temporary name: different for files that are written at the same time. */
static uint32_t some_number(const void *salt)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t words[] = {(uint64_t)now.tv_sec, (uint64_t)now.tv_nsec, (uint64_t)getpid(),
                        (uint64_t)(uintptr_t)salt};
    return (uint32_t)iso_hash_bytes(0, words, sizeof words);
}

iso_status iso_joint_file_begin(iso_joint_file *file, const char *path)
{
    uint32_t number = some_number(file);
    iso_status status = iso_broadcast(file->ctx, &number, sizeof number);
    return status == ISO_OK ? iso_path_split(path, number, &file->path) : status;
}

iso_status iso_joint_file_make(iso_joint_file *file)
{
    struct stat there;
    if (stat(file->path.whole, &there) == 0 && !S_ISREG(there.st_mode))
        return iso_error(ISO_IO, "'%s' exists and is not a regular file", file->path.whole);
    iso_folder_remove_stale(file->path.folder);
    iso_status status = of_file(file, iso_temporary_make(file->path.temporary, &file->fd));
    file->made = status == ISO_OK;
    return status;
}

iso_status iso_joint_file_reserve(iso_joint_file *file, uint64_t bytes)
{
    iso_status status = iso_file_reserve(file->fd, file->path.whole, bytes);
    return status == ISO_OK ? iso_file_end_at(file->fd, file->path.whole, bytes) : status;
}

iso_status iso_joint_file_join(iso_joint_file *file)
{
    return file->made ? ISO_OK : of_file(file, iso_temporary_open(file->path.temporary, &file->fd));
}

/* Renames the file after every byte is on the disk, then syncs the folder, which holds the name. */
static iso_status take_name(iso_joint_file *file)
{
    iso_status status = of_file(file, iso_temporary_check(file->path.temporary, file->fd));
    if (status != ISO_OK)
        return status;
    if (TEMP_FAILURE_RETRY(rename(file->path.temporary, file->path.whole)))
        return iso_file_failed(file->path.whole, "it cannot be given its name");
    file->made = false;
    return of_file(file, iso_folder_sync(file->path.folder));
}

iso_status iso_joint_file_commit(iso_joint_file *file, iso_status status)
{
    if (status == ISO_OK)
        status = iso_file_sync(file->fd, file->path.whole);
    status = iso_agree(file->ctx, status);
    return status == ISO_OK ? iso_agree(file->ctx, file->made ? take_name(file) : ISO_OK) : status;
}

void iso_joint_file_end(iso_joint_file *file)
{
    if (file->made)
        unlink(file->path.temporary);
    if (file->fd >= 0)
        close(file->fd);
    iso_path_free(&file->path);
}
