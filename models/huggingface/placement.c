/* Where the elements of a variable are in a tensor of Hugging Face's files, which may have the matrix transposed, or
 * several matrices side by side. Both directions go through the tensor row by row. */
#include <string.h>

#include "models/huggingface/huggingface_impl.h"
#include "runtime/base/device.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"

enum { WINDOW = 4 << 20 /* bytes that are read or written at once, roughly */ };

/* Some dimensions of the variable, as one index. */
typedef struct side {
    const iso_state_shard *shard;
    int first, end; /* dimensions */
    int64_t count;  /* elements of the box along them */
} side;

static side side_of(const iso_state_shard *shard, int first, int end)
{
    side s = {shard, first, end, 1};
    for (int d = first; d < end; d++)
        s.count *= shard->box.extent[d];
    return s;
}

/* The index in the whole variable of number k of the box. */
static int64_t index_of(const side *s, int64_t k)
{
    int64_t index = 0, stride = 1;
    for (int d = s->end - 1; d >= s->first; d--) {
        index += (s->shard->box.offset[d] + k % s->shard->box.extent[d]) * stride;
        k /= s->shard->box.extent[d];
        stride *= s->shard->shape.dim[d];
    }
    return index;
}

/* The outputs of a variable among `total` of their tensor: from `begin` on, in runs of `run`, which begin `stride`
 * apart. */
typedef struct slice {
    int64_t begin, total, run, stride;
} slice;

/* The elements of the variable are [outer, inner], row-major; the tensor's rows are one of them, its columns the
 * other. */
typedef struct placement {
    const iso_state_shard *shard;
    bool transposed;
    side rows, columns;
    int64_t first_row, row_count; /* of the box, that the shard has elements of */
    int64_t first_column, column_count;
    int64_t *at;     /* [column_count] the columns in the tensor */
    slice row_slice; /* where the variable's rows are among the tensor's */
    int64_t width;   /* of the tensor */
    /* What is read of a row of the tensor. */
    int64_t begin, span;
    iso_shape theirs;
    iso_hf_form form;
} placement;

static int64_t product(const iso_shape *shape, int first, int end)
{
    int64_t count = 1;
    for (int d = first; d < end; d++)
        count *= shape->dim[d];
    return count;
}

/* ours: of one expert. Where its outputs, the dimensions from row->inputs on, are among those of their tensor. */
static slice slice_of(const iso_hf_tensor *row, const iso_builtin_settings *settings, const iso_shape *ours)
{
    const iso_llama_options *o = &settings->llama;
    const int64_t heads[] = {o->heads, o->kv_heads, o->kv_heads};
    const int64_t inner = product(ours, row->inputs, ours->rank), features = ours->dim[ours->rank - 1];
    const bool by_heads = row->order == ISO_HF_BY_HEADS;
    int64_t before = 0, all = 0;
    if (row->parts == 0)
        return (slice){0, inner, inner, inner};
    if (row->order == ISO_HF_IN_HEADS)
        return (slice){row->part * features, row->parts * inner, features, row->parts * features};
    for (int i = 0; i < row->parts; i++) {
        const int64_t part = by_heads ? heads[i] : 1;
        before += i < row->part ? part : 0;
        all += part;
    }
    const int64_t unit = by_heads ? inner / heads[row->part] : inner;
    return (slice){unit * before, unit * all, inner, inner};
}

/* The place in their tensor of number k of ours. */
static int64_t index_in(const slice *s, int64_t k)
{
    return s->begin + k / s->run * s->stride + k % s->run;
}

int64_t iso_hf_tensor_count(const iso_hf_tensor *row, const iso_shape *ours)
{
    return row->experts ? ours->dim[0] : 1;
}

/* The shape of an expert's part. */
static iso_shape without_experts(const iso_hf_tensor *row, const iso_shape *ours)
{
    iso_shape shape = *ours;
    if (row->experts)
        memmove(shape.dim, shape.dim + 1, (size_t)--shape.rank * sizeof *shape.dim);
    return shape;
}

