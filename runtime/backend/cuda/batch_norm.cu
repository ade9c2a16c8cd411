/* Batch normalisation and its statistics; see runtime/graph/ops/batch_norm.c for the formulas. The last
 * dimension is the channel. */
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

/* y = (x - mean) scale + shift, then the activation. The means are those of dy and dy xhat, for the
 * gradient. */
struct channel {
    double mean, rstd, scale, shift, mean_dy, mean_dy_xhat;
    __device__ double output(double x) const
    {
        return (x - mean) * scale + shift;
    }
    /* dy before the activation. */
    __device__ double slope(bool relu, double x, double dy) const
    {
        return !relu || output(x) > 0 ? dy : 0;
    }
};

struct make_channels {
    reals mean, variance, gamma, beta, sum_dy, sum_dy_xhat; /* some of them absent */
    double epsilon;
    iso_moments_attrs attrs;
    const iso_step_info *info;
    channel *table;
    __device__ void operator()(int64_t c) const
    {
        double count = iso_moments_count(&attrs, info->rows);
        channel of;
        of.mean = mean.get<double>(c);
        of.rstd = 1 / sqrt(variance.get<double>(c) + epsilon);
        of.scale = of.rstd * gamma.or_else(1.0, c);
        of.shift = beta.or_else(0.0, c);
        of.mean_dy = sum_dy.or_else(0.0, c) / count;
        of.mean_dy_xhat = sum_dy_xhat.or_else(0.0, c) / count;
        table[c] = of;
    }
};

size_t table_bytes(const iso_kernel_call *call)
{
    return static_cast<size_t>(last_dim(call->in[0])) * sizeof(channel);
}

size_t table_and_sums_scratch(const iso_kernel_call *call)
{
    return table_bytes(call) + moments_scratch(call);
}

bool has_relu(const iso_kernel_call *call)
{
    return attrs_of(call)->activation == ISO_FUSED_RELU;
}

/* mean and variance are inputs `at` and `at` + 1; the sums, gamma and beta follow if they are there. */
const channel *table_of(const iso_kernel_call *call, int at, bool sums, bool gamma, bool beta)
{
    const iso_batch_norm_attrs *attrs = attrs_of(call);
    channel *table = static_cast<channel *>(call->scratch);
    int of_sums = at + 2, of_gamma = of_sums + (sums ? 2 : 0), of_beta = of_gamma + (gamma ? 1 : 0);
    for_each(call->stream, last_dim(call->in[0]),
             make_channels{reals_of(call->in[at]), reals_of(call->in[at + 1]),
                           optional_input(call, gamma, of_gamma), optional_input(call, beta, of_beta),
                           optional_input(call, sums, of_sums), optional_input(call, sums, of_sums + 1),
                           attrs->epsilon, attrs->moments, call->info, table});
    return table;
}

/* ---- normalisation ---- */

template <class T> struct normalize {
    const T *x;
    T *y;
    const channel *table;
    int64_t channels;
    bool relu;
    __device__ void operator()(int64_t i) const
    {
        double value = table[remainder_of(i, channels)].output(wide(x[i]));
        narrow(&y[i], static_cast<compute<T>>(relu && value < 0 ? 0 : value));
    }
};

void run_batch_norm(const iso_kernel_call *call)
{
    const channel *table = table_of(call, 1, false, attrs_of(call)->has_gamma, attrs_of(call)->has_beta);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_each(call->stream, iso_array_count(&call->in[0]),
                 normalize<T>{static_cast<const T *>(call->in[0].data), static_cast<T *>(call->out[0].data),
                              table, last_dim(call->in[0]), has_relu(call)});
    });
}

/* ---- gradients; inputs x, dy, mean, variance ---- */

template <class T> struct gradient_sums {
    typedef two_sums state;
    const T *x, *dy;
    const channel *table;
    int64_t channels;
    bool relu;
    reals sum, sum_xhat;
    __device__ state start() const
    {
        return {0, 0};
    }
    __device__ void add(state &s, int64_t row, int64_t c) const
    {
        double value = wide(x[row * channels + c]);
        double slope = table[c].slope(relu, value, wide(dy[row * channels + c]));
        s.a += slope;
        s.b += slope * (value - table[c].mean);
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
    bool relu = has_relu(call);
    const channel *table =
        table_of(call, 2, false, relu && attrs_of(call)->has_gamma, relu && attrs_of(call)->has_beta);
    iso_kernel_call rest = *call;
    rest.scratch = static_cast<char *>(call->scratch) + table_bytes(call);
    with_float(call->in[0].dtype, [&](auto zero) {
        typedef decltype(zero) T;
        for_columns(&rest, rows.outer, rows.count,
                    gradient_sums<T>{static_cast<const T *>(call->in[0].data),
                                     static_cast<const T *>(call->in[1].data), table, rows.count, relu,
                                     reals_of(call->out[0]), reals_of(call->out[1])});
    });
}

template <class T> struct gradient {
    const T *x, *dy;
    T *dx;
    const channel *table;
    int64_t channels;
    bool relu;
    __device__ void operator()(int64_t i) const
    {
        const channel of = table[remainder_of(i, channels)];
        double value = wide(x[i]), xhat = (value - of.mean) * of.rstd;
        double inner = of.slope(relu, value, wide(dy[i])) - of.mean_dy - xhat * of.mean_dy_xhat;
        narrow(&dx[i], static_cast<compute<T>>(of.scale * inner));
    }
};

/* sum(dy), sum(dy xhat) and gamma follow, and with an activation beta. */
void run_gradient(const iso_kernel_call *call)
{
    bool relu = has_relu(call);
    const channel *table =
        table_of(call, 2, true, attrs_of(call)->has_gamma, relu && attrs_of(call)->has_beta);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_each(call->stream, iso_array_count(&call->in[0]),
                 gradient<T>{static_cast<const T *>(call->in[0].data),
                             static_cast<const T *>(call->in[1].data), static_cast<T *>(call->out[0].data),
                             table, last_dim(call->in[0]), relu});
    });
}

} // namespace

ISO_CUDA_KERNEL_WITH(batch_moments, run_moments, false, moments_scratch)
ISO_CUDA_KERNEL(moments_finish, run_finish, false)
ISO_CUDA_KERNEL(moments_finish_grad, run_finish_gradient, false)
ISO_CUDA_KERNEL_WITH(batch_norm, run_batch_norm, true, table_bytes)
ISO_CUDA_KERNEL_WITH(batch_norm_grad_sums, run_gradient_sums, false, table_and_sums_scratch)
ISO_CUDA_KERNEL_WITH(batch_norm_grad, run_gradient, true, table_bytes)
