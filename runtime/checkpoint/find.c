/* The newest checkpoint of a folder that is whole. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/file_impl.h"
#include "runtime/checkpoint/saved_file_impl.h"
#include "runtime/session/session.h"

typedef struct candidate {
    char *path;
    uint64_t number;
    struct timespec time;
} candidate;

typedef struct candidates {
    candidate *all;
    int count, capacity;
    iso_text passed_over;
} candidates;

static void candidates_free(candidates *c)
{
    for (int i = 0; i < c->count; i++)
        iso_free(c->all[i].path);
    iso_free(c->all);
    iso_text_free(&c->passed_over);
}

static iso_status no_memory(const char *folder)
{
    return iso_error(ISO_NO_MEMORY, "no memory for the names of the checkpoints in '%s'", folder);
}

/* Takes the path. */
static iso_status add(candidates *c, const candidate *one)
{
    if (c->count == c->capacity) {
        int more = c->capacity ? 2 * c->capacity : 16;
        candidate *grown = iso_grow(c->all, (size_t)c->count, (size_t)more, sizeof *grown);
        if (!grown) {
            iso_status status = no_memory(one->path);
            iso_free(one->path);
            return status;
        }
        c->all = grown;
        c->capacity = more;
    }
    c->all[c->count++] = *one;
    return ISO_OK;
}

/* The commit mark's number: ISO_INVALID or ISO_IO where the file is no checkpoint. */
static iso_status look_at(candidate *one)
{
    int file = -1;
    uint64_t bytes;
    bool found = false;
    iso_mark mark = {0};
    struct stat about;
    iso_status status = ISO_OK;
    ISO_TRY(iso_file_open_to_read(one->path, &file, &bytes));
    ISO_TRY(iso_mark_read(file, one->path, &found, &mark));
    if (!found)
        ISO_TRY(iso_error(ISO_INVALID,
                          "'%s' does not end with a commit mark: it is cut off, or no checkpoint of Isogrid",
                          one->path));
    if (fstat(file, &about))
        ISO_TRY(iso_error(ISO_IO, "'%s': %s", one->path, strerror(errno)));
    one->number = mark.number;
    one->time = about.st_mtim;
done:
    iso_mark_free(&mark);
    if (file >= 0)
        close(file);
    return status;
}

static iso_status consider(candidates *c, const char *folder, const char *name)
{
    candidate one = {.path = iso_file_join(folder, name)};
    if (!one.path)
        return no_memory(folder);
    iso_status status = look_at(&one);
    if (status == ISO_OK)
        return add(c, &one);
    if (status != ISO_NO_MEMORY) {
        iso_text_add(&c->passed_over, "%s\n", iso_error_message());
        status = ISO_OK;
    }
    iso_free(one.path);
    return status;
}