iso_state_shard iso_hf_part(const iso_hf_tensor *row, const iso_state_shard *shard, int64_t tensor)
{
    iso_state_shard part = *shard;
    if (!row->experts)
        return part;
    const iso_box *box = &shard->box;
    int64_t size = 1;
    part.shape = without_experts(row, &shard->shape);
    part.box.rank = part.shape.rank;
    for (int d = 0; d < part.box.rank; d++) {
        part.box.offset[d] = box->offset[d + 1];
        size *= part.box.extent[d] = box->extent[d + 1];
    }
    const int64_t first = (tensor - box->offset[0]) * size, end = shard->begin + shard->count;
    const int64_t from = first > shard->begin ? first : shard->begin;
    const int64_t to = first + size < end ? first + size : end;
    const bool within = tensor >= box->offset[0] && tensor < box->offset[0] + box->extent[0];
    part.count = within && from < to ? to - from : 0;
    part.begin = part.count ? from - first : 0;
    if (part.count)
        part.data = (char *)shard->data + (size_t)(from - shard->begin) * iso_dtype_size(shard->dtype);
    return part;
}

/* Without their other dimensions: a vector or a matrix. ours: of one expert. */
static iso_shape matrix_of(const iso_hf_tensor *row, const iso_builtin_settings *settings,
                           const iso_shape *ours)
{
    const int64_t outer = product(ours, 0, row->inputs) * (row->input_parts ? row->input_parts : 1),
                  inner = slice_of(row, settings, ours).total;
    if (row->inputs == 0)
        return ISO_SHAPE(inner);
    return row->transposed ? ISO_SHAPE(inner, outer) : ISO_SHAPE(outer, inner);
}

/* The shape of their tensor. ours: of one expert. */
static iso_shape shape_of_one(const iso_hf_tensor *row, const iso_builtin_settings *settings,
                              const iso_shape *ours)
{
    const iso_shape matrix = matrix_of(row, settings, ours);
    if (row->form == ISO_HF_LEADING_ONE)
        return ISO_SHAPE(1, matrix.dim[0], matrix.dim[1]);
    if (row->form == ISO_HF_PATCHES)
        return ISO_SHAPE(matrix.dim[0], settings->vit.channels, settings->vit.patch, settings->vit.patch);
    return matrix;
}

iso_shape iso_hf_shape(const iso_hf_tensor *row, const iso_builtin_settings *settings, const iso_shape *ours)
{
    const iso_shape one = without_experts(row, ours);
    return shape_of_one(row, settings, &one);
}

/* The numbers [*first, *first + *count) of the outer side that the shard has elements of. */
static void find_outer(const iso_state_shard *shard, int64_t inner, int64_t *first, int64_t *count)
{
    *first = shard->begin / inner;
    *count = (shard->begin + shard->count - 1) / inner - *first + 1;
}

static slice inputs_of(const iso_hf_tensor *row, const iso_shape *ours)
{
    const int64_t count = product(ours, 0, row->inputs);
    return (slice){row->input_part * count, count, count, count};
}

static iso_status find_placement(const iso_hf_tensor *row, const iso_builtin_settings *settings,
                                 const iso_state_shard *shard, placement *p)
{
    const iso_shape theirs = matrix_of(row, settings, &shard->shape);
    const slice outputs = slice_of(row, settings, &shard->shape), inputs = inputs_of(row, &shard->shape);
    const slice columns = row->transposed ? inputs : outputs;
    const side outer = side_of(shard, 0, row->inputs), inner = side_of(shard, row->inputs, shard->shape.rank);
    *p = (placement){.shard = shard,
                     .transposed = row->transposed,
                     .rows = row->transposed ? inner : outer,
                     .columns = row->transposed ? outer : inner,
                     .row_slice = row->transposed ? outputs : inputs,
                     .width = theirs.dim[theirs.rank - 1],
                     .theirs = shape_of_one(row, settings, &shard->shape),
                     .form = row->form};
    p->row_count = p->rows.count;
    p->column_count = p->columns.count;
    find_outer(shard, inner.count, row->transposed ? &p->first_column : &p->first_row,
               row->transposed ? &p->column_count : &p->row_count);
    p->at = iso_new((size_t)p->column_count * sizeof *p->at);
    if (!p->at)
        return iso_no_memory("the places of %lld columns", (long long)p->column_count);
    for (int64_t k = 0; k < p->column_count; k++)
        p->at[k] = index_in(&columns, index_of(&p->columns, p->first_column + k));
    p->begin =
        p->form == ISO_HF_PATCHES ? 0 : p->at[0]; /* a part of its columns is no box of four dimensions */
    p->span = p->form == ISO_HF_PATCHES ? p->width : p->at[p->column_count - 1] - p->at[0] + 1;
    return ISO_OK;
}

