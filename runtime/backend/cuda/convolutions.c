#include "runtime/backend/cuda/convolutions.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "runtime/backend/cuda/convolution_call.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/gpu.h"
#include "runtime/backend/cuda/im2col.h"
#include "runtime/backend/cuda/list.h"
#include "runtime/backend/cuda/products.h"
#include "runtime/backend/cuda/rearrange.h"
#include "runtime/backend/cuda/refusals.h"
#include "runtime/base/log.h"

/* ---- by cuDNN ---- */

/* The rows that the windows of `count` positions reach, from that of the first on. */
static int64_t reach(int64_t count, int64_t stride, int64_t taps, int64_t dilation)
{
    return (count - 1) * stride + (taps - 1) * dilation + 1;
}

/* The convolution of a frame: x with just the rows and columns that windows reach. In float32 instead of bfloat16 the
 * operands are numbers of bfloat16, which TF32 multiplies exactly. */
static iso_cuda_convolution framed_convolution(const iso_cuda_conv *of, iso_cuda_convolution_kind kind)
{
    iso_cuda_convolution v = {.kind = kind, .dtype = of->to, .tf32 = of->to != of->dtype};
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

/* A float32 result of bfloat16 is computed from float32 copies of the operands, since cuDNN lacks engines for it; of
 * as many images at a time as have copies of at most these bytes, which a GPU's cache holds, and 8 at least. */
static const int64_t most_copies = 32 << 20;

/* The areas of scratch memory, in their order; the workspace follows. */
enum { KERNEL_COPY, KERNEL, X_COPY, Y_COPY, FRAME, SUMS, AREAS };

typedef struct way {
    const iso_cuda_found_convolution *found, *last; /* of a part, and of the last one; NULL: by no engine */
    iso_cuda_convolution convolution;               /* of a part */
    bool framed; /* x is copied into the rows and columns that windows reach, or is taken from them */
    bool copies; /* in float32, of bfloat16 operands */
    int64_t n, images;
    size_t bytes[AREAS];
} way;

static int64_t image_elements(const iso_array *of)
{
    return iso_array_count(of) / of->dim[0];
}

static size_t float_bytes(int64_t elements)
{
    return iso_cuda_conv_round((size_t)elements * sizeof(float));
}

static int64_t count_parts(const way *w)
{
    return (w->n + w->images - 1) / w->images;
}

/* All images, or a multiple of 8, so that parts begin at addresses that cuDNN accepts. */
static void divide(way *w, const iso_cuda_conv *of, iso_cuda_convolution_kind kind)
{
    const int64_t of_x = kind == ISO_CUDA_CONVOLVE_INPUT ? 0 : image_elements(of->x),
                  of_y = kind == ISO_CUDA_CONVOLVE ? 0 : image_elements(of->y);
    w->copies = of->to != of->dtype;
    w->n = w->images = of->x->dim[0];
    if (!w->copies)
        return;
    int64_t most = most_copies / ((of_x + of_y) * (int64_t)sizeof(float)) / 8 * 8;
    most = most > 8 ? most : 8;
    w->images = w->n <= most ? w->n : most;
    w->bytes[X_COPY] = float_bytes(of_x * w->images);
    w->bytes[Y_COPY] = float_bytes(of_y * w->images);
    if (kind != ISO_CUDA_CONVOLVE_KERNEL)
        w->bytes[KERNEL_COPY] = float_bytes(iso_array_count(of->kernel));
    else if (count_parts(w) > 1)
        w->bytes[SUMS] = float_bytes(count_parts(w) * iso_cuda_conv_stride(iso_array_count(of->kernel)));
}

/* Whether there are engines for the parts of this convolution. */
static bool find_engines(way *w, iso_cuda_convolution convolution, int gpu)
{
    convolution.n = w->images;
    w->convolution = convolution;
    w->found = w->last = iso_cuda_convolution_find(convolution, gpu);
    convolution.n = w->n - (count_parts(w) - 1) * w->images;
    if (w->found && convolution.n < w->images)
        w->last = iso_cuda_convolution_find(convolution, gpu);
    return w->found && w->last;
}

/* Finds the way to compute a convolution; false: there is none. Not all engines accept padding on one side alone, and
 * none accepts fewer rows than x has: then x is framed. */
static bool find_way(const iso_kernel_call *call, iso_cuda_convolution_kind kind, int epilogue, way *w)
{
    iso_cuda_conv of = iso_cuda_conv_of(call, kind);
    *w = (way){.found = NULL};
    if (iso_cuda_conv_is_empty(&of))
        return false;
    iso_cuda_convolution framed = framed_convolution(&of, kind), direct;
    framed.epilogue = epilogue;
    direct = framed;
    divide(w, &of, kind);
    size_t element = iso_dtype_size(of.to);
    w->bytes[KERNEL] = iso_cuda_conv_round((size_t)iso_array_count(of.kernel) * element);
    if (place_x(&direct, &of) && find_engines(w, direct, iso_cuda_gpu_of_call(call)))
        return true;
    w->framed = true;
    w->bytes[FRAME] = iso_cuda_conv_round((size_t)(w->images * framed.h * framed.w * framed.c) * element);
    return find_engines(w, framed, iso_cuda_gpu_of_call(call));
}

static bool cudnn_fits(const iso_kernel_call *call, iso_cuda_convolution_kind kind)
{
    way w;
    return find_way(call, kind, 0, &w);
}

static bool cudnn_fuses(const iso_kernel_call *call, int epilogue)
{
    way w;
    return find_way(call, ISO_CUDA_CONVOLVE, epilogue, &w);
}

static size_t scratch_of_way(const way *w)
{
    size_t most = iso_cuda_convolution_workspace(w->found), last = iso_cuda_convolution_workspace(w->last);
    most = last > most ? last : most;
    for (int i = 0; i < AREAS; i++)
        most += w->bytes[i];
    return most;
}

/* Enough for all that may be fused into it too. */
static size_t cudnn_scratch(const iso_kernel_call *call, iso_cuda_convolution_kind kind)
{
    static const int epilogues[] = {0, ISO_CUDA_ADD_BIAS, ISO_CUDA_ADD_BIAS | ISO_CUDA_RELU};
    size_t most = 0;
    way w;
    for (int i = 0; i < (kind == ISO_CUDA_CONVOLVE ? 3 : 1); i++) {
        size_t bytes = find_way(call, kind, epilogues[i], &w) ? scratch_of_way(&w) : 0;
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
    const iso_cuda_frame into = {of->x->dim[0], v->c, has[0], has[1], v->h, v->w, -before[0], -before[1]},
                         from = {of->x->dim[0], v->c, v->h, v->w, has[0], has[1], before[0], before[1]};
    if (back)
        iso_cuda_reframe(of->x->dtype, &from, framed, of->x->data, stream);
    else
        iso_cuda_reframe(of->x->dtype, &into, of->x->data, framed, stream);
}

static void *area(const way *w, const iso_kernel_call *call, int number)
{
    char *at = call->scratch;
    for (int i = 0; i < number; i++)
        at += w->bytes[i];
    return at;
}

/* The array in float32: its copy there, if it is of bfloat16. */
static iso_array widened(const iso_array *of, void *copy, const iso_stream *stream)
{
    iso_array wide = *of;
    if (of->dtype != ISO_BF16)
        return wide;
    wide.dtype = ISO_F32;
    wide.data = copy;
    iso_cuda_widen(iso_array_count(of), of->data, copy, stream);
    return wide;
}

/* The images [first, first + images) of an array. */
static iso_array images_of(const iso_array *of, int64_t first, int64_t images)
{
    iso_array part = *of;
    part.dim[0] = images;
    part.data = (char *)of->data + (size_t)(first * image_elements(of)) * iso_dtype_size(of->dtype);
    return part;
}

static void run_part(const way *w, const iso_kernel_call *call, iso_cuda_convolution_kind kind,
                     const void *bias, int64_t number)
{
    iso_cuda_conv v = iso_cuda_conv_of(call, kind);
    const int64_t first = number * w->images, left = w->n - first,
                  images = left < w->images ? left : w->images;
    iso_array x = images_of(v.x, first, images), y = images_of(v.y, first, images);
    void *kernel = area(w, call, KERNEL), *framed = area(w, call, FRAME);
    if (w->copies) {
        x = widened(&x, area(w, call, X_COPY), call->stream);
        y = widened(&y, area(w, call, Y_COPY), call->stream);
    }
    if (w->bytes[SUMS] > 0)
        kernel = (float *)area(w, call, SUMS) + number * iso_cuda_conv_stride(iso_array_count(v.kernel));
    v.x = &x;
    const iso_cuda_convolved arrays = {.x = w->framed ? framed : x.data,
                                       .kernel = kernel,
                                       .y = y.data,
                                       .bias = bias,
                                       .workspace = area(w, call, AREAS)};
    if (w->framed && kind != ISO_CUDA_CONVOLVE_INPUT)
        frame_x(&w->convolution, &v, false, framed, call->stream);
    iso_cuda_convolution_run(images == w->images ? w->found : w->last, &arrays, call->stream);
    if (w->framed && kind == ISO_CUDA_CONVOLVE_INPUT)
        frame_x(&w->convolution, &v, true, framed, call->stream);
}

static void cudnn_run(const iso_kernel_call *call, iso_cuda_convolution_kind kind,
                      const iso_cuda_epilogue *epilogue)
{
    way w;
    iso_cuda_conv v = iso_cuda_conv_of(call, kind);
    if (!find_way(call, kind, epilogue->kind, &w))
        return;
    void *transposed = area(&w, call, KERNEL);
    if (kind != ISO_CUDA_CONVOLVE_KERNEL) {
        iso_array kernel =
            w.copies ? widened(v.kernel, area(&w, call, KERNEL_COPY), call->stream) : *v.kernel;
        transpose_kernel(&kernel, false, transposed, call->stream);
    }
    for (int64_t i = 0; i < count_parts(&w); i++)
        run_part(&w, call, kind, epilogue->bias, i);
    if (w.bytes[SUMS] > 0)
        iso_cuda_add_parts(ISO_F32, count_parts(&w), iso_cuda_conv_stride(iso_array_count(v.kernel)),
                           iso_array_count(v.kernel), area(&w, call, SUMS), transposed, call->stream);
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

/* "float32 [8, 28, 28, 1]" */
static void array_text(const iso_array *of, char text[160])
{
    char shape[120];
    iso_shape as = {.rank = of->rank};
    for (int d = 0; d < of->rank; d++)
        as.dim[d] = of->dim[d];
    snprintf(text, 160, "%s %s", iso_dtype_name(of->dtype), iso_shape_text(&as, shape, sizeof shape));
}

/* The first convolution that cuDNN does not do, though it is in use. */
static void warn_once(const char *op, const iso_kernel_call *call, const iso_kernel *kernel)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    char x[160], y[160];
    bool empty = iso_array_count(&call->in[0]) == 0 || iso_array_count(&call->in[1]) == 0;
    if (empty || !call->stream || !iso_cuda_uses_cudnn() || iso_cuda_has_refusal() ||
        atomic_flag_test_and_set(&warned))
        return;
    array_text(&call->in[0], x);
    array_text(&call->in[1], y);
    iso_warn(
        "%s: cuDNN has no engine for %s of %s and %s: %s, which is slower and has other bits, computes it",
        iso_cuda_gpu_names(), op, x, y, kernel ? "im2col" : "Isogrid's own kernel");
}

const iso_kernel *iso_cuda_convolution_kernel(const char *op, const iso_kernel_call *call)
{
    const iso_kernel *found = NULL;
    bool known = false;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels && !found; i++)
        if (strcmp(kernels[i].op, op) == 0) {
            known = true;
            found = kernels[i].fits(call) ? &kernels[i] : NULL;
        }
    if (known && (!found || strcmp(found->name, "im2col") == 0))
        warn_once(op, call, found);
    return found;
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
