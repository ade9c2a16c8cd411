/* Intra-op parallelism: how the threads of a slot divide the work of one kernel. A kernel's numbers do not depend on
 * it (iso_kernel.by_rows, iso_kernel.blocks). Functions are local. */
#ifndef ISO_BACKEND_DIVISION_H
#define ISO_BACKEND_DIVISION_H

#include "runtime/backend/backend.h"
#include "runtime/base/thread_pool.h"
#include "runtime/graph/op.h"

enum { ISO_DIVISION_LEVELS = 2 };

/* By rows: the first dimension of more than one element is divided into parts; if it has fewer elements than there
 * shall be parts, into single ones, and the next dimension into parts too. By run_part: a block is some parts, after
 * one thread has prepared them. */
typedef struct iso_division {
    int threads; /* of the slot */
    int64_t n_blocks;
    size_t
        shared; /* bytes of iso_kernel_call.shared, or of prepared parts, before the scratch memory of threads */
    size_t scratch;             /* bytes from the scratch memory of a thread to that of the next one */
    int n_levels;               /* 0: by blocks of the kernel, or by run_part */
    int64_t part_rows, n_parts; /* by run_part: rows of a part (else 0), and the parts */
    bool adds;                  /* by run_part: parts are added to input 0 */
    int64_t rows[ISO_DIVISION_LEVELS], parts[ISO_DIVISION_LEVELS];
    /* The dimension of an operand that a level divides; -1: the operand is whole. */
    int8_t in[ISO_MAX_INPUTS][ISO_DIVISION_LEVELS], out[ISO_MAX_OUTPUTS][ISO_DIVISION_LEVELS];
} iso_division;

/* Decides how the threads of a slot divide the work of an op's kernel. False: it is not divided: the kernel cannot
 * be, there is too little work, or there is one thread. call: without addresses too. */
bool iso_division_choose(const iso_op *op, const iso_kernel *kernel, const iso_kernel_call *call, int threads,
                         iso_division *division);
/* The same for a kernel by rows, in up to `wanted` parts, or a few more. least: bytes of the divided operands of a
 * part, which then are no less than what it prepares of the whole ones (kernel.h); 0: however few. */
bool iso_division_by_rows(const iso_op *op, const iso_kernel *kernel, const iso_kernel_call *call,
                          int threads, int64_t least, int64_t wanted, iso_division *division);
/* The same for a kernel with run_part. */
bool iso_division_by_parts(const iso_op *op, const iso_kernel *kernel, const iso_kernel_call *call,
                           int threads, int64_t wanted, iso_division *division);
/* The same for a kernel with blocks. */
bool iso_division_by_blocks(const iso_kernel *kernel, const iso_kernel_call *call, int threads,
                            iso_division *division);
/* About how many parts the work of an op of the CPU has at most, for estimates of its time. */
double iso_division_most_parts(double flops, double bytes);
/* Bytes of scratch memory for all threads. */
size_t iso_division_scratch(const iso_division *division);
/* Runs the kernel on the threads of a pool, as many as division->threads. call->scratch: of iso_division_scratch
 * bytes. A fault is that of the lowest block. */
void iso_division_run(const iso_division *division, iso_thread_pool *pool, const iso_kernel *kernel,
                      const iso_kernel_call *call);

#endif
