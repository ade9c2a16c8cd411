/* Convolutions over [n, ..., h, w, c] and their gradients: images may have more dimensions before the height, along
 * which nothing is convolved. */
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/network_impl.h"

#include <string.h>

enum { KERNEL_RANK = 4, IMAGE_RANK = 4 }; /* IMAGE_RANK: at least */

/* The dimension of the height; the width and the channels follow. */
static int height_of(const iso_shape *image)
{
    return image->rank - 3;
}

static iso_tensor *convolution_create(const iso_op_type *type, iso_tensor *a, iso_tensor *b,
                                      const iso_conv_geometry *geometry, const iso_shape *shape)
{
    iso_conv_attrs attrs = {.geometry = *geometry};
    if (shape)
        attrs.shape = *shape;
    return iso_op_2(type, a, b, &attrs);
}

static bool image_fits(iso_op *op, int i)
{
    if (op->inputs[i]->shape.rank < IMAGE_RANK)
        return iso_op_refuse(op, "input %d should have at least %d dimensions", i, IMAGE_RANK);
    return iso_expect_float(op, i, -1);
}

/* kernel: the number of the input that is the kernel, or -1; the others are images. */
static bool inputs_fit(iso_op *op, int kernel)
{
    for (int i = 0; i < 2; i++)
        if (!(i == kernel ? iso_expect_float(op, i, KERNEL_RANK) : image_fits(op, i)))
            return false;
    return iso_expect_same_type(op, 0, 1);
}

/* x: [n, ..., h, w, c], kernel: [r, s, c / groups, f] */
static bool channels_fit(iso_op *op, const iso_shape *x, const iso_shape *kernel, int64_t groups)
{
    int64_t c = x->dim[x->rank - 1], f = kernel->dim[3];
    if (groups < 1 || c < 1 || f < 1 || c % groups != 0 || f % groups != 0)
        return iso_op_refuse(op, "%lld channels and %lld filters cannot be split into %lld groups",
                             (long long)c, (long long)f, (long long)groups);
    if (kernel->dim[2] != c / groups)
        return iso_op_refuse(op, "the kernel is for %lld channels per group; x has %lld in %lld groups",
                             (long long)kernel->dim[2], (long long)c, (long long)groups);
    return true;
}

/* Along height (0) or width (1). */
static iso_sliding_window window_of(const iso_conv_geometry *g, int i, const iso_shape *kernel,
                                    int64_t positions)
{
    return (iso_sliding_window){positions, kernel->dim[i], g->stride[i], g->dilation[i], g->pad_before[i]};
}

/* Sets the height and width of y to the numbers of window positions of x. */
static bool positions_fit(iso_op *op, const iso_shape *x, const iso_shape *kernel, iso_shape *y)
{
    const iso_conv_geometry *g = &((const iso_conv_attrs *)op->attrs)->geometry;
    for (int i = 0, d = height_of(x); i < 2; i++, d++) {
        iso_sliding_window window = window_of(g, i, kernel, 0);
        if (!iso_sliding_window_fit(op, i ? "width" : "height", x->dim[d], g->pad_after[i], &window))
            return false;
        y->dim[d] = window.positions;
    }
    return true;
}

static bool convolution_infer(iso_op *op)
{
    const iso_conv_geometry *g = &((const iso_conv_attrs *)op->attrs)->geometry;
    if (!inputs_fit(op, 1))
        return false;
    const iso_shape *x = &op->inputs[0]->shape, *kernel = &op->inputs[1]->shape;
    iso_shape y = *x; /* [n, ..., h', w', f] */
    y.dim[y.rank - 1] = kernel->dim[3];
    return channels_fit(op, x, kernel, g->groups) && positions_fit(op, x, kernel, &y) &&
           iso_op_set_output(op, op->inputs[0]->dtype, &y);
}

static bool infer_input_gradient(iso_op *op)
{
    const iso_conv_attrs *attrs = op->attrs;
    if (!inputs_fit(op, 0))
        return false;
    const iso_shape *kernel = &op->inputs[0]->shape, *dy = &op->inputs[1]->shape, *x = &attrs->shape;
    iso_shape y = *dy;
    if (!channels_fit(op, x, kernel, attrs->geometry.groups) || !positions_fit(op, x, kernel, &y))
        return false;
    const int h = height_of(x), w = h + 1, f = h + 2;
    if (y.dim[h] != dy->dim[h] || y.dim[w] != dy->dim[w] || dy->dim[f] != kernel->dim[3])
        return iso_op_refuse(
            op,
            "it has %lld x %lld positions of %lld filters; windows over %lld x %lld have %lld x %lld of %lld",
            (long long)dy->dim[h], (long long)dy->dim[w], (long long)dy->dim[f], (long long)x->dim[h],
            (long long)x->dim[w], (long long)y.dim[h], (long long)y.dim[w], (long long)kernel->dim[3]);
    return iso_op_set_output(op, op->inputs[0]->dtype, x);
}

