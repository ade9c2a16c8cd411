/* Layer normalisation, row by row, whole or by a slot's part of the channels; see runtime/graph/ops/network.h. Sums of
 * packs are added in double; the variance of whole rows is computed around the mean.
 * Where x is bfloat16, dy and the result may be float32: the kernels stand for casts and additions of bfloat16 around
 * those of float32, and have their bits. */
#include "runtime/backend/cuda/columns.h"
#include "runtime/backend/cuda/strips.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

lines rows_of(const iso_kernel_call *call)
{
    return lines_along(call->in[0], call->in[0].rank - 1);
}

const iso_layer_norm_attrs *attrs_of(const iso_kernel_call *call)
{
    return static_cast<const iso_layer_norm_attrs *>(call->attrs);
}

/* xhat = (x - mean) rstd. The mean is mean + low, so that x - mean of float32 is as accurate as of float64. */
template <class C> struct alignas(4 * sizeof(C)) row_scale {
    C mean, low, rstd;
    __device__ __forceinline__ C centred(C x) const
    {
        return (x - mean) - low;
    }
    __device__ __forceinline__ C xhat(C x) const
    {
        return centred(x) * rstd;
    }
};

template <class C> __device__ __forceinline__ row_scale<C> scale_of_row(double mean, double rstd)
{
    const C rounded = static_cast<C>(mean);
    return {rounded, static_cast<C>(mean - rounded), static_cast<C>(rstd)};
}

/* ---- gamma and beta: numbers of the channels in the type in which kernels compute; NULL: absent ---- */

template <int N, class C>
__device__ __forceinline__ pack<C, N> channels_or(C absent, const C *channels, int64_t k, bool aligned)
{
    if (channels)
        return load_pack<N>(channels + k, aligned);
    pack<C, N> all;
    ISO_UNROLL()
    for (int i = 0; i < N; i++)
        all.at[i] = absent;
    return all;
}

template <class C> struct convert_channels {
    reals from;
    C *to;
    __device__ void operator()(int64_t c) const
    {
        to[c] = from.get<C>(c);
    }
};

/* Input `at` if the call has it. Converted ones are number `which` in the scratch memory. */
template <class C> const C *channels_of(const iso_kernel_call *call, bool has, int at, int which)
{
    if (!has)
        return nullptr;
    if (call->in[at].dtype == (sizeof(C) == sizeof(double) ? ISO_F64 : ISO_F32))
        return static_cast<const C *>(call->in[at].data);
    const int64_t count = iso_array_count(&call->in[at]);
    C *converted = static_cast<C *>(call->scratch) + which * count;
    for_each(call->stream, count, convert_channels<C>{reals_of(call->in[at]), converted});
    return converted;
}

size_t channels_scratch(const iso_kernel_call *call)
{
    return 2 * static_cast<size_t>(rows_of(call).count) * sizeof(double);
}

/* ---- what is done with packs of a row, which begin at channel k ---- */

template <class T, int N, class C> __device__ __forceinline__ pack<T, N> narrowed(const pack<C, N> &x)
{
    pack<T, N> all;
    ISO_UNROLL()
    for (int i = 0; i < N; i++)
        narrow(&all.at[i], x.at[i]);
    return all;
}

/* Numbers after they were stored as T. */
template <class T, int N, class C> __device__ __forceinline__ pack<C, N> rounded(const pack<C, N> &x)
{
    return widened(narrowed<T>(x));
}

/* ---- arrays of T; where T is bfloat16, of bfloat16 or of float32 ---- */

template <class T> struct stored {
    T *data;
    template <class STRIP>
    __device__ __forceinline__ void move(STRIP &row, int64_t begin, line at, bool aligned) const
    {
        row.move(begin, at.count, data + at.begin, aligned);
    }
    template <int N>
    __device__ __forceinline__ void put(int64_t i, const pack<compute<T>, N> &x, bool aligned) const
    {
        store_pack(data + i, narrowed<T>(x), aligned);
    }
    /* x + y; x is rounded before. y: of the same type. */
    template <int N>
    __device__ __forceinline__ void put_sum(int64_t i, const pack<compute<T>, N> &x, const void *y,
                                            bool aligned) const
    {
        auto sum = rounded<T>(x);
        const auto more = load_pack<N>(static_cast<const T *>(y) + i, aligned);
        ISO_UNROLL()
        for (int k = 0; k < N; k++)
            sum.at[k] += wide(more.at[k]);
        put(i, sum, aligned);
    }
};

