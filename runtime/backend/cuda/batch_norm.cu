/* Batch normalisation and its statistics; see runtime/graph/ops/batch_norm.c for the formulas. The last
 * dimension is the channel. */
#include "runtime/backend/cuda/channels.h"
#include "runtime/backend/cuda/columns.h"
#include "runtime/backend/cuda/lines.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

const iso_batch_norm_attrs *attrs_of(const iso_kernel_call *call)
{
    return static_cast<const iso_batch_norm_attrs *>(call->attrs);
}

/* ---- statistics ---- */

template <class T> struct moments {
    typedef two_sums state;
    const T *x;
    int64_t channels;
    double *sums, *squares;
    __device__ state start() const
    {
        return {0, 0};
    }
    __device__ void add(state &sum, int64_t row, int64_t channel) const
    {
        double value = wide(x[row * channels + channel]);
        sum.a += value;
        sum.b += value * value;
    }
    __device__ void join(state &sum, const state &later) const
    {
        join_two(sum, later);
    }
    __device__ void finish(int64_t channel, const state &sum) const
    {
        sums[channel] = sum.a;
        squares[channel] = sum.b;
    }
};

lines rows_of(const iso_kernel_call *call)
{
    return lines_along(call->in[0], call->in[0].rank - 1);
}

size_t moments_scratch(const iso_kernel_call *call)
{
    lines rows = rows_of(call);
    return columns_scratch<two_sums>(rows.outer, rows.count);
}

void run_moments(const iso_kernel_call *call)
{
    lines rows = rows_of(call);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_columns(call, rows.outer, rows.count,
                    moments<T>{static_cast<const T *>(call->in[0].data), rows.count,
                               static_cast<double *>(call->out[0].data),
                               static_cast<double *>(call->out[1].data)});
    });
}

struct finish_moments {
    iso_moments_attrs attrs;
    const iso_step_info *info;
    const double *sum, *squares;
    double *mean, *variance;
    __device__ void operator()(int64_t c) const
    {
        double count = iso_moments_count(&attrs, info->rows), middle = sum[c] / count;
        mean[c] = middle;
        variance[c] = fmax(0.0, squares[c] / count - middle * middle);
    }
};

void run_finish(const iso_kernel_call *call)
{
    for_each(call->stream, call->in[0].dim[0],
             finish_moments{
                 *static_cast<const iso_moments_attrs *>(call->attrs), call->info,
                 static_cast<const double *>(call->in[0].data), static_cast<const double *>(call->in[1].data),
                 static_cast<double *>(call->out[0].data), static_cast<double *>(call->out[1].data)});
}

/* dsum = (dmean - 2 mean dvariance) / n, dsquares = dvariance / n */
struct finish_gradient {
    iso_moments_attrs attrs;
    const iso_step_info *info;
    const double *mean, *dmean, *dvariance;
    double *dsum, *dsquares;
    __device__ void operator()(int64_t c) const
    {
        double count = iso_moments_count(&attrs, info->rows);
        dsum[c] = (dmean[c] - 2 * mean[c] * dvariance[c]) / count;
        dsquares[c] = dvariance[c] / count;
    }
};

void run_finish_gradient(const iso_kernel_call *call)
{
    for_each(call->stream, call->in[0].dim[0],
             finish_gradient{
                 *static_cast<const iso_moments_attrs *>(call->attrs), call->info,
                 static_cast<const double *>(call->in[0].data), static_cast<const double *>(call->in[1].data),
                 static_cast<const double *>(call->in[2].data), static_cast<double *>(call->out[0].data),
                 static_cast<double *>(call->out[1].data)});
}

/* ---- a table of the channels, made first ---- */

/* The ReLU that follows, if any, and its largest result. */
struct activation {
    bool relu;
    double largest;
};

/* The mean is mean + low, so that x - mean of float32 is as accurate as of float64.
 * y = (x - mean) scale + shift, then the activation; dx = scale dy - offset - (x - mean) slope. */
