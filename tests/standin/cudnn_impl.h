/* The inside of the stand-in for cuDNN, for its files. */
#ifndef ISO_TESTS_STANDIN_CUDNN_IMPL_H
#define ISO_TESTS_STANDIN_CUDNN_IMPL_H

#include <cudnn.h>

#include "tests/standin/standin.h"

enum { CUDNN_MOST_ATTRIBUTES = 8, CUDNN_MOST_NOTES = 8, CUDNN_MOST_PROPOSALS = 400 };

typedef struct cudnn_tensor {
    int64_t number, alignment, dim[4], stride[4];
    cudnnDataType_t type;
    bool between; /* virtual: it has no address */
} cudnn_tensor;

/* An operation with all that it names. A graph is a convolution, perhaps with the addition of a bias, and a relu. */
typedef struct cudnn_operation {
    cudnnBackendDescriptorType_t kind;
    cudnn_tensor x, kernel, y;
    cudnn_tensor bias; /* number 0: there is none */
    bool relu;
    cudnnPointwiseMode_t mode; /* of a pointwise operation, of x, bias and y */
    cudnnDataType_t sums;
    int64_t before[2], after[2], dilation[2], stride[2];
    double alpha, beta;
} cudnn_operation;

/* An engine with its settings, for one operation. */
typedef struct cudnn_engine {
    int64_t number, workspace;
    cudnnBackendNumericalNote_t notes[CUDNN_MOST_NOTES];
    int n_notes;
    bool unable; /* its plan cannot be made */
} cudnn_engine;

typedef struct cudnn_attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    void *values;
} cudnn_attribute;

typedef struct cudnn_descriptor {
    int magic;
    cudnnBackendDescriptorType_t type;
    bool finished;
    cudnn_attribute attribute[CUDNN_MOST_ATTRIBUTES];
    int n_attributes;
    cudnn_operation operation; /* of operations, and of what is made of them */
    cudnn_engine engine;       /* of configurations, engines and plans */
    cudnnBackendDescriptor_t real;
} cudnn_descriptor;

struct cudnnContext {
    int magic, gpu;
    cudaStream_t stream;
};

/* cudnn_run.c: queues the operation by a plan's engine. Addresses have been checked. */
cudaError_t cudnn_run(const cudnn_operation *operation, const cudnn_engine *engine,
                      const void *const address[4], void *workspace, cudaStream_t stream);

/* cudnn_real.c: NVIDIA's own library beside the stand-in, if STANDIN_CUDNN is "real". It makes and refuses the same
 * descriptors and plans, for an H200 that is not there, and the stand-in takes its answers. */
bool cudnn_real_is_used(void);
cudnnStatus_t cudnn_real_create(cudnn_descriptor *of);
void cudnn_real_destroy(cudnn_descriptor *of);
cudnnStatus_t cudnn_real_set(cudnn_descriptor *of, const cudnn_attribute *attribute);
/* And takes the bytes that a plan needs. */
cudnnStatus_t cudnn_real_finalize(cudnn_descriptor *of);
/* The proposals of a finished heuristics descriptor: fills those of `configs`, each of them a finished one of the
 * stand-in's then. */
cudnnStatus_t cudnn_real_propose(const cudnn_descriptor *heuristics, cudnn_descriptor *const *configs,
                                 int64_t room, int64_t *count);

#endif
