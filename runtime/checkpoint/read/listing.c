#include "runtime/checkpoint/read/listing_impl.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/file_io_impl.h"
#include "runtime/checkpoint/file_names.h"
#include "runtime/checkpoint/read/saved_file_impl.h"

/* ---- the names ---- */

/* Takes ownership of the path, which is NULL if there was no memory for it. */
static iso_status listing_add(iso_listing *list, const char *folder, char *path)
{
    iso_status status = path ? iso_list_reserve(list->items, list->count, 1, "the names of checkpoints")
                             : iso_no_memory("the names of the checkpoints in '%s'", folder);
    if (status == ISO_OK)
        list->items[list->count++] = (iso_listed){.path = path};
    else
        iso_free(path);
    return status;
}

static iso_status list_names(const char *folder, const char *pattern, iso_listing *list)
{
    iso_status status = ISO_OK;
    DIR *all = opendir(folder);
    if (!all && errno == ENOENT)
        return ISO_OK;
    if (!all)
        return iso_error(ISO_INVALID, "'%s' cannot be listed: %s", folder, strerror(errno));
    errno = 0;
    for (struct dirent *entry; status == ISO_OK && (entry = readdir(all)); errno = 0)
        if (iso_file_name_fits(entry->d_name, pattern))
            status = listing_add(list, folder, iso_file_join(folder, entry->d_name));
    if (status == ISO_OK && errno)
        status = iso_error(ISO_IO, "'%s' cannot be listed: %s", folder, strerror(errno));
    closedir(all);
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const iso_listed *)a)->path, ((const iso_listed *)b)->path);
}

/* ---- the files ---- */

/* Reads the commit record's number: ISO_INVALID or ISO_IO if the file is not a checkpoint. */
static iso_status look_at(iso_listed *one)
{
    int file = -1;
    uint64_t bytes;
    bool found = false;
    iso_commit_record record = {0};
    struct stat about;
    iso_status status = ISO_OK;
    ISO_TRY(iso_file_open_to_read(one->path, &file, &bytes));
    ISO_TRY(iso_commit_record_read(file, one->path, &found, &record));
    if (!found)
        ISO_TRY(iso_error(
            ISO_INVALID, "'%s' does not end with a commit record: it is cut off, or no checkpoint of Isogrid",
            one->path));
    if (fstat(file, &about))
        ISO_TRY(iso_error(ISO_IO, "'%s': %s", one->path, strerror(errno)));
    one->number = record.number;
    one->time = about.st_mtim;
done:
    iso_commit_record_free(&record);
    if (file >= 0)
        close(file);
    return status;
}

/* Keeps only those that are checkpoints. */
static iso_status look_at_all(iso_listing *list, iso_listing_pass pass_over, void *user)
{
    int all = list->count;
    iso_status status = ISO_OK;
    list->count = 0;
    for (int i = 0; i < all; i++) {
        iso_listed one = list->items[i];
        iso_status found = status == ISO_OK ? look_at(&one) : status;
        if (found == ISO_OK) {
            list->items[list->count++] = one;
            continue;
        }
        if (status == ISO_OK)
            status = found == ISO_NO_MEMORY ? found : pass_over(user, found);
        iso_free(one.path);
    }
    return status;
}

static int by_age(const void *a, const void *b)
{
    const iso_listed *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    if (x->time.tv_sec != y->time.tv_sec)
        return x->time.tv_sec < y->time.tv_sec ? -1 : 1;
    if (x->time.tv_nsec != y->time.tv_nsec)
        return x->time.tv_nsec < y->time.tv_nsec ? -1 : 1;
    return by_name(a, b);
}

static void sort(iso_listing *list, int (*order)(const void *, const void *))
{
    if (list->count > 0)
        qsort(list->items, (size_t)list->count, sizeof *list->items, order);
}

iso_status iso_listing_make(const char *folder, const char *pattern, iso_listing *list,
                            iso_listing_pass pass_over, void *user)
{
    iso_status status = list_names(folder, pattern, list);
    if (status != ISO_OK)
        return status;
    sort(list, by_name);
    status = look_at_all(list, pass_over, user);
    sort(list, by_age);
    return status;
}

void iso_listing_free(iso_listing *list)
{
    for (int i = 0; i < list->count; i++)
        iso_free(list->items[i].path);
    iso_free(list->items);
    *list = (iso_listing){0};
}
