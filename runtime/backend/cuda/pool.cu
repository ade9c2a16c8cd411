/* Pools. A thread has an element of the result: of a gradient, it looks at the windows that its element is in.
 * Not by cuDNN: its gradient of a maximum takes the positions that its forward operation stored, which the op does not
 * have, and does not promise that of equal elements the first gets the gradient. */
#include "runtime/backend/cuda/elements.h"
#include "runtime/backend/window.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

/* x [n, h, w, c], y [n, p, q, c] */
struct pool {
    int64_t h, w, c, p, q, size[2], stride[2], pad[2];
};

/* The part of a window inside x, or of the windows around an element inside y: rows [top, bottom), columns
 * [left, right). */
struct region {
    int64_t top, bottom, left, right;
    __device__ int64_t count() const
    {
        return (bottom - top) * (right - left);
    }
};

__device__ void clip(int64_t begin, int64_t end, int64_t extent, int64_t *low, int64_t *high)
{
    *low = begin > 0 ? begin : 0;
    *high = end < extent ? end : extent;
}

__device__ region window_of(const pool &g, int64_t p, int64_t q)
{
    region r;
    int64_t top = p * g.stride[0] - g.pad[0], left = q * g.stride[1] - g.pad[1];
    clip(top, top + g.size[0], g.h, &r.top, &r.bottom);
    clip(left, left + g.size[1], g.w, &r.left, &r.right);
    return r;
}

/* a / b of a >= 0; divisions of 32 bits take a quarter of the time. */
__device__ __forceinline__ int64_t quotient_of(int64_t a, int64_t b)
{
    if (a <= INT32_MAX && b <= INT32_MAX)
        return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
    return a / b;
}

/* The outputs whose windows have the element: of position i, those from (i + pad - size) / stride + 1 on,
 * rounded down, to (i + pad) / stride. */
__device__ region windows_around(const pool &g, int64_t row, int64_t column)
{
    region r;
    int64_t y = row + g.pad[0], x = column + g.pad[1];
    clip(y < g.size[0] ? 0 : quotient_of(y - g.size[0], g.stride[0]) + 1,
         y < 0 ? 0 : quotient_of(y, g.stride[0]) + 1, g.p, &r.top, &r.bottom);
    clip(x < g.size[1] ? 0 : quotient_of(x - g.size[1], g.stride[1]) + 1,
         x < 0 ? 0 : quotient_of(x, g.stride[1]) + 1, g.q, &r.left, &r.right);
    return r;
}

pool pool_of(const iso_kernel_call *call, const iso_array &x, const iso_array &y)
{
    const iso_pool_geometry *g = &static_cast<const iso_pool_attrs *>(call->attrs)->geometry;
    pool of = {x.dim[1], x.dim[2], x.dim[3], y.dim[1], y.dim[2], {}, {}, {}};
    for (int i = 0; i < 2; i++) {
        of.size[i] = g->size[i];
        of.stride[i] = g->stride[i];
        of.pad[i] = iso_local_padding(&x, &y, 1 + i, g->stride[i], g->pad_before[i]);
    }
    return of;
}

/* Element i of [n, rows, columns, c]. */
struct place {
    int64_t n, row, column, c;
};
__device__ place place_of(int64_t i, int64_t rows, int64_t columns, int64_t c)
{
    if (i <= INT32_MAX) { /* divisions of 32 bits take a quarter of the time */
        uint32_t at = static_cast<uint32_t>(i), of_c = static_cast<uint32_t>(c), pixel = at / of_c;
        uint32_t line = pixel / static_cast<uint32_t>(columns), n = line / static_cast<uint32_t>(rows);
        return {n, line - n * rows, pixel - line * columns, at - pixel * of_c};
    }
    int64_t pixel = i / c, line = pixel / columns;
    return {line / rows, line % rows, pixel - line * columns, i - pixel * c};
}