/* The row in the tensor of a row of the box. */
static int64_t row_at(const placement *p, int64_t row)
{
    return index_in(&p->row_slice, index_of(&p->rows, p->first_row + row));
}

/* The number in the shard of the element in a row and a column of the box; it may be outside of it. */
static int64_t number_of(const placement *p, int64_t row, int64_t column)
{
    row += p->first_row;
    column += p->first_column;
    int64_t number = p->transposed ? column * p->rows.count + row : row * p->columns.count + column;
    return number - p->shard->begin;
}

static bool has(const placement *p, int64_t number)
{
    return number >= 0 && number < p->shard->count;
}

static void copy_element(void *to, int64_t i, const void *from, int64_t k, size_t size)
{
    if (size == sizeof(float))
        ((uint32_t *)to)[i] = ((const uint32_t *)from)[k];
    else
        memcpy((char *)to + (size_t)i * size, (const char *)from + (size_t)k * size, size);
}

/* ---- reading ---- */

/* Rows of the box from `row` on whose places follow one another in the tensor, at most `most`. */
static int64_t neighbours(const placement *p, int64_t row, int64_t most)
{
    int64_t first = row_at(p, row), count = 1;
    while (count < most && row + count < p->row_count && row_at(p, row + count) == first + count)
        count++;
    return count;
}

/* Columns [begin, begin + span) of `count` rows of the tensor, from the box's row `row` on. */
static iso_box box_of(const placement *p, int64_t row, int64_t count)
{
    const iso_shape *s = &p->theirs;
    switch (p->form) {
    case ISO_HF_LEADING_ONE:
        return (iso_box){.rank = 3, .offset = {0, row_at(p, row), p->begin}, .extent = {1, count, p->span}};
    case ISO_HF_PATCHES:
        return (iso_box){
            .rank = 4, .offset = {row_at(p, row)}, .extent = {count, s->dim[1], s->dim[2], s->dim[3]}};
    case ISO_HF_PLAIN:
        break;
    }
    return s->rank == 1
               ? (iso_box){.rank = 1, .offset = {p->begin}, .extent = {p->span}}
               : (iso_box){.rank = 2, .offset = {row_at(p, row), p->begin}, .extent = {count, p->span}};
}

/* part: [count, span] of the tensor, from the box's row `row` on. The inner loop is along the variable's memory. */
static void scatter(const placement *p, int64_t row, int64_t count, const void *part, void *data)
{
    const size_t size = iso_dtype_size(p->shard->dtype);
    const int64_t outer = p->transposed ? p->column_count : count,
                  inner = p->transposed ? count : p->column_count;
    for (int64_t i = 0; i < outer; i++)
        for (int64_t j = 0; j < inner; j++) {
            int64_t r = p->transposed ? j : i, k = p->transposed ? i : j, number = number_of(p, row + r, k);
            if (has(p, number))
                copy_element(data, number, part, r * p->span + p->at[k] - p->begin, size);
        }
}

static iso_status read_rows(const placement *p, iso_saved_file *file, int tensor, void *data)
{
    const int64_t row_bytes = p->span * (int64_t)iso_dtype_size(p->shard->dtype);
    const int64_t most = row_bytes < WINDOW ? WINDOW / row_bytes : 1;
    void *part = NULL;
    iso_status status = iso_alloc((size_t)((most < p->row_count ? most : p->row_count) * row_bytes),
                                  "a part of pretrained weights", &part);
    for (int64_t row = 0, count; row < p->row_count && status == ISO_OK; row += count) {
        count = neighbours(p, row, most);
        const iso_box box = box_of(p, row, count);
        status = iso_saved_file_read(file, tensor, &box, p->shard->dtype, part);
        if (status == ISO_OK)
            scatter(p, row, count, part, data);
    }
    iso_free(part);
    return status;
}