/* with(f) calls f with what is stored. */
template <class T> struct numbers {
    stored<T> all;
    explicit numbers(const iso_array &x) : all{static_cast<T *>(x.data)}
    {
    }
    template <class F> __device__ __forceinline__ auto with(F f) const
    {
        return f(all);
    }
};

template <> struct numbers<bf16> {
    stored<bf16> narrow; /* one of the two is NULL */
    stored<float> full;
    explicit numbers(const iso_array &x)
        : narrow{x.dtype == ISO_BF16 ? static_cast<bf16 *>(x.data) : nullptr},
          full{x.dtype == ISO_BF16 ? nullptr : static_cast<float *>(x.data)}
    {
    }
    template <class F> __device__ __forceinline__ auto with(F f) const
    {
        return full.data ? f(full) : f(narrow);
    }
};

/* xhat gamma + beta */
template <int N, class C>
__device__ __forceinline__ pack<C, N> scaled(const pack<C, N> &x, const row_scale<C> &m, const C *gamma,
                                             const C *beta, int64_t k, bool aligned)
{
    const auto scale = channels_or<N>(C(1), gamma, k, aligned),
               shift = channels_or<N>(C(0), beta, k, aligned);
    pack<C, N> y;
    ISO_UNROLL()
    for (int i = 0; i < N; i++)
        y.at[i] = fused(m.xhat(x.at[i]), scale.at[i], shift.at[i]);
    return y;
}

/* Adds dxhat = dy gamma to `sum` and dxhat xhat to `products`. */
template <class T, int L, int N, class C>
__device__ __forceinline__ void add_slopes(const strip<T, L, N> &row, const strip<T, L, N> &slopes,
                                           const row_scale<C> &m, const C *gamma, int64_t count, bool aligned,
                                           double &sum, double &products)
{
    row.each(count, [&](int64_t k, int p) {
        const auto scale = channels_or<N>(C(1), gamma, k, aligned);
        C a = 0, b = 0;
        ISO_UNROLL()
        for (int i = 0; i < N; i++) {
            const C dxhat = slopes.own[p].at[i] * scale.at[i];
            a += dxhat;
            b = fused(dxhat, m.xhat(row.own[p].at[i]), b);
        }
        sum += a;
        products += b;
    });
}

/* rstd (dxhat - mean(dxhat) - xhat mean(dxhat xhat)) */
template <int N, class C>
__device__ __forceinline__ pack<C, N> row_gradient(const pack<C, N> &x, const pack<C, N> &dy,
                                                   const row_scale<C> &m, const C *gamma, int64_t k,
                                                   bool aligned, C mean, C mean_xhat)
{
    const auto scale = channels_or<N>(C(1), gamma, k, aligned);
    pack<C, N> dx;
    ISO_UNROLL()
    for (int i = 0; i < N; i++)
        dx.at[i] = m.rstd * (dy.at[i] * scale.at[i] - mean - m.xhat(x.at[i]) * mean_xhat);
    return dx;
}

/* ---- whole rows ---- */

/* x, or its sum with the residual (NULL: none), which is rounded once. */
template <class T, int N> struct addends {
    typedef compute<T> C;
    const T *x, *residual;
    bool aligned;
    struct both {
        pack<T, N> x, residual;
    };
    template <int L> __device__ __forceinline__ void move(strip<T, L, N> &row, int64_t k, line at) const
    {
        const T *a = x + at.begin, *b = residual + at.begin;
        if (!residual)
            return row.move(k, at.count, a, aligned);
        const bool whole = aligned;
        row.read(
            k, at.count,
            [=](int64_t i) {
                return both{load_pack<N>(a + i, whole), load_pack<N>(b + i, whole)};
            },
            [](const both &of) {
                pack<C, N> sum;
                ISO_UNROLL()
                for (int i = 0; i < N; i++)
                    sum.at[i] = wide(of.x.at[i]) + wide(of.residual.at[i]);
                return rounded<T>(sum);
            });
    }
};

