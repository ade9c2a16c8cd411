/* The faults of kernels, on the host. */
#ifndef ISO_BACKEND_FAULT_H
#define ISO_BACKEND_FAULT_H

#include "runtime/backend/kernel.h"
#include "runtime/base/host_device.h"
#include "runtime/graph/op.h"

/* A step's total over all slots: the number of slots that met a fault, plus this weight for each rank that
 * was asked to stop. If not all slots run the same plan, a number that is not 0 is added, which may be negative.
 * Neither needs an exchange of its own. Exact: below 2^53. */
#define ISO_STOP_WEIGHT 0x1p32
ISO_HOST_DEVICE static inline double iso_step_faults(double total)
{
    return total < ISO_STOP_WEIGHT ? total : (double)((int64_t)total & 0xffffffff);
}

static inline bool iso_fault_raised(const iso_fault *fault)
{
    return fault->code != ISO_FAULT_NONE;
}
void iso_fault_clear(iso_fault *fault);
/* The row, in the global tensor, of the element of a fault. in: the arrays of the op's inputs, whose data is not
 * read. */
int64_t iso_fault_row(const iso_fault *fault, const iso_array *in);
/* Makes the text of a fault from its numbers: "label 12 of row 512 is not one of the 10 classes". type: of the op
 * whose kernel raised it; source: what follows the row, " of the batch", or "". */
void iso_fault_format(iso_fault *fault, const iso_op_type *type, const iso_array *in, const char *source);

#endif
