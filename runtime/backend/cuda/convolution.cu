/* Convolutions. Ungrouped ones are products of matrices whose elements are windows of images; in grouped
 * ones a thread has an element of the result. */
#include "runtime/backend/cuda/lines.h"
#include "runtime/backend/cuda/product.h"
#include "runtime/backend/window.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

/* x [n, h, w, c], kernel [r, s, cg, f], y [n, p, q, f]; cg, fg: channels and filters of a group; pad: before
 * this part of x */
struct conv {
    int64_t n;
    int32_t h, w, c, r, s, cg, fg, f, p, q; /* divisions of 32 bits take a quarter of the time */
    int32_t stride[2], dilation[2], pad[2];

    /* The place of the channel 0 of x that a tap reads for an output position; -1: it is outside. */
    __device__ int64_t read(int64_t image, int32_t row, int32_t column, int32_t i, int32_t j) const
    {
        int32_t y = row * stride[0] - pad[0] + i * dilation[0],
                x = column * stride[1] - pad[1] + j * dilation[1];
        return y >= 0 && y < h && x >= 0 && x < w ? ((image * h + y) * w + x) * c : -1;
    }
    /* The place of filter 0 of y for which a tap reads an element of x; -1: there is none. */
    __device__ int64_t read_by(int64_t image, int32_t row, int32_t column, int32_t i, int32_t j) const
    {
        int32_t y = row + pad[0] - i * dilation[0], x = column + pad[1] - j * dilation[1];
        int32_t at_y = y / stride[0], at_x = x / stride[1];
        bool any = y >= 0 && at_y * stride[0] == y && at_y < p && x >= 0 && at_x * stride[1] == x && at_x < q;
        return any ? ((image * p + at_y) * q + at_x) * f : -1;
    }
};

conv conv_of(const iso_kernel_call *call, const iso_array &x, const iso_array &kernel, const iso_array &y)
{
    const iso_conv_geometry *g = &static_cast<const iso_conv_attrs *>(call->attrs)->geometry;
    conv v = {};
    v.n = x.dim[0], v.h = x.dim[1], v.w = x.dim[2], v.c = x.dim[3];
    v.r = kernel.dim[0], v.s = kernel.dim[1], v.cg = kernel.dim[2], v.f = kernel.dim[3];
    v.fg = v.f / iso_local_groups(&x, &kernel);
    v.p = y.dim[1], v.q = y.dim[2];
    for (int i = 0; i < 2; i++) {
        v.stride[i] = g->stride[i];
        v.dilation[i] = g->dilation[i];
        v.pad[i] = iso_local_padding(&x, &y, 1 + i, g->stride[i], g->pad_before[i]);
    }
    return v;
}

/* A number as the indices of [.., b, c]: number = (a * b_extent + b) * c_extent + c */
struct three {
    int64_t a;
    int32_t b, c;
};
__device__ __forceinline__ three split(int64_t number, int32_t b_extent, int32_t c_extent)
{
    if (number <= INT32_MAX) {
        int32_t i = static_cast<int32_t>(number), outer = i / c_extent, a = outer / b_extent;
        return {a, outer - a * b_extent, i - outer * c_extent};
    }
    int64_t outer = number / c_extent;
    return {outer / b_extent, static_cast<int32_t>(outer % b_extent),
            static_cast<int32_t>(number % c_extent)};
}

/* ---- as products ----
 * Of the positions [n, p, q] or elements [n, h, w], the taps [r, s, c or f], and filters or channels. */

/* x at output position `at` under tap `tap` [r, s, c] */
template <class T, bool IN_RUNS> struct window_of_x {
    typedef compute<T> C;
    static constexpr bool ALONG_K = IN_RUNS;
    conv v;
    const T *x;
    __device__ C at(int64_t position, int64_t tap) const
    {
        three of = split(position, v.p, v.q), t = split(tap, v.s, v.c);
        int64_t place = v.read(of.a, of.b, of.c, static_cast<int32_t>(t.a), t.b);
        return place < 0 ? C(0) : C(wide(x[place + t.c]));
    }
    /* conv2d: m is the position, k the tap; the gradient of the kernel: m is the tap */
    __device__ C get(int64_t, int64_t m, int64_t k) const
    {
        return IN_RUNS ? at(m, k) : at(k, m);
    }
};