static bool infer_kernel_gradient(iso_op *op)
{
    const iso_conv_attrs *attrs = op->attrs;
    return inputs_fit(op, -1) && iso_op_set_output(op, op->inputs[0]->dtype, &attrs->shape);
}

static void convolution_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)op->attrs)->geometry;
    iso_tensor *x = op->inputs[0], *kernel = op->inputs[1];
    dx[1] = convolution_create(&iso_op_conv2d_grad_kernel, x, dy[0], geometry, &kernel->shape);
    dx[0] = convolution_create(&iso_op_conv2d_grad_input, kernel, dy[0], geometry, &x->shape);
}

/* The three ops are derivatives of one trilinear form in x, kernel and dy, each by one of them. */
static void input_gradient(iso_op *op, iso_tensor *const *d, iso_tensor **dx)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)op->attrs)->geometry;
    iso_tensor *kernel = op->inputs[0], *dy = op->inputs[1];
    dx[0] = convolution_create(&iso_op_conv2d_grad_kernel, d[0], dy, geometry, &kernel->shape);
    dx[1] = convolution_create(&iso_op_conv2d, d[0], kernel, geometry, NULL);
}

static void kernel_gradient(iso_op *op, iso_tensor *const *d, iso_tensor **dx)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)op->attrs)->geometry;
    iso_tensor *x = op->inputs[0], *dy = op->inputs[1];
    dx[0] = convolution_create(&iso_op_conv2d_grad_input, d[0], dy, geometry, &x->shape);
    dx[1] = convolution_create(&iso_op_conv2d, x, d[0], geometry, NULL);
}

/* The factors of the dimensions, and which dimensions have windows: x's height and width; y's positions
 * are direct. The dimensions before these are free. Without groups, channels are contracted and filters are free.
 * With groups, these are one factor, of which channels and filters are blocks: windows side by side, if both have one
 * size or one of them is 1; otherwise they stay whole. */
typedef struct conv_dims {
    int8_t x[ISO_MAX_RANK], kernel[KERNEL_RANK], y[ISO_MAX_RANK];
    uint8_t x_windows, kernel_windows, y_windows;
} conv_dims;

static void share_groups(const iso_shape *kernel, int64_t groups, int last, conv_dims *dims, iso_rule *rule)
{
    int64_t channels = kernel->dim[2], filters = kernel->dim[3] / groups,
            block = channels > filters ? channels : filters;
    if (channels != filters && channels != 1 && filters != 1)
        return;
    int8_t group = iso_rule_factor(rule);
    dims->x[last] = dims->kernel[3] = dims->y[last] = group;
    if (block > 1)
        rule->window[group] = (iso_sliding_window){groups, block, block, 1, 0};
    if (channels > 1)
        dims->x_windows |= (uint8_t)(1u << last);
    if (filters > 1) {
        dims->kernel_windows = 1u << 3;
        dims->y_windows = (uint8_t)(1u << last);
    }
}

static conv_dims begin_rule(const iso_op *op, const iso_shape *kernel, const iso_shape *y, iso_rule *rule)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)op->attrs)->geometry;
    const int h = height_of(y), last = h + 2;
    conv_dims dims = {.kernel = {ISO_WHOLE, ISO_WHOLE, ISO_WHOLE, ISO_WHOLE}};
    *rule = (iso_rule){.n_factors = last, .linear = 3};
    iso_rule_run_over(dims.x, 0, last);
    iso_rule_run_over(dims.y, 0, last);
    dims.x[last] = dims.y[last] = ISO_WHOLE;
    for (int i = 0; i < 2; i++)
        rule->window[h + i] = window_of(geometry, i, kernel, y->dim[h + i]);
    dims.x_windows = (uint8_t)(3u << h);
    if (geometry->groups > 1) {
        share_groups(kernel, geometry->groups, last, &dims, rule);
    } else {
        dims.x[last] = dims.kernel[2] = iso_rule_factor(rule);
        dims.y[last] = dims.kernel[3] = iso_rule_factor(rule);
    }
    return dims;
}

static void convolution_rule_of(const iso_op *op, iso_rule *rule)
{
    conv_dims dims = begin_rule(op, &op->inputs[1]->shape, &op->outputs[0]->shape, rule);
    rule->input_windows[0] = dims.x_windows;
    rule->input_windows[1] = dims.kernel_windows;
    rule->output_windows[0] = dims.y_windows;
    memcpy(rule->input[0], dims.x, sizeof dims.x);
    memcpy(rule->input[1], dims.kernel, sizeof dims.kernel);
    memcpy(rule->output[0], dims.y, sizeof dims.y);
}

