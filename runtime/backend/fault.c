#include "runtime/backend/fault.h"

#include <stdarg.h>
#include <stdio.h>

void iso_fault_raise(iso_fault *fault, const char *format, ...)
{
    if (fault->code != ISO_FAULT_NONE)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(fault->text, sizeof(fault->text), format, list);
    va_end(list);
    fault->code = ISO_FAULT_TEXT;
}

void iso_fault_clear(iso_fault *fault)
{
    *fault = (iso_fault){.code = ISO_FAULT_NONE};
}

/* The index of an element in the global tensor. A scalar has one row. */
static void index_of(const iso_array *array, int64_t element, int64_t at[ISO_MAX_RANK])
{
    at[0] = 0;
    for (int d = array->rank - 1; d >= 0; d--) {
        at[d] = array->offset[d] + element % array->dim[d];
        element /= array->dim[d];
    }
}

int64_t iso_fault_row(const iso_fault *fault, const iso_array *in)
{
    int64_t at[ISO_MAX_RANK];
    index_of(&in[fault->input], fault->element, at);
    return at[0];
}

/* "row 512", or "row 512, position 3, 0" for arrays of more dimensions. */
static void position(const iso_array *array, int64_t element, const char *source, char *text, size_t size)
{
    int64_t at[ISO_MAX_RANK];
    index_of(array, element, at);
    int length = snprintf(text, size, "row %lld%s", (long long)at[0], source);
    for (int d = 1; d < array->rank && length > 0 && (size_t)length < size; d++)
        length += snprintf(text + length, size - (size_t)length, "%s %lld", d == 1 ? ", position" : ",",
                           (long long)at[d]);
}

void iso_fault_format(iso_fault *fault, const iso_op_type *type, const iso_array *in, const char *source)
{
    char where[160], value[40];
    if (fault->code != ISO_FAULT_INTEGER && fault->code != ISO_FAULT_REAL)
        return;
    position(&in[fault->input], fault->element, source, where, sizeof where);
    if (fault->code == ISO_FAULT_INTEGER)
        snprintf(value, sizeof value, "%lld", (long long)fault->integer);
    else
        snprintf(value, sizeof value, "%.9g", fault->real);
    fault->code = ISO_FAULT_NONE;
    iso_fault_raise(fault, "%s %s of %s is not one of the %lld %s", type->index.what, value, where,
                    (long long)fault->count, type->index.of);
}