/* What a row is divided by: the root of its variance + epsilon; with rms that of its mean square + epsilon. */
struct divisor {
    double epsilon;
    bool rms;
    explicit divisor(const iso_kernel_call *call) : epsilon(attrs_of(call)->epsilon), rms(attrs_of(call)->rms)
    {
    }
};

template <int L, int N, class T>
__device__ __forceinline__ double mean_of(const addends<T, N> &x, strip<T, L, N> &row, line at)
{
    double sum = 0;
    row.for_strips(at.count, [&](int64_t k) {
        x.move(row, k, at);
        row.each(at.count, [&](int64_t, int p) {
            ISO_UNROLL()
            for (int i = 0; i < N; i++)
                sum += row.own[p].at[i];
        });
    });
    return join<L, sum_of>(sum) / static_cast<double>(at.count);
}

template <int L, int N, class T>
__device__ __forceinline__ row_scale<compute<T>> scale_of(const addends<T, N> &x, strip<T, L, N> &row,
                                                          line at, const divisor &by)
{
    typedef compute<T> C;
    const double count = static_cast<double>(at.count), mean = by.rms ? 0 : mean_of(x, row, at);
    double squares = 0;
    const row_scale<C> around = scale_of_row<C>(mean, 1);
    row.for_strips(at.count, [&](int64_t k) {
        x.move(row, k, at);
        row.each(at.count, [&](int64_t, int p) {
            C part = 0;
            ISO_UNROLL()
            for (int i = 0; i < N; i++)
                part = fused(around.centred(row.own[p].at[i]), around.centred(row.own[p].at[i]), part);
            squares += part;
        });
    });
    return scale_of_row<C>(mean, 1 / sqrt(join<L, sum_of>(squares) / count + by.epsilon));
}

/* sum: of x with the residual, if there is one; y may be x. */
template <class T, int N> struct whole {
    typedef compute<T> C;
    addends<T, N> x;
    const C *gamma, *beta;
    T *sum;
    numbers<T> y;
    divisor by;
    template <int L> __device__ void run(line at) const
    {
        strip<T, L, N> row;
        const row_scale<C> m = scale_of<L>(x, row, at, by);
        row.for_strips(at.count, [&](int64_t begin) {
            x.move(row, begin, at);
            row.each(at.count, [&](int64_t k, int p) {
                if (sum)
                    store_pack(sum + at.begin + k, narrowed<T>(row.own[p]), x.aligned);
                const auto out = scaled(row.own[p], m, gamma, beta, k, x.aligned);
                y.with([&](auto to) { to.put(at.begin + k, out, x.aligned); });
            });
        });
    }
};

/* dxhat = dy gamma; dx = rstd (dxhat - mean(dxhat) - xhat mean(dxhat xhat)); with rms without mean(dxhat) */
template <class T, int N> struct whole_gradient {
    typedef compute<T> C;
    addends<T, N> x;
    numbers<T> dy, dx;
    const void *residual; /* of the type of dx */
    const C *gamma;
    divisor by;
    template <int L> __device__ void run(line at) const
    {
        strip<T, L, N> row, slopes;
        const double count = static_cast<double>(at.count);
        double sum = 0, products = 0;
        dy.with([&](auto from) { from.move(slopes, 0, at, x.aligned); }); /* under way early */
        const row_scale<C> m = scale_of<L>(x, row, at, by);
        row.for_strips(at.count, [&](int64_t begin) {
            x.move(row, begin, at);
            dy.with([&](auto from) { from.move(slopes, begin, at, x.aligned); });
            add_slopes(row, slopes, m, gamma, at.count, x.aligned, sum, products);
        });
        const C mean = by.rms ? C(0) : static_cast<C>(join<L, sum_of>(sum) / count),
                mean_xhat = static_cast<C>(join<L, sum_of>(products) / count);
        row.for_strips(at.count, [&](int64_t begin) {
            x.move(row, begin, at);
            dy.with([&](auto from) { from.move(slopes, begin, at, x.aligned); });
            row.each(at.count, [&](int64_t k, int p) {
                const auto out =
                    row_gradient(row.own[p], slopes.own[p], m, gamma, k, x.aligned, mean, mean_xhat);
                dx.with([&](auto to) {
                    if (residual)
                        to.put_sum(at.begin + k, out, residual, x.aligned);
                    else
                        to.put(at.begin + k, out, x.aligned);
                });
            });
        });
    }
};

