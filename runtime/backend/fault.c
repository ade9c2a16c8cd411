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

/* "row 512", or "row 512, position 3, 0" for arrays of more dimensions. */
static void position(const iso_array *array, int64_t i, char *text, size_t size)
{
    int64_t at[ISO_MAX_RANK] = {0};
    for (int d = array->rank - 1; d >= 0; d--) {
        at[d] = array->offset[d] + i % array->dim[d];
        i /= array->dim[d];
    }
    int length = snprintf(text, size, "row %lld", (long long)at[0]);
    for (int d = 1; d < array->rank && length > 0 && (size_t)length < size; d++)
        length += snprintf(text + length, size - (size_t)length, "%s %lld", d == 1 ? ", position" : ",",
                           (long long)at[d]);
}

void iso_fault_say(iso_fault *fault, const iso_op_type *type, const iso_array *in)
{
    char where[120], value[40];
    if (fault->code != ISO_FAULT_INTEGER && fault->code != ISO_FAULT_REAL)
        return;
    position(&in[fault->input], fault->element, where, sizeof where);
    if (fault->code == ISO_FAULT_INTEGER)
        snprintf(value, sizeof value, "%lld", (long long)fault->integer);
    else
        snprintf(value, sizeof value, "%.9g", fault->real);
    fault->code = ISO_FAULT_NONE;
    iso_fault_raise(fault, "%s %s of %s is not one of the %lld %s", type->index.what, value, where,
                    (long long)fault->count, type->index.of);
}
