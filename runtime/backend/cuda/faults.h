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

    __device__ void raise(int64_t i) const
    {
        volatile iso_fault *f = fault;
        while (atomicCAS(&fault->lock, 0u, 1u) != 0)
            ;
        __threadfence();
        if (f->code == ISO_FAULT_NONE ||
            (f->instruction == instruction && f->code != ISO_FAULT_TEXT && i < f->element)) {
            bool whole = array.dtype == ISO_I64;
            f->code = whole ? ISO_FAULT_INTEGER : ISO_FAULT_REAL;
            f->instruction = instruction;
            f->input = input;
            f->element = i;
            f->count = count;
            f->integer = whole ? static_cast<const int64_t *>(array.data)[i] : 0;
            f->real = whole ? 0 : iso_index_element(&array, i);
        }
        __threadfence();
        atomicExch(&fault->lock, 0u);
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
