/* Kernels of convolutions in float32 without groups and dilation. */
#include "runtime/backend/cpu/convolution.h"
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/window.h"
#include "runtime/graph/ops/network.h"

iso_conv iso_cpu_conv_of(const iso_kernel_call *call, const iso_array *x, const iso_array *kernel,
                         const iso_array *y, int height)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)call->attrs)->geometry;
    iso_conv conv = {.n = x->dim[0], .c = x->dim[height + 2], .f = y->dim[height + 2]};
    for (int i = 0; i < 2; i++) {
        conv.in[i] = x->dim[height + i];
        conv.out[i] = y->dim[height + i];
        conv.kernel[i] = kernel->dim[i];
        conv.stride[i] = geometry->stride[i];
        conv.pad[i] = iso_local_padding(x, y, height + i, geometry->stride[i], geometry->pad_before[i]);
    }
    return conv;
}

bool iso_cpu_conv_fits(const iso_kernel_call *call, const iso_conv *conv)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)call->attrs)->geometry;
    bool whole = true;
    for (int i = 0; i < 2; i++)
        whole &= geometry->dilation[i] == 1 && conv->in[i] > 0 && conv->out[i] > 0 && conv->pad[i] >= 0;
    return whole;
}

iso_conv iso_cpu_conv_rotated(const iso_conv *conv)
{
    iso_conv rotated = *conv;
    rotated.c = conv->f;
    rotated.f = conv->c;
    for (int i = 0; i < 2; i++) {
        rotated.in[i] = conv->out[i];
        rotated.out[i] = conv->in[i];
        rotated.pad[i] = conv->kernel[i] - 1 - conv->pad[i];
    }
    return rotated;
}

enum { HEIGHT = 1 }; /* of images [n, h, w, c] */

static bool convolution_fits(const iso_kernel_call *call, const iso_conv *conv)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)call->attrs)->geometry;
    return iso_cpu_conv_fits(call, conv) && iso_cpu_has_type(call, ISO_F32) && geometry->groups == 1;
}

/* ---- blocks: some images, or of one image a band of rows of what is written ---- */

typedef struct convolution_grid {
    int64_t images, bands, rows; /* blocks of images; bands of each image, of so many rows */
} convolution_grid;

/* What a block computes, and the elements of x and y before it. */
typedef struct convolution_block {
    iso_conv conv;
    int64_t x, y;
} convolution_block;

/* With more blocks than that, waking threads would cost more than they save. */
static int64_t convolution_most_blocks(const iso_conv *conv)
{
    enum { MOST = 64 };
    static const double least = 5e5; /* multiplications of a block */
    double count = (double)conv->n * (double)conv->c * (double)conv->f;
    for (int i = 0; i < 2; i++)
        count *= (double)conv->out[i] * (double)conv->kernel[i];
    return count < MOST * least ? (int64_t)(count / least) : MOST;
}

/* Bands have an even number of rows, for tiles of two. */
static convolution_grid convolution_grid_of(const iso_conv *conv, int64_t rows, int64_t most)
{
    enum { LEAST_ROWS = 4 };
    if (most <= conv->n)
        return (convolution_grid){most > 1 ? most : 1, 1, rows};
    const int64_t bands = (most + conv->n - 1) / conv->n, each = (rows + bands - 1) / bands;
    convolution_grid grid = {.images = conv->n, .rows = each < LEAST_ROWS ? LEAST_ROWS : (each + 1) / 2 * 2};
    grid.bands = (rows + grid.rows - 1) / grid.rows;
    return grid;
}

/* Rows [begin, end) of y, with the rows of x that they read; returns the rows of x before these. */
static int64_t convolution_take_outputs(iso_conv *conv, int64_t begin, int64_t end)
{
    const int64_t top = begin * conv->stride[0] - conv->pad[0], first = top > 0 ? top : 0;
    const int64_t bottom = (end - 1) * conv->stride[0] - conv->pad[0] + conv->kernel[0];
    conv->in[0] = (bottom < conv->in[0] ? bottom : conv->in[0]) - first;
    conv->out[0] = end - begin;
    conv->pad[0] = first - top;
    return first;
}

/* Rows [begin, end) of x, with the rows of y that read them, at least one; returns the rows of y before these. */
static int64_t convolution_take_inputs(iso_conv *conv, int64_t begin, int64_t end)
{
    const int64_t stride = conv->stride[0], pad = conv->pad[0] + begin, out = conv->out[0];
    int64_t first = pad / stride - (conv->kernel[0] - 1) / stride,
            last = (end - begin - 1 + pad) / stride + 1;
    first = first < 0 ? 0 : first < out ? first : out - 1;
    last = last > out ? out : last > first ? last : first + 1;
    conv->in[0] = end - begin;
    conv->out[0] = last - first;
    conv->pad[0] = pad - first * stride;
    return first;
}

