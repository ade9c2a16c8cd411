/* Checkpoints of which so many are kept. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/checkpoint/file_impl.h"
#include "runtime/checkpoint/folder_impl.h"
#include "runtime/checkpoint/mark.h"

static void take_out(iso_kept *kept, int at)
{
    iso_free(kept->path[at]);
    memmove(kept->path + at, kept->path + at + 1, (size_t)(--kept->count - at) * sizeof *kept->path);
}

iso_status iso_kept_add(iso_kept *kept, const char *folder, const char *name)
{
    char *copy = iso_file_join(folder, name);
    char **grown = iso_grow(kept->path, (size_t)kept->count, (size_t)kept->count + 1, sizeof *grown);
    if (grown)
        kept->path = grown;
    if (!copy || !grown) {
        iso_free(copy);
        return iso_error(ISO_NO_MEMORY, "no memory for the names of %d checkpoints", kept->count + 1);
    }
    for (int i = kept->count - 1; i >= 0; i--)
        if (!strcmp(kept->path[i], copy))
            take_out(kept, i);
    kept->path[kept->count++] = copy;
    return ISO_OK;
}

void iso_kept_free(iso_kept *kept)
{
    for (int i = 0; i < kept->count; i++)
        iso_free(kept->path[i]);
    iso_free(kept->path);
    *kept = (iso_kept){0};
}

/* ---- those that are there ---- */

typedef struct found {
    char *name;
    uint64_t number;
    struct timespec time;
} found;

typedef struct found_list {
    int count;
    found *item;
} found_list;

static int by_age(const void *a, const void *b)
{
    const found *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    if (x->time.tv_sec != y->time.tv_sec)
        return x->time.tv_sec < y->time.tv_sec ? -1 : 1;
    if (x->time.tv_nsec != y->time.tv_nsec)
        return x->time.tv_nsec < y->time.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Files without a sound mark are nobody's to remove. Nor is one that cannot be read, which is told. */
static bool is_committed(const char *path, found *about)
{
    struct stat data;
    iso_mark mark = {0};
    bool has = false;
    iso_status status = ISO_OK;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0 && (errno == ENOENT || errno == ELOOP))
        return false;
    if (file < 0 || fstat(file, &data))
        status = iso_error(ISO_IO, "'%s' cannot be opened: %s", path, strerror(errno));
    else
        status = iso_mark_read(file, path, &has, &mark);
    if (status == ISO_OK && has)
        *about = (found){.number = mark.number, .time = data.st_mtim};
    if (status == ISO_IO)
        iso_warn("%s; it is not counted among the checkpoints to keep", iso_error_message());
    iso_mark_free(&mark);
    if (file >= 0)
        close(file);
    return status == ISO_OK && has;
}

static iso_status add_found(found_list *list, const char *folder, const char *name)
{
    found about = {0};
    char *path = iso_file_join(folder, name);
    bool committed = path && is_committed(path, &about);
    iso_free(path);
    if (path && !committed)
        return ISO_OK;
    found *grown = iso_grow(list->item, (size_t)list->count, (size_t)list->count + 1, sizeof *grown);
    if (grown)
        list->item = grown;
    about.name = iso_strdup(name);
    if (!path || !grown || !about.name) {
        iso_free(about.name);
        return iso_error(ISO_NO_MEMORY, "no memory for the names of checkpoints in '%s'", folder);
    }
    list->item[list->count++] = about;
    return ISO_OK;
}

static iso_status list_folder(found_list *list, const char *folder, const char *pattern)
{
    iso_status status = ISO_OK;
    const struct dirent *entry;
    DIR *all = opendir(folder);
    if (!all && (errno == ENOENT || errno == ENOTDIR))
        return ISO_OK;
    if (!all)
        return iso_file_failed(folder, "the folder cannot be read");
    for (errno = 0; status == ISO_OK && (entry = readdir(all)); errno = 0)
        if (iso_file_name_fits(entry->d_name, pattern))
            status = add_found(list, folder, entry->d_name);
    if (status == ISO_OK && errno)
        status = iso_file_failed(folder, "the folder cannot be read");
    closedir(all);
    return status;
}

iso_status iso_kept_adopt(iso_kept *kept, const char *folder, const char *pattern)
{
    found_list list = {0};
    iso_status status = list_folder(&list, folder, pattern);
    if (list.count)
        qsort(list.item, (size_t)list.count, sizeof *list.item, by_age);
    for (int i = 0; i < list.count; i++) {
        if (status == ISO_OK)
            status = iso_kept_add(kept, folder, list.item[i].name);
        iso_free(list.item[i].name);
    }
    if (list.count && list.item[list.count - 1].number > kept->newest)
        kept->newest = list.item[list.count - 1].number;
    iso_free(list.item);
    return status;
}

/* ---- rotation ---- */

static iso_status is_pointed(const iso_path *path, const char *pointer, bool *pointed)
{
    char *name;
    iso_status status = iso_folder_pointed(path->folder, pointer, &name);
    *pointed = name && !strcmp(name, path->name);
    iso_free(name);
    return status;
}

static iso_status is_spared(const char *whole, bool *spared)
{
    iso_path path = {0};
    iso_status status = iso_path_split(whole, 0, &path);
    *spared = true;
    if (status == ISO_OK)
        status = is_pointed(&path, "best", spared);
    if (status == ISO_OK && !*spared)
        status = is_pointed(&path, "latest", spared);
    iso_path_free(&path);
    return status;
}

iso_status iso_kept_rotate(iso_kept *kept, int keep)
{
    bool spared;
    iso_status status;
    int surplus = keep > 0 ? kept->count - keep : 0;
    for (int i = 0; surplus > 0; surplus--) {
        if ((status = is_spared(kept->path[i], &spared)) != ISO_OK)
            return status;
        if (!spared && unlink(kept->path[i]) && errno != ENOENT)
            return iso_file_failed(kept->path[i], "the old checkpoint cannot be removed");
        if (spared)
            i++;
        else
            take_out(kept, i);
    }
    return ISO_OK;
}
