/* Folders of IDX files, named like MNIST's: train-images-idx3-ubyte, t10k-labels-idx1-ubyte.gz,
 * train-images.idx3-ubyte, ... */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/data/idx.h"
#include "runtime/data/open_impl.h"

/* "train-images" followed by '-' or '.', and "idx". */
static bool matches(const char *file, const char *stem)
{
    size_t length = strlen(stem);
    return strncmp(file, stem, length) == 0 && (file[length] == '-' || file[length] == '.') &&
           strncmp(file + length + 1, "idx", 3) == 0;
}

bool iso_idx_is_folder_name(const char *name)
{
    static const char *const stems[] = {"train-images", "train-labels", "t10k-images", "t10k-labels"};
    bool found = false;
    for (size_t i = 0; i < sizeof stems / sizeof *stems && !found; i++)
        found = matches(name, stems[i]);
    return found;
}

static bool is_gzip_name(const char *file)
{
    size_t length = strlen(file);
    return length > 3 && strcmp(file + length - 3, ".gz") == 0;
}

/* Prefers files that are not compressed, then the first by name, so that every machine finds the same. */
static bool is_better(const char *file, const char *best)
{
    if (!best)
        return true;
    if (is_gzip_name(file) != is_gzip_name(best))
        return is_gzip_name(best);
    return strcmp(file, best) < 0;
}

/* *path: the path of the file, owned by the caller. */
static iso_status find_file(const char *folder, const char *stem, char **path)
{
    DIR *dir = opendir(folder);
    char *best = NULL;
    iso_text text = {0};
    if (!dir)
        return iso_error(ISO_INVALID, "cannot open folder '%s': %s", folder, strerror(errno));
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (matches(entry->d_name, stem) && is_better(entry->d_name, best)) {
            iso_free(best);
            best = iso_strdup(entry->d_name);
        }
    closedir(dir);
    if (!best)
        return iso_error(ISO_INVALID, "there is no '%s/%s-idx*' (as MNIST has it, gzip'd or not)", folder,
                         stem);
    iso_text_add(&text, "%s/%s", folder, best);
    *path = iso_strdup(iso_text_get(&text));
    iso_text_free(&text);
    iso_free(best);
    return *path ? ISO_OK : iso_no_memory("a path in '%s'", folder);
}

/* The rows of a component; images [rows, h, w] get a channel. */
static int64_t idx_folder_take(const iso_idx *idx, int component, bool image, iso_spec *spec,
                               iso_memory_rows *memory)
{
    iso_shape *shape = &spec->shape[component];
    *shape = (iso_shape){.rank = idx->shape.rank - 1};
    for (int i = 0; i < shape->rank; i++)
        shape->dim[i] = idx->shape.dim[i + 1];
    if (image && shape->rank == 2)
        shape->dim[shape->rank++] = 1;
    spec->dtype[component] = idx->dtype;
    memory->owned[component] = idx->data;
    memory->data[component] = idx->data;
    return idx->shape.dim[0];
}

static iso_status load(const char *const path[2], iso_spec *spec, iso_memory_rows *memory, int64_t *rows)
{
    iso_status status = ISO_OK;
    int64_t count[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        iso_idx idx = {0};
        ISO_TRY(iso_idx_load(path[i], &idx));
        count[i] = idx_folder_take(&idx, i, i == 0, spec, memory);
    }
    spec->n_components = 2;
    if (count[0] != count[1])
        return iso_error(ISO_INVALID, "'%s' has %" PRId64 " rows, '%s' has %" PRId64, path[0], count[0],
                         path[1], count[1]);
    *rows = count[0];
    ISO_TRY(iso_spec_finish(spec, *rows, path[0]));
done:
    return status;
}

static iso_status load_node(const char *const path[2], const char *name, iso_node **node)
{
    iso_memory_rows memory = {0};
    iso_spec spec = {0};
    iso_spans spans;
    int64_t rows = 0;
    iso_status status = load(path, &spec, &memory, &rows);
    if (status == ISO_OK) {
        spans = iso_spans_of_rows(rows);
        status = iso_memory_node(name, &spec, &spans, &memory, node);
    }
    if (status != ISO_OK)
        iso_memory_rows_free(&memory);
    return status;
}

iso_status iso_open_folder(const char *folder, iso_part part, const char *name, iso_node **node)
{
    const char *stem = part == ISO_TEST ? "t10k" : "train";
    static const char *const kind[2] = {"images", "labels"};
    char *path[2] = {NULL, NULL};
    iso_status status = ISO_OK;
    for (int i = 0; i < 2; i++) {
        char file[32];
        snprintf(file, sizeof file, "%s-%s", stem, kind[i]);
        ISO_TRY(find_file(folder, file, &path[i]));
    }
    ISO_TRY(load_node((const char *const *)path, name, node));
    (*node)->identity = iso_file_identity(path[0], iso_file_identity(path[1], 0));
done:
    iso_free(path[0]);
    iso_free(path[1]);
    return status;
}
