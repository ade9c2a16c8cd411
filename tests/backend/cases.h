/* Cases of the ops that have fast kernels: shapes, attributes, ranges of values. */
#ifndef ISO_TESTS_BACKEND_CASES_H
#define ISO_TESTS_BACKEND_CASES_H

#include "tests/backend/cases_rows.h"
#include "tests/backend/harness.h"

/* Makes case `index` of an op; false behind the last. */
typedef bool maker(trial *t, int index);

/* ---- element by element ---- */
static const int64_t lengths[] = {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 100, 1000, 4099};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static const struct {
    const char *name;
    iso_unary_kind kind;
    double low, high, alpha;
} unaries[] = {
    {"negate", ISO_UNARY_NEGATE, -3, 3, 0},
    {"abs", ISO_UNARY_ABS, -3, 3, 0},
    {"sign", ISO_UNARY_SIGN, -3, 3, 0},
    {"exp", ISO_UNARY_EXP, -100, 88, 0},
    {"log", ISO_UNARY_LOG, 1e-30, 5, 0},
    {"sqrt", ISO_UNARY_SQRT, 0, 9, 0},
    {"rsqrt", ISO_UNARY_RSQRT, 1e-3, 9, 0},
    {"square", ISO_UNARY_SQUARE, -3, 3, 0},
    {"relu", ISO_UNARY_RELU, -3, 3, 0},
    {"leaky_relu", ISO_UNARY_LEAKY_RELU, -3, 3, 0.2},
    {"elu", ISO_UNARY_ELU, -6, 3, 0.9},
    {"sigmoid", ISO_UNARY_SIGMOID, -30, 30, 0},
    {"tanh", ISO_UNARY_TANH, -9, 9, 0},
    {"gelu", ISO_UNARY_GELU_APPROXIMATE, -6, 6, 0},
    {"gelu", ISO_UNARY_GELU, -13, 6, 0},
    {"gelu", ISO_UNARY_GELU_APPROXIMATE, -2, 6, 0},
    {"clipped_relu", ISO_UNARY_CLIPPED_RELU, -9, 9, 6},
    {"silu", ISO_UNARY_SILU, -20, 20, 0},
    {"softplus", ISO_UNARY_SOFTPLUS, -30, 30, 0},
};
enum { UNARIES = sizeof unaries / sizeof *unaries };

static bool unary(trial *t, int index)
{
    iso_dtype dtype = index % 2 ? ISO_BF16 : ISO_F32;
    index /= 2;
    int kind = 0, form = index / LENGTHS; /* gelu has three */
    while (kind < UNARIES && (strcmp(unaries[kind].name, t->op) != 0 || form-- > 0))
        kind++;
    if (kind == UNARIES)
        return false;
    index %= LENGTHS;
    t->attrs.unary = (iso_unary_attrs){unaries[kind].kind, unaries[kind].alpha};
    /* Below -2 the reference's 1 + tanh cancels, in float64 by more than kernels may differ. */
    t->fixed_types = unaries[kind].kind == ISO_UNARY_GELU_APPROXIMATE && unaries[kind].low < -2;
    input(t, dtype, unaries[kind].low, unaries[kind].high, DIMS(lengths[index]));
    output(t, dtype, DIMS(lengths[index]));
    return true;
}

/* The plain kernel has these conversions itself. */
static bool narrow_cast(trial *t, int index)
{
    static const double ranges[] = {3, 1e-39, 3.4e38};
    if (index == LENGTHS * 6)
        return false;
    iso_dtype from = index % 2 ? ISO_F32 : ISO_BF16, to = index % 2 ? ISO_BF16 : ISO_F32;
    double range = ranges[index / 2 % 3];
    t->attrs.cast.dtype = to;
    input(t, from, -range, range, DIMS(lengths[index / 6]));
    output(t, to, DIMS(lengths[index / 6]));
    t->fixed_types = true;
    return true;
}

