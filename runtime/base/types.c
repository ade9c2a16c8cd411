#include "runtime/base/types.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/bf16.h"
#include "runtime/base/convert.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [ISO_DTYPE_NONE] = {"none", 0}, [ISO_F32] = {"float32", 4},   [ISO_F64] = {"float64", 8},
    [ISO_I32] = {"int32", 4},       [ISO_I64] = {"int64", 8},     [ISO_U8] = {"uint8", 1},
    [ISO_BOOL] = {"bool", 1},       [ISO_BF16] = {"bfloat16", 2},
};

/* Whether a value is a dtype: users may pass anything. */
static bool known(iso_dtype dtype)
{
    return (size_t)dtype < sizeof dtypes / sizeof *dtypes;
}

size_t iso_dtype_size(iso_dtype dtype)
{
    return known(dtype) ? dtypes[dtype].size : 0;
}

const char *iso_dtype_name(iso_dtype dtype)
{
    return known(dtype) ? dtypes[dtype].name : "unknown";
}

iso_dtype iso_dtype_named(const char *name)
{
    size_t dtype = sizeof dtypes / sizeof *dtypes - 1;
    if (ISO_ANY_NULL(name))
        return ISO_DTYPE_NONE;
    while (dtype > ISO_DTYPE_NONE && strcmp(dtypes[dtype].name, name) != 0)
        dtype--;
    return (iso_dtype)dtype;
}

bool iso_dtype_is_float(iso_dtype dtype)
{
    return dtype == ISO_F32 || dtype == ISO_F64 || dtype == ISO_BF16;
}

iso_dtype iso_dtype_promoted(iso_dtype a, iso_dtype b)
{
    static const int width[] = {[ISO_BOOL] = 1, [ISO_U8] = 2,  [ISO_I32] = 3, [ISO_I64] = 4,
                                [ISO_BF16] = 5, [ISO_F32] = 6, [ISO_F64] = 7};
    if (!known(a) || !known(b))
        return ISO_DTYPE_NONE;
    return width[a] < width[b] ? b : a;
}

double iso_element_get(const void *data, iso_dtype dtype, int64_t i)
{
    double value = 0;
    if (!ISO_ANY_NULL(data) && iso_dtype_size(dtype) > 0)
        iso_convert(dtype, (const char *)data + (size_t)i * iso_dtype_size(dtype), ISO_F64, &value, 1);
    return value;
}

void iso_element_set(void *data, iso_dtype dtype, int64_t i, double value)
{
    if (ISO_ANY_NULL(data))
        return;
    switch (dtype) {
    case ISO_F32:
        ((float *)data)[i] = (float)value;
        break;
    case ISO_F64:
        ((double *)data)[i] = value;
        break;
    case ISO_I32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    case ISO_I64:
        ((int64_t *)data)[i] = (int64_t)value;
        break;
    case ISO_BF16:
        ((uint16_t *)data)[i] = iso_bf16_of_double(value);
        break;
    case ISO_BOOL:
        ((uint8_t *)data)[i] = value != 0;
        break;
    default:
        ((uint8_t *)data)[i] = (uint8_t)value;
    }
}

static bool rank_fits(int rank)
{
    return rank >= 0 && rank <= ISO_MAX_RANK;
}

char *iso_shape_text(const iso_shape *shape, char *text, size_t size)
{
    if (ISO_ANY_NULL(shape, text))
        return NULL;
    if (!rank_fits(shape->rank)) {
        snprintf(text, size, "[rank %d]", shape->rank);
        return text;
    }
    size_t at = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < shape->rank && at < size; i++) {
        const char *comma = i ? ", " : "";
        if (shape->dim[i] == ISO_BATCH)
            at += (size_t)snprintf(text + at, size - at, "%sbatch", comma);
        else
            at += (size_t)snprintf(text + at, size - at, "%s%" PRId64, comma, shape->dim[i]);
    }
    if (at < size)
        snprintf(text + at, size - at, "]");
    return text;
}