static void rule_of_input_gradient(const iso_op *op, iso_rule *rule)
{
    conv_dims dims = begin_rule(op, &op->inputs[0]->shape, &op->inputs[1]->shape, rule);
    rule->input_windows[0] = dims.kernel_windows;
    rule->input_windows[1] = dims.y_windows;
    rule->output_windows[0] = dims.x_windows;
    memcpy(rule->input[0], dims.kernel, sizeof dims.kernel);
    memcpy(rule->input[1], dims.y, sizeof dims.y);
    memcpy(rule->output[0], dims.x, sizeof dims.x);
}

static void rule_of_kernel_gradient(const iso_op *op, iso_rule *rule)
{
    conv_dims dims = begin_rule(op, &op->outputs[0]->shape, &op->inputs[1]->shape, rule);
    rule->input_windows[0] = dims.x_windows;
    rule->input_windows[1] = dims.y_windows;
    rule->output_windows[0] = dims.kernel_windows;
    memcpy(rule->input[0], dims.x, sizeof dims.x);
    memcpy(rule->input[1], dims.y, sizeof dims.y);
    memcpy(rule->output[0], dims.kernel, sizeof dims.kernel);
}

/* A multiplication and an addition for each kernel element and position; elements in the padding are
 * counted. */
static double operations(const iso_box *kernel, const iso_box *y)
{
    double count = 2 * iso_box_elements(kernel);
    for (int d = 0; d < y->rank - 1; d++)
        count *= (double)y->extent[d];
    return count;
}

static double convolution_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op;
    return operations(&inputs[1], &outputs[0]);
}

static double flops_of_input_gradient(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op, (void)outputs;
    return operations(&inputs[0], &inputs[1]);
}

static double flops_of_kernel_gradient(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op;
    return operations(&outputs[0], &inputs[1]);
}

static int convolution_image_height(const iso_op *op, int rank)
{
    (void)op;
    return rank - 3; /* of a kernel 1, which leaves it as it is */
}

static bool convolution_has_depth(const iso_op *op)
{
    return ((const iso_conv_attrs *)op->attrs)->depth.size > 0;
}

const iso_op_type iso_op_conv2d = {
    .name = "conv2d",
    ISO_OP_ATTRS(conv),
    .infer = convolution_infer,
    .gradient = convolution_gradient,
    .rule_of = convolution_rule_of,
    .flops = convolution_flops,
    .image_height = convolution_image_height,
    .has_depth = convolution_has_depth,
};

const iso_op_type iso_op_conv2d_grad_input = {
    .name = "conv2d_grad_input",
    ISO_OP_ATTRS(conv),
    .infer = infer_input_gradient,
    .gradient = input_gradient,
    .rule_of = rule_of_input_gradient,
    .flops = flops_of_input_gradient,
    .image_height = convolution_image_height,
    .has_depth = convolution_has_depth,
};

const iso_op_type iso_op_conv2d_grad_kernel = {
    .name = "conv2d_grad_kernel",
    ISO_OP_ATTRS(conv),
    .infer = infer_kernel_gradient,
    .gradient = kernel_gradient,
    .rule_of = rule_of_kernel_gradient,
    .flops = flops_of_kernel_gradient,
    .image_height = convolution_image_height,
    .has_depth = convolution_has_depth,
};

iso_tensor *iso_conv2d_op(iso_tensor *x, iso_tensor *kernel, const iso_conv_geometry *geometry)
{
    ISO_NEED_TENSORS(x, kernel);
    if (ISO_NULL_IN(x->graph, geometry))
        return iso_graph_bad_tensor(x->graph);
    return convolution_create(&iso_op_conv2d, x, kernel, geometry, NULL);
}

iso_tensor *iso_conv2d_transpose_op(iso_tensor *y, iso_tensor *kernel, const iso_conv_geometry *geometry,
                                    int64_t height, int64_t width)
{
    ISO_NEED_TENSORS(y, kernel);
    if (ISO_NULL_IN(y->graph, geometry))
        return iso_graph_bad_tensor(y->graph);
    iso_shape x = y->shape;
    if (x.rank >= IMAGE_RANK && kernel->shape.rank == KERNEL_RANK) { /* others are refused */
        const int h = height_of(&x);
        x.dim[h] = height;
        x.dim[h + 1] = width;
        x.dim[h + 2] = kernel->shape.dim[2] * geometry->groups;
    }
    return convolution_create(&iso_op_conv2d_grad_input, kernel, y, geometry, &x);
}
