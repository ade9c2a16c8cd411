/* Kernels: how a backend does the local work of an op, on one slot's parts of the tensors.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_BACKEND_KERNEL_H
#define ISO_BACKEND_KERNEL_H

#include "runtime/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A slot's part of a tensor: dense, row-major, of dim[0] x dim[1] x ... elements. Some dim may be 0. */
typedef struct iso_array {
    void *data;
    iso_dtype dtype;
    int rank;
    int64_t dim[ISO_MAX_RANK];    /* local extents */
    int64_t offset[ISO_MAX_RANK]; /* of the part in the global tensor */
    int64_t global[ISO_MAX_RANK]; /* extents of the global tensor (with the actual rows of the batch) */
} iso_array;

/* An error in the data that a kernel reports. The first fault of a slot in a step is kept. */
typedef struct iso_fault {
    bool raised;
    char message[240];
} iso_fault;
ISO_API void iso_fault_raise(iso_fault *fault, const char *format, ...);

/* Values that are the same for all kernels of a step. */
typedef struct iso_step_info {
    uint64_t step; /* counter of training steps: dropout's random numbers depend on it */
    uint64_t seed;
    int64_t rows; /* of the global batch */
} iso_step_info;

typedef struct iso_kernel_call {
    const void *attrs; /* of the op */
    int n_inputs, n_outputs;
    const iso_array *in;
    iso_array *out;
    void *scratch; /* as many bytes as the kernel's scratch() returned, aligned to 64 */
    const iso_step_info *info;
    iso_fault *fault;
} iso_kernel_call;

/* One way to do an op. A backend lists its kernels in order of preference: the first one that fits an op's
 * dtypes and local shapes is used (these are known while planning; data pointers are then NULL). Kernels are
 * single-threaded, do not allocate, and the order of their sums depends on shapes only. The threads of a rank's
 * slots run them at the same time, each with a call of its own. Inputs may be read up to 64 bytes past their
 * end; outputs are written exactly. */
typedef struct iso_kernel {
    const char *op;   /* name of the op type */
    const char *name; /* name of this kernel, for the printed plan: "reference", "direct", "dnnl_sgemm" */
    bool (*fits)(const iso_kernel_call *call);      /* NULL: anything */
    size_t (*scratch)(const iso_kernel_call *call); /* NULL: none */
    void (*run)(const iso_kernel_call *call);
    /* Computing output 0 [rows, columns] in parts; NULL: not supported. run_part writes the part [offset,
     * offset + extent), dense, to `part`, or adds it to what `part` holds (add). Its bits are those of run. A
     * part has up to part_rows rows; a part of more than one row has whole rows. prepare_parts is called
     * first, with the inputs, and fills the call's scratch, which no other call uses until the last part. The
     * planner may then let the optimizer compute a gradient part by part, when it needs each part. */
    int64_t (*part_rows)(const iso_kernel_call *call);
    void (*prepare_parts)(const iso_kernel_call *call);
    void (*run_part)(const iso_kernel_call *call, const int64_t *offset, const int64_t *extent, bool add,
                     void *part);
    /* Whether output 0 may have the address of an input that the op's in_place names. */
    bool in_place;
} iso_kernel;

#ifdef __cplusplus
}
#endif
#endif
