#include "runtime/backend/cuda/convolutions.h"

#include <string.h>

#include "runtime/backend/cuda/convolution_call.h"
#include "runtime/backend/cuda/im2col.h"
#include "runtime/backend/cuda/list.h"
#include "runtime/backend/cuda/products.h"
#include "runtime/backend/cuda/rearrange.h"

/* ---- by cuDNN ---- */

/* The rows that the windows of `count` positions reach, from that of the first on. */
static int64_t reach(int64_t count, int64_t stride, int64_t taps, int64_t dilation)
{
    return (count - 1) * stride + (taps - 1) * dilation + 1;
}

/* The convolution of a frame: x with just the rows and columns that windows reach. */
static iso_cuda_convolution framed_convolution(const iso_cuda_conv *of, iso_cuda_convolution_kind kind)
{
    iso_cuda_convolution v = {.kind = kind, .dtype = of->dtype, .to = of->to};
    const int64_t *kernel = of->kernel->dim;
    v.n = of->x->dim[0], v.c = of->x->dim[3];
    v.r = kernel[0], v.s = kernel[1], v.cg = kernel[2], v.f = kernel[3];
    v.p = of->y->dim[1], v.q = of->y->dim[2];
    for (int d = 0; d < 2; d++) {
        v.stride[d] = of->geometry->stride[d];
        v.dilation[d] = of->geometry->dilation[d];
    }
    v.h = reach(v.p, v.stride[0], v.r, v.dilation[0]);
    v.w = reach(v.q, v.stride[1], v.s, v.dilation[1]);
    return v;
}

/* Sets the padding before and after this part of x itself; false: the part has more rows or columns than cuDNN
 * would read for so many positions. */
static bool place_x(iso_cuda_convolution *v, const iso_cuda_conv *of)
{
    const int64_t wanted[] = {v->h, v->w}, *has = &of->x->dim[1];
    for (int d = 0; d < 2; d++) {
        int64_t after = wanted[d] - of->before[d] - has[d]; /* negative: rows that no window reaches */
        if (of->before[d] < 0 || after <= -v->stride[d])
            return false;
        v->before[d] = of->before[d];
        v->after[d] = after > 0 ? after : 0;
    }
    v->h = has[0];
    v->w = has[1];
    return true;
}

typedef struct way {
    const iso_cuda_found_convolution *found; /* NULL: by none of the library's engines */
    iso_cuda_convolution convolution;
    bool framed; /* x is copied into the rows and columns that windows reach, or is taken from them */
    size_t kernel_bytes, frame_bytes; /* scratch memory, in this order; then the workspace */
} way;

/* Finds the way to compute a convolution. Not all engines accept padding on one side alone, and none accepts fewer
 * rows than x has: then x is framed. */
static way find_way(const iso_kernel_call *call, iso_cuda_convolution_kind kind, int epilogue)
{
    way w = {.found = NULL};
    iso_cuda_conv of = iso_cuda_conv_of(call, kind);
    if (iso_cuda_conv_is_empty(&of))
        return w;
    iso_cuda_convolution framed = framed_convolution(&of, kind), direct;
    framed.epilogue = epilogue;
    direct = framed;
    if (place_x(&direct, &of)) {
        w.convolution = direct;
        w.found = iso_cuda_convolution_find(direct, call->stream);
    }
    if (!w.found) {
        w.convolution = framed;
        w.found = iso_cuda_convolution_find(framed, call->stream);
        w.framed = true;
        w.frame_bytes = iso_cuda_conv_round((size_t)(framed.n * framed.h * framed.w * framed.c) *
                                            iso_dtype_size(of.x->dtype));
    }
    w.kernel_bytes = iso_cuda_conv_round(iso_array_bytes(of.kernel));
    return w;
}

static bool cudnn_fits(const iso_kernel_call *call, iso_cuda_convolution_kind kind)
{
    return find_way(call, kind, 0).found != NULL;
}

static bool cudnn_fuses(const iso_kernel_call *call, int epilogue)
{
    return find_way(call, ISO_CUDA_CONVOLVE, epilogue).found != NULL;
}