/* The scale of each row, for the sums over rows. */
template <class T, int N> struct keep_scales {
    addends<T, N> x;
    row_scale<compute<T>> *rows;
    divisor by;
    template <int L> __device__ void run(line at) const
    {
        strip<T, L, N> row;
        const auto m = scale_of<L>(x, row, at, by);
        if (member<L>() == 0)
            rows[at.row] = m;
    }
};

/* Sums over the rows of dy xhat and of dy. */
template <class T> struct weight_sums {
    typedef two_sums state;
    const T *x;
    numbers<T> dy;
    const row_scale<compute<T>> *rows;
    int64_t channels;
    reals dgamma, dbeta;
    __device__ state start() const
    {
        return {0, 0};
    }
    __device__ void add(state &sum, int64_t row, int64_t channel) const
    {
        const double slope = dy.with([=](auto of) { return wide(of.data[row * channels + channel]); });
        sum.a += slope * rows[row].xhat(wide(x[row * channels + channel]));
        sum.b += slope;
    }
    __device__ void join(state &sum, const state &later) const
    {
        join_two(sum, later);
    }
    __device__ void finish(int64_t channel, const state &sum) const
    {
        dgamma.put(channel, sum.a);
        dbeta.put(channel, sum.b);
    }
};

template <class T> const T *data_of(const iso_kernel_call *call, int input)
{
    return static_cast<const T *>(call->in[input].data);
}

template <class T> const T *residual_of(const iso_kernel_call *call)
{
    return attrs_of(call)->residual ? data_of<T>(call, call->n_inputs - 1) : nullptr;
}

void run_whole(const iso_kernel_call *call)
{
    const iso_layer_norm_attrs *attrs = attrs_of(call);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        typedef compute<T> C;
        const T *x = data_of<T>(call, 0), *residual = residual_of<T>(call);
        const C *gamma = channels_of<C>(call, attrs->has_gamma, 1, 0),
                *beta = channels_of<C>(call, attrs->has_beta, attrs->has_gamma ? 2 : 1, 1);
        T *sum = residual ? static_cast<T *>(call->out[1].data) : nullptr;
        const bool all = aligned({x, residual, gamma, beta, call->out[0].data, sum});
        const numbers<T> y(call->out[0]);
        for_rows<T>(call->stream, rows_of(call), [=](auto width) {
            return whole<T, width>{{x, residual, all}, gamma, beta, sum, y, divisor(call)};
        });
    });
}

void run_whole_gradient(const iso_kernel_call *call)
{
    const iso_layer_norm_attrs *attrs = attrs_of(call);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        typedef compute<T> C;
        const T *x = data_of<T>(call, 0);
        const void *residual = residual_of<void>(call);
        const C *gamma = channels_of<C>(call, attrs->has_gamma, 2, 0);
        const bool all = aligned({x, call->in[1].data, residual, gamma, call->out[0].data});
        const numbers<T> dy(call->in[1]), dx(call->out[0]);
        for_rows<T>(call->stream, rows_of(call), [=](auto width) {
            return whole_gradient<T, width>{{x, nullptr, all}, dy, dx, residual, gamma, divisor(call)};
        });
    });
}

size_t scales_bytes(const iso_kernel_call *call)
{
    const size_t of_row = call->in[0].dtype == ISO_F64 ? sizeof(row_scale<double>) : sizeof(row_scale<float>);
    return static_cast<size_t>(rows_of(call).outer) * of_row;
}

/* The scales of the rows, then the parts of the sums. */
size_t weight_sums_scratch(const iso_kernel_call *call)
{
    lines rows = rows_of(call);
    return scales_bytes(call) + columns_scratch<two_sums>(rows.outer, rows.count);
}

/* `scales` are in the scratch memory. */
template <class T> void add_weight_sums(const iso_kernel_call *call, const row_scale<compute<T>> *scales)
{
    const lines rows = rows_of(call);
    iso_kernel_call rest = *call;
    rest.scratch = static_cast<char *>(call->scratch) + scales_bytes(call);
    for_columns(&rest, rows.outer, rows.count,
                weight_sums<T>{data_of<T>(call, 0), numbers<T>(call->in[1]), scales, rows.count,
                               reals_of(call->out[0]), reals_of(call->out[1])});
}