template <class C> struct alignas(4 * sizeof(C)) channel {
    C mean, low, scale, shift, offset, slope, rstd;
    __device__ __forceinline__ C centred(C x) const
    {
        return (x - mean) - low;
    }
    __device__ __forceinline__ C output(C x) const
    {
        return fused(centred(x), scale, shift);
    }
    /* y, and dy before the activation, without branches. */
    __device__ __forceinline__ C activated(const activation &a, C x) const
    {
        const C value = output(x);
        const C least = (a.relu & (value < 0)) ? C(0) : value;
        return least > C(a.largest) ? C(a.largest) : least;
    }
    __device__ __forceinline__ C before(const activation &a, C x, C dy) const
    {
        const C value = output(x);
        return ((!a.relu) | ((value > 0) & (value < C(a.largest)))) ? dy : C(0);
    }
    __device__ __forceinline__ C gradient(const activation &a, C x, C dy) const
    {
        return fused(scale, before(a, x, dy), -fused(centred(x), slope, offset));
    }
};

template <class C> struct make_channels {
    reals mean, variance, gamma, beta, sum_dy, sum_dy_xhat; /* some of them absent */
    double epsilon;
    iso_moments_attrs attrs;
    const iso_step_info *info;
    channel<C> *table;
    __device__ void operator()(int64_t c) const
    {
        double count = iso_moments_count(&attrs, info->rows), middle = mean.get<double>(c);
        double rstd = 1 / sqrt(variance.get<double>(c) + epsilon), scale = rstd * gamma.or_else(1.0, c);
        channel<C> of;
        of.mean = static_cast<C>(middle);
        of.low = static_cast<C>(middle - of.mean);
        of.scale = static_cast<C>(scale);
        of.shift = beta.or_else(C(0), c);
        of.offset = static_cast<C>(scale * sum_dy.or_else(0.0, c) / count);
        of.slope = static_cast<C>(scale * rstd * sum_dy_xhat.or_else(0.0, c) / count);
        of.rstd = static_cast<C>(rstd);
        table[c] = of;
    }
};

size_t table_bytes(const iso_kernel_call *call)
{
    size_t of_channel = call->in[0].dtype == ISO_F64 ? sizeof(channel<double>) : sizeof(channel<float>);
    return static_cast<size_t>(last_dim(call->in[0])) * of_channel;
}

size_t table_and_sums_scratch(const iso_kernel_call *call)
{
    return table_bytes(call) + moments_scratch(call);
}

activation activation_of(const iso_kernel_call *call)
{
    const bool relu = attrs_of(call)->activation == ISO_FUSED_RELU;
    return {relu, relu ? attrs_of(call)->largest : INFINITY};
}

/* mean and variance are inputs `at` and `at` + 1; the sums, gamma and beta follow if they are there. */
template <class C>
const channel<C> *table_of(const iso_kernel_call *call, int at, bool sums, bool gamma, bool beta)
{
    const iso_batch_norm_attrs *attrs = attrs_of(call);
    channel<C> *table = static_cast<channel<C> *>(call->scratch);
    int of_sums = at + 2, of_gamma = of_sums + (sums ? 2 : 0), of_beta = of_gamma + (gamma ? 1 : 0);
    for_each(call->stream, last_dim(call->in[0]),
             make_channels<C>{reals_of(call->in[at]), reals_of(call->in[at + 1]),
                              optional_input(call, gamma, of_gamma), optional_input(call, beta, of_beta),
                              optional_input(call, sums, of_sums), optional_input(call, sums, of_sums + 1),
                              attrs->epsilon, attrs->moments, call->info, table});
    return table;
}

/* ---- normalisation ---- */

template <class T> struct normalize {
    typedef compute<T> C;
    const T *x;
    T *y;
    const channel<C> *table;
    int64_t count;
    activation then;
    template <int N> __device__ numbers<N, channel<C>> channels(int64_t first) const
    {
        return numbers_of<N>(table, count, first);
    }
    template <int N> __device__ pack<T, N> load(int64_t i) const
    {
        return load_pack<N>(x + i);
    }
    template <int N>
    __device__ void put(int64_t i, const pack<T, N> &in, const numbers<N, channel<C>> &own) const
    {
        pack<T, N> out;
        ISO_UNROLL()
        for (int k = 0; k < N; k++)
            narrow(&out.at[k], own.of[k].activated(then, wide(in.at[k])));
        store_pack(y + i, out);
    }
};

void run_batch_norm(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        const T *x = static_cast<const T *>(call->in[0].data);
        T *y = static_cast<T *>(call->out[0].data);
        const auto *table =
            table_of<compute<T>>(call, 1, false, attrs_of(call)->has_gamma, attrs_of(call)->has_beta);
        int64_t channels = last_dim(call->in[0]);
        for_channels<16 / sizeof(T)>(call->stream, iso_array_count(&call->in[0]), channels, aligned({x, y}),
                                     normalize<T>{x, y, table, channels, activation_of(call)});
    });
}