static convolution_block convolution_block_of(const iso_conv *conv, const convolution_grid *grid,
                                              int64_t number, bool of_inputs)
{
    const int64_t images = number / grid->bands, first = conv->n * images / grid->images;
    const int64_t rows = of_inputs ? conv->in[0] : conv->out[0], begin = number % grid->bands * grid->rows,
                  end = begin + grid->rows < rows ? begin + grid->rows : rows;
    const int64_t x_row = conv->in[1] * conv->c, y_row = conv->out[1] * conv->f;
    convolution_block b = {
        .conv = *conv, .x = first * conv->in[0] * x_row, .y = first * conv->out[0] * y_row};
    b.conv.n = conv->n * (images + 1) / grid->images - first;
    if (grid->bands > 1 && of_inputs) {
        b.y += convolution_take_inputs(&b.conv, begin, end) * y_row;
        b.x += begin * x_row;
    } else if (grid->bands > 1) {
        b.x += convolution_take_outputs(&b.conv, begin, end) * x_row;
        b.y += begin * y_row;
    }
    return b;
}

/* Blocks of outputs, at most `most`. If windows of some rows have no element of x, there are no bands. */
static convolution_grid convolution_outputs_grid(const iso_conv *conv, int64_t most)
{
    const bool meets =
        conv->pad[0] < conv->kernel[0] && (conv->out[0] - 1) * conv->stride[0] - conv->pad[0] < conv->in[0];
    return convolution_grid_of(conv, conv->out[0], meets || most < conv->n ? most : conv->n);
}

static int64_t convolution_count(const convolution_grid *grid)
{
    return grid->images * grid->bands;
}

/* ---- loops over windows ---- */

static iso_conv convolution_forward(const iso_kernel_call *call)
{
    return iso_cpu_conv_of(call, &call->in[0], &call->in[1], &call->out[0], HEIGHT);
}

static bool convolution_forward_fits(const iso_kernel_call *call)
{
    iso_conv conv = convolution_forward(call);
    return convolution_fits(call, &conv);
}

static size_t convolution_forward_scratch(const iso_kernel_call *call)
{
    iso_conv conv = convolution_forward(call);
    return iso_cpu_functions()->conv_scratch(&conv);
}

static void convolution_run_forward(const iso_kernel_call *call)
{
    iso_conv conv = convolution_forward(call);
    iso_cpu_functions()->conv(&conv, call->in[0].data, call->in[1].data, call->out[0].data, call->scratch);
}

static convolution_grid convolution_forward_grid(const iso_conv *conv)
{
    return convolution_outputs_grid(conv, convolution_most_blocks(conv));
}

static int64_t convolution_forward_blocks(const iso_kernel_call *call)
{
    const iso_conv conv = convolution_forward(call);
    const convolution_grid grid = convolution_forward_grid(&conv);
    return convolution_count(&grid);
}

static void convolution_run_forward_block(const iso_kernel_call *call, int64_t number)
{
    const iso_conv conv = convolution_forward(call);
    const convolution_grid grid = convolution_forward_grid(&conv);
    const convolution_block b = convolution_block_of(&conv, &grid, number, false);
    iso_cpu_functions()->conv(&b.conv, (const float *)call->in[0].data + b.x, call->in[1].data,
                              (float *)call->out[0].data + b.y, call->scratch);
}

static iso_conv convolution_backward_input(const iso_kernel_call *call)
{
    return iso_cpu_conv_of(call, &call->out[0], &call->in[0], &call->in[1], HEIGHT);
}

static bool convolution_input_fits(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_input(call);
    return convolution_fits(call, &conv);
}

static size_t convolution_input_scratch(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_input(call);
    return iso_cpu_functions()->conv_grad_input_scratch(&conv);
}

static void convolution_run_input(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_input(call);
    iso_cpu_functions()->conv_grad_input(&conv, call->in[0].data, call->in[1].data, call->out[0].data,
                                         call->scratch);
}

static convolution_grid convolution_input_grid(const iso_conv *conv)
{
    return convolution_grid_of(conv, conv->in[0], convolution_most_blocks(conv));
}

static int64_t convolution_input_blocks(const iso_kernel_call *call)
{
    const iso_conv conv = convolution_backward_input(call);
    const convolution_grid grid = convolution_input_grid(&conv);
    return convolution_count(&grid);
}