static bool unary_gradient(trial *t, int index)
{
    if (index == UNARIES * 2)
        return false;
    int kind = index / 2;
    int64_t n = index % 2 ? 37 : 1000;
    t->attrs.unary = (iso_unary_attrs){unaries[kind].kind, unaries[kind].alpha};
    bool of_root = unaries[kind].kind == ISO_UNARY_SQRT; /* of y: a positive one */
    input(t, ISO_F32, of_root ? 0.5 : unaries[kind].low,
          unaries[kind].kind == ISO_UNARY_ELU ? 2 : unaries[kind].high, DIMS(n));
    input(t, ISO_F32, -1, 1, DIMS(n));
    output(t, ISO_F32, DIMS(n));
    return true;
}

static bool affine(trial *t, int index)
{
    if (index == LENGTHS)
        return false;
    t->attrs.affine = (iso_affine_attrs){0.3, -0.7};
    input(t, ISO_F32, -1, 1, DIMS(lengths[index]));
    output(t, ISO_F32, DIMS(lengths[index]));
    return true;
}

static bool scale_by_count(trial *t, int index)
{
    if (index == LENGTHS)
        return false;
    t->attrs.count = (iso_count_attrs){7, index % 2 == 0};
    input(t, ISO_F32, -1, 1, DIMS(lengths[index]));
    output(t, ISO_F32, DIMS(lengths[index]));
    return true;
}

/* Pairs of shapes with what they broadcast to. */
static const struct {
    int rank_a, rank_b, rank;
    int64_t a[4], b[4], out[4];
} broadcasts[] = {
    {1, 1, 1, {0}, {0}, {0}},
    {0, 0, 0, {0}, {0}, {0}},
    {1, 1, 1, {1003}, {1003}, {1003}},
    {2, 1, 2, {33, 256}, {256}, {33, 256}},
    {2, 1, 2, {5, 300}, {300}, {5, 300}},
    {1, 2, 2, {10}, {17, 10}, {17, 10}},
    {4, 1, 4, {3, 5, 7, 12}, {12}, {3, 5, 7, 12}},
    {2, 2, 2, {9, 40}, {9, 1}, {9, 40}},
    {2, 0, 2, {9, 40}, {0}, {9, 40}},
    {0, 1, 1, {0}, {77}, {77}},
    {3, 3, 3, {4, 1, 6}, {1, 5, 6}, {4, 5, 6}},
    {3, 2, 3, {2, 3, 1}, {1, 19}, {2, 3, 19}},
    {2, 1, 2, {7, 2100}, {2100}, {7, 2100}},
    {3, 2, 3, {5, 40, 33}, {40, 33}, {5, 40, 33}},
};

static bool binary(trial *t, int index)
{
    int which = index / 2;
    iso_dtype dtype = index % 2 ? ISO_BF16 : ISO_F32;
    if (which == sizeof broadcasts / sizeof *broadcasts)
        return false;
    bool divides = strcmp(t->op, "divide") == 0;
    input(t, dtype, -1, 1, broadcasts[which].rank_a, broadcasts[which].a);
    input(t, dtype, divides ? 0.5 : -1, 1.5, broadcasts[which].rank_b, broadcasts[which].b);
    output(t, dtype, broadcasts[which].rank, broadcasts[which].out);
    return true;
}

/* ---- reductions ---- */
static const struct {
    int rank;
    int64_t dim[4];
    uint32_t axes;
} reductions[] = {
    {1, {0}, 1},          {1, {1000}, 1},        {2, {16, 256}, 1},       {2, {33, 10}, 1},
    {2, {7, 129}, 1},     {2, {16, 10}, 2},      {2, {5, 1000}, 2},       {4, {3, 6, 6, 32}, 6},
    {4, {2, 9, 9, 7}, 6}, {4, {2, 3, 4, 5}, 15}, {4, {4, 28, 28, 12}, 7}, {3, {3, 0, 5}, 2},
    {3, {3, 4, 5}, 5},    {2, {5000, 3}, 1},     {2, {70, 3000}, 1},      {2, {1, 300}, 1},
    {3, {7, 1, 9}, 2},    {3, {10, 3, 40}, 5},   {3, {2, 70, 40}, 2},     {2, {700, 300}, 1},
};

