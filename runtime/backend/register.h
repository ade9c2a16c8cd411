/* Ops that a program defines: their type and kernels are registered at run time. docs/own.md explains
 * them. */
#ifndef ISO_BACKEND_REGISTER_H
#define ISO_BACKEND_REGISTER_H

#include "runtime/backend/kernel.h"
#include "runtime/graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Registers an op type and its kernels, in order of preference, which the CPU backend runs. The type, its
 * texts and the kernels are lent, and must not change until the process ends; a kernel's `op` may be NULL. To
 * be called before the first op of the type is made, once in a process, and on every rank for the same ops in
 * the same order: making a function compares the ranks, and fails with ISO_INVALID if they differ. Local; any
 * thread may call it. ISO_INVALID names the op and what is wrong: an argument or a member that must be given
 * is NULL, a name that another op has, no kernel, a rule that cannot be read or does not fit .n_outputs and
 * .linear; or the program was compiled with the headers of another version. A rule that does not fit the
 * inputs of an op is an error of the graph, when the op is made. ISO_NO_MEMORY. */
ISO_API iso_status iso_op_register_with(const iso_op_type *type, size_t type_size, const iso_kernel *kernels,
                                        size_t kernel_size, int count);
#define iso_op_register(type, kernels, count)                                                                \
    iso_op_register_with(type, sizeof(iso_op_type), kernels, sizeof(iso_kernel), count)

#ifdef __cplusplus
}
#endif
#endif