void run_weight_sums(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        const T *x = data_of<T>(call, 0);
        auto *scales = static_cast<row_scale<compute<T>> *>(call->scratch);
        for_rows<T>(call->stream, rows_of(call), [=](auto width) {
            return keep_scales<T, width>{{x, nullptr, aligned({x})}, scales, divisor(call)};
        });
        add_weight_sums<T>(call, scales);
    });
}

/* ---- a part of the channels; rows of sums are F64 ---- */

/* Computes a row's scale from its sums over all channels. */
struct row_sums {
    const double *sum, *squares;
    double count; /* of all channels */
    divisor by;
    template <class C> __device__ row_scale<C> get(int64_t row) const
    {
        double mean = by.rms ? 0 : sum[row] / count, variance = squares[row] / count - mean * mean;
        return scale_of_row<C>(mean, 1 / sqrt((variance > 0 ? variance : 0) + by.epsilon));
    }
};

row_sums row_sums_of(const iso_kernel_call *call, int at)
{
    const iso_array &x = call->in[0];
    return {data_of<double>(call, at), data_of<double>(call, at + 1),
            static_cast<double>(x.global[x.rank - 1]), divisor(call)};
}

/* Each reads a strip once. */
template <class T, int N> struct part_moments {
    addends<T, N> x;
    double *sum, *squares;
    template <int L> __device__ void run(line at) const
    {
        strip<T, L, N> row;
        double a = 0, b = 0;
        row.for_strips(at.count, [&](int64_t begin) {
            x.move(row, begin, at);
            row.each(at.count, [&](int64_t, int p) {
                ISO_UNROLL()
                for (int i = 0; i < N; i++) {
                    const double value = row.own[p].at[i];
                    a += value;
                    b += value * value;
                }
            });
        });
        a = join<L, sum_of>(a);
        b = join<L, sum_of>(b);
        if (member<L>() == 0) {
            sum[at.row] = a;
            squares[at.row] = b;
        }
    }
};

template <class T, int N> struct part_scale {
    typedef compute<T> C;
    addends<T, N> x;
    row_sums rows;
    const C *gamma, *beta;
    T *y;
    template <int L> __device__ void run(line at) const
    {
        strip<T, L, N> row;
        const row_scale<C> m = rows.template get<C>(at.row);
        row.for_strips(at.count, [&](int64_t begin) {
            x.move(row, begin, at);
            row.each(at.count, [&](int64_t k, int p) {
                const auto out = scaled(row.own[p], m, gamma, beta, k, x.aligned);
                store_pack(y + at.begin + k, narrowed<T>(out), x.aligned);
            });
        });
    }
};

template <class T, int N> struct part_grad_sums {
    typedef compute<T> C;
    addends<T, N> x;
    const T *dy;
    row_sums rows;
    const C *gamma;
    double *sum, *products;
    template <int L> __device__ void run(line at) const
    {
        strip<T, L, N> row, slopes;
        const row_scale<C> m = rows.template get<C>(at.row);
        double a = 0, b = 0;
        row.for_strips(at.count, [&](int64_t begin) {
            x.move(row, begin, at);
            slopes.move(begin, at.count, dy + at.begin, x.aligned);
            add_slopes(row, slopes, m, gamma, at.count, x.aligned, a, b);
        });
        a = join<L, sum_of>(a);
        b = join<L, sum_of>(b);
        if (member<L>() == 0) {
            sum[at.row] = a;
            products[at.row] = b;
        }
    }
};

template <class T, int N> struct part_grad {
    typedef compute<T> C;
    addends<T, N> x;
    const T *dy;
    row_sums rows;
    const double *sum, *products;
    const C *gamma;
    T *dx;
    template <int L> __device__ void run(line at) const
    {
        strip<T, L, N> row, slopes;
        const row_scale<C> m = rows.template get<C>(at.row);
        const C mean = rows.by.rms ? C(0) : static_cast<C>(sum[at.row] / rows.count),
                mean_xhat = static_cast<C>(products[at.row] / rows.count);
        row.for_strips(at.count, [&](int64_t begin) {
            x.move(row, begin, at);
            slopes.move(begin, at.count, dy + at.begin, x.aligned);
            row.each(at.count, [&](int64_t k, int p) {
                const auto out =
                    row_gradient(row.own[p], slopes.own[p], m, gamma, k, x.aligned, mean, mean_xhat);
                store_pack(dx + at.begin + k, narrowed<T>(out), x.aligned);
            });
        });
    }
};

