/* Pools, window by window. */
#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/backend/window.h"
#include "runtime/graph/ops/network.h"

/* The part of a window inside x, for one channel: rows [top, bottom), columns [left, right). */
typedef struct window {
    int64_t top, bottom, left, right;
    int64_t first,
        position; /* index of element (0, 0) of this image and channel in x; index of the output in y */
    int64_t w, c; /* of x */
} window;

typedef void visit(const iso_kernel_call *call, const window *window);

static int64_t index_of(const window *at, int64_t row, int64_t column)
{
    return at->first + (row * at->w + column) * at->c;
}

static void ref_pool_clip(int64_t begin, int64_t size, int64_t extent, int64_t *low, int64_t *high)
{
    *low = begin > 0 ? begin : 0;
    *high = begin + size < extent ? begin + size : extent;
}

static void visit_channels(const iso_kernel_call *call, window at, int64_t n, const iso_array *x,
                           int64_t position, visit *each)
{
    for (int64_t c = 0; c < at.c; c++) {
        at.first = n * x->dim[1] * x->dim[2] * at.c + c;
        at.position = position * at.c + c;
        each(call, &at);
    }
}

/* Calls `each` for every position of the window and every channel. x, y: the arrays of these sizes. */
static void for_windows(const iso_kernel_call *call, const iso_array *x, const iso_array *y, visit *each)
{
    const iso_pool_geometry *g = &((const iso_pool_attrs *)call->attrs)->geometry;
    window at = {.w = x->dim[2], .c = x->dim[3]};
    int64_t pad[2];
    for (int i = 0; i < 2; i++)
        pad[i] = iso_local_padding(x, y, 1 + i, g->stride[i], g->pad_before[i]);
    for (int64_t n = 0, position = 0; n < y->dim[0]; n++)
        for (int64_t p = 0; p < y->dim[1]; p++)
            for (int64_t q = 0; q < y->dim[2]; q++, position++) {
                ref_pool_clip(p * g->stride[0] - pad[0], g->size[0], x->dim[1], &at.top, &at.bottom);
                ref_pool_clip(q * g->stride[1] - pad[1], g->size[1], x->dim[2], &at.left, &at.right);
                visit_channels(call, at, n, x, position, each);
            }
}

static void find_largest(const iso_kernel_call *call, const window *at)
{
    double best = iso_get(&call->in[0], index_of(at, at->top, at->left));
    for (int64_t row = at->top; row < at->bottom; row++)
        for (int64_t column = at->left; column < at->right; column++) {
            double x = iso_get(&call->in[0], index_of(at, row, column));
            if (x > best || x != x)
                best = x;
        }
    iso_put(&call->out[0], at->position, best);
}

static void add_to(const iso_array *dx, int64_t index, double value)
{
    iso_put(dx, index, iso_get(dx, index) + value);
}

static void give_to_first(const iso_kernel_call *call, const window *at)
{
    double y = iso_get(&call->in[1], at->position);
    for (int64_t row = at->top; row < at->bottom; row++)
        for (int64_t column = at->left; column < at->right; column++)
            if (!(iso_get(&call->in[0], index_of(at, row, column)) < y)) {
                add_to(&call->out[0], index_of(at, row, column), iso_get(&call->in[2], at->position));
                return;
            }
}

static double ref_pool_size_of(const window *at)
{
    return (double)((at->bottom - at->top) * (at->right - at->left));
}

static void average(const iso_kernel_call *call, const window *at)
{
    double sum = 0;
    for (int64_t row = at->top; row < at->bottom; row++)
        for (int64_t column = at->left; column < at->right; column++)
            sum += iso_get(&call->in[0], index_of(at, row, column));
    iso_put(&call->out[0], at->position, sum / ref_pool_size_of(at));
}

static void give_to_all(const iso_kernel_call *call, const window *at)
{
    double part = iso_get(&call->in[0], at->position) / ref_pool_size_of(at);
    for (int64_t row = at->top; row < at->bottom; row++)
        for (int64_t column = at->left; column < at->right; column++)
            add_to(&call->out[0], index_of(at, row, column), part);
}

static void ref_pool_run_max(const iso_kernel_call *call)
{
    for_windows(call, &call->in[0], &call->out[0], find_largest);
}

static void ref_pool_run_max_gradient(const iso_kernel_call *call)
{
    iso_put_zeros(&call->out[0]);
    for_windows(call, &call->in[0], &call->in[1], give_to_first);
}

static void ref_pool_run_average(const iso_kernel_call *call)
{
    for_windows(call, &call->in[0], &call->out[0], average);
}

static void ref_pool_run_average_gradient(const iso_kernel_call *call)
{
    iso_put_zeros(&call->out[0]);
    for_windows(call, &call->out[0], &call->in[0], give_to_all);
}

const iso_kernel iso_reference_max_pool2d = {
    .op = "max_pool2d", .name = "reference", .run = ref_pool_run_max};
const iso_kernel iso_reference_max_pool2d_grad = {
    .op = "max_pool2d_grad", .name = "reference", .run = ref_pool_run_max_gradient};
const iso_kernel iso_reference_average_pool2d = {
    .op = "average_pool2d", .name = "reference", .run = ref_pool_run_average};
const iso_kernel iso_reference_average_pool2d_grad = {
    .op = "average_pool2d_grad", .name = "reference", .run = ref_pool_run_average_gradient};