/* dy [n, p, q, f] by element of x [n, h, w] and tap [r, s, f] */
template <class T> struct window_of_dy {
    typedef compute<T> C;
    static constexpr bool ALONG_K = true;
    conv v;
    const T *dy;
    __device__ C get(int64_t, int64_t element, int64_t tap) const
    {
        three of = split(element, v.h, v.w), t = split(tap, v.s, v.f);
        int64_t place = v.read_by(of.a, of.b, of.c, static_cast<int32_t>(t.a), t.b);
        return place < 0 ? C(0) : C(wide(dy[place + t.c]));
    }
};

/* A matrix [k, n] in memory. */
template <class T> struct rows_of_b {
    typedef compute<T> C;
    static constexpr bool ALONG_K = false;
    const T *x;
    int64_t columns;
    __device__ C get(int64_t, int64_t column, int64_t k) const
    {
        return wide(x[k * columns + column]);
    }
};

/* The kernel [r, s, c, f] by tap [r, s, f] and channel. */
template <class T> struct turned_kernel {
    typedef compute<T> C;
    static constexpr bool ALONG_K = true;
    conv v;
    const T *kernel;
    __device__ C get(int64_t, int64_t channel, int64_t tap) const
    {
        int64_t of_tap = tap / v.f;
        return wide(kernel[(of_tap * v.c + channel) * v.f + tap - of_tap * v.f]);
    }
};

/* The sums of products of bfloat16 may be wanted in float32. */
template <class C> struct result {
    reals y;
    int64_t columns;
    __device__ void put(int64_t, int64_t row, int64_t column, C value) const
    {
        y.put(row * columns + column, value);
    }
};

/* ---- grouped ---- */

template <class T> struct grouped {
    typedef compute<T> C;
    conv v;
    const T *x, *kernel;
    reals y;
    __device__ void operator()(int64_t number) const
    {
        int64_t filter = remainder_of(number, v.f), channel = filter / v.fg * v.cg;
        three of = split(number / v.f, v.p, v.q);
        C sum = 0;
        for (int32_t i = 0; i < v.r; i++)
            for (int32_t j = 0; j < v.s; j++) {
                int64_t place = v.read(of.a, of.b, of.c, i, j);
                for (int64_t k = 0; place >= 0 && k < v.cg; k++)
                    sum = fused(C(wide(x[place + channel + k])),
                                C(wide(kernel[((i * v.s + j) * v.cg + k) * v.f + filter])), sum);
            }
        y.put(number, sum);
    }
};

template <class T> struct grouped_input {
    typedef compute<T> C;
    conv v;
    const T *kernel, *dy;
    reals dx;
    __device__ void operator()(int64_t number) const
    {
        int64_t channel = remainder_of(number, v.c), group = channel / v.cg, filter = group * v.fg;
        three of = split(number / v.c, v.h, v.w);
        C sum = 0;
        for (int32_t i = 0; i < v.r; i++)
            for (int32_t j = 0; j < v.s; j++) {
                int64_t place = v.read_by(of.a, of.b, of.c, i, j);
                int64_t tap = ((i * v.s + j) * v.cg + channel - group * v.cg) * v.f + filter;
                for (int64_t k = 0; place >= 0 && k < v.fg; k++)
                    sum = fused(C(wide(dy[place + filter + k])), C(wide(kernel[tap + k])), sum);
            }
        dx.put(number, sum);
    }
};

/* A line of output positions for each weight. */
template <class T> struct grouped_kernel {
    typedef compute<T> C;
    conv v;
    const T *x, *dy;
    reals dkernel;
    template <int L> __device__ void run(line at) const
    {
        int64_t filter = at.row % v.f, rest = at.row / v.f, channel = filter / v.fg * v.cg + rest % v.cg;
        int32_t tap = static_cast<int32_t>(rest / v.cg), i = tap / v.s, j = tap % v.s;
        C sum = 0;
        for (int64_t position = member<L>(); position < at.count; position += L) {
            three of = split(position, v.p, v.q);
            int64_t place = v.read(of.a, of.b, of.c, i, j);
            if (place >= 0)
                sum = fused(C(wide(x[place + channel])), C(wide(dy[position * v.f + filter])), sum);
        }
        sum = join<L, sum_of>(sum);
        if (member<L>() == 0)
            dkernel.put(at.row, sum);
    }
};

