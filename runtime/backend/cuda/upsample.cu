/* Images enlarged by interpolation between the centres of pixels, and the gradient; see
 * runtime/graph/ops/network.h. */
#include "runtime/backend/cuda/elements.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

/* One dimension of x, and the two of y, [whole, times], that enlarge it. last: of x, in global rows. */
struct enlarged {
    int64_t x_dim, y_dim, times, x_offset, y_offset, last;
};

/* The position of element (i, j) of this part of y in this part of x. */
__device__ iso_between lies(const enlarged &e, int64_t i, int64_t j)
{
    iso_between b = iso_upsample_position(i + e.y_offset, j, e.times, e.last);
    return {b.low - e.x_offset, b.high - e.x_offset, b.share};
}

/* The same of the innermost dimension of number `rest`, which is left with those outside of it. */
__device__ iso_between take_dimension(const enlarged &e, int64_t &rest)
{
    const int64_t whole = quotient_of(rest, e.times), j = rest - whole * e.times;
    rest = quotient_of(whole, e.y_dim);
    return lies(e, whole - rest * e.y_dim, j);
}

/* The weight of element `x` of this part of x in element (i, j) of this part of y. */
__device__ double weight(const enlarged &e, int64_t x, int64_t i, int64_t j)
{
    iso_between b = lies(e, i, j);
    return (b.low == x ? 1 - b.share : 0) + (b.high == x ? b.share : 0);
}

struct images {
    enlarged v, h; /* vertical, horizontal */
    int64_t c;
};

enlarged enlarged_of(const iso_array &x, int d, const iso_array &y, int e)
{
    return {x.dim[d], y.dim[e], y.dim[e + 1], x.offset[d], y.offset[e], x.global[d] - 1};
}

images images_of(const iso_array &x, const iso_array &y)
{
    return {enlarged_of(x, 1, y, 1), enlarged_of(x, 2, y, 3), y.dim[5]};
}

/* x [n, h, w, c] -> y [n, h, s, w, t, c] */
struct mix {
    images of;
    reals x, y;
    __device__ void operator()(int64_t i) const
    {
        int64_t rest = quotient_of(i, of.c);
        const int64_t channel = i - rest * of.c;
        const iso_between h = take_dimension(of.h, rest), v = take_dimension(of.v, rest);
        const int64_t row = rest * of.v.x_dim; /* of image `rest` */
        double low = in_row(row + v.low, h, channel);
        y.put(i, v.share == 0 ? low : iso_interpolate(low, in_row(row + v.high, h, channel), v.share));
    }
    /* An element whose share is 0 may lie outside of this part of x. */
    __device__ double in_row(int64_t row, const iso_between &h, int64_t channel) const
    {
        double low = pixel(row, h.low, channel);
        return h.share == 0 ? low : iso_interpolate(low, pixel(row, h.high, channel), h.share);
    }
    __device__ double pixel(int64_t row, int64_t column, int64_t channel) const
    {
        return x.get<double>((row * of.h.x_dim + column) * of.c + channel);
    }
};

/* A thread has an element of dx, which the elements of y around it have a share of: those of its own row and
 * of the rows beside it, and at the edges of x also of those that lie outside. */
struct spread {
    images of;
    reals dy, dx;
    __device__ void operator()(int64_t i) const
    {
        const int64_t pixel = quotient_of(i, of.c), channel = i - pixel * of.c;
        const int64_t line = quotient_of(pixel, of.h.x_dim), column = pixel - line * of.h.x_dim;
        const int64_t n = quotient_of(line, of.v.x_dim), row = line - n * of.v.x_dim;
        int64_t top = nearest(of.v, row), left = nearest(of.h, column);
        double sum = 0;
        for (int64_t p = top > 1 ? top - 1 : 0; p <= top + 1 && p < of.v.y_dim; p++)
            for (int64_t s = 0; s < of.v.times; s++) {
                double share = weight(of.v, row, p, s);
                for (int64_t q = left > 1 ? left - 1 : 0; share != 0 && q <= left + 1 && q < of.h.y_dim; q++)
                    for (int64_t t = 0; t < of.h.times; t++) {
                        int64_t at = ((n * of.v.y_dim + p) * of.v.times + s) * of.h.y_dim + q;
                        double own = weight(of.h, column, q, t);
                        if (own != 0)
                            sum += share * own * dy.get<double>((at * of.h.times + t) * of.c + channel);
                    }
            }
        dx.put(i, sum);
    }
    /* The element of this part of y's whole rows that is where element x of this part of x is. */
    __device__ static int64_t nearest(const enlarged &e, int64_t x)
    {
        return x + e.x_offset - e.y_offset;
    }
};

void run_forward(const iso_kernel_call *call)
{
    const iso_array &x = call->in[0], &y = call->out[0];
    for_each(call->stream, iso_array_count(&y), mix{images_of(x, y), reals_of(x), reals_of(y)});
}

void run_gradient(const iso_kernel_call *call)
{
    const iso_array &dy = call->in[0], &dx = call->out[0];
    for_each(call->stream, iso_array_count(&dx), spread{images_of(dx, dy), reals_of(dy), reals_of(dx)});
}

} // namespace

ISO_CUDA_KERNEL(upsample_linear, run_forward, false)
ISO_CUDA_KERNEL(upsample_linear_grad, run_gradient, false)