bool iso_shape_equal(const iso_shape *a, const iso_shape *b)
{
    if (ISO_ANY_NULL(a, b))
        return false;
    if (a->rank != b->rank || !rank_fits(a->rank))
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

iso_status iso_shape_count(const iso_shape *shape, int64_t *count)
{
    ISO_NEED(shape, count);
    int64_t total = 1;
    char text[160];
    if (!rank_fits(shape->rank))
        return iso_error(ISO_INVALID, "a shape of rank %d, 0 to %d are possible", shape->rank, ISO_MAX_RANK);
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] < 0)
            return iso_error(ISO_INVALID, "shape %s has a negative dimension",
                             iso_shape_text(shape, text, sizeof text));
        if (__builtin_mul_overflow(total, shape->dim[i], &total))
            return iso_error(ISO_INVALID, "shape %s has more elements than 64 bits count",
                             iso_shape_text(shape, text, sizeof text));
    }
    *count = total;
    return ISO_OK;
}

iso_shape iso_shape_with_rows(const iso_shape *shape, int64_t rows)
{
    if (ISO_ANY_NULL(shape))
        return (iso_shape){0};
    iso_shape fixed = *shape;
    if (!rank_fits(fixed.rank))
        return fixed;
    for (int i = 0; i < fixed.rank; i++)
        if (fixed.dim[i] == ISO_BATCH)
            fixed.dim[i] = rows;
    return fixed;
}

int64_t iso_box_count(const iso_box *box)
{
    if (ISO_ANY_NULL(box) || !rank_fits(box->rank))
        return 0;
    int64_t count = 1;
    for (int i = 0; i < box->rank; i++)
        count *= box->extent[i];
    return count;
}

iso_box iso_box_whole(const iso_shape *shape)
{
    if (ISO_ANY_NULL(shape))
        return (iso_box){0};
    if (!rank_fits(shape->rank))
        return iso_box_range(0, 0);
    iso_box box = {.rank = shape->rank};
    for (int i = 0; i < shape->rank; i++)
        box.extent[i] = shape->dim[i];
    return box;
}

iso_box iso_box_range(int64_t begin, int64_t count)
{
    return (iso_box){.rank = 1, .offset = {begin}, .extent = {count}};
}

iso_box iso_box_intersect(const iso_box *a, const iso_box *b)
{
    if (ISO_ANY_NULL(a, b))
        return (iso_box){0};
    if (!rank_fits(a->rank))
        return iso_box_range(0, 0);
    iso_box both = {.rank = a->rank};
    for (int i = 0; i < a->rank; i++) {
        int64_t begin = a->offset[i] > b->offset[i] ? a->offset[i] : b->offset[i];
        int64_t end_a = a->offset[i] + a->extent[i], end_b = b->offset[i] + b->extent[i];
        int64_t end = end_a < end_b ? end_a : end_b;
        both.offset[i] = begin;
        both.extent[i] = end > begin ? end - begin : 0;
    }
    return both;
}

bool iso_box_equal(const iso_box *a, const iso_box *b)
{
    if (ISO_ANY_NULL(a, b))
        return false;
    if (a->rank != b->rank || !rank_fits(a->rank))
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->offset[i] != b->offset[i] || a->extent[i] != b->extent[i])
            return false;
    return true;
}

int64_t iso_box_global_index(const iso_box *box, const iso_shape *shape, int64_t i)
{
    if (ISO_ANY_NULL(box, shape) || !rank_fits(box->rank))
        return 0;
    int64_t index = 0, stride = 1;
    for (int d = box->rank - 1; d >= 0; d--) {
        index += (box->offset[d] + i % box->extent[d]) * stride;
        i /= box->extent[d];
        stride *= shape->dim[d];
    }
    return index;
}

void iso_part_range(int64_t n, int64_t parts, int64_t part, int64_t *begin, int64_t *count)
{
    if (ISO_ANY_NULL(begin, count))
        return;
    *begin = *count = 0;
    if (n <= 0 || parts < 1 || part < 0)
        return;
    int64_t each = n / parts + (n % parts != 0);
    int64_t first = each * part < n ? each * part : n;
    *begin = first;
    *count = n - first < each ? n - first : each;
}
