/* Rotation: the newest checkpoints are kept, older ones are removed. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/file_io_impl.h"
#include "runtime/checkpoint/file_names.h"
#include "runtime/checkpoint/folder_impl.h"
#include "runtime/checkpoint/read/listing_impl.h"

static void take_out(iso_kept *kept, int at)
{
    iso_free(kept->paths[at]);
    memmove(kept->paths + at, kept->paths + at + 1, (size_t)(--kept->count - at) * sizeof *kept->paths);
}

iso_status iso_kept_add(iso_kept *kept, const char *folder, const char *name)
{
    char *copy = iso_file_join(folder, name);
    if (!copy || iso_list_reserve(kept->paths, kept->count, 1, "the names of checkpoints") != ISO_OK) {
        iso_free(copy);
        return iso_no_memory("the names of %d checkpoints", kept->count + 1);
    }
    for (int i = kept->count - 1; i >= 0; i--)
        if (!strcmp(kept->paths[i], copy))
            take_out(kept, i);
    kept->paths[kept->count++] = copy;
    return ISO_OK;
}

void iso_kept_free(iso_kept *kept)
{
    for (int i = 0; i < kept->count; i++)
        iso_free(kept->paths[i]);
    iso_free(kept->paths);
    iso_free(kept->best);
    *kept = (iso_kept){0};
}

/* Files without a valid commit record are never removed. A file that cannot be read is not removed either,
 * and a warning reports it. */
static iso_status pass_over(void *user, iso_status status)
{
    (void)user;
    if (status == ISO_IO)
        iso_warn("%s; it is not counted among the checkpoints to keep", iso_error_message());
    return ISO_OK;
}

/* Links are never removed. */
static bool is_link(const char *path)
{
    struct stat about;
    return lstat(path, &about) != 0 || S_ISLNK(about.st_mode);
}

/* A checkpoint of a training, that may be removed, with a name that fits. */
static bool is_counted(const iso_listed *one, const char *pattern)
{
    return one->number > 0 && iso_file_name_fits(iso_file_name(one->path), pattern) && !is_link(one->path);
}

iso_status iso_kept_adopt(iso_kept *kept, const char *folder, const char *pattern, uint64_t *newest)
{
    iso_listing list = {0};
    iso_status status = iso_listing_make(folder, NULL, &list, pass_over, NULL);
    for (int i = 0; i < list.count && status == ISO_OK; i++) {
        const iso_listed *one = &list.items[i];
        if (is_counted(one, pattern))
            status = iso_kept_add(kept, folder, iso_file_name(one->path));
        if (one->number > *newest)
            *newest = one->number;
    }
    iso_listing_free(&list);
    return status;
}

/* ---- the best ---- */

iso_status iso_kept_set_best(iso_kept *kept, const char *folder, const char *name)
{
    char *best = iso_file_join(folder, name);
    if (!best)
        return iso_no_memory("the path of the best checkpoint '%s'", name);
    iso_free(kept->best);
    kept->best = best;
    kept->pointed = false;
    return ISO_OK;
}

static iso_status is_pointed(const iso_path *path, const char *pointer, bool *pointed)
{
    char *name;
    iso_status status = iso_checkpoint_pointed(path->folder, pointer, &name);
    *pointed = name && !strcmp(name, path->name);
    iso_free(name);
    return status;
}

iso_status iso_kept_point_best(iso_kept *kept, uint32_t saver)
{
    iso_path path = {0};
    if (!kept->best || kept->pointed)
        return ISO_OK;
    iso_status status = iso_path_split(kept->best, saver, &path);
    if (status == ISO_OK)
        status = is_pointed(&path, "best", &kept->pointed);
    if (status == ISO_OK && !kept->pointed)
        status = iso_folder_point(path.folder, "best", saver, path.name);
    kept->pointed = status == ISO_OK;
    iso_path_free(&path);
    return status;
}

/* ---- rotation ---- */

static iso_status is_spared(const iso_kept *kept, const char *whole, bool *spared)
{
    iso_path path = {0};
    *spared = true;
    if (kept->best && !strcmp(kept->best, whole))
        return ISO_OK;
    iso_status status = iso_path_split(whole, 0, &path);
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
        if ((status = is_spared(kept, kept->paths[i], &spared)) != ISO_OK)
            return status;
        if (!spared && unlink(kept->paths[i]) && errno != ENOENT)
            return iso_file_failed(kept->paths[i], "the old checkpoint cannot be removed");
        if (spared)
            i++;
        else
            take_out(kept, i);
    }
    return ISO_OK;
}
