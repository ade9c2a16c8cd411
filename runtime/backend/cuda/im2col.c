#include "runtime/backend/cuda/im2col.h"

#include "runtime/backend/cuda/convolution_call.h"
#include "runtime/backend/cuda/cublaslt.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/rearrange.h"

/* Bytes of columns at a time, which a GPU's cache holds from the copy to the product; taps and filters of a product
 * that pays for the copies of its windows. */
static const int64_t most_columns = 32 << 20, least_taps = 64, least_filters = 16;

/* Images [0, n) in parts of `images`, the last of which may be smaller. */
typedef struct parts {
    iso_cuda_conv v;
    int gpu;
    bool pointwise;
    iso_dtype sums; /* of columns of gradients, and of parts of a sum: of bfloat16 they are float32 */
    int64_t n, images, positions /* of an image */, taps, filters;
    const iso_cuda_found_product *product, *last; /* of a whole part, and of the last one */
    size_t columns_bytes, sums_bytes;             /* scratch memory, in this order; then the workspace */
    int64_t sums_stride;                          /* elements from one part of a sum to the next */
} parts;

static bool is_pointwise(const iso_cuda_conv *v)
{
    bool one = v->kernel->dim[0] == 1 && v->kernel->dim[1] == 1;
    for (int d = 0; d < 2; d++)
        one = one && v->geometry->stride[d] == 1 && v->before[d] == 0 && v->x->dim[1 + d] == v->y->dim[1 + d];
    return one;
}

static const iso_cuda_found_product *find_product(const parts *p, iso_cuda_convolution_kind kind,
                                                  int epilogue, int64_t images)
{
    iso_cuda_product product = {.batch = 1, .dtype = p->v.dtype, .out_dtype = p->v.to, .epilogue = epilogue};
    int64_t rows = images * p->positions;
    product.m = kind == ISO_CUDA_CONVOLVE_KERNEL ? p->taps : rows;
    product.n = kind == ISO_CUDA_CONVOLVE_INPUT ? p->taps : p->filters;
    product.k = kind == ISO_CUDA_CONVOLVE ? p->taps : kind == ISO_CUDA_CONVOLVE_INPUT ? p->filters : rows;
    product.transpose_a = kind == ISO_CUDA_CONVOLVE_KERNEL;
    product.transpose_b = kind == ISO_CUDA_CONVOLVE_INPUT;
    if ((kind == ISO_CUDA_CONVOLVE_INPUT && !p->pointwise) ||
        (kind == ISO_CUDA_CONVOLVE_KERNEL && p->images < p->n))
        product.out_dtype = p->sums;
    return iso_cuda_product_find(product, p->gpu);
}

/* The number of images at a time: all, or a multiple of 8, so that parts begin at addresses that cuBLASLt accepts. */
static int64_t images_of(int64_t n, int64_t bytes_of_image)
{
    int64_t most = most_columns / bytes_of_image / 8 * 8;
    return n <= most ? n : most > 8 ? most : 8 < n ? 8 : n;
}

static int64_t count_parts(const parts *p)
{
    return (p->n + p->images - 1) / p->images;
}

static parts parts_of(const iso_kernel_call *call, iso_cuda_convolution_kind kind)
{
    parts p = {.v = iso_cuda_conv_of(call, kind), .gpu = iso_cuda_gpu_of_call(call)};
    if (iso_cuda_conv_is_empty(&p.v))
        return p;
    p.pointwise = is_pointwise(&p.v);
    p.sums = p.v.dtype == ISO_BF16 ? ISO_F32 : p.v.dtype;
    p.n = p.v.x->dim[0];
    p.positions = p.v.y->dim[1] * p.v.y->dim[2];
    p.filters = p.v.kernel->dim[3];
    p.taps = iso_array_count(p.v.kernel) / p.filters;
    int64_t element = (int64_t)iso_dtype_size(kind == ISO_CUDA_CONVOLVE_INPUT ? p.sums : p.v.dtype);
    p.images = p.pointwise ? p.n : images_of(p.n, p.positions * p.taps * element);
    p.columns_bytes =
        p.pointwise ? 0 : iso_cuda_conv_round((size_t)(p.images * p.positions * p.taps * element));
    if (kind == ISO_CUDA_CONVOLVE_KERNEL && p.images < p.n) {
        p.sums_stride = iso_cuda_conv_stride(p.taps * p.filters);
        p.sums_bytes =
            iso_cuda_conv_round((size_t)(count_parts(&p) * p.sums_stride) * iso_dtype_size(p.sums));
    }
    return p;
}

/* The products; false: cuBLASLt does not do them. */
static bool find_products(parts *p, iso_cuda_convolution_kind kind, int epilogue)
{
    p->product = find_product(p, kind, epilogue, p->images);
    p->last = find_product(p, kind, epilogue, p->n - (count_parts(p) - 1) * p->images);
    return p->product && p->last;
}

