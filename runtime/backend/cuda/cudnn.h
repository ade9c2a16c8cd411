/* Convolutions by cuDNN's graph API. What is made for a convolution (a graph of its operations, and the plan of an
 * engine for it) is made once, when a plan of Isogrid's first asks for it, and kept until the process ends: a step
 * only queues it. Functions are local; any thread may call them. */
#ifndef ISO_BACKEND_CUDA_CUDNN_H
#define ISO_BACKEND_CUDA_CUDNN_H

#include "runtime/backend/cuda/cublaslt.h"

typedef enum iso_cuda_convolution_kind {
    ISO_CUDA_CONVOLVE,        /* y of x and the kernel */
    ISO_CUDA_CONVOLVE_INPUT,  /* the gradient of x, of dy and the kernel */
    ISO_CUDA_CONVOLVE_KERNEL, /* the gradient of the kernel, of x and dy */
} iso_cuda_convolution_kind;

/* x [n, h, w, c], kernel [f, r, s, cg], y [n, p, q, f]: dense; cg: channels of a group. Zeros are around x:
 * `before` and `after` its height and width, none of them negative. All members are of one size: memcmp compares
 * them. */
typedef struct iso_cuda_convolution {
    int64_t kind, dtype; /* iso_cuda_convolution_kind, iso_dtype of all arrays */
    int64_t epilogue;    /* ISO_CUDA_ADD_BIAS + ISO_CUDA_RELU, of ISO_CUDA_CONVOLVE: one graph of all */
    int64_t n, h, w, c, r, s, cg, f, p, q;
    int64_t stride[2], dilation[2], before[2], after[2];
    int64_t
        tf32; /* float32 may be multiplied as TF32: always, or, set by iso_cuda_convolution_find, by --tf32 */
    int64_t gpu; /* set by iso_cuda_convolution_find */
} iso_cuda_convolution;

/* One of them is the result. The addresses of x, the kernel, y and the bias [f] are such multiples. */
enum { ISO_CUDA_CONVOLVED_MULTIPLE = 16 };
typedef struct iso_cuda_convolved {
    const void *x, *kernel, *y, *bias;
    void *workspace;
} iso_cuda_convolved;

typedef struct iso_cuda_found_convolution iso_cuda_found_convolution;

/* How cuDNN does a convolution on a GPU, which the thread then has entered: by the first engine that its
 * heuristics propose whose results are the same each time, whose products and sums are those of the type, and
 * whose workspace is within a bound. NULL: it does not (an empty one, no such engine), or cuDNN is not in use,
 * or fails: then an error is kept (refusals.h). gpu -1: nothing is found. */
const iso_cuda_found_convolution *iso_cuda_convolution_find(iso_cuda_convolution convolution, int gpu);
/* Bytes of workspace, whose address may be any multiple of 16. */
size_t iso_cuda_convolution_workspace(const iso_cuda_found_convolution *found);
/* Queues a convolution. Does not wait, and may be captured. An error is kept: "cuDNN refuses the convolution of ...:
 * CUDNN_STATUS_EXECUTION_FAILED (5000)" (refusals.h). */
void iso_cuda_convolution_run(const iso_cuda_found_convolution *found, const iso_cuda_convolved *arrays,
                              const iso_stream *stream);

/* For tuning.h. `choose`: a convolution of this text, which was found, is done by that choice from now on; false:
 * there is none, or it cannot. `measure`: times the engines that are allowed on a stream. ISO_INVALID: the text is
 * not one. */
bool iso_cuda_convolution_choose(const char *op, const char *choice);
iso_status iso_cuda_convolution_measure(const char *op, iso_stream *stream, iso_tuning_result *tuned);

/* Whether cuDNN may be used from now on, if it can be opened. Before the first plan. */
void iso_cuda_allow_cudnn(bool allow);
/* Whether it is: allowed, and open. Opens it. */
bool iso_cuda_uses_cudnn(void);

#endif
