/* /isogrid/index: maps each dataset of the file to its path in Isogrid; finds tensors by dataset and by
 * path. */
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/manifest_impl.h"

static const char *tensor_index_h5_path_of(const iso_manifest *m, int i)
{
    return m->tensors[i].tensor.h5_path;
}

static const char *path_of(const iso_manifest *m, int i)
{
    return m->tensors[i].tensor.path;
}

static int compare_h5_paths(const void *a, const void *b, void *m)
{
    return strcmp(tensor_index_h5_path_of(m, *(const int *)a), tensor_index_h5_path_of(m, *(const int *)b));
}

static int compare_paths(const void *a, const void *b, void *m)
{
    return strcmp(path_of(m, *(const int *)a), path_of(m, *(const int *)b));
}

static int tensor_index_find(const iso_manifest *m, const int *sorted, int count,
                             const char *(*name_of)(const iso_manifest *, int), const char *name)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = low + (high - low) / 2, order = strcmp(name_of(m, sorted[middle]), name);
        if (order == 0)
            return sorted[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

int iso_manifest_at(const iso_manifest *m, const char *h5_path)
{
    return tensor_index_find(m, m->by_h5_path, m->n_tensors, tensor_index_h5_path_of, h5_path);
}

int iso_manifest_of(const iso_manifest *m, const char *path)
{
    return tensor_index_find(m, m->by_path, m->n_paths, path_of, path);
}

static iso_status sort_h5_paths(iso_manifest *m)
{
    for (int i = 0; i < m->n_tensors; i++)
        m->by_h5_path[i] = i;
    qsort_r(m->by_h5_path, (size_t)m->n_tensors, sizeof(int), compare_h5_paths, m);
    for (int i = 1; i < m->n_tensors; i++)
        if (!strcmp(tensor_index_h5_path_of(m, m->by_h5_path[i - 1]),
                    tensor_index_h5_path_of(m, m->by_h5_path[i])))
            return iso_error(ISO_INVALID, "'%s' is there twice",
                             tensor_index_h5_path_of(m, m->by_h5_path[i]));
    return ISO_OK;
}

static iso_status sort_paths(iso_manifest *m)
{
    for (int i = 0; i < m->n_tensors; i++)
        if (path_of(m, i))
            m->by_path[m->n_paths++] = i;
    qsort_r(m->by_path, (size_t)m->n_paths, sizeof(int), compare_paths, m);
    for (int i = 1; i < m->n_paths; i++)
        if (!strcmp(path_of(m, m->by_path[i - 1]), path_of(m, m->by_path[i])))
            return iso_error(ISO_INVALID, "/isogrid/index has the path '%s' twice",
                             path_of(m, m->by_path[i]));
    return ISO_OK;
}

/* {"place": "/layers/dense/vars/0", "path": "d1/kernel" or null}. `seen`: one flag per tensor. */
static iso_status take_entry(iso_manifest *m, const json_t *entry, bool *seen)
{
    const char *h5_path = json_string_value(json_object_get(entry, "place"));
    const json_t *path = json_object_get(entry, "path");
    if (!h5_path || (!json_is_string(path) && !json_is_null(path)))
        return iso_error(ISO_INVALID, "/isogrid/index has an entry %d without 'place' and 'path'",
                         m->ordered);
    int i = iso_manifest_at(m, h5_path);
    if (i < 0)
        return iso_error(ISO_INVALID, "dataset '%s' is missing: /isogrid/index names it", h5_path);
    if (seen[i])
        return iso_error(ISO_INVALID, "/isogrid/index has the dataset '%s' twice", h5_path);
    seen[i] = true;
    m->order[m->ordered++] = i;
    if (json_is_null(path))
        return ISO_OK;
    m->tensors[i].tensor.path = iso_strdup(json_string_value(path));
    return m->tensors[i].tensor.path ? ISO_OK : iso_no_memory("the path of '%s'", h5_path);
}

static iso_status take_index(iso_manifest *m, bool *seen)
{
    json_t *root = NULL;
    iso_status status = ISO_OK;
    ISO_TRY(iso_json_parse("/isogrid/index", m->index, strlen(m->index), &root));
    if (!json_is_array(root))
        ISO_TRY(iso_error(ISO_INVALID, "/isogrid/index is not a list"));
    for (size_t i = 0; i < json_array_size(root); i++)
        ISO_TRY(take_entry(m, json_array_get(root, i), seen));
done:
    json_decref(root);
    return status;
}

iso_status iso_manifest_index(iso_manifest *m)
{
    size_t count = (size_t)m->n_tensors + 1;
    bool *seen = iso_new(count * sizeof *seen);
    iso_status status = ISO_OK;
    m->by_h5_path = iso_new(count * sizeof *m->by_h5_path);
    m->by_path = iso_new(count * sizeof *m->by_path);
    m->order = iso_new(count * sizeof *m->order);
    if (!seen || !m->by_h5_path || !m->by_path || !m->order)
        ISO_TRY(iso_no_memory("the names of %d tensors", m->n_tensors));
    ISO_TRY(sort_h5_paths(m));
    if (m->index)
        ISO_TRY(take_index(m, seen));
    ISO_TRY(sort_paths(m));
done:
    iso_free(seen);
    return status;
}