static bool has_one_group(const iso_cuda_conv *v)
{
    return v->kernel->dim[2] == v->x->dim[3];
}

bool iso_cuda_im2col_fits(const iso_kernel_call *call, iso_cuda_convolution_kind kind)
{
    parts p = parts_of(call, kind);
    return p.n > 0 && has_one_group(&p.v) && p.taps >= least_taps && p.filters >= least_filters &&
           find_products(&p, kind, 0);
}

bool iso_cuda_pointwise_fits(const iso_kernel_call *call, iso_cuda_convolution_kind kind)
{
    parts p = parts_of(call, kind);
    return p.n > 0 && p.pointwise && has_one_group(&p.v) && find_products(&p, kind, 0);
}

bool iso_cuda_im2col_fuses(const iso_kernel_call *call, int epilogue)
{
    parts p = parts_of(call, ISO_CUDA_CONVOLVE);
    return p.n > 0 && find_products(&p, ISO_CUDA_CONVOLVE, epilogue);
}

size_t iso_cuda_im2col_scratch(const iso_kernel_call *call, iso_cuda_convolution_kind kind)
{
    static const int epilogues[] = {0, ISO_CUDA_ADD_BIAS, ISO_CUDA_ADD_BIAS | ISO_CUDA_RELU};
    parts p = parts_of(call, kind);
    size_t most = 0, bytes[2];
    for (int i = 0; p.n > 0 && i < (kind == ISO_CUDA_CONVOLVE ? 3 : 1); i++) {
        bool found = find_products(&p, kind, epilogues[i]);
        bytes[0] = found ? iso_cuda_product_workspace(p.product) : 0;
        bytes[1] = found ? iso_cuda_product_workspace(p.last) : 0;
        for (int k = 0; k < 2; k++)
            most = bytes[k] > most ? bytes[k] : most;
    }
    return p.columns_bytes + p.sums_bytes + most;
}

/* ---- running ---- */

static iso_cuda_windows windows_of(const parts *p, int64_t images)
{
    const int64_t *x = p->v.x->dim, *kernel = p->v.kernel->dim, *y = p->v.y->dim;
    iso_cuda_windows w = {images, x[1], x[2], x[3], kernel[0], kernel[1], y[1], y[2], {0}, {0}, {0}};
    for (int d = 0; d < 2; d++) {
        w.stride[d] = p->v.geometry->stride[d];
        w.dilation[d] = p->v.geometry->dilation[d];
        w.before[d] = p->v.before[d];
    }
    return w;
}

/* Element 0 of image `first`. */
static void *image(const iso_array *of, int64_t first)
{
    size_t bytes = iso_array_bytes(of) / (size_t)of->dim[0];
    return (char *)of->data + (size_t)first * bytes;
}

/* `number` counts the parts. */
static void run_part(const parts *p, const iso_kernel_call *call, iso_cuda_convolution_kind kind,
                     const void *bias, int64_t number)
{
    int64_t first = number * p->images, images = p->n - first < p->images ? p->n - first : p->images;
    iso_cuda_windows w = windows_of(p, images);
    char *scratch = call->scratch, *sums = scratch + p->columns_bytes;
    void *x = image(p->v.x, first), *y = image(p->v.y, first), *columns = p->pointwise ? x : scratch;
    size_t of_sum = (size_t)p->sums_stride * iso_dtype_size(p->sums);
    iso_cuda_operands o = {
        .a = columns, .b = p->v.kernel->data, .bias = bias, .c = y, .workspace = sums + p->sums_bytes};
    if (kind == ISO_CUDA_CONVOLVE_INPUT) {
        o.a = y;
        o.c = columns;
    } else if (kind == ISO_CUDA_CONVOLVE_KERNEL) {
        o.b = y;
        o.c = p->sums_bytes > 0 ? sums + (size_t)number * of_sum : p->v.kernel->data;
    }
    if (kind != ISO_CUDA_CONVOLVE_INPUT && !p->pointwise)
        iso_cuda_copy_windows(p->v.x->dtype, &w, x, columns, call->stream);
    iso_cuda_product_run(images == p->images ? p->product : p->last, &o, call->stream);
    if (kind == ISO_CUDA_CONVOLVE_INPUT && !p->pointwise)
        iso_cuda_add_windows(p->v.x->dtype, &w, columns, x, call->stream);
}

void iso_cuda_im2col_run(const iso_kernel_call *call, iso_cuda_convolution_kind kind,
                         const iso_cuda_epilogue *epilogue)
{
    parts p = parts_of(call, kind);
    if (p.n == 0 || !find_products(&p, kind, epilogue->kind))
        return;
    for (int64_t i = 0; i < count_parts(&p); i++)
        run_part(&p, call, kind, epilogue->bias, i);
    if (p.sums_bytes > 0)
        iso_cuda_add_parts(p.v.kernel->dtype, count_parts(&p), p.sums_stride, p.taps * p.filters,
                           (char *)call->scratch + p.columns_bytes, p.v.kernel->data, call->stream);
}