static void convolution_run_input_block(const iso_kernel_call *call, int64_t number)
{
    const iso_conv conv = convolution_backward_input(call);
    const convolution_grid grid = convolution_input_grid(&conv);
    const convolution_block b = convolution_block_of(&conv, &grid, number, true);
    iso_cpu_functions()->conv_grad_input(&b.conv, call->in[0].data, (const float *)call->in[1].data + b.y,
                                         (float *)call->out[0].data + b.x, call->scratch);
}

static iso_conv convolution_backward_kernel(const iso_kernel_call *call)
{
    return iso_cpu_conv_of(call, &call->in[0], &call->out[0], &call->in[1], HEIGHT);
}

static bool convolution_kernel_fits(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_kernel(call);
    return convolution_fits(call, &conv);
}

static size_t convolution_kernel_scratch(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_kernel(call);
    return iso_cpu_functions()->conv_grad_kernel_scratch(&conv, true);
}

static size_t convolution_kernel_block_scratch(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_kernel(call);
    return iso_cpu_functions()->conv_grad_kernel_scratch(&conv, false);
}

static int64_t convolution_kernel_blocks_of(const iso_conv *conv, int64_t parts)
{
    return convolution_most_blocks(conv) > 1 ? parts : 1;
}

static int64_t convolution_kernel_blocks(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_kernel(call);
    return convolution_kernel_blocks_of(&conv, iso_cpu_functions()->conv_grad_kernel_parts(&conv));
}

static void convolution_run_kernel_block(const iso_kernel_call *call, int64_t block)
{
    iso_conv conv = convolution_backward_kernel(call);
    iso_cpu_functions()->conv_grad_kernel(&conv, block, call->in[0].data, call->in[1].data, call->out[0].data,
                                          call->scratch);
}

static void convolution_run_kernel(const iso_kernel_call *call)
{
    convolution_run_kernel_block(call, -1);
}

/* ---- by Winograd's F(2 x 2, 3 x 3) ---- */

/* shape: of the convolution that is computed */
static bool convolution_is_winograd(const iso_kernel_call *call, const iso_conv *conv, const iso_conv *shape)
{
    return convolution_fits(call, conv) && iso_cpu_functions()->winograd_pays(shape);
}

static iso_conv convolution_rotated(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_input(call);
    return iso_cpu_conv_rotated(&conv);
}

/* Each block transforms the kernel, so it has enough tiles. */
static convolution_grid winograd_grid(const iso_conv *conv)
{
    enum { LEAST_TILES = 32 };
    const int64_t tiles = conv->n * ((conv->out[0] + 1) / 2) * ((conv->out[1] + 1) / 2),
                  most = convolution_most_blocks(conv);
    return convolution_outputs_grid(conv, most < tiles / LEAST_TILES ? most : tiles / LEAST_TILES);
}

static int64_t winograd_blocks_of(const iso_conv *conv)
{
    const convolution_grid grid = winograd_grid(conv);
    return convolution_count(&grid);
}

/* conv: what is computed of x to y */
static void winograd_run_block(const iso_kernel_call *call, const iso_conv *conv, int64_t number,
                               bool rotated, const float *x, const float *kernel)
{
    const convolution_grid grid = winograd_grid(conv);
    const convolution_block b = convolution_block_of(conv, &grid, number, false);
    iso_cpu_functions()->winograd(&b.conv, rotated, x + b.x, kernel, (float *)call->out[0].data + b.y,
                                  call->scratch);
}

static bool winograd_forward_fits(const iso_kernel_call *call)
{
    iso_conv conv = convolution_forward(call);
    return convolution_is_winograd(call, &conv, &conv);
}

static size_t winograd_forward_scratch(const iso_kernel_call *call)
{
    iso_conv conv = convolution_forward(call);
    return iso_cpu_functions()->winograd_scratch(&conv);
}

static void winograd_run_forward(const iso_kernel_call *call)
{
    iso_conv conv = convolution_forward(call);
    iso_cpu_functions()->winograd(&conv, false, call->in[0].data, call->in[1].data, call->out[0].data,
                                  call->scratch);
}

static int64_t winograd_forward_blocks(const iso_kernel_call *call)
{
    const iso_conv conv = convolution_forward(call);
    return winograd_blocks_of(&conv);
}

static void winograd_run_forward_block(const iso_kernel_call *call, int64_t number)
{
    const iso_conv conv = convolution_forward(call);
    winograd_run_block(call, &conv, number, false, call->in[0].data, call->in[1].data);
}

