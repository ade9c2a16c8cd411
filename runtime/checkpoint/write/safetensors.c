/* Every rank can compute where each tensor is; the chief writes the header, and then each rank its own elements. */
#include "runtime/checkpoint/safetensors.h"

#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/file_io_impl.h"
#include "runtime/checkpoint/write/joint_file_impl.h"

enum { LENGTH_BYTES = 8, ALIGN = 8 /* of the tensors' first byte; spaces fill the header up */ };

struct iso_safetensors {
    iso_joint_file joint;
    int count;
    const iso_saved_tensor *tensors; /* lent */
    iso_storage_type floats;
    uint64_t *offset; /* [count] in the file */
    uint64_t bytes;   /* of the file */
    iso_text header;  /* with its length before it */
};

const char *iso_safetensors_type(iso_storage_type type)
{
    static const char *const names[ISO_STORAGE_TYPES] = {
        [ISO_STORAGE_F16] = "F16",  [ISO_STORAGE_BF16] = "BF16", [ISO_STORAGE_F32] = "F32",
        [ISO_STORAGE_F64] = "F64",  [ISO_STORAGE_I8] = "I8",     [ISO_STORAGE_I16] = "I16",
        [ISO_STORAGE_I32] = "I32",  [ISO_STORAGE_I64] = "I64",   [ISO_STORAGE_U8] = "U8",
        [ISO_STORAGE_U16] = "U16",  [ISO_STORAGE_U32] = "U32",   [ISO_STORAGE_U64] = "U64",
        [ISO_STORAGE_BOOL] = "BOOL"};
    return names[type];
}

/* ---- the header ---- */

static iso_storage_type stored_as(const iso_safetensors *file, int tensor)
{
    const iso_dtype dtype = file->tensors[tensor].dtype;
    const bool converted = file->floats != ISO_STORAGE_TYPES && (dtype == ISO_F32 || dtype == ISO_F64);
    return converted ? file->floats : iso_storage_type_of(dtype);
}