/* Enough for all that may be fused into it too. */
static size_t cudnn_scratch(const iso_kernel_call *call, iso_cuda_convolution_kind kind)
{
    static const int epilogues[] = {0, ISO_CUDA_ADD_BIAS, ISO_CUDA_ADD_BIAS | ISO_CUDA_RELU};
    size_t most = 0;
    for (int i = 0; i < (kind == ISO_CUDA_CONVOLVE ? 3 : 1); i++) {
        way w = find_way(call, kind, epilogues[i]);
        size_t bytes = w.found ? w.kernel_bytes + w.frame_bytes + iso_cuda_convolution_workspace(w.found) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* A kernel [r, s, cg, f] as cuDNN takes it: [f, r, s, cg]. */
static void transpose_kernel(const iso_array *kernel, bool back, void *transposed, const iso_stream *stream)
{
    int64_t filters = kernel->dim[3], taps = iso_array_count(kernel) / filters;
    if (back)
        iso_cuda_transpose_matrix(kernel->dtype, filters, taps, transposed, kernel->data, stream);
    else
        iso_cuda_transpose_matrix(kernel->dtype, taps, filters, kernel->data, transposed, stream);
}

static void frame_x(const iso_cuda_convolution *v, const iso_cuda_conv *of, bool back, void *framed,
                    const iso_stream *stream)
{
    const int64_t *has = &of->x->dim[1], *before = of->before;
    const iso_cuda_frame into = {v->n, v->c, has[0], has[1], v->h, v->w, -before[0], -before[1]},
                         from = {v->n, v->c, v->h, v->w, has[0], has[1], before[0], before[1]};
    if (back)
        iso_cuda_reframe(of->x->dtype, &from, framed, of->x->data, stream);
    else
        iso_cuda_reframe(of->x->dtype, &into, of->x->data, framed, stream);
}

static void cudnn_run(const iso_kernel_call *call, iso_cuda_convolution_kind kind,
                      const iso_cuda_epilogue *epilogue)
{
    way w = find_way(call, kind, epilogue->kind);
    iso_cuda_conv v = iso_cuda_conv_of(call, kind);
    char *transposed = call->scratch, *framed = transposed + w.kernel_bytes;
    const iso_cuda_convolved arrays = {.x = w.framed ? framed : v.x->data,
                                       .kernel = transposed,
                                       .y = v.y->data,
                                       .bias = epilogue->bias,
                                       .workspace = framed + w.frame_bytes};
    if (kind != ISO_CUDA_CONVOLVE_KERNEL)
        transpose_kernel(v.kernel, false, transposed, call->stream);
    if (w.framed && kind != ISO_CUDA_CONVOLVE_INPUT)
        frame_x(&w.convolution, &v, false, framed, call->stream);
    iso_cuda_convolution_run(w.found, &arrays, call->stream);
    if (w.framed && kind == ISO_CUDA_CONVOLVE_INPUT)
        frame_x(&w.convolution, &v, true, framed, call->stream);
    if (kind == ISO_CUDA_CONVOLVE_KERNEL)
        transpose_kernel(v.kernel, true, transposed, call->stream);
}

/* ---- the kernels: the first that fits; the own one takes arrays whose addresses the libraries do not take ---- */

typedef bool fits_function(const iso_kernel_call *call, iso_cuda_convolution_kind kind);
typedef size_t scratch_function(const iso_kernel_call *call, iso_cuda_convolution_kind kind);
typedef void run_function(const iso_kernel_call *call, iso_cuda_convolution_kind kind,
                          const iso_cuda_epilogue *epilogue);
static const iso_cuda_epilogue no_epilogue;

static size_t scratch_of(const iso_kernel_call *call, scratch_function *by_library,
                         iso_cuda_convolution_kind kind, const iso_kernel *own)
{
    size_t bytes = by_library(call, kind), of_own = own->scratch ? own->scratch(call) : 0;
    return bytes > of_own ? bytes : of_own;
}

static void run(const iso_kernel_call *call, run_function *by_library, iso_cuda_convolution_kind kind,
                const iso_kernel *own)
{
    iso_cuda_conv v = iso_cuda_conv_of(call, kind);
    if (iso_cuda_conv_is_aligned(&v))
        by_library(call, kind, &no_epilogue);
    else
        own->run(call);
}

#define CONVOLUTION(OP, KIND, WAY, FITS, SCRATCH, RUN)                                                       \
    static bool OP##_fits_##WAY(const iso_kernel_call *call)                                                 \
    {                                                                                                        \
        return FITS(call, KIND);                                                                             \
    }                                                                                                        \
    static size_t OP##_scratch_##WAY(const iso_kernel_call *call)                                            \
    {                                                                                                        \
        return scratch_of(call, SCRATCH, KIND, &iso_cuda_##OP);                                              \
    }                                                                                                        \
    static void OP##_run_##WAY(const iso_kernel_call *call)                                                  \
    {                                                                                                        \
        run(call, RUN, KIND, &iso_cuda_##OP);                                                                \
    }
#define CONVOLUTIONS(WAY, FITS, SCRATCH, RUN)                                                                \
    CONVOLUTION(conv2d, ISO_CUDA_CONVOLVE, WAY, FITS, SCRATCH, RUN)                                          \
    CONVOLUTION(conv2d_grad_input, ISO_CUDA_CONVOLVE_INPUT, WAY, FITS, SCRATCH, RUN)                         \
    CONVOLUTION(conv2d_grad_kernel, ISO_CUDA_CONVOLVE_KERNEL, WAY, FITS, SCRATCH, RUN)

CONVOLUTIONS(cublaslt, iso_cuda_pointwise_fits, iso_cuda_im2col_scratch, iso_cuda_im2col_run)
CONVOLUTIONS(cudnn, cudnn_fits, cudnn_scratch, cudnn_run)
CONVOLUTIONS(im2col, iso_cuda_im2col_fits, iso_cuda_im2col_scratch, iso_cuda_im2col_run)

#define KERNEL_OF(OP, WAY)                                                                                   \
    {                                                                                                        \
        .op = #OP, .name = #WAY, .fits = OP##_fits_##WAY, .scratch = OP##_scratch_##WAY,                     \
        .run = OP##_run_##WAY                                                                                \
    }
#define KERNELS(WAY)                                                                                         \
    KERNEL_OF(conv2d, WAY), KERNEL_OF(conv2d_grad_input, WAY), KERNEL_OF(conv2d_grad_kernel, WAY)
static const iso_kernel kernels[] = {KERNELS(cublaslt), KERNELS(cudnn), KERNELS(im2col)};

const iso_kernel *iso_cuda_convolution_kernel(const char *op, const iso_kernel_call *call)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].op, op) == 0 && kernels[i].fits(call))
            return &kernels[i];
    return NULL;
}

