/* Upsampling of images by definition, and its gradient. */
#include <math.h>

#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/graph/ops/network.h"

/* The position of an element of y along one dimension: between rows (or columns) low and high of this part of
 * x. */
typedef struct between {
    int64_t low, high;
    double share; /* weight of high */
} between;

static int64_t ref_upsample_within(int64_t at, const iso_array *x, int d)
{
    int64_t last = x->global[d] - 1;
    at = at < 0 ? 0 : at > last ? last : at;
    return at - x->offset[d];
}

/* The position of element (i, j) of this part of y, along dimension `d` of x and `e` of y. */
static between lies(const iso_array *x, int d, const iso_array *y, int e, int64_t i, int64_t j)
{
    double at = ((double)j + 0.5) / (double)y->dim[e + 1] - 0.5, below = floor(at);
    int64_t low = i + y->offset[e] + (int64_t)below;
    return (between){ref_upsample_within(low, x, d), ref_upsample_within(low + 1, x, d), at - below};
}

typedef void visit(const iso_array *x, const iso_array *y, const int64_t from[4], const double share[4],
                   int64_t to);

/* Calls `with` for each pixel of y, with the four elements of x (their first channels) around it. One
 * whose share is 0 may lie outside of this part of x. */
static void for_pixels(const iso_array *x, const iso_array *y, visit *with)
{
    int64_t to = 0, c = y->dim[5];
    for (int64_t n = 0; n < y->dim[0]; n++)
        for (int64_t r = 0; r < y->dim[1] * y->dim[2]; r++) {
            between v = lies(x, 1, y, 1, r / y->dim[2], r % y->dim[2]);
            for (int64_t s = 0; s < y->dim[3] * y->dim[4]; s++, to += c) {
                between h = lies(x, 2, y, 3, s / y->dim[4], s % y->dim[4]);
                int64_t low = (n * x->dim[1] + v.low) * x->dim[2],
                        high = (n * x->dim[1] + v.high) * x->dim[2];
                with(x, y,
                     (int64_t[]){(low + h.low) * c, (low + h.high) * c, (high + h.low) * c,
                                 (high + h.high) * c},
                     (double[]){(1 - v.share) * (1 - h.share), (1 - v.share) * h.share,
                                v.share * (1 - h.share), v.share * h.share},
                     to);
            }
        }
}

static void mix(const iso_array *x, const iso_array *y, const int64_t from[4], const double share[4],
                int64_t to)
{
    for (int64_t k = 0; k < y->dim[5]; k++) {
        double sum = 0;
        for (int i = 0; i < 4; i++)
            sum += share[i] != 0 ? share[i] * iso_get(x, from[i] + k) : 0;
        iso_put(y, to + k, sum);
    }
}

static void ref_upsample_run(const iso_kernel_call *call)
{
    if (iso_array_count(&call->out[0]) > 0)
        for_pixels(&call->in[0], &call->out[0], mix);
}

static void spread(const iso_array *x, const iso_array *y, const int64_t from[4], const double share[4],
                   int64_t to)
{
    for (int64_t k = 0; k < y->dim[5]; k++)
        for (int i = 0; i < 4; i++)
            if (share[i] != 0)
                iso_put(x, from[i] + k, iso_get(x, from[i] + k) + share[i] * iso_get(y, to + k));
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