/* ---- gradients; inputs x, dy, mean, variance ---- */

template <class T> struct gradient_sums {
    typedef two_sums state;
    typedef compute<T> C;
    const T *x, *dy;
    const channel<C> *table;
    int64_t channels;
    activation then;
    reals sum, sum_xhat;
    __device__ state start() const
    {
        return {0, 0};
    }
    __device__ void add(state &s, int64_t row, int64_t c) const
    {
        const channel<C> of = table[c];
        const C value = wide(x[row * channels + c]);
        const double slope = of.before(then, value, wide(dy[row * channels + c]));
        s.a += slope;
        s.b += slope * of.centred(value);
    }
    __device__ void join(state &s, const state &later) const
    {
        join_two(s, later);
    }
    __device__ void finish(int64_t c, const state &s) const
    {
        sum.put(c, s.a);
        sum_xhat.put(c, s.b * table[c].rstd);
    }
};

/* With an activation gamma and beta follow. */
void run_gradient_sums(const iso_kernel_call *call)
{
    lines rows = rows_of(call);
    const activation then = activation_of(call);
    bool gamma = then.relu && attrs_of(call)->has_gamma, beta = then.relu && attrs_of(call)->has_beta;
    iso_kernel_call rest = *call;
    rest.scratch = static_cast<char *>(call->scratch) + table_bytes(call);
    with_float(call->in[0].dtype, [&](auto zero) {
        typedef decltype(zero) T;
        const auto *table = table_of<compute<T>>(call, 2, false, gamma, beta);
        for_columns(&rest, rows.outer, rows.count,
                    gradient_sums<T>{static_cast<const T *>(call->in[0].data),
                                     static_cast<const T *>(call->in[1].data), table, rows.count, then,
                                     reals_of(call->out[0]), reals_of(call->out[1])});
    });
}

template <class T> struct gradient {
    typedef compute<T> C;
    const T *x, *dy;
    T *dx;
    const channel<C> *table;
    int64_t count;
    activation then;
    template <int N> struct pair {
        pack<T, N> x, dy;
    };
    template <int N> __device__ numbers<N, channel<C>> channels(int64_t first) const
    {
        return numbers_of<N>(table, count, first);
    }
    template <int N> __device__ pair<N> load(int64_t i) const
    {
        return {load_pack<N>(x + i), load_pack<N>(dy + i)};
    }
    template <int N>
    __device__ void put(int64_t i, const pair<N> &in, const numbers<N, channel<C>> &own) const
    {
        pack<T, N> out;
        ISO_UNROLL()
        for (int k = 0; k < N; k++)
            narrow(&out.at[k], own.of[k].gradient(then, wide(in.x.at[k]), wide(in.dy.at[k])));
        store_pack(dx + i, out);
    }
};

/* sum(dy), sum(dy xhat) and gamma follow, and with an activation beta. */
void run_gradient(const iso_kernel_call *call)
{
    const activation then = activation_of(call);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        const T *x = static_cast<const T *>(call->in[0].data), *dy = static_cast<const T *>(call->in[1].data);
        T *dx = static_cast<T *>(call->out[0].data);
        const auto *table = table_of<compute<T>>(call, 2, true, attrs_of(call)->has_gamma,
                                                 then.relu && attrs_of(call)->has_beta);
        int64_t channels = last_dim(call->in[0]);
        for_channels<16 / sizeof(T)>(call->stream, iso_array_count(&call->in[0]), channels,
                                     aligned({x, dy, dx}), gradient<T>{x, dy, dx, table, channels, then});
    });
}

} // namespace

ISO_CUDA_KERNEL_WITH(batch_moments, run_moments, false, moments_scratch)
ISO_CUDA_KERNEL(moments_finish, run_finish, false)
ISO_CUDA_KERNEL(moments_finish_grad, run_finish_gradient, false)
ISO_CUDA_KERNEL_WITH(batch_norm, run_batch_norm, true, table_bytes)
ISO_CUDA_KERNEL_WITH(batch_norm_grad_sums, run_gradient_sums, false, table_and_sums_scratch)
ISO_CUDA_KERNEL_WITH(batch_norm_grad, run_gradient, true, table_bytes)
