/* Faults that kernels raise: see iso_fault (runtime/backend/kernel.h). */
#ifndef ISO_BACKEND_CUDA_FAULTS_H
#define ISO_BACKEND_CUDA_FAULTS_H

#include "runtime/backend/cuda/elements.h"
#include "runtime/backend/index.h"

namespace iso_cuda
{

/* An input of indices in 0..count-1, and where wrong ones are reported. */
struct indices {
    iso_array array;
    int64_t count;
    iso_fault *fault;
    int32_t instruction, input;

    /* Whether the fault that is there stays, if element i is wrong too. */
    __device__ bool covers(int64_t i) const
    {
        const volatile iso_fault *f = fault;
        const int32_t code = f->code;
        __threadfence(); /* what else is read was written before the code */
        return code != ISO_FAULT_NONE &&
               (f->instruction != instruction || code == ISO_FAULT_TEXT || f->element <= i);
    }

    /* A thread writes where it has got the lock, and not after a loop: lanes that wait for each other never
     * end. Most threads find a fault that stays, and leave without touching the lock. */
    __device__ void raise(int64_t i) const
    {
        for (bool done = false; !done && !covers(i);)
            if (atomicCAS(&fault->lock, 0u, 1u) == 0) {
                __threadfence();
                if (!covers(i))
                    write(i);
                __threadfence();
                atomicExch(&fault->lock, 0u);
                done = true;
            }
    }

    /* The code is written last: whoever sees it sees the rest. */
    __device__ void write(int64_t i) const
    {
        volatile iso_fault *f = fault;
        const bool whole = array.dtype == ISO_I64;
        f->instruction = instruction;
        f->input = input;
        f->element = i;
        f->count = count;
        f->integer = whole ? static_cast<const int64_t *>(array.data)[i] : 0;
        f->real = whole ? 0 : iso_index_element(&array, i);
        __threadfence();
        f->code = whole ? ISO_FAULT_INTEGER : ISO_FAULT_REAL;
    }

    /* Element i; -1: it is not an index. */
    __device__ int64_t get(int64_t i) const
    {
        return iso_index_read(&array, i, count);
    }
};

inline indices indices_of(const iso_kernel_call *call, int input, int64_t count)
{
    return {call->in[input], count, call->fault, call->instruction, input};
}

} // namespace iso_cuda

#endif
