/* The descriptors of cuDNN's graph API for one convolution, in the order in which the library wants them, and the
 * engines that may do it. Functions are local; a handle serves one thread at a time. */
#ifndef ISO_BACKEND_CUDA_CUDNN_GRAPH_H
#define ISO_BACKEND_CUDA_CUDNN_GRAPH_H

#include <cudnn.h>

#include "runtime/backend/cuda/cudnn.h"
#include "runtime/backend/cuda/tuning.h"

/* The numbers of the tensors in a graph. */
enum { ISO_CUDNN_X = 1, ISO_CUDNN_KERNEL, ISO_CUDNN_Y, ISO_CUDNN_BIAS, ISO_CUDNN_SUMS, ISO_CUDNN_BIASED };

enum { ISO_CUDNN_MOST_MADE = 16 };

/* The objects that were made for a convolution. Its plan refers to them, so they live as long as the plan. */
typedef struct iso_cudnn_made {
    cudnnBackendDescriptor_t descriptor[ISO_CUDNN_MOST_MADE];
    int count;
    cudnnBackendDescriptor_t graph; /* one of them */
    cudnnBackendDescriptor_t config, plan;
    int64_t workspace;            /* bytes that the plan needs */
    char choice[ISO_CUDA_CHOICE]; /* names the engine: "heuristic A, proposal 28, engine 70" */
} iso_cudnn_made;

/* Gets the plan of an engine in turn. True: it takes it, and there are no more. */
typedef bool iso_cudnn_visitor(void *argument, const iso_cudnn_made *made);

/* Makes the graph, and the plans of the engines that are allowed, one after the other, until the visitor takes
 * one; it is the caller's then. choice: only that of this name; NULL: all. made->plan is NULL if none was taken: then
 * nothing is left. Returns the library's failure; that it does not support the convolution is none. */
cudnnStatus_t iso_cudnn_make(cudnnHandle_t handle, const iso_cuda_convolution *convolution,
                             const char *choice, iso_cudnn_visitor *visitor, void *argument,
                             iso_cudnn_made *made);
void iso_cudnn_destroy(iso_cudnn_made *made);

/* A descriptor; *status is the first error so far, after which calls do nothing (a descriptor is then NULL). */
cudnnBackendDescriptor_t iso_cudnn_create(cudnnStatus_t *status, cudnnBackendDescriptorType_t type);
void iso_cudnn_set(cudnnStatus_t *status, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t count, const void *values);
void iso_cudnn_finalize(cudnnStatus_t *status, cudnnBackendDescriptor_t of);

#endif
