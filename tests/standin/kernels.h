/* Kernels for the tests of the stand-in. */
#ifndef ISO_TESTS_STANDIN_KERNELS_H
#define ISO_TESTS_STANDIN_KERNELS_H

#ifdef __cplusplus
#include <cuda_runtime.h>
extern "C" {
#else
#include <cuda_runtime_api.h>
#endif

/* x[i] = x[i] * factor + term; sum[i] += x[i]: i in 0..n-1. */
cudaError_t test_scale(float *x, int n, float factor, float term, cudaStream_t stream);
cudaError_t test_add(float *sum, const float *x, int n, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