/* Newest first; of two that are equally new the later name, so that it is always the same. */
static int compare(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? 1 : -1;
    if (x->time.tv_sec != y->time.tv_sec)
        return x->time.tv_sec < y->time.tv_sec ? 1 : -1;
    if (x->time.tv_nsec != y->time.tv_nsec)
        return x->time.tv_nsec < y->time.tv_nsec ? 1 : -1;
    return -strcmp(x->path, y->path);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names that fit, sorted, so that what is said of them comes in order. */
static iso_status list_names(const char *folder, const char *pattern, char ***names, int *count)
{
    int capacity = 0;
    iso_status status = ISO_OK;
    DIR *open = opendir(folder);
    if (!open && errno == ENOENT)
        return ISO_OK;
    if (!open)
        return iso_error(ISO_IO, "'%s' cannot be listed: %s", folder, strerror(errno));
    errno = 0;
    for (struct dirent *entry; (entry = readdir(open)) && status == ISO_OK; errno = 0) {
        if (!iso_file_name_fits(entry->d_name, pattern))
            continue;
        if (*count == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            char **grown = iso_grow(*names, (size_t)*count, (size_t)capacity, sizeof *grown);
            if (!grown) {
                status = no_memory(folder);
                break;
            }
            *names = grown;
        }
        if (!((*names)[*count] = iso_strdup(entry->d_name)))
            status = no_memory(folder);
        else
            ++*count;
    }
    if (status == ISO_OK && errno)
        status = iso_error(ISO_IO, "'%s' cannot be listed: %s", folder, strerror(errno));
    closedir(open);
    return status;
}

static iso_status list(candidates *c, const char *folder, const char *pattern)
{
    char **names = NULL;
    int count = 0;
    iso_status status = list_names(folder, pattern, &names, &count);
    if (count > 0)
        qsort(names, (size_t)count, sizeof *names, compare_names);
    for (int i = 0; i < count && status == ISO_OK; i++)
        status = consider(c, folder, names[i]);
    if (c->count > 0)
        qsort(c->all, (size_t)c->count, sizeof *c->all, compare);
    for (int i = 0; i < count; i++)
        iso_free(names[i]);
    iso_free(names);
    return status;
}

/* A text of the chief (NULL elsewhere) on every rank; iso_free. Collective. */
static iso_status share_text(iso_context *ctx, const char *text, char **copy)
{
    uint64_t bytes = text ? strlen(text) + 1 : 0;
    if (ctx)
        iso_broadcast(ctx, &bytes, sizeof bytes);
    *copy = iso_new((size_t)bytes);
    iso_status status = iso_agree(ctx, *copy ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory for a path"));
    if (status != ISO_OK)
        return status;
    if (text)
        memcpy(*copy, text, (size_t)bytes);
    return ctx ? iso_broadcast(ctx, *copy, (size_t)bytes) : ISO_OK;
}

static iso_status open_whole(iso_context *ctx, const char *path, iso_saved_file **out)
{
    iso_saved_file *file = NULL;
    iso_status status;
    ISO_TRY(iso_saved_file_open(ctx, path, &file));
    if (!iso_saved_file_committed(file, NULL))
        ISO_TRY(iso_error(ISO_INVALID, "'%s' has lost its commit mark", path));
    ISO_TRY(iso_saved_file_verify(file));
    *out = file;
    return ISO_OK;
done:
    iso_saved_file_close(file);
    return status;
}

/* From the newest on, the first that is whole; what is wrong with those before goes to the chief's
 * `passed_over`. Collective. */
static iso_status first_whole(iso_context *ctx, candidates *c, iso_saved_file **file)
{
    int count = c->count;
    iso_status status = ISO_OK;
    if (ctx)
        iso_broadcast(ctx, &count, sizeof count);
    for (int i = 0; i < count; i++) {
        char *path = NULL;
        ISO_TRY(share_text(ctx, i < c->count ? c->all[i].path : NULL, &path));
        status = open_whole(ctx, path, file);
        iso_free(path);
        if (status != ISO_INVALID && status != ISO_IO)
            return status;
        iso_text_add(&c->passed_over, "%s\n", iso_error_message());
    }
    status = ISO_OK;
done:
    return status;
}

iso_status iso_checkpoint_find(iso_context *ctx, const char *folder, const char *pattern,
                               iso_saved_file **file, iso_text *passed_over)
{
    bool chief = !ctx || iso_rank(ctx) == 0;
    candidates c = {0};
    iso_saved_file *found = NULL;
    char *lines = NULL;
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(ctx, chief ? list(&c, folder, pattern) : ISO_OK));
    ISO_TRY(first_whole(ctx, &c, &found));
    ISO_TRY(share_text(ctx, chief ? iso_text_get(&c.passed_over) : NULL, &lines));
    if (passed_over && *lines)
        iso_text_add(passed_over, "%s", lines);
    *file = found;
    found = NULL;
done:
    iso_saved_file_close(found);
    iso_free(lines);
    candidates_free(&c);
    return status;
}