static bool reduce_sum(trial *t, int index)
{
    int which = index / 4;
    if (which == sizeof reductions / sizeof *reductions)
        return false;
    int64_t kept[4];
    int rank = 0;
    for (int i = 0; i < reductions[which].rank; i++)
        if (!(reductions[which].axes >> i & 1))
            kept[rank++] = reductions[which].dim[i];
    iso_dtype to = index % 2 ? ISO_F64 : ISO_F32;
    t->attrs.reduce = (iso_reduce_attrs){reductions[which].axes, false, index / 2 % 2, 0.25, to};
    input(t, ISO_F32, -1, 2, reductions[which].rank, reductions[which].dim);
    output(t, to, rank, kept);
    return true;
}

/* ---- products ---- */
static const int64_t product_sizes[][3] = {/* m, n, k */
                                           {16, 256, 784},  {16, 10, 256}, {256, 10, 16},  {16, 256, 10},
                                           {784, 256, 16},  {1, 1, 1},     {1, 300, 70},   {300, 1, 70},
                                           {5, 7, 3},       {33, 65, 129}, {0, 5, 3},      {4, 0, 3},
                                           {4, 5, 0},       {64, 64, 64},  {17, 40, 1000}, {170, 700, 40},
                                           {60, 1029, 9},   {1, 200, 600}, {9, 200, 300},  {130, 80, 270},
                                           {200, 130, 100}, {2, 512, 130}, {100, 512, 40}, {40, 520, 210},
                                           {64, 16, 4200}};
enum { PRODUCTS = sizeof product_sizes / sizeof *product_sizes };

static bool matmul(trial *t, int index)
{
    int which = index / 20, form = index % 5;
    if (which == PRODUCTS)
        return false;
    static const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_BF16, ISO_BF16};
    iso_dtype dtype = types[index / 5 % 4], to = index % 20 < 15 && dtype == ISO_BF16 ? ISO_F32 : dtype;
    t->fixed_types = to != dtype;
    int64_t m = product_sizes[which][0], n = product_sizes[which][1], k = product_sizes[which][2];
    bool ta = form == 1 || form == 3, tb = form == 2 || form == 3, contract = form == 4;
    t->attrs.matmul = (iso_matmul_attrs){ta, tb, contract};
    if (contract) {
        input(t, dtype, -1, 1, DIMS(k, m));
        input(t, dtype, -1, 1, DIMS(k, n));
    } else {
        input(t, dtype, -1, 1, 2, ta ? (int64_t[]){k, m} : (int64_t[]){m, k});
        input(t, dtype, -1, 1, 2, tb ? (int64_t[]){n, k} : (int64_t[]){k, n});
    }
    output(t, to, DIMS(m, n));
    if (index % 20 == 5 || index % 20 == 10) { /* batches of products */
        t->inputs = t->outputs = 0;
        dtype = dtype == ISO_F64 && which % 2 == 0 ? ISO_F32 : dtype;
        input(t, dtype, -1, 1, DIMS(3, m, k));
        input(t, dtype, -1, 1, DIMS(3, k, n));
        output(t, dtype == ISO_F64 ? ISO_F64 : ISO_F32, DIMS(3, m, n));
    }
    return true;
}