iso_status iso_hf_read_shard(const iso_hf_tensor *row, const iso_builtin_settings *settings,
                             iso_saved_file *file, int tensor, const iso_state_shard *shard)
{
    placement p = {0};
    iso_mapping mapping;
    if (shard->count == 0)
        return ISO_OK;
    iso_status status = find_placement(row, settings, shard, &p);
    if (status == ISO_OK)
        status = iso_map_to_write(shard->stream, shard->data, iso_shard_bytes(shard), &mapping);
    if (status == ISO_OK)
        status = iso_unmap(read_rows(&p, file, tensor, mapping.data), &mapping);
    iso_free(p.at);
    return status;
}

/* ---- writing ---- */

int iso_hf_list_find(const iso_hf_list *list, const char *name)
{
    for (int i = list->count - 1; i >= 0; i--)
        if (strcmp(list->tensors[i].h5_path + 1, name) == 0)
            return i;
    return -1;
}

iso_status iso_hf_list_tensor(iso_hf_list *list, const iso_hf_tensor *row,
                              const iso_builtin_settings *settings, const iso_variable *variable,
                              const char *name)
{
    if (iso_hf_list_find(list, name) >= 0)
        return ISO_OK;
    iso_text path = {0};
    iso_text_add(&path, "/%s", name);
    iso_saved_tensor tensor = {.h5_path = path.data,
                               .dtype = iso_variable_dtype(variable),
                               .shape = iso_hf_shape(row, settings, iso_variable_shape(variable))};
    if (!path.failed)
        return iso_list_add(list->tensors, list->count, tensor, "tensors");
    iso_text_free(&path);
    return iso_no_memory("a name");
}

void iso_hf_list_free(iso_hf_list *list)
{
    for (int i = 0; i < list->count; i++)
        iso_free((void *)(uintptr_t)list->tensors[i].h5_path);
    iso_free(list->tensors);
}

/* Elements that are contiguous in the tensor, and not written yet. */
typedef struct run {
    iso_safetensors *file;
    int tensor;
    int64_t begin, count, most;
    size_t size;
    void *data;
} run;

static iso_status flush(run *r)
{
    iso_status status =
        r->count ? iso_safetensors_write(r->file, r->tensor, r->begin, r->count, r->data) : ISO_OK;
    r->count = 0;
    return status;
}

static iso_status add(run *r, int64_t index, const void *data, int64_t number)
{
    iso_status status = ISO_OK;
    if (r->count == r->most || index != r->begin + r->count)
        status = flush(r);
    if (r->count == 0)
        r->begin = index;
    copy_element(r->data, r->count++, data, number, r->size);
    return status;
}

static iso_status write_rows(const placement *p, run *r, const void *data)
{
    iso_status status = ISO_OK;
    for (int64_t row = 0; row < p->row_count; row++) {
        int64_t begin = p->theirs.rank == 1 ? 0 : row_at(p, row) * p->width;
        for (int64_t k = 0; k < p->column_count; k++) {
            int64_t number = number_of(p, row, k);
            if (has(p, number))
                ISO_TRY(add(r, begin + p->at[k], data, number));
        }
    }
    ISO_TRY(flush(r));
done:
    return status;
}

iso_status iso_hf_write_shard(const iso_hf_tensor *row, const iso_builtin_settings *settings,
                              const iso_state_shard *shard, iso_safetensors *file, int tensor)
{
    placement p = {0};
    iso_mapping mapping;
    run r = {.file = file, .tensor = tensor, .size = iso_dtype_size(shard->dtype)};
    iso_status status;
    if (shard->count == 0)
        return ISO_OK;
    r.most = WINDOW / (int64_t)r.size;
    r.most = r.most < shard->count ? r.most : shard->count;
    ISO_TRY(find_placement(row, settings, shard, &p));
    ISO_TRY(iso_alloc((size_t)r.most * r.size, "a part of pretrained weights", &r.data));
    ISO_TRY(iso_map(shard->stream, shard->data, iso_shard_bytes(shard), &mapping));
    status = iso_unmap(write_rows(&p, &r, mapping.data), &mapping);
done:
    iso_free(r.data);
    iso_free(p.at);
    return status;
}