static json_t *entry_of(const iso_safetensors *file, int tensor, uint64_t begin, uint64_t end)
{
    const iso_saved_tensor *t = &file->tensors[tensor];
    json_t *shape = json_array();
    for (int i = 0; i < t->shape.rank; i++)
        json_array_append_new(shape, json_integer((json_int_t)t->shape.dim[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", iso_safetensors_type(stored_as(file, tensor)), "shape",
                     shape, "data_offsets", (json_int_t)begin, (json_int_t)end);
}

/* Sets offsets that count from the end of the header, and returns the header's object. */
static json_t *describe(iso_safetensors *file)
{
    json_t *root = json_object();
    json_object_set_new(root, "__metadata__", json_pack("{s:s}", "format", "pt"));
    uint64_t at = 0;
    for (int i = 0; i < file->count; i++) {
        const iso_box whole = iso_box_whole(&file->tensors[i].shape);
        file->offset[i] = at;
        at += (uint64_t)iso_box_count(&whole) * iso_storage_type_size(stored_as(file, i));
        json_object_set_new(root, file->tensors[i].h5_path + 1, entry_of(file, i, file->offset[i], at));
    }
    file->bytes = at;
    return root;
}

static iso_status lay_out(iso_safetensors *file)
{
    char low_first[LENGTH_BYTES];
    iso_text_add(&file->header, "%*s", LENGTH_BYTES, "");
    iso_json_add(&file->header, describe(file), JSON_COMPACT | JSON_PRESERVE_ORDER);
    while (!file->header.failed && file->header.length % ALIGN != 0)
        iso_text_add(&file->header, " ");
    if (file->header.failed)
        return iso_no_memory("the header of '%s'", file->joint.path.whole);
    for (int i = 0; i < LENGTH_BYTES; i++)
        low_first[i] = (char)((file->header.length - LENGTH_BYTES) >> 8 * i);
    memcpy(file->header.data, low_first, sizeof low_first);
    for (int i = 0; i < file->count; i++)
        file->offset[i] += file->header.length;
    file->bytes += file->header.length;
    return ISO_OK;
}

/* ---- creation and end ---- */

static iso_status begin(iso_safetensors *file, const char *path)
{
    iso_status status;
    ISO_TRY(iso_joint_file_begin(&file->joint, path));
    file->offset = iso_new(((size_t)file->count + 1) * sizeof *file->offset);
    if (!file->offset)
        ISO_TRY(iso_no_memory("the list of the tensors of '%s'", path));
    ISO_TRY(lay_out(file));
done:
    return status;
}

static iso_status make(iso_safetensors *file)
{
    iso_status status;
    ISO_TRY(iso_joint_file_make(&file->joint));
    ISO_TRY(iso_joint_file_reserve(&file->joint, file->bytes));
    ISO_TRY(
        iso_file_write_at(file->joint.fd, file->joint.path.whole, file->header.data, file->header.length, 0));
done:
    return status;
}

static void destroy(iso_safetensors *file)
{
    if (!file)
        return;
    iso_joint_file_end(&file->joint);
    iso_text_free(&file->header);
    iso_free(file->offset);
    iso_free(file);
}

iso_status iso_safetensors_create(iso_context *ctx, const char *path, const iso_saved_tensor *tensors,
                                  int count, iso_storage_type floats, iso_safetensors **out)
{
    iso_safetensors *file = iso_new(sizeof *file);
    iso_status status = file ? ISO_OK : iso_no_memory("the file '%s'", path);
    if (file)
        *file = (iso_safetensors){
            .joint = {.ctx = ctx, .fd = -1}, .count = count, .tensors = tensors, .floats = floats};
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_agree(ctx, begin(file, path)));
    ISO_TRY(iso_agree(ctx, iso_is_chief(ctx) ? make(file) : ISO_OK));
    ISO_TRY(iso_agree(ctx, iso_joint_file_join(&file->joint)));
    *out = file;
    return ISO_OK;
done:
    destroy(file);
    return status;
}

static iso_status too_large(const iso_safetensors *file, int tensor, int64_t number, double value)
{
    char shape[160];
    const iso_saved_tensor *t = &file->tensors[tensor];
    return iso_error(ISO_INVALID, "'%s': tensor '%s', %s, has %g as its element %lld; %s cannot hold it",
                     file->joint.path.whole, t->h5_path + 1, iso_shape_text(&t->shape, shape, sizeof shape),
                     value, (long long)number, iso_storage_type_name(stored_as(file, tensor)));
}

iso_status iso_safetensors_write(iso_safetensors *file, int tensor, int64_t first, int64_t count,
                                 const void *data)
{
    const iso_storage_type type = stored_as(file, tensor);
    const iso_dtype dtype = file->tensors[tensor].dtype;
    const size_t size = iso_storage_type_size(type);
    const uint64_t at = file->offset[tensor] + (uint64_t)first * size;
    if (type == iso_storage_type_of(dtype))
        return iso_file_write_at(file->joint.fd, file->joint.path.whole, data, (size_t)count * size, at);
    void *converted = NULL;
    iso_status status =
        iso_alloc((size_t)count * size, "elements in the type in which they are stored", &converted);
    const int64_t bad = status == ISO_OK ? iso_storage_type_store(dtype, data, count, type, converted) : -1;
    if (bad >= 0)
        status = too_large(file, tensor, first + bad, iso_element_get(data, dtype, bad));
    if (status == ISO_OK)
        status =
            iso_file_write_at(file->joint.fd, file->joint.path.whole, converted, (size_t)count * size, at);
    iso_free(converted);
    return status;
}

iso_status iso_safetensors_sync(const iso_safetensors *file)
{
    return iso_file_sync(file->joint.fd, file->joint.path.whole);
}

iso_status iso_safetensors_finish(iso_safetensors *file, iso_status status)
{
    status = iso_joint_file_commit(&file->joint, status);
    destroy(file);
    return status;
}