/* ---- convolutions ---- */
static const struct {
    int64_t n, h, w, c, f, r, s, stride[2], pad[2], after[2];
} convolutions[] = {
    {2, 28, 28, 1, 12, 3, 3, {1, 1}, {1, 1}, {1, 1}},
    {3, 28, 28, 12, 24, 6, 6, {2, 2}, {0, 0}, {0, 0}},
    {5, 12, 12, 24, 32, 6, 6, {2, 2}, {2, 2}, {2, 2}},
    {1, 9, 11, 3, 7, 3, 3, {2, 2}, {1, 1}, {1, 1}},
    {2, 7, 7, 5, 40, 5, 5, {1, 1}, {2, 2}, {2, 2}},
    {2, 8, 8, 16, 16, 1, 1, {1, 1}, {0, 0}, {0, 0}},
    {2, 10, 9, 3, 4, 2, 3, {3, 4}, {1, 0}, {0, 1}},
    {0, 6, 6, 4, 8, 3, 3, {1, 1}, {1, 1}, {1, 1}},
    {1, 5, 5, 2, 3, 5, 5, {1, 1}, {4, 4}, {4, 4}},
    {2, 6, 6, 1, 1, 3, 3, {3, 3}, {0, 0}, {0, 0}},
    {1, 3, 3, 33, 70, 3, 3, {1, 1}, {1, 1}, {1, 1}},
    {2, 8, 8, 4, 6, 1, 1, {2, 2}, {0, 0}, {0, 0}},
    {2, 9, 9, 8, 0, 3, 3, {1, 1}, {1, 1}, {1, 1}},
    {300, 2, 2, 3, 5, 2, 2, {1, 1}, {0, 0}, {1, 1}},
    {2, 8, 8, 4, 6, 2, 2, {3, 3}, {1, 1}, {0, 0}}, /* as long with zeros in front as what the windows reach */
    {1, 3, 3, 5, 3, 1, 2, {1, 3}, {0, 4}, {0, 5}}, /* places on zeros alone */
    {2, 1, 1, 3, 4, 1, 1, {2, 4}, {3, 1}, {2, 4}},
    {3, 8, 6, 1, 12, 3, 3, {2, 2}, {0, 0}, {1, 1}},    /* few taps, with zeros below and none above */
    {3, 3, 5, 150, 201, 3, 3, {1, 1}, {1, 1}, {1, 1}}, /* many channels */
    {2, 7, 5, 49, 50, 3, 3, {2, 3}, {1, 2}, {1, 1}},
    {2, 4, 4, 520, 530, 1, 1, {2, 2}, {0, 0}, {0, 0}},  /* elements of x that no window has */
    {40, 4, 4, 1100, 48, 1, 1, {2, 2}, {0, 0}, {0, 0}}, /* several blocks of sums in the gradient of x */
    {5, 7, 6, 33, 48, 3, 3, {1, 1}, {1, 1}, {1, 1}},    /* Winograd's */
    /* What threads divide in bands of rows, or in rows and channels of the kernel: few taps, many channels, strides,
     * filters in the rows of products, Winograd's. */
    {1, 56, 60, 1, 40, 3, 3, {1, 1}, {1, 1}, {1, 1}},
    {1, 17, 5, 170, 180, 3, 3, {2, 1}, {1, 1}, {1, 1}},
    {1, 30, 31, 20, 24, 4, 3, {3, 2}, {3, 0}, {3, 1}},
    {4, 10, 14, 49, 21, 3, 2, {1, 1}, {1, 0}, {1, 1}},
    {3, 9, 9, 50, 70, 3, 3, {1, 1}, {1, 1}, {1, 1}},
    {1, 19, 18, 32, 48, 3, 3, {1, 1}, {0, 1}, {1, 1}},
    {5, 9, 9, 70, 40, 1, 1, {1, 1}, {0, 0}, {0, 0}},
};

/* Each of them in float32, in float64 where that is small, with groups and dilation where these fit, and with
 * one, two or three filters for each channel. */
enum { PLAIN, DOUBLE, GROUPS, DILATION, CHANNELWISE, CHANNELWISE_DILATION, FORMS };

