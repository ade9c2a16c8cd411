/* The faults of kernels, on the host. */
#ifndef ISO_BACKEND_FAULT_H
#define ISO_BACKEND_FAULT_H

#include "runtime/backend/kernel.h"
#include "runtime/graph/op.h"

static inline bool iso_fault_raised(const iso_fault *fault)
{
    return fault->code != ISO_FAULT_NONE;
}
void iso_fault_clear(iso_fault *fault);
/* Makes the text of a fault from its numbers: "label 12 of row 512 is not one of the 10 classes". type, in: of
 * the op whose kernel raised it, and the arrays of its inputs, whose data is not read. */
void iso_fault_say(iso_fault *fault, const iso_op_type *type, const iso_array *in);

#endif
