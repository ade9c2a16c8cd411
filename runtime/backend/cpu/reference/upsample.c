/* Upsampling of images by definition, and its gradient. */
#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/graph/ops/network.h"

/* The position of element (i, j) of this part of y, along dimension `d` of x and `e` of y, in this part of x. */
static iso_between lies(const iso_array *x, int d, const iso_array *y, int e, int64_t i, int64_t j)
{
    iso_between b = iso_upsample_position(i + y->offset[e], j, y->dim[e + 1], x->global[d] - 1);
    return (iso_between){b.low - x->offset[d], b.high - x->offset[d], b.share};
}

/* from: in x, low row and low column, low and high, high and low, high and high; share: of the high row and of the
 * high column. */
typedef void visit(const iso_array *x, const iso_array *y, const int64_t from[4], const double share[2],
                   int64_t to);

/* Calls `with` for each pixel of y, with the four elements of x (their first channels) around it. One
 * whose share is 0 may lie outside of this part of x. */
static void for_pixels(const iso_array *x, const iso_array *y, visit *with)
{
    int64_t to = 0, c = y->dim[5];
    for (int64_t n = 0; n < y->dim[0]; n++)
        for (int64_t r = 0; r < y->dim[1] * y->dim[2]; r++) {
            iso_between v = lies(x, 1, y, 1, r / y->dim[2], r % y->dim[2]);
            for (int64_t s = 0; s < y->dim[3] * y->dim[4]; s++, to += c) {
                iso_between h = lies(x, 2, y, 3, s / y->dim[4], s % y->dim[4]);
                int64_t low = (n * x->dim[1] + v.low) * x->dim[2],
                        high = (n * x->dim[1] + v.high) * x->dim[2];
                with(x, y,
                     (int64_t[]){(low + h.low) * c, (low + h.high) * c, (high + h.low) * c,
                                 (high + h.high) * c},
                     (double[]){v.share, h.share}, to);
            }
        }
}

/* Between two columns of a row. */
static double mix_in_row(const iso_array *x, const int64_t from[2], double share, int64_t channel)
{
    double low = iso_get(x, from[0] + channel);
    return share == 0 ? low : iso_interpolate(low, iso_get(x, from[1] + channel), share);
}

static void mix(const iso_array *x, const iso_array *y, const int64_t from[4], const double share[2],
                int64_t to)
{
    for (int64_t k = 0; k < y->dim[5]; k++) {
        double low = mix_in_row(x, from, share[1], k);
        iso_put(y, to + k,
                share[0] == 0 ? low : iso_interpolate(low, mix_in_row(x, from + 2, share[1], k), share[0]));
    }
}

static void ref_upsample_run(const iso_kernel_call *call)
{
    if (iso_array_count(&call->out[0]) > 0)
        for_pixels(&call->in[0], &call->out[0], mix);
}

static void spread(const iso_array *x, const iso_array *y, const int64_t from[4], const double share[2],
                   int64_t to)
{
    const double rows[] = {1 - share[0], share[0]}, columns[] = {1 - share[1], share[1]};
    for (int64_t k = 0; k < y->dim[5]; k++)
        for (int i = 0; i < 4; i++) {
            double own = rows[i / 2] * columns[i % 2];
            if (own != 0)
                iso_put(x, from[i] + k, iso_get(x, from[i] + k) + own * iso_get(y, to + k));
        }
}

static void ref_upsample_run_gradient(const iso_kernel_call *call)
{
    iso_put_zeros(&call->out[0]);
    if (iso_array_count(&call->in[0]) > 0)
        for_pixels(&call->out[0], &call->in[0], spread);
}

const iso_kernel iso_reference_upsample_linear = {
    .op = "upsample_linear", .name = "reference", .run = ref_upsample_run};
const iso_kernel iso_reference_upsample_linear_grad = {
    .op = "upsample_linear_grad", .name = "reference", .run = ref_upsample_run_gradient};