static bool convolution(trial *t, int index)
{
    int which = index / FORMS, form = index % FORMS;
    if (which == sizeof convolutions / sizeof *convolutions)
        return false;
    const int64_t *stride = convolutions[which].stride, *pad = convolutions[which].pad;
    const int64_t *after = convolutions[which].after;
    int64_t n = convolutions[which].n, h = convolutions[which].h, w = convolutions[which].w;
    int64_t c = convolutions[which].c, f = convolutions[which].f;
    int64_t r = convolutions[which].r, s = convolutions[which].s;
    int64_t groups = form == GROUPS && c % 4 == 0 && f % 4 == 0 ? 4 : 1;
    int64_t dilation = form == DILATION || form == CHANNELWISE_DILATION ? 2 : 1;
    if (form >= CHANNELWISE) {
        groups = c;
        f = c * (1 + which % 3);
    }
    h += (r - 1) * (dilation - 1);
    w += (s - 1) * (dilation - 1);
    iso_conv_geometry *geometry = &t->attrs.conv.geometry;
    *geometry = (iso_conv_geometry){.dilation = {dilation, dilation}, .groups = groups};
    memcpy(geometry->stride, stride, sizeof geometry->stride);
    memcpy(geometry->pad_before, pad, sizeof geometry->pad_before);
    memcpy(geometry->pad_after, after, sizeof geometry->pad_after);
    const int64_t x[] = {n, h, w, c}, kernel[] = {r, s, c / groups, f};
    const int64_t y[] = {n, (h + pad[0] + after[0] - (r - 1) * dilation - 1) / stride[0] + 1,
                         (w + pad[1] + after[1] - (s - 1) * dilation - 1) / stride[1] + 1, f};
    bool of_input = strcmp(t->op, "conv2d_grad_input") == 0,
         of_kernel = strcmp(t->op, "conv2d_grad_kernel") == 0;
    iso_dtype dtype = form == DOUBLE ? ISO_F64 : ISO_F32;
    input(t, dtype, -1, 1, 4, of_input ? kernel : x);
    input(t, dtype, -1, 1, 4, of_input || of_kernel ? y : kernel);
    output(t, dtype, 4, of_input ? x : of_kernel ? kernel : y);
    t->attrs.conv.shape = (iso_shape){4, {0}};
    memcpy(t->attrs.conv.shape.dim, of_input ? x : kernel, sizeof x);
    t->by_rows = of_input ? 2 : of_kernel ? 0 : 1;
    return true;
}

/* ---- normalisation ---- */
static bool batch_moments(trial *t, int index)
{
    if (index == CHANNELS)
        return false;
    int64_t rows = channel_shapes[index][0], c = channel_shapes[index][1];
    input(t, ISO_F32, -1, 2, DIMS(rows, c));
    output(t, ISO_F64, DIMS(c));
    output(t, ISO_F64, DIMS(c));
    return true;
}

static bool batch_norm(trial *t, int index)
{
    if (index == 4 * CHANNELS + 1)
        return false;
    const int64_t *shape = index < 4 * CHANNELS ? channel_shapes[index / 4] : many_rows;
    int64_t rows = shape[0], c = shape[1];
    bool gamma = index & 1, beta = index & 2;
    t->attrs.batch_norm =
        (iso_batch_norm_attrs){.epsilon = 1e-3,
                               .has_gamma = gamma,
                               .has_beta = beta,
                               .activation = index % 3 == 0 ? ISO_FUSED_RELU : ISO_FUSED_NONE,
                               .largest = index % 2 ? 1.5 : INFINITY};
    iso_dtype dtype = index % 3 == 1 ? ISO_F32 : ISO_F64;
    input(t, ISO_F32, 4, 6, DIMS(rows, c));
    input(t, dtype, 4.5, 5.5, DIMS(c));
    input(t, dtype, 0.1, 0.3, DIMS(c));
    if (gamma)
        input(t, ISO_F32, 0.5, 2, DIMS(c));
    if (beta)
        input(t, ISO_F32, -1, 1, DIMS(c));
    output(t, ISO_F32, DIMS(rows, c));
    return true;
}

/* The inputs that the gradients have in common; bit 0 of `form`: gamma, bit 1: beta, bit 2: an activation. */
static void gradient_inputs(trial *t, int form, int64_t rows, int64_t c)
{
    t->attrs.batch_norm = (iso_batch_norm_attrs){.epsilon = 1e-3,
                                                 .has_gamma = form & 1,
                                                 .has_beta = form & 2,
                                                 .activation = form & 4 ? ISO_FUSED_RELU : ISO_FUSED_NONE,
                                                 .largest = form & 1 ? 1.5 : INFINITY,
                                                 .moments = {50, true}};
    input(t, ISO_F32, 0, 2, DIMS(rows, c));
    input(t, ISO_F32, -1, 1.5, DIMS(rows, c));
    input(t, ISO_F64, 0.9, 1.1, DIMS(c));
    input(t, ISO_F64, 0.1, 0.3, DIMS(c));
}

