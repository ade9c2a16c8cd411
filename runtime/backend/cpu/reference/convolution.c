/* Convolutions by their definition: every output is one sum, accumulated in double. */
#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/backend/window.h"
#include "runtime/graph/ops/network.h"

enum { BLOCK = 64 }; /* sums in progress at once */

/* Images are slices of volumes: of one slice each, if windows have no depth. */
typedef struct conv {
    const iso_array *x, *kernel, *y; /* or dx, dkernel, dy */
    const iso_conv_geometry *geometry;
    iso_unfold_geometry depth;
    int64_t volumes, slices, positions_d, pad_d;
    int64_t h, w, c, r, s, cg, fg, f, positions_h, positions_w; /* cg, fg: channels and filters of a group */
    int64_t pad[2];                                             /* before this part of x */
} conv;

static conv ref_convolution_conv_of(const iso_kernel_call *call, const iso_array *x, const iso_array *kernel,
                                    const iso_array *y)
{
    const iso_conv_attrs *attrs = call->attrs;
    const iso_conv_geometry *geometry = &attrs->geometry;
    const bool deep = attrs->depth.size > 0;
    const int h = deep ? 2 : 1; /* the height's dimension */
    conv v = {
        .x = x,
        .kernel = kernel,
        .y = y,
        .geometry = geometry,
        .depth = deep ? attrs->depth : (iso_unfold_geometry){.size = 1, .stride = 1, .dilation = 1},
        .volumes = x->dim[0],
        .slices = deep ? x->dim[1] : 1,
        .positions_d = deep ? y->dim[1] : 1,
        .h = x->dim[h],
        .w = x->dim[h + 1],
        .c = x->dim[h + 2],
        .r = kernel->dim[0],
        .s = kernel->dim[1],
        .cg = kernel->dim[2],
        .f = kernel->dim[3],
        .fg = deep ? kernel->dim[3] : kernel->dim[3] / iso_local_groups(x, kernel),
        .positions_h = y->dim[h],
        .positions_w = y->dim[h + 1],
    };
    for (int i = 0; i < 2; i++)
        v.pad[i] = iso_local_padding(x, y, h + i, geometry->stride[i], geometry->pad_before[i]);
    if (deep)
        v.pad_d = iso_local_padding(x, y, 1, v.depth.stride, v.depth.pad_before);
    return v;
}

/* The row (axis 0) or column (axis 1) of x that a tap reads for an output position; false outside x. */
static bool meets(const conv *v, int axis, int64_t position, int64_t tap, int64_t *at)
{
    const iso_conv_geometry *g = v->geometry;
    *at = position * g->stride[axis] - v->pad[axis] + tap * g->dilation[axis];
    return *at >= 0 && *at < (axis ? v->w : v->h);
}

/* The output position for which a tap reads this row or column; false if there is none. */
static bool met_from(const conv *v, int axis, int64_t at, int64_t tap, int64_t *position)
{
    const iso_conv_geometry *g = v->geometry;
    int64_t shift = at + v->pad[axis] - tap * g->dilation[axis];
    *position = shift / g->stride[axis];
    return shift >= 0 && shift % g->stride[axis] == 0 && *position < (axis ? v->positions_w : v->positions_h);
}

/* n: an image of x */
static int64_t index_x(const conv *v, int64_t n, int64_t row, int64_t column)
{
    return ((n * v->h + row) * v->w + column) * v->c;
}

/* Element k of a window of image n of y: its channels, slice after slice. */
static double read_x(const conv *v, int64_t n, int64_t row, int64_t column, int64_t k)
{
    const iso_unfold_geometry *g = &v->depth;
    int64_t slice = n % v->positions_d * g->stride - v->pad_d + k / v->c * g->dilation;
    if (slice < 0 || slice >= v->slices)
        return 0;
    return iso_get(v->x, index_x(v, n / v->positions_d * v->slices + slice, row, column) + k % v->c);
}

/* The image of y of which element `tap` along the depth is image n of x; -1: there is none. */
static int64_t image_met_from(const conv *v, int64_t n, int64_t tap)
{
    const iso_unfold_geometry *g = &v->depth;
    int64_t shift = n % v->slices + v->pad_d - tap * g->dilation, position = shift / g->stride;
    bool met = shift >= 0 && shift % g->stride == 0 && position < v->positions_d;
    return met ? n / v->slices * v->positions_d + position : -1;
}

static int64_t index_y(const conv *v, int64_t n, int64_t p, int64_t q)
{
    return ((n * v->positions_h + p) * v->positions_w + q) * v->f;
}