template <class T> struct forward {
    typedef compute<T> C;
    pool g;
    const T *x;
    T *y;
    bool largest; /* else the mean */
    __device__ void operator()(int64_t i) const
    {
        place at = place_of(i, g.p, g.q, g.c);
        region r = window_of(g, at.row, at.column);
        C best = -INFINITY, sum = 0;
        for (int64_t row = r.top; row < r.bottom; row++)
            for (int64_t column = r.left; column < r.right; column++) {
                C value = wide(x[((at.n * g.h + row) * g.w + column) * g.c + at.c]);
                best = value > best || value != value ? value : best;
                sum += value;
            }
        narrow(&y[i], largest ? best : sum / static_cast<C>(r.count()));
    }
};

/* dy goes to the first element of its window that is not less than y. */
template <class T> struct max_gradient {
    typedef compute<T> C;
    pool g;
    const T *x, *y, *dy;
    reals dx; /* float32 where sums of bfloat16 are wanted so */
    __device__ bool takes(const place &at, int64_t p, int64_t q, int64_t output) const
    {
        region r = window_of(g, p, q);
        for (int64_t row = r.top; row <= at.row; row++)
            for (int64_t column = r.left; column < (row == at.row ? at.column + 1 : r.right); column++)
                if (!(wide(x[((at.n * g.h + row) * g.w + column) * g.c + at.c]) < wide(y[output])))
                    return row == at.row && column == at.column;
        return false;
    }
    __device__ void operator()(int64_t i) const
    {
        place at = place_of(i, g.h, g.w, g.c);
        region r = windows_around(g, at.row, at.column);
        C sum = 0;
        for (int64_t p = r.top; p < r.bottom; p++)
            for (int64_t q = r.left; q < r.right; q++) {
                int64_t output = ((at.n * g.p + p) * g.q + q) * g.c + at.c;
                if (takes(at, p, q, output))
                    sum += wide(dy[output]);
            }
        dx.put(i, sum);
    }
};

template <class T> struct average_gradient {
    typedef compute<T> C;
    pool g;
    const T *dy;
    reals dx;
    __device__ void operator()(int64_t i) const
    {
        place at = place_of(i, g.h, g.w, g.c);
        region r = windows_around(g, at.row, at.column);
        C sum = 0;
        for (int64_t p = r.top; p < r.bottom; p++)
            for (int64_t q = r.left; q < r.right; q++)
                sum += wide(dy[((at.n * g.p + p) * g.q + q) * g.c + at.c]) /
                       static_cast<C>(window_of(g, p, q).count());
        dx.put(i, sum);
    }
};

template <bool LARGEST> void run_forward(const iso_kernel_call *call)
{
    pool g = pool_of(call, call->in[0], call->out[0]);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_each(call->stream, iso_array_count(&call->out[0]),
                 forward<T>{g, static_cast<const T *>(call->in[0].data), static_cast<T *>(call->out[0].data),
                            LARGEST});
    });
}

void run_max_gradient(const iso_kernel_call *call)
{
    pool g = pool_of(call, call->in[0], call->in[1]);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_each(call->stream, iso_array_count(&call->out[0]),
                 max_gradient<T>{g, static_cast<const T *>(call->in[0].data),
                                 static_cast<const T *>(call->in[1].data),
                                 static_cast<const T *>(call->in[2].data), reals_of(call->out[0])});
    });
}

void run_average_gradient(const iso_kernel_call *call)
{
    pool g = pool_of(call, call->out[0], call->in[0]);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_each(call->stream, iso_array_count(&call->out[0]),
                 average_gradient<T>{g, static_cast<const T *>(call->in[0].data), reals_of(call->out[0])});
    });
}

} // namespace

ISO_CUDA_KERNEL(max_pool2d, run_forward<true>, false)
ISO_CUDA_KERNEL(max_pool2d_grad, run_max_gradient, false)
ISO_CUDA_KERNEL(average_pool2d, run_forward<false>, false)
ISO_CUDA_KERNEL(average_pool2d_grad, run_average_gradient, false)