template <class C> struct keep_part_scales {
    row_sums rows;
    row_scale<C> *kept;
    __device__ void operator()(int64_t row) const
    {
        kept[row] = rows.get<C>(row);
    }
};

void run_part_moments(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        const T *x = data_of<T>(call, 0);
        double *sum = static_cast<double *>(call->out[0].data),
               *squares = static_cast<double *>(call->out[1].data);
        for_rows<T>(call->stream, rows_of(call), [=](auto width) {
            return part_moments<T, width>{{x, nullptr, aligned({x})}, sum, squares};
        });
    });
}

void run_part_scale(const iso_kernel_call *call)
{
    const iso_layer_norm_attrs *attrs = attrs_of(call);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        typedef compute<T> C;
        const T *x = data_of<T>(call, 0);
        const C *gamma = channels_of<C>(call, attrs->has_gamma, 3, 0),
                *beta = channels_of<C>(call, attrs->has_beta, attrs->has_gamma ? 4 : 3, 1);
        T *y = static_cast<T *>(call->out[0].data);
        for_rows<T>(call->stream, rows_of(call), [=](auto width) {
            return part_scale<T, width>{
                {x, nullptr, aligned({x, gamma, beta, y})}, row_sums_of(call, 1), gamma, beta, y};
        });
    });
}

void run_part_grad_sums(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        const T *x = data_of<T>(call, 0), *dy = data_of<T>(call, 1);
        const auto *gamma = channels_of<compute<T>>(call, attrs_of(call)->has_gamma, 4, 0);
        double *sum = static_cast<double *>(call->out[0].data),
               *products = static_cast<double *>(call->out[1].data);
        for_rows<T>(call->stream, rows_of(call), [=](auto width) {
            return part_grad_sums<T, width>{
                {x, nullptr, aligned({x, dy, gamma})}, dy, row_sums_of(call, 2), gamma, sum, products};
        });
    });
}

void run_part_grad(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        const T *x = data_of<T>(call, 0), *dy = data_of<T>(call, 1);
        const auto *gamma = channels_of<compute<T>>(call, attrs_of(call)->has_gamma, 6, 0);
        const double *sum = data_of<double>(call, 4), *products = data_of<double>(call, 5);
        T *dx = static_cast<T *>(call->out[0].data);
        for_rows<T>(call->stream, rows_of(call), [=](auto width) {
            return part_grad<T, width>{{x, nullptr, aligned({x, dy, gamma, dx})},
                                       dy,
                                       row_sums_of(call, 2),
                                       sum,
                                       products,
                                       gamma,
                                       dx};
        });
    });
}

void run_part_weight_sums(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        typedef compute<T> C;
        auto *scales = static_cast<row_scale<C> *>(call->scratch);
        for_each(call->stream, rows_of(call).outer, keep_part_scales<C>{row_sums_of(call, 2), scales});
        add_weight_sums<T>(call, scales);
    });
}

} // namespace

ISO_CUDA_KERNEL_WITH(layer_norm, run_whole, true, channels_scratch)
ISO_CUDA_KERNEL_WITH(layer_norm_grad, run_whole_gradient, true, channels_scratch)
ISO_CUDA_KERNEL_WITH(layer_norm_grad_sums, run_weight_sums, false, weight_sums_scratch)
ISO_CUDA_KERNEL(layer_moments, run_part_moments, false)
ISO_CUDA_KERNEL_WITH(layer_scale, run_part_scale, true, channels_scratch)
ISO_CUDA_KERNEL_WITH(layer_grad_sums, run_part_grad_sums, false, channels_scratch)
ISO_CUDA_KERNEL_WITH(layer_grad, run_part_grad, true, channels_scratch)
ISO_CUDA_KERNEL_WITH(layer_weight_sums, run_part_weight_sums, false, weight_sums_scratch)