/* ---- the ops ---- */

bool has_groups(const conv &v)
{
    return v.cg != v.c;
}

template <class T> const T *input(const iso_kernel_call *call, int i)
{
    return static_cast<const T *>(call->in[i].data);
}

product_shape shape_forward(const conv &v)
{
    return shape_of_product(1, v.n * v.p * v.q, v.f, static_cast<int64_t>(v.r) * v.s * v.c);
}

product_shape shape_input(const conv &v)
{
    return shape_of_product(1, v.n * v.h * v.w, v.c, static_cast<int64_t>(v.r) * v.s * v.f);
}

product_shape shape_kernel(const conv &v)
{
    return shape_of_product(1, static_cast<int64_t>(v.r) * v.s * v.c, v.f, v.n * v.p * v.q);
}

void run_forward(const iso_kernel_call *call)
{
    conv v = conv_of(call, call->in[0], call->in[1], call->out[0]);
    with_float(call->in[0].dtype, [&](auto zero) {
        typedef decltype(zero) T;
        reals y = reals_of(call->out[0]);
        if (has_groups(v))
            for_each(call->stream, iso_array_count(&call->out[0]),
                     grouped<T>{v, input<T>(call, 0), input<T>(call, 1), y});
        else
            run_product(call, shape_forward(v), window_of_x<T, true>{v, input<T>(call, 0)},
                        rows_of_b<T>{input<T>(call, 1), v.f}, result<compute<T>>{y, v.f});
    });
}

void run_input(const iso_kernel_call *call)
{
    conv v = conv_of(call, call->out[0], call->in[0], call->in[1]);
    with_float(call->in[0].dtype, [&](auto zero) {
        typedef decltype(zero) T;
        reals dx = reals_of(call->out[0]);
        if (has_groups(v))
            for_each(call->stream, iso_array_count(&call->out[0]),
                     grouped_input<T>{v, input<T>(call, 0), input<T>(call, 1), dx});
        else
            run_product(call, shape_input(v), window_of_dy<T>{v, input<T>(call, 1)},
                        turned_kernel<T>{v, input<T>(call, 0)}, result<compute<T>>{dx, v.c});
    });
}

void run_kernel(const iso_kernel_call *call)
{
    conv v = conv_of(call, call->in[0], call->out[0], call->in[1]);
    with_float(call->in[0].dtype, [&](auto zero) {
        typedef decltype(zero) T;
        reals dkernel = reals_of(call->out[0]);
        if (has_groups(v))
            for_lines(call->stream, lines{iso_array_count(&call->out[0]), v.n * v.p * v.q, 1},
                      grouped_kernel<T>{v, input<T>(call, 0), input<T>(call, 1), dkernel});
        else
            run_product(call, shape_kernel(v), window_of_x<T, false>{v, input<T>(call, 0)},
                        rows_of_b<T>{input<T>(call, 1), v.f}, result<compute<T>>{dkernel, v.f});
    });
}

size_t scratch_of(const conv &v, const product_shape &s, iso_dtype dtype)
{
    return has_groups(v) ? 0 : dtype == ISO_F64 ? product_scratch<double>(s) : product_scratch<float>(s);
}

size_t forward_scratch(const iso_kernel_call *call)
{
    conv v = conv_of(call, call->in[0], call->in[1], call->out[0]);
    return scratch_of(v, shape_forward(v), call->in[0].dtype);
}

size_t input_scratch(const iso_kernel_call *call)
{
    conv v = conv_of(call, call->out[0], call->in[0], call->in[1]);
    return scratch_of(v, shape_input(v), call->in[0].dtype);
}

size_t kernel_scratch(const iso_kernel_call *call)
{
    conv v = conv_of(call, call->in[0], call->out[0], call->in[1]);
    return scratch_of(v, shape_kernel(v), call->in[0].dtype);
}

} // namespace

ISO_CUDA_KERNEL_WITH(conv2d, run_forward, false, forward_scratch)
ISO_CUDA_KERNEL_WITH(conv2d_grad_input, run_input, false, input_scratch)
ISO_CUDA_KERNEL_WITH(conv2d_grad_kernel, run_kernel, false, kernel_scratch)