static int64_t index_kernel(const conv *v, int64_t i, int64_t j, int64_t channel)
{
    return ((i * v->s + j) * v->cg + channel) * v->f;
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Filters [f, f + count), all of one group, at one output position. */
static void filter_position(const conv *v, int64_t n, int64_t p, int64_t q, int64_t f, int64_t count)
{
    double sum[BLOCK] = {0};
    int64_t row, column, first = f / v->fg * v->cg; /* the group's first channel */
    for (int64_t i = 0; i < v->r; i++)
        for (int64_t j = 0; j < v->s; j++) {
            if (!meets(v, 0, p, i, &row) || !meets(v, 1, q, j, &column))
                continue;
            for (int64_t k = 0; k < v->cg; k++) {
                double x = read_x(v, n, row, column, first + k);
                int64_t tap = index_kernel(v, i, j, k) + f;
                for (int64_t t = 0; t < count; t++)
                    sum[t] += x * iso_get(v->kernel, tap + t);
            }
        }
    for (int64_t t = 0; t < count; t++)
        iso_put(v->y, index_y(v, n, p, q) + f + t, sum[t]);
}

static void ref_convolution_run(const iso_kernel_call *call)
{
    conv v = ref_convolution_conv_of(call, &call->in[0], &call->in[1], &call->out[0]);
    for (int64_t n = 0; n < v.volumes * v.positions_d; n++)
        for (int64_t p = 0; p < v.positions_h; p++)
            for (int64_t q = 0; q < v.positions_w; q++)
                for (int64_t f = 0, count; f < v.f; f += count) {
                    count = lesser(BLOCK, v.fg - f % v.fg);
                    filter_position(&v, n, p, q, f, count);
                }
}

/* Adds to channels [c, c + count) of dx, all of one group, at one element, what comes from image n of dy by elements
 * of windows from `channel` on. */
static void gather_from(const conv *v, int64_t n, int64_t row, int64_t column, int64_t channel, int64_t first,
                        int64_t count, double *sum)
{
    int64_t p, q;
    for (int64_t i = 0; i < v->r; i++)
        for (int64_t j = 0; j < v->s; j++) {
            if (!met_from(v, 0, row, i, &p) || !met_from(v, 1, column, j, &q))
                continue;
            for (int64_t k = 0; k < v->fg; k++) {
                double dy = iso_get(v->y, index_y(v, n, p, q) + first + k);
                int64_t tap = index_kernel(v, i, j, channel) + first + k;
                for (int64_t t = 0; t < count; t++)
                    sum[t] += dy * iso_get(v->kernel, tap + t * v->f);
            }
        }
}

static void gather_element(const conv *v, int64_t n, int64_t row, int64_t column, int64_t c, int64_t count)
{
    double sum[BLOCK] = {0};
    int64_t first = c / v->cg * v->fg; /* the group's first filter */
    for (int64_t tap = 0; tap < v->depth.size; tap++) {
        const int64_t image = image_met_from(v, n, tap);
        if (image >= 0)
            gather_from(v, image, row, column, tap * v->c + c % v->cg, first, count, sum);
    }
    for (int64_t t = 0; t < count; t++)
        iso_put(v->x, index_x(v, n, row, column) + c + t, sum[t]);
}

static void run_input_gradient(const iso_kernel_call *call)
{
    conv v = ref_convolution_conv_of(call, &call->out[0], &call->in[0], &call->in[1]);
    for (int64_t n = 0; n < v.volumes * v.slices; n++)
        for (int64_t row = 0; row < v.h; row++)
            for (int64_t column = 0; column < v.w; column++)
                for (int64_t c = 0, count; c < v.c; c += count) {
                    count = lesser(BLOCK, lesser(v.c, v.cg) - c % lesser(v.c, v.cg));
                    gather_element(&v, n, row, column, c, count);
                }
}

/* One tap's weights from channel k of their group to filters [f, f + count), summed over all samples and
 * output positions. */
static void correlate_tap(const conv *v, int64_t i, int64_t j, int64_t k, int64_t f, int64_t count)
{
    double sum[BLOCK] = {0};
    int64_t row, column, channel = f / v->fg * v->cg + k;
    for (int64_t n = 0; n < v->volumes * v->positions_d; n++)
        for (int64_t p = 0; p < v->positions_h; p++)
            for (int64_t q = 0; q < v->positions_w; q++) {
                if (!meets(v, 0, p, i, &row) || !meets(v, 1, q, j, &column))
                    continue;
                double x = read_x(v, n, row, column, channel);
                int64_t dy = index_y(v, n, p, q) + f;
                for (int64_t t = 0; t < count; t++)
                    sum[t] += x * iso_get(v->y, dy + t);
            }
    for (int64_t t = 0; t < count; t++)
        iso_put(v->kernel, index_kernel(v, i, j, k) + f + t, sum[t]);
}

static void run_kernel_gradient(const iso_kernel_call *call)
{
    conv v = ref_convolution_conv_of(call, &call->in[0], &call->out[0], &call->in[1]);
    for (int64_t i = 0; i < v.r; i++)
        for (int64_t j = 0; j < v.s; j++)
            for (int64_t k = 0; k < v.cg; k++)
                for (int64_t f = 0, count; f < v.f; f += count) {
                    count = lesser(BLOCK, v.fg - f % v.fg);
                    correlate_tap(&v, i, j, k, f, count);
                }
}

const iso_kernel iso_reference_conv2d = {.op = "conv2d", .name = "reference", .run = ref_convolution_run};
const iso_kernel iso_reference_conv2d_grad_input = {
    .op = "conv2d_grad_input", .name = "reference", .run = run_input_gradient};
const iso_kernel iso_reference_conv2d_grad_kernel = {
    .op = "conv2d_grad_kernel", .name = "reference", .run = run_kernel_gradient};
