#include "runtime/backend/cuda/convolutions.h"

#include <string.h>

#include "runtime/backend/cuda/cudnn.h"
#include "runtime/backend/cuda/list.h"
#include "runtime/backend/cuda/rearrange.h"
#include "runtime/backend/window.h"
#include "runtime/graph/ops/network.h"

/* ---- a call ---- */

/* The arrays of a call, which one of them is the result of. */
typedef struct arrays {
    const iso_array *x, *kernel, *y;
} arrays;

static arrays arrays_of(const iso_kernel_call *call, int64_t kind)
{
    const iso_array *in = call->in, *out = call->out;
    return kind == ISO_CUDA_CONVOLVE         ? (arrays){&in[0], &in[1], &out[0]}
           : kind == ISO_CUDA_CONVOLVE_INPUT ? (arrays){&out[0], &in[0], &in[1]}
                                             : (arrays){&in[0], &out[0], &in[1]};
}

/* The rows that the windows of `count` positions reach, from that of the first on. */
static int64_t reach(int64_t count, int64_t stride, int64_t taps, int64_t dilation)
{
    return (count - 1) * stride + (taps - 1) * dilation + 1;
}

/* before: rows of zeros above this part of x; negative where it has rows that no window reaches. */
typedef struct padding {
    int64_t before[2];
} padding;

static padding padding_of(const iso_kernel_call *call, const arrays *a)
{
    const iso_conv_geometry *g = &((const iso_conv_attrs *)call->attrs)->geometry;
    padding p;
    for (int d = 0; d < 2; d++)
        p.before[d] = iso_local_padding(a->x, a->y, 1 + d, g->stride[d], g->pad_before[d]);
    return p;
}

static bool is_empty(const arrays *a)
{
    return iso_array_count(a->x) == 0 || iso_array_count(a->kernel) == 0 || iso_array_count(a->y) == 0;
}

/* All but the zeros around x, which are as if x had just the rows and columns that windows reach. */
static iso_cuda_convolution framed_convolution(const iso_kernel_call *call, const arrays *a, int64_t kind)
{
    const iso_conv_geometry *g = &((const iso_conv_attrs *)call->attrs)->geometry;
    iso_cuda_convolution v = {.kind = kind, .dtype = a->x->dtype};
    v.n = a->x->dim[0], v.c = a->x->dim[3];
    v.r = a->kernel->dim[0], v.s = a->kernel->dim[1], v.cg = a->kernel->dim[2], v.f = a->kernel->dim[3];
    v.p = a->y->dim[1], v.q = a->y->dim[2];
    for (int d = 0; d < 2; d++) {
        v.stride[d] = g->stride[d];
        v.dilation[d] = g->dilation[d];
    }
    v.h = reach(v.p, v.stride[0], v.r, v.dilation[0]);
    v.w = reach(v.q, v.stride[1], v.s, v.dilation[1]);
    return v;
}

/* With zeros before and after this part of x itself; false: it has more rows or columns than cuDNN would take for
 * so many positions. */
static bool place_x(iso_cuda_convolution *v, const arrays *a, const padding *p)
{
    const int64_t wanted[] = {v->h, v->w}, has[] = {a->x->dim[1], a->x->dim[2]};
    for (int d = 0; d < 2; d++) {
        int64_t after = wanted[d] - p->before[d] - has[d]; /* negative: rows that no window reaches */
        if (p->before[d] < 0 || after <= -v->stride[d])
            return false;
        v->before[d] = p->before[d];
        v->after[d] = after > 0 ? after : 0;
    }
    v->h = has[0];
    v->w = has[1];
    return true;
}

/* ---- how it is done ---- */

typedef struct way {
    const iso_cuda_found_convolution *found; /* NULL: by none of the library's engines */
    iso_cuda_convolution convolution;
    bool framed; /* x is copied into the rows and columns that windows reach, or is taken from them */
    int64_t down, right;
    size_t kernel_bytes, frame_bytes; /* scratch memory, in this order; then the workspace */
} way;

static size_t rounded(size_t bytes)
{
    const size_t multiple = 256;
    return (bytes + multiple - 1) / multiple * multiple;
}

/* Not all engines take zeros on one side alone, and none takes fewer rows than x has: then x is framed. */
static way find_way(const iso_kernel_call *call, int64_t kind)
{
    way w = {.found = NULL};
    arrays a = arrays_of(call, kind);
    if (is_empty(&a))
        return w;
    padding p = padding_of(call, &a);
    iso_cuda_convolution framed = framed_convolution(call, &a, kind), direct = framed;
    w.convolution = direct;
    if (place_x(&direct, &a, &p)) {
        w.convolution = direct;
        w.found = iso_cuda_convolution_find(direct, call->stream);
    }
    if (!w.found) {
        w.convolution = framed;
        w.found = iso_cuda_convolution_find(framed, call->stream);
        w.framed = true;
        w.frame_bytes =
            rounded((size_t)(framed.n * framed.h * framed.w * framed.c) * iso_dtype_size(a.x->dtype));
    }
    w.kernel_bytes = rounded(iso_array_bytes(a.kernel));
    w.down = p.before[0];
    w.right = p.before[1];
    return w;
}