/* ---- fused: the ways of conv2d ---- */

static const struct {
    const char *name;
    bool (*fuses)(const iso_kernel_call *call, int epilogue);
    run_function *run;
} ways[] = {{"cublaslt", iso_cuda_im2col_fuses, iso_cuda_im2col_run},
            {"cudnn", cudnn_fuses, cudnn_run},
            {"im2col", iso_cuda_im2col_fuses, iso_cuda_im2col_run}};
enum { WAYS = sizeof ways / sizeof *ways };

/* The number of the way by which the kernel convolves; -1: it is another one. */
static int way_of(const iso_kernel *kernel)
{
    int i = WAYS - 1;
    if (kernel < kernels || kernel >= kernels + sizeof kernels / sizeof *kernels ||
        strcmp(kernel->op, "conv2d") != 0)
        return -1;
    while (strcmp(ways[i].name, kernel->name) != 0)
        i--;
    return i;
}

int iso_cuda_fused_convolution_count(const iso_thunk *thunks, int count)
{
    iso_cuda_epilogue epilogue;
    int at = way_of(thunks->kernel), fused = at < 0 ? 1 : iso_cuda_find_epilogue(thunks, count, &epilogue);
    if (fused == 1)
        return 1;
    iso_cuda_conv v = iso_cuda_conv_of(thunks->call, ISO_CUDA_CONVOLVE);
    bool aligned =
        iso_cuda_conv_is_aligned(&v) && (uintptr_t)epilogue.bias % ISO_CUDA_CONVOLVED_MULTIPLE == 0;
    return aligned && ways[at].fuses(thunks->call, epilogue.kind) ? fused : 1;
}

void iso_cuda_run_fused_convolution(const iso_thunk *thunks, const iso_cuda_epilogue *epilogue)
{
    ways[way_of(thunks->kernel)].run(thunks->call, ISO_CUDA_CONVOLVE, epilogue);
}