static bool winograd_input_fits(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_input(call), rotated = convolution_rotated(call);
    return convolution_is_winograd(call, &conv, &rotated);
}

static size_t winograd_input_scratch(const iso_kernel_call *call)
{
    iso_conv rotated = convolution_rotated(call);
    return iso_cpu_functions()->winograd_scratch(&rotated);
}

static void winograd_run_input(const iso_kernel_call *call)
{
    iso_conv rotated = convolution_rotated(call);
    iso_cpu_functions()->winograd(&rotated, true, call->in[1].data, call->in[0].data, call->out[0].data,
                                  call->scratch);
}

static int64_t winograd_input_blocks(const iso_kernel_call *call)
{
    const iso_conv rotated = convolution_rotated(call);
    return winograd_blocks_of(&rotated);
}

static void winograd_run_input_block(const iso_kernel_call *call, int64_t number)
{
    const iso_conv rotated = convolution_rotated(call);
    winograd_run_block(call, &rotated, number, true, call->in[1].data, call->in[0].data);
}

static bool winograd_kernel_fits(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_kernel(call);
    return convolution_is_winograd(call, &conv, &conv);
}

static size_t winograd_kernel_scratch(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_kernel(call);
    return iso_cpu_functions()->winograd_grad_kernel_scratch(&conv, true);
}

static size_t winograd_kernel_block_scratch(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_kernel(call);
    return iso_cpu_functions()->winograd_grad_kernel_scratch(&conv, false);
}

static int64_t winograd_kernel_blocks(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_kernel(call);
    return convolution_kernel_blocks_of(&conv, iso_cpu_functions()->winograd_grad_kernel_parts(&conv));
}

static void winograd_run_kernel_block(const iso_kernel_call *call, int64_t block)
{
    iso_conv conv = convolution_backward_kernel(call);
    iso_cpu_functions()->winograd_grad_kernel(&conv, block, call->in[0].data, call->in[1].data,
                                              call->out[0].data, call->scratch);
}

static void winograd_run_kernel(const iso_kernel_call *call)
{
    winograd_run_kernel_block(call, -1);
}

#define WINOGRAD "Winograd F(2x2, 3x3)"
const iso_kernel iso_cpu_conv2d_winograd = {.op = "conv2d",
                                            .name = WINOGRAD,
                                            .fits = winograd_forward_fits,
                                            .scratch = winograd_forward_scratch,
                                            .run = winograd_run_forward,
                                            .blocks = winograd_forward_blocks,
                                            .run_block = winograd_run_forward_block};
const iso_kernel iso_cpu_conv2d_grad_input_winograd = {.op = "conv2d_grad_input",
                                                       .name = WINOGRAD,
                                                       .fits = winograd_input_fits,
                                                       .scratch = winograd_input_scratch,
                                                       .run = winograd_run_input,
                                                       .blocks = winograd_input_blocks,
                                                       .run_block = winograd_run_input_block};
const iso_kernel iso_cpu_conv2d_grad_kernel_winograd = {.op = "conv2d_grad_kernel",
                                                        .name = WINOGRAD,
                                                        .fits = winograd_kernel_fits,
                                                        .scratch = winograd_kernel_scratch,
                                                        .run = winograd_run_kernel,
                                                        .blocks = winograd_kernel_blocks,
                                                        .run_block = winograd_run_kernel_block,
                                                        .block_scratch = winograd_kernel_block_scratch};
const iso_kernel iso_cpu_conv2d = {.op = "conv2d",
                                   .name = "tiles",
                                   .fits = convolution_forward_fits,
                                   .scratch = convolution_forward_scratch,
                                   .run = convolution_run_forward,
                                   .blocks = convolution_forward_blocks,
                                   .run_block = convolution_run_forward_block};
const iso_kernel iso_cpu_conv2d_grad_input = {.op = "conv2d_grad_input",
                                              .name = "tiles",
                                              .fits = convolution_input_fits,
                                              .scratch = convolution_input_scratch,
                                              .run = convolution_run_input,
                                              .blocks = convolution_input_blocks,
                                              .run_block = convolution_run_input_block};
const iso_kernel iso_cpu_conv2d_grad_kernel = {.op = "conv2d_grad_kernel",
                                               .name = "tiles",
                                               .fits = convolution_kernel_fits,
                                               .scratch = convolution_kernel_scratch,
                                               .run = convolution_run_kernel,
                                               .blocks = convolution_kernel_blocks,
                                               .run_block = convolution_run_kernel_block,
                                               .block_scratch = convolution_kernel_block_scratch};