static bool batch_norm_grad_sums(trial *t, int index)
{
    if (index == 8 * CHANNELS)
        return false;
    int64_t rows = channel_shapes[index / 8][0], c = channel_shapes[index / 8][1];
    gradient_inputs(t, index % 8, rows, c);
    if ((index & 5) == 5)
        input(t, ISO_F32, 0.5, 2, DIMS(c));
    if ((index & 6) == 6)
        input(t, ISO_F32, -1, 1, DIMS(c));
    output(t, ISO_F64, DIMS(c));
    output(t, ISO_F64, DIMS(c));
    return true;
}

static bool batch_norm_grad(trial *t, int index)
{
    if (index == 8 * CHANNELS + 1)
        return false;
    const int64_t *shape = index < 8 * CHANNELS ? channel_shapes[index / 8] : many_rows;
    int64_t rows = shape[0], c = shape[1];
    gradient_inputs(t, index % 8, rows, c);
    input(t, ISO_F64, -200, 200, DIMS(c));
    input(t, ISO_F64, -200, 200, DIMS(c));
    if (index & 1)
        input(t, ISO_F32, 0.5, 2, DIMS(c));
    if ((index & 6) == 6)
        input(t, ISO_F32, -1, 1, DIMS(c));
    output(t, ISO_F32, DIMS(rows, c));
    return true;
}

