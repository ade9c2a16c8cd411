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

/* An error in the data that a kernel reports. Kernels leave numbers; the host makes the message of them when the
 * step is over, with the words of the op's type (iso_op_type.index). */
typedef enum iso_fault_code {
    ISO_FAULT_NONE,
    ISO_FAULT_TEXT,    /* `text` says it: of kernels that run on the host */
    ISO_FAULT_OP_TEXT, /* the same, of instruction `instruction` */
    ISO_FAULT_INTEGER, /* element `element` of input `input` is `integer`, not one of `count` indices */
    ISO_FAULT_REAL     /* the same of an element that is not an integer: `real` */
} iso_fault_code;

/* A slot's fault, in memory that its device can read and write; cleared when a step begins. The first one of a
 * step is kept: that of the earliest instruction, and within a kernel that of the lowest element. Kernels of a
 * slot run one after the other, so a kernel leaves a fault of another instruction as it is. A kernel whose
 * threads run at the same time takes `lock`, and then replaces a fault of its own instruction if its element is
 * lower: the result is the same in any order of its threads. */
typedef struct iso_fault {
    uint32_t lock; /* 0: free */
    int32_t code;  /* iso_fault_code */
    int32_t instruction, input;
    int64_t element, count; /* element: row-major in the local array */
    int64_t integer;
    double real;
    char text[240];
} iso_fault;
/* Raises a fault with a message of its own, for kernels that run on the host: "row 5 is negative". The op's name is
 * put before it, and its layer after it. */
ISO_API void iso_fault_raise(iso_fault *fault, const char *format, ...);

/* A queue of a device, in which it does one thing after the other. On the CPU all is done at once. */
typedef struct iso_stream iso_stream;

/* Values that are the same for all kernels of a step. Kernels read them when they are executed, not when they
 * are queued: the memory is the device's, and a sequence of kernels that is recorded once and executed in each
 * step finds the values of that step. */
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
    void *shared;  /* in a block: as many bytes as the kernel's shared() returned, aligned to 64; else NULL */
    const iso_step_info *info;
    iso_fault *fault;
    iso_stream *stream;  /* where the kernels of a device queue their work; those of the CPU do not use it */
    int32_t instruction; /* its place in the step, for `fault` */
    /* Without a stream: the device for which a kernel is looked for; NULL: any one. */
    const struct iso_device *device;
} iso_kernel_call;

/* One way to do an op. A backend lists its kernels in order of preference: the first one that fits an op's
 * dtypes and local shapes is used (these are known while planning; data pointers are then NULL). Kernels
 * start no threads, do not allocate, and the order of their sums depends on shapes only. The threads of a rank's
 * slots run them at the same time, each with a call of its own. Inputs may be read up to 64 bytes past their
 * end; outputs are written exactly. On another device than the CPU `run` queues the work on call->stream and
 * does not wait: it is done when the stream has come to it, with what the addresses of the call then hold. The
 * same queued work may be executed many times, so `run` takes nothing from the memory of arrays, info or fault. */
typedef struct iso_kernel {
    const char *op;   /* name of the op type */
    const char *name; /* name of this kernel, for the printed plan: "reference", "direct", "dnnl_sgemm" */
    bool (*fits)(const iso_kernel_call *call);      /* NULL: anything */
    size_t (*scratch)(const iso_kernel_call *call); /* NULL: none */
    void (*run)(const iso_kernel_call *call);
    /* Computing output 0 [rows, columns] in parts; NULL: not supported. run_part writes the part [offset, offset +
     * extent), dense, to `part`, or adds it to what `part` holds (add). Its bits are those of run. A part has up to
     * part_rows rows; a part of more than one row has whole rows. Parts of embedding_grad_add are without input 0.
     * prepare_parts is called first, with the inputs, and fills the call's scratch but its last part_scratch bytes;
     * no other call uses it until the last part. Threads may compute parts at the same time, each with part_scratch
     * bytes of its own, aligned to 64; they raise no fault. The planner may then let the optimizer compute a gradient
     * part by part, when it needs each part. */
    int64_t (*part_rows)(const iso_kernel_call *call);
    size_t (*part_scratch)(const iso_kernel_call *call); /* NULL: none */
    void (*prepare_parts)(const iso_kernel_call *call);
    void (*run_part)(const iso_kernel_call *call, const int64_t *offset, const int64_t *extent, bool add,
                     void *part, void *part_scratch);
    /* Whether output 0 may have the address of an input that the op's in_place names. */
    bool in_place;
    /* Intra-op parallelism (division.h): the threads of a slot may run parts of the work at the same time. The
     * numbers are those of `run`, with any number of threads. Either by rows: `run` computes any range of the rows
     * that the op's sharding rule lets slots divide, with the same bits as all of them; what scratch() needs for any
     * rows is prepared by each range. Or by blocks of its own: `blocks` tells how many there are, by attrs, types and
     * shapes alone, and run_block computes one; call->scratch is the thread's own, as large as block_scratch() says
     * (NULL: scratch()). With `finish`, blocks may leave results in call->shared, which is the same memory for all of
     * them, and `finish` makes outputs of these when all blocks are done. Or by run_part, without blocks. None of
     * these: one thread runs it. A kernel by rows may have blocks for calls whose rows cannot be divided. */
    bool by_rows;
    int64_t (*blocks)(const iso_kernel_call *call);
    void (*run_block)(const iso_kernel_call *call, int64_t block);
    size_t (*block_scratch)(const iso_kernel_call *call);
    size_t (*shared)(const iso_kernel_call *call); /* with finish alone */
    void (*finish)(const iso_kernel_call *call);   /* NULL: there is nothing to do */
} iso_kernel;

#ifdef __cplusplus
}
#endif
#endif
