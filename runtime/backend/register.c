#include "runtime/backend/register.h"

#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/graph/registered.h"

static iso_status check_kernel(const iso_op_type *type, const iso_kernel *kernel, int number)
{
    const char *wrong = NULL;
    if (!kernel->run)
        wrong = ".run is NULL";
    else if (!kernel->name || !*kernel->name)
        wrong = "it has no name";
    else if (kernel->op && strcmp(kernel->op, type->name) != 0)
        wrong = "its .op is another one";
    else if (!kernel->run_part != !kernel->part_rows || !kernel->run_part != !kernel->prepare_parts)
        wrong = "either all or none of .part_rows, .prepare_parts and .run_part must be given";
    else if (kernel->part_scratch && !kernel->run_part)
        wrong = ".part_scratch is given without .run_part";
    else if (!kernel->blocks != !kernel->run_block)
        wrong = "either both or none of .blocks and .run_block must be given";
    else if (kernel->run_part && kernel->blocks)
        wrong = "at most one of .run_part and .run_block may be given";
    else if (kernel->block_scratch && !kernel->run_block)
        wrong = ".block_scratch is given without .run_block";
    else if ((kernel->finish && !kernel->run_block) || (kernel->shared && !kernel->finish))
        wrong = ".finish is given without .run_block, or .shared without .finish";
    return wrong ? iso_error(ISO_INVALID, "op '%s': kernel %d: %s", type->name, number, wrong) : ISO_OK;
}

iso_status iso_op_register_with(const iso_op_type *type, size_t type_size, const iso_kernel *kernels,
                                size_t kernel_size, int count)
{
    ISO_NEED(type);
    if (type_size != sizeof *type || kernel_size != sizeof *kernels)
        return iso_error(ISO_INVALID, "iso_op_register: the program was compiled with the headers of another "
                                      "version than " ISO_VERSION);
    if (!type->name)
        return iso_error(ISO_INVALID, "iso_op_register: the type has no name");
    if (!kernels || count < 1)
        return iso_error(ISO_INVALID, "op '%s': there is no kernel", type->name);
    for (int i = 0; i < count; i++) {
        iso_status status = check_kernel(type, &kernels[i], i);
        if (status != ISO_OK)
            return status;
    }
    return iso_registered_op_add(type, kernels, count);
}