/* ---- pools ---- */
static const struct {
    int64_t n, h, w, c, size[2], stride[2], pad[2], after[2];
} pools[] = {
    {2, 8, 8, 12, {2, 2}, {2, 2}, {0, 0}, {0, 0}}, {3, 7, 9, 5, {3, 2}, {2, 1}, {1, 0}, {1, 1}},
    {1, 6, 6, 33, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, {2, 5, 5, 1, {5, 5}, {5, 5}, {0, 0}, {0, 0}},
    {0, 4, 4, 3, {2, 2}, {2, 2}, {0, 0}, {0, 0}},  {1, 9, 9, 16, {2, 2}, {3, 3}, {0, 0}, {0, 0}},
};

static bool pool(trial *t, int index)
{
    if (index == sizeof pools / sizeof *pools)
        return false;
    t->attrs.pool.axis = 1;
    iso_pool_geometry *g = &t->attrs.pool.geometry;
    memcpy(g->size, pools[index].size, sizeof g->size);
    memcpy(g->stride, pools[index].stride, sizeof g->stride);
    memcpy(g->pad_before, pools[index].pad, sizeof g->pad_before);
    memcpy(g->pad_after, pools[index].after, sizeof g->pad_after);
    int64_t n = pools[index].n, h = pools[index].h, w = pools[index].w, c = pools[index].c;
    const int64_t x[] = {n, h, w, c};
    const int64_t y[] = {n, (h + g->pad_before[0] + g->pad_after[0] - g->size[0]) / g->stride[0] + 1,
                         (w + g->pad_before[1] + g->pad_after[1] - g->size[1]) / g->stride[1] + 1, c};
    bool gradient = strstr(t->op, "grad"), of_max = strstr(t->op, "max");
    t->attrs.pool.shape = (iso_shape){4, {n, h, w, c}};
    if (of_max && gradient) { /* y is not the largest of its window, so that some windows have many takers and
                                 some none */
        input(t, ISO_F32, 0, 1, 4, x);
        input(t, ISO_F32, 0.5, 1, 4, y);
    }
    input(t, ISO_F32, -1, 1, 4, gradient ? y : x);
    output(t, ISO_F32, 4, gradient ? x : y);
    return true;
}

/* ---- windows along a dimension ---- */
/* Runs of channels that no vector divides, of one and of many; windows that overlap, that leave elements out, that
 * lie in the padding; parts of the tensor: `first` window, and what comes before the first element; no row. */
static bool unfold(trial *t, int index)
{
    static const struct {
        int64_t n, d, inner, c, size, stride, dilation, pad, after, first, offset;
    } cases[] = {
        {2, 5, 6, 3, 3, 1, 1, 1, 1, 0, 0},  {2, 4, 5, 1, 2, 2, 1, 0, 0, 0, 0},
        {1, 6, 7, 33, 3, 1, 1, 1, 1, 0, 0}, {3, 7, 2, 16, 1, 3, 1, 0, 0, 0, 0},
        {1, 7, 3, 8, 3, 2, 2, 2, 1, 0, 0},  {1, 2, 4, 5, 2, 1, 1, 4, 3, 0, 0},
        {2, 6, 3, 12, 3, 2, 1, 1, 0, 5, 9}, {1, 8, 1, 130, 4, 3, 1, 0, 0, 4, 12},
        {0, 4, 3, 2, 2, 2, 1, 0, 0, 0, 0},  {2, 0, 3, 2, 2, 1, 1, 2, 2, 0, 0},
    };
    if (index == sizeof cases / sizeof *cases)
        return false;
    const int64_t n = cases[index].n, d = cases[index].d, inner = cases[index].inner, c = cases[index].c;
    const iso_unfold_geometry g = {cases[index].size, cases[index].stride, cases[index].dilation,
                                   cases[index].pad, cases[index].after};
    const int64_t positions = (d + g.pad_before + g.pad_after - (g.size - 1) * g.dilation - 1) / g.stride + 1;
    const int64_t x[] = {n, d, inner, c}, y[] = {n, positions, inner, g.size, c};
    const bool adds = strcmp(t->op, "fold") == 0;
    t->attrs.unfold = (iso_unfold_attrs){.geometry = g, .axis = 1, .extent = d};
    input(t, ISO_F32, -1, 1, adds ? 5 : 4, adds ? y : x);
    output(t, ISO_F32, adds ? 4 : 5, adds ? x : y);
    iso_array *of_x = adds ? &t->out[0] : &t->in[0], *of_y = adds ? &t->in[0] : &t->out[0];
    of_x->offset[1] = cases[index].offset;
    of_y->offset[1] = cases[index].first;
    return true;
}

/* ---- moved images ---- */

/* Every fill mode, both interpolations; images that grow and shrink, of one pixel and one channel, no image. Maps
 * have coefficients that reach far outside. */
static bool warp(trial *t, int index)
{
    static const int64_t cases[][6] = {/* images, size of y, size of x, channels */
                                       {3, 5, 7, 6, 4, 3},
                                       {2, 4, 4, 9, 8, 1},
                                       {2, 3, 2, 1, 1, 5},
                                       {0, 3, 3, 3, 3, 2},
                                       {2, 17, 19, 18, 20, 6}};
    enum { SIZES = sizeof cases / sizeof *cases, WARPS = 8 };
    if (index == SIZES * WARPS)
        return false;
    const int64_t *c = cases[index / WARPS];
    const bool gradient = strcmp(t->op, "warp_grad") == 0;
    t->attrs.warp = (iso_warp_attrs){.size = {c[1], c[2]},
                                     .from = {c[3], c[4]},
                                     .fill_mode = (iso_fill_mode)(index % 4),
                                     .nearest = index % WARPS >= 4,
                                     .fill_value = 0.7};
    if (gradient)
        input(t, ISO_F32, -3, 3, DIMS(c[0], 6));
    input(t, ISO_F32, -1, 1, DIMS(c[0], gradient ? c[1] : c[3], gradient ? c[2] : c[4], c[5]));
    if (!gradient)
        input(t, ISO_F32, -3, 3, DIMS(c[0], 6));
    t->by_rows = 3;
    t->fixed_types = gradient; /* sums are not made in bfloat16 */
    output(t, ISO_F32, DIMS(c[0], gradient ? c[3] : c[1], gradient ? c[4] : c[2], c[5]));
    return true;
}

/* ---- dropout and noise ---- */
/* Parts of a global tensor: offsets and extents that no vector divides. The bits are the definition's. */
static bool dropout(trial *t, int index)
{
    static const struct {
        int rank;
        int64_t dim[3], offset[3], global[3];
    } parts[] = {
        {1, {1000}, {0}, {1000}},
        {1, {333}, {5}, {1000}},
        {2, {7, 13}, {3, 2}, {64, 40}},
        {2, {16, 256}, {16, 0}, {32, 256}},
        {3, {2, 3, 9}, {1, 1, 0}, {4, 7, 9}},
        {1, {0}, {0}, {7}},
        {1, {200}, {17179869100}, {17179869400}},
    };
    if (index == sizeof parts / sizeof *parts)
        return false;
    if (strcmp(t->op, "gaussian_noise") == 0)
        t->attrs.noise = (iso_noise_attrs){0x123456789abcdefu, 0.3};
    else if (strcmp(t->op, "uniform") == 0)
        t->attrs.uniform =
            (iso_uniform_attrs){0x123456789abcdefu, -0.5, 2, (iso_uniform_function)(index % 3)};
    else
        t->attrs.dropout = (iso_dropout_attrs){0x123456789abcdefu, (1u << 24) / 5 * 2, 1 / 0.6};
    input(t, ISO_F32, -1, 1, parts[index].rank, parts[index].dim);
    memcpy(t->in[0].offset, parts[index].offset, sizeof parts[index].offset);
    memcpy(t->in[0].global, parts[index].global, sizeof parts[index].global);
    output(t, ISO_F32, parts[index].rank, parts[index].dim);
    return true;
}

static const struct {
    const char *op;
    maker *make;
} makers[] = {
    {"unary_gradient", unary_gradient},
    {"affine", affine},
    {"scale_by_count", scale_by_count},
    {"add", binary},
    {"subtract", binary},
    {"multiply", binary},
    {"divide", binary},
    {"maximum", binary},
    {"minimum", binary},
    {"reduce_sum", reduce_sum},
    {"cast", narrow_cast},
    {"matmul", matmul},
    {"embedding", embedding},
    {"embedding_grad", embedding},
    {"embedding_grad_add", embedding},
    {"conv2d", convolution},
    {"conv2d_grad_input", convolution},
    {"conv2d_grad_kernel", convolution},
    {"batch_moments", batch_moments},
    {"batch_norm", batch_norm},
    {"batch_norm_grad_sums", batch_norm_grad_sums},
    {"batch_norm_grad", batch_norm_grad},
    {"attention", attention},
    {"attention_grad", attention},
    {"softmax", softmax},
    {"log_softmax", softmax},
    {"softmax_grad", softmax},
    {"log_softmax_grad", softmax},
    {"sparse_crossentropy", crossentropy},
    {"sparse_crossentropy_grad", crossentropy},
    {"crossentropy", crossentropy},
    {"crossentropy_grad", crossentropy},
    {"class_max", class_parts},
    {"class_sum_exp", class_parts},
    {"class_softmax", class_parts},
    {"class_log_softmax", class_parts},
    {"class_loss", class_parts},
    {"class_grad", class_parts},
    {"class_sparse_grad", class_parts},
    {"dropout", dropout},
    {"gaussian_noise", dropout},
    {"uniform", dropout},
    {"warp", warp},
    {"warp_grad", warp},
    {"layer_moments", layer_parts},
    {"layer_scale", layer_parts},
    {"layer_grad_sums", layer_parts},
    {"layer_grad", layer_parts},
    {"layer_weight_sums", layer_parts},
    {"layer_norm", layer_norm},
    {"layer_norm_grad", layer_norm},
    {"layer_norm_grad_sums", layer_norm},
    {"max_pool2d", pool},
    {"max_pool2d_grad", pool},
    {"average_pool2d", pool},
    {"average_pool2d_grad", pool},
    {"rotary", rotary},
    {"experts", experts},
    {"experts_grad", experts},
    {"top_k", top_k},
    {"top_k_grad", top_k},
    {"unfold", unfold},
    {"fold", unfold},
    {"recurrence", recurrence},
    {"recurrence_grad", recurrence},
};

static maker *maker_of(const char *op)
{
    for (int i = 0; i < UNARIES; i++)
        if (strcmp(unaries[i].name, op) == 0)
            return unary;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (strcmp(makers[i].op, op) == 0)
            return makers[i].make;
    return NULL;
}

#endif
