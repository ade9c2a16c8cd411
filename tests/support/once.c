/* One step of a graph on arrays. */
#include "tests/support/once.h"

#include <check.h>
#include <math.h>
#include <string.h>

static int64_t row_elements(const iso_shape *row)
{
    int64_t count = 1;
    for (int i = 0; i < row->rank; i++)
        count *= row->dim[i];
    return count;
}

static iso_status read_rows(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            iso_dtype dtype, void *out)
{
    const memory_batch *memory = batch->impl;
    int64_t width = row_elements(&batch->shape[component]);
    const double *from = memory->data[component] + begin * width;
    for (int64_t i = 0; i < count * width; i++)
        iso_element_set(out, dtype, i, from[i]);
    return ISO_OK;
}

static iso_status read_part(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            const iso_box *part, iso_dtype dtype, void *out)
{
    const iso_shape *row = &batch->shape[component];
    const double *from = ((const memory_batch *)batch->impl)->data[component];
    int64_t width = row_elements(row), size = iso_box_count(part);
    for (int64_t i = 0; i < count * size; i++) {
        double value = from[(begin + i / size) * width + iso_box_global_index(part, row, i % size)];
        iso_element_set(out, dtype, i, value);
    }
    return ISO_OK;
}

void memory_batch_begin(memory_batch *memory, int64_t rows)
{
    memset(memory, 0, sizeof *memory);
    memory->batch = (iso_batch){.rows = rows, .read = read_rows, .read_part = read_part, .impl = memory};
}

void memory_batch_add(memory_batch *memory, iso_shape row, const double *values)
{
    int i = memory->batch.n_components++;
    memory->batch.shape[i] = row;
    memory->batch.dtype[i] = ISO_F64;
    memory->data[i] = values;
}

int64_t count_elements(iso_tensor *tensor, int64_t rows)
{
    iso_shape shape = iso_shape_with_rows(iso_tensor_shape(tensor), rows);
    int64_t count = 0;
    check_ok(iso_shape_count(&shape, &count));
    return count;
}

void check_ok(iso_status status)
{
    ck_assert_msg(status == ISO_OK, "status %d: %s", status, iso_error_message());
}

void check_refused(iso_status status, const char *part)
{
    ck_assert_msg(status == ISO_INVALID, "status %d instead of a refusal with '%s'", (int)status, part);
    ck_assert_msg(strstr(iso_error_message(), part), "the message is '%s', without '%s'", iso_error_message(),
                  part);
}

void check_refused_naming(iso_status status, const char *first, const char *second)
{
    check_refused(status, first);
    check_refused(status, second);
}

void check_near(const char *what, const double *a, const double *b, int64_t count, double tolerance)
{
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(fabs(a[i] - b[i]) <= tolerance * fmax(1, fabs(b[i])),
                      "%s: element %lld of %lld is %.17g, Keras has %.17g (tolerance %g)", what, (long long)i,
                      (long long)count, a[i], b[i], tolerance);
}