static bool fits(const iso_kernel_call *call, int64_t kind)
{
    return find_way(call, kind).found != NULL;
}

/* Enough for the own kernel as well, which takes arrays whose addresses cuDNN does not take. */
static size_t scratch(const iso_kernel_call *call, int64_t kind, const iso_kernel *own)
{
    way w = find_way(call, kind);
    size_t bytes = w.found ? w.kernel_bytes + w.frame_bytes + iso_cuda_convolution_workspace(w.found) : 0;
    size_t of_own = own->scratch ? own->scratch(call) : 0;
    return bytes > of_own ? bytes : of_own;
}

/* ---- running ---- */

/* A kernel [r, s, cg, f] as cuDNN takes it: [f, r, s, cg]. */
static void transpose_kernel(const iso_array *kernel, bool back, void *transposed, const iso_stream *stream)
{
    int64_t filters = kernel->dim[3], taps = iso_array_count(kernel) / filters;
    if (back)
        iso_cuda_transpose_matrix(kernel->dtype, filters, taps, transposed, kernel->data, stream);
    else
        iso_cuda_transpose_matrix(kernel->dtype, taps, filters, kernel->data, transposed, stream);
}

static void frame_x(const way *w, const iso_array *x, bool back, void *framed, const iso_stream *stream)
{
    const iso_cuda_convolution *v = &w->convolution;
    const iso_cuda_frame into = {v->n, v->c, x->dim[1], x->dim[2], v->h, v->w, -w->down, -w->right},
                         from = {v->n, v->c, v->h, v->w, x->dim[1], x->dim[2], w->down, w->right};
    if (back)
        iso_cuda_reframe(x->dtype, &from, framed, x->data, stream);
    else
        iso_cuda_reframe(x->dtype, &into, x->data, framed, stream);
}

static void run_way(const way *w, const iso_kernel_call *call, int64_t kind)
{
    arrays a = arrays_of(call, kind);
    char *transposed = call->scratch, *framed = transposed + w->kernel_bytes;
    iso_cuda_convolved of = {.x = w->framed ? framed : a.x->data,
                             .kernel = transposed,
                             .y = a.y->data,
                             .workspace = framed + w->frame_bytes};
    if (kind != ISO_CUDA_CONVOLVE_KERNEL)
        transpose_kernel(a.kernel, false, transposed, call->stream);
    if (w->framed && kind != ISO_CUDA_CONVOLVE_INPUT)
        frame_x(w, a.x, false, framed, call->stream);
    iso_cuda_convolution_run(w->found, &of, call->stream);
    if (w->framed && kind == ISO_CUDA_CONVOLVE_INPUT)
        frame_x(w, a.x, true, framed, call->stream);
    if (kind == ISO_CUDA_CONVOLVE_KERNEL)
        transpose_kernel(a.kernel, true, transposed, call->stream);
}

static void run(const iso_kernel_call *call, int64_t kind, const iso_kernel *own)
{
    arrays a = arrays_of(call, kind);
    const uintptr_t all = (uintptr_t)a.x->data | (uintptr_t)a.kernel->data | (uintptr_t)a.y->data;
    way w = find_way(call, kind);
    if (all % ISO_CUDA_CONVOLVED_MULTIPLE == 0 && w.found)
        run_way(&w, call, kind);
    else
        own->run(call);
}

/* ---- the kernels ---- */

#define CONVOLUTION(OP, KIND)                                                                                \
    static bool OP##_fits(const iso_kernel_call *call)                                                       \
    {                                                                                                        \
        return fits(call, KIND);                                                                             \
    }                                                                                                        \
    static size_t OP##_scratch(const iso_kernel_call *call)                                                  \
    {                                                                                                        \
        return scratch(call, KIND, &iso_cuda_##OP);                                                          \
    }                                                                                                        \
    static void OP##_run(const iso_kernel_call *call)                                                        \
    {                                                                                                        \
        run(call, KIND, &iso_cuda_##OP);                                                                     \
    }
CONVOLUTION(conv2d, ISO_CUDA_CONVOLVE)
CONVOLUTION(conv2d_grad_input, ISO_CUDA_CONVOLVE_INPUT)
CONVOLUTION(conv2d_grad_kernel, ISO_CUDA_CONVOLVE_KERNEL)

#define KERNEL_OF(OP)                                                                                        \
    {                                                                                                        \
        .op = #OP, .name = "cudnn", .fits = OP##_fits, .scratch = OP##_scratch, .run = OP##_run              \
    }
static const iso_kernel kernels[] = {KERNEL_OF(conv2d), KERNEL_OF(conv2d_grad_input),
                                     KERNEL_OF(conv2d_grad_kernel)};

const iso_kernel *iso_cuda_convolution_kernel(const char *op, const iso_kernel_call *call)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].op, op) == 0 && kernels[i].fits(call))
            return &kernels[i];
    return NULL;
}
