/* What a name stands for: a built-in data set, a folder, a file. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/hash.h"
#include "runtime/base/text.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/data/open_impl.h"

uint64_t iso_file_identity(const char *path, uint64_t hash)
{
    struct stat about;
    hash = iso_hash_text(hash, path);
    if (stat(path, &about) == 0) {
        int64_t words[] = {about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec};
        hash = iso_hash_bytes(hash, words, sizeof words);
    }
    return hash;
}

static iso_status unknown(const char *name)
{
    const char *names[16];
    int count = iso_dataset_count() < 16 ? iso_dataset_count() : 16;
    iso_text text = {0};
    for (int i = 0; i < count; i++)
        names[i] = iso_dataset_name(i);
    iso_text_add_nearest(&text, name, names, count);
    iso_status status =
        iso_error(ISO_INVALID, "data set '%s' is not built in, and there is no such folder or file%s", name,
                  iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

static iso_status find(iso_context *ctx, const char *name, iso_part part,
                       const iso_dataset_open_options *options, iso_level **level)
{
    struct stat about;
    if (!name || !*name)
        return iso_error(ISO_INVALID, "a data set without a name");
    if (part != ISO_TRAIN && part != ISO_TEST)
        return iso_error(ISO_INVALID, "data set '%s': part %d", name, part);
    const iso_builtin *builtin = iso_builtin_find(name);
    if (builtin)
        return builtin->open(part, iso_data_seed(ctx), level);
    if (stat(name, &about) != 0)
        return errno == ENOENT ? unknown(name)
                               : iso_error(ISO_INVALID, "data set '%s': %s", name, strerror(errno));
    if (S_ISDIR(about.st_mode))
        return iso_open_folder(name, part, name, level);
    if (S_ISREG(about.st_mode))
        return iso_open_hdf5(name, options, level);
    return iso_error(ISO_INVALID, "data set '%s' is neither a folder nor a file", name);
}

iso_status iso_dataset_open_with(iso_context *ctx, const char *name, iso_part part,
                                 const iso_dataset_open_options *options, size_t size)
{
    iso_dataset_open_options taken = {0};
    iso_level *level = NULL;
    iso_dataset *ds = NULL;
    memcpy(&taken, options, size < sizeof taken ? size : sizeof taken);
    iso_status status = find(ctx, name, part, &taken, &level);
    if (status == ISO_OK)
        status = iso_dataset_create(ctx, level, &ds);
    status = iso_dataset_settle(ctx, status, &ds);
    if (status == ISO_OK)
        *taken.dataset = ds;
    return status;
}
