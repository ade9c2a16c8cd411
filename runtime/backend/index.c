#include "runtime/backend/index.h"

void iso_index_fault(const iso_kernel_call *call, int input, int64_t i, int64_t count)
{
    const iso_array *array = &call->in[input];
    iso_fault *fault = call->fault;
    if (fault->code != ISO_FAULT_NONE)
        return;
    bool wide = array->dtype == ISO_I64;
    fault->code = wide ? ISO_FAULT_INTEGER : ISO_FAULT_REAL;
    fault->instruction = call->instruction;
    fault->input = input;
    fault->element = i;
    fault->count = count;
    fault->integer = wide ? ((const int64_t *)array->data)[i] : 0;
    fault->real = wide ? 0 : iso_index_element(array, i);
}
