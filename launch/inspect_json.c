/* The contents of a file as a JSON object. */
#include "launch/inspect_impl.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *inspect_json_shape_of(const iso_shape *shape)
{
    json_t *dims = json_array();
    for (int i = 0; i < shape->rank; i++)
        json_array_append_new(dims, json_integer((json_int_t)shape->dim[i]));
    return dims;
}

static json_t *tensor_of(const iso_inspection *inspection, const iso_saved_file *file, int number)
{
    const iso_saved_tensor *t = iso_saved_file_tensor(file, number);
    const char *layout = iso_inspect_layout(inspection, t);
    json_t *one = json_object();
    json_object_set_new(one, "place", json_string(t->h5_path));
    json_object_set_new(one, "path", text_or_null(t->path));
    json_object_set_new(one, "dtype", json_string(iso_saved_file_stored(file, number, NULL)));
    json_object_set_new(one, "shape", inspect_json_shape_of(&t->shape));
    json_object_set_new(one, "bytes", json_integer((json_int_t)iso_inspect_bytes(file, number)));
    json_object_set_new(one, "layout", text_or_null(*layout ? layout : NULL));
    if (inspection->pretrained)
        json_object_set_new(one, "file", json_string(iso_file_name(iso_saved_file_path(file))));
    return one;
}

static json_t *tensors_of(const iso_inspection *inspection)
{
    json_t *all = json_array();
    for (int f = 0; f < inspection->n_files; f++)
        for (int i = 0; i < iso_saved_file_tensors(inspection->files[f]); i++)
            json_array_append_new(all, tensor_of(inspection, inspection->files[f], i));
    return all;
}

static json_t *groups_of(const iso_inspection *inspection)
{
    json_t *all = json_array();
    for (int i = 0; i < iso_saved_file_groups(inspection->file); i++) {
        const iso_saved_group *group = iso_saved_file_group(inspection->file, i);
        json_t *one = json_object();
        json_object_set_new(one, "place", json_string(group->h5_path));
        json_object_set_new(one, "name", text_or_null(group->name));
        json_array_append_new(all, one);
    }
    return all;
}

iso_status iso_inspect_json(const iso_inspection *inspection, iso_text *text)
{
    uint64_t number = 0;
    bool committed = iso_saved_file_committed(inspection->file, &number);
    json_t *root = json_object();
    json_object_set_new(root, "file", json_string(inspection->path));
    json_object_set_new(root, "bytes", json_integer((json_int_t)inspection->bytes));
    json_object_set_new(root, "kind",
                        json_string(inspection->keras ? "keras"
                                    : committed       ? "checkpoint"
                                                      : "weights"));
    json_object_set_new(root, "committed", json_boolean(committed));
    json_object_set_new(root, "number", committed ? json_integer((json_int_t)number) : json_null());
    json_object_set_new(root, "verified",
                        iso_saved_file_has_checksums(inspection->file) ? json_boolean(!inspection->problem)
                                                                       : json_null());
    json_object_set_new(root, "problem", text_or_null(inspection->problem));
    json_object_set_new(root, "groups", groups_of(inspection));
    json_object_set_new(root, "tensors", tensors_of(inspection));
    json_object_set(root, "state", inspection->state ? inspection->state : json_null());
    iso_json_add(text, root, JSON_INDENT(2));
    iso_text_add(text, "\n");
    return text->failed ? iso_no_memory("what '%s' holds", inspection->path) : ISO_OK;
}
