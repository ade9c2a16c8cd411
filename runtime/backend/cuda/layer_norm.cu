/* Layer normalisation, row by row, whole or by a slot's part of the channels; see
 * runtime/graph/ops/network.h. Sums are double; the variance of whole rows is computed around the mean. */
#include "runtime/backend/cuda/columns.h"
#include "runtime/backend/cuda/lines.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

struct row_moments {
    double mean, rstd;
};

lines rows_of(const iso_kernel_call *call)
{
    return lines_along(call->in[0], call->in[0].rank - 1);
}

const iso_layer_norm_attrs *attrs_of(const iso_kernel_call *call)
{
    return static_cast<const iso_layer_norm_attrs *>(call->attrs);
}

/* ---- whole rows ---- */

/* x, or its sum with the residual (NULL: none), which is rounded once. */
template <class T> struct addends {
    const T *x, *residual;
    __device__ double get(int64_t i) const
    {
        return residual ? static_cast<compute<T>>(wide(x[i]) + wide(residual[i])) : wide(x[i]);
    }
};

template <int L, class T> __device__ row_moments moments_of(addends<T> x, line at, double epsilon)
{
    double sum = 0, squares = 0, count = static_cast<double>(at.count);
    ISO_CUDA_ALONG(L, at)
    sum += x.get(i);
    double mean = join<L, sum_of>(sum) / count;
    ISO_CUDA_ALONG(L, at)
    squares += (x.get(i) - mean) * (x.get(i) - mean);
    return {mean, 1 / sqrt(join<L, sum_of>(squares) / count + epsilon)};
}

template <int L, class T> __device__ row_moments moments_of(const T *x, line at, double epsilon)
{
    return moments_of<L>(addends<T>{x, nullptr}, at, epsilon);
}

/* sum: of x with the residual, if there is one; y may be x. */
template <class T> struct whole {
    addends<T> x;
    reals gamma, beta;
    T *sum, *y;
    double epsilon;
    template <int L> __device__ void run(line at) const
    {
        row_moments m = moments_of<L>(x, at, epsilon);
        ISO_CUDA_ALONG(L, at)
        {
            double value = x.get(i);
            if (sum)
                narrow(&sum[i], static_cast<compute<T>>(value));
            narrow(&y[i], static_cast<compute<T>>((value - m.mean) * m.rstd * gamma.or_else(1.0, k) +
                                                  beta.or_else(0.0, k)));
        }
    }
};

/* dxhat = dy gamma; dx = rstd (dxhat - mean(dxhat) - xhat mean(dxhat xhat)) */
template <class T> struct whole_gradient {
    const T *x, *dy, *residual;
    reals gamma;
    T *dx;
    double epsilon;
    template <int L> __device__ void run(line at) const
    {
        row_moments m = moments_of<L>(x, at, epsilon);
        double sum = 0, products = 0, count = static_cast<double>(at.count);
        ISO_CUDA_ALONG(L, at)
        {
            double dxhat = wide(dy[i]) * gamma.or_else(1.0, k);
            sum += dxhat;
            products += dxhat * (wide(x[i]) - m.mean) * m.rstd;
        }
        double mean = join<L, sum_of>(sum) / count, mean_xhat = join<L, sum_of>(products) / count;
        ISO_CUDA_ALONG(L, at)
        {
            double dxhat = wide(dy[i]) * gamma.or_else(1.0, k), xhat = (wide(x[i]) - m.mean) * m.rstd;
            compute<T> slope = static_cast<compute<T>>(m.rstd * (dxhat - mean - xhat * mean_xhat));
            narrow(&dx[i], residual
                               ? static_cast<compute<T>>(slope + static_cast<compute<T>>(wide(residual[i])))
                               : slope);
        }
    }
};

/* The moments of each row, for the sums over rows. */
template <class T> struct keep_moments {
    const T *x;
    row_moments *rows;
    double epsilon;
    template <int L> __device__ void run(line at) const
    {
        row_moments m = moments_of<L>(x, at, epsilon);
        if (member<L>() == 0)
            rows[at.row] = m;
    }
};

/* Sums over the rows of dy xhat and of dy. */
template <class T> struct weight_sums {
    typedef two_sums state;
    const T *x, *dy;
    const row_moments *rows;
    int64_t channels;
    reals dgamma, dbeta;
    __device__ state start() const
    {
        return {0, 0};
    }
    __device__ void add(state &sum, int64_t row, int64_t channel) const
    {
        row_moments m = rows[row];
        double slope = wide(dy[row * channels + channel]);
        sum.a += slope * (wide(x[row * channels + channel]) - m.mean) * m.rstd;
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

template <class T> const T *residual_of(const iso_kernel_call *call)
{
    return attrs_of(call)->residual ? static_cast<const T *>(call->in[call->n_inputs - 1].data) : nullptr;
}

void run_whole(const iso_kernel_call *call)
{
    const iso_layer_norm_attrs *attrs = attrs_of(call);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, rows_of(call),
                  whole<T>{{static_cast<const T *>(call->in[0].data), residual_of<T>(call)},
                           optional_input(call, attrs->has_gamma, 1),
                           optional_input(call, attrs->has_beta, attrs->has_gamma ? 2 : 1),
                           attrs->residual ? static_cast<T *>(call->out[1].data) : nullptr,
                           static_cast<T *>(call->out[0].data),
                           attrs->epsilon});
    });
}

void run_whole_gradient(const iso_kernel_call *call)
{
    const iso_layer_norm_attrs *attrs = attrs_of(call);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, rows_of(call),
                  whole_gradient<T>{static_cast<const T *>(call->in[0].data),
                                    static_cast<const T *>(call->in[1].data), residual_of<T>(call),
                                    optional_input(call, attrs->has_gamma, 2),
                                    static_cast<T *>(call->out[0].data), attrs->epsilon});
    });
}

size_t moments_bytes(const iso_kernel_call *call)
{
    return static_cast<size_t>(rows_of(call).outer) * sizeof(row_moments);
}

/* The moments of the rows, then the parts of the sums. */
size_t weight_sums_scratch(const iso_kernel_call *call)
{
    lines rows = rows_of(call);
    return moments_bytes(call) + columns_scratch<two_sums>(rows.outer, rows.count);
}

void run_weight_sums(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        const T *x = static_cast<const T *>(call->in[0].data), *dy = static_cast<const T *>(call->in[1].data);
        row_moments *kept = static_cast<row_moments *>(call->scratch);
        lines rows = rows_of(call);
        for_lines(call->stream, rows, keep_moments<T>{x, kept, attrs_of(call)->epsilon});
        iso_kernel_call rest = *call;
        rest.scratch = static_cast<char *>(call->scratch) + moments_bytes(call);
        for_columns(&rest, rows.outer, rows.count,
                    weight_sums<T>{x, dy, kept, rows.count, reals_of(call->out[0]), reals_of(call->out[1])});
    });
}

/* ---- a part of the channels; rows of sums are F64 ---- */

/* Computes a row's moments from its sums over all channels. */
struct row_sums {
    const double *sum, *squares;
    double count, epsilon; /* of all channels */
    __device__ row_moments get(int64_t row) const
    {
        double mean = sum[row] / count, variance = squares[row] / count - mean * mean;
        return {mean, 1 / sqrt((variance > 0 ? variance : 0) + epsilon)};
    }
};

row_sums row_sums_of(const iso_kernel_call *call, int at)
{
    const iso_array &x = call->in[0];
    return {static_cast<const double *>(call->in[at].data),
            static_cast<const double *>(call->in[at + 1].data), static_cast<double>(x.global[x.rank - 1]),
            attrs_of(call)->epsilon};
}

template <class T> struct part_moments {
    const T *x;
    double *sum, *squares;
    template <int L> __device__ void run(line at) const
    {
        double a = 0, b = 0;
        ISO_CUDA_ALONG(L, at)
        {
            double value = wide(x[i]);
            a += value;
            b += value * value;
        }
        a = join<L, sum_of>(a);
        b = join<L, sum_of>(b);
        if (member<L>() == 0) {
            sum[at.row] = a;
            squares[at.row] = b;
        }
    }
};

template <class T> struct part_scale {
    const T *x;
    row_sums rows;
    reals gamma, beta;
    T *y;
    template <int L> __device__ void run(line at) const
    {
        row_moments m = rows.get(at.row);
        ISO_CUDA_ALONG(L, at)
        narrow(&y[i], static_cast<compute<T>>((wide(x[i]) - m.mean) * m.rstd * gamma.or_else(1.0, k) +
                                              beta.or_else(0.0, k)));
    }
};

template <class T> struct part_grad_sums {
    const T *x, *dy;
    row_sums rows;
    reals gamma;
    double *sum, *products;
    template <int L> __device__ void run(line at) const
    {
        row_moments m = rows.get(at.row);
        double a = 0, b = 0;
        ISO_CUDA_ALONG(L, at)
        {
            double dxhat = wide(dy[i]) * gamma.or_else(1.0, k);
            a += dxhat;
            b += dxhat * (wide(x[i]) - m.mean) * m.rstd;
        }
        a = join<L, sum_of>(a);
        b = join<L, sum_of>(b);
        if (member<L>() == 0) {
            sum[at.row] = a;
            products[at.row] = b;
        }
    }
};

template <class T> struct part_grad {
    const T *x, *dy;
    row_sums rows;
    const double *sum, *products;
    reals gamma;
    T *dx;
    template <int L> __device__ void run(line at) const
    {
        row_moments m = rows.get(at.row);
        double mean = sum[at.row] / rows.count, mean_xhat = products[at.row] / rows.count;
        ISO_CUDA_ALONG(L, at)
        {
            double dxhat = wide(dy[i]) * gamma.or_else(1.0, k), xhat = (wide(x[i]) - m.mean) * m.rstd;
            narrow(&dx[i], static_cast<compute<T>>(m.rstd * (dxhat - mean - xhat * mean_xhat)));
        }
    }
};

struct keep_part_moments {
    row_sums rows;
    row_moments *kept;
    __device__ void operator()(int64_t row) const
    {
        kept[row] = rows.get(row);
    }
};

void run_part_moments(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, rows_of(call),
                  part_moments<T>{static_cast<const T *>(call->in[0].data),
                                  static_cast<double *>(call->out[0].data),
                                  static_cast<double *>(call->out[1].data)});
    });
}

void run_part_scale(const iso_kernel_call *call)
{
    const iso_layer_norm_attrs *attrs = attrs_of(call);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, rows_of(call),
                  part_scale<T>{static_cast<const T *>(call->in[0].data), row_sums_of(call, 1),
                                optional_input(call, attrs->has_gamma, 3),
                                optional_input(call, attrs->has_beta, attrs->has_gamma ? 4 : 3),
                                static_cast<T *>(call->out[0].data)});
    });
}

void run_part_grad_sums(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, rows_of(call),
                  part_grad_sums<T>{
                      static_cast<const T *>(call->in[0].data), static_cast<const T *>(call->in[1].data),
                      row_sums_of(call, 2), optional_input(call, attrs_of(call)->has_gamma, 4),
                      static_cast<double *>(call->out[0].data), static_cast<double *>(call->out[1].data)});
    });
}

void run_part_grad(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, rows_of(call),
                  part_grad<T>{static_cast<const T *>(call->in[0].data),
                               static_cast<const T *>(call->in[1].data), row_sums_of(call, 2),
                               static_cast<const double *>(call->in[4].data),
                               static_cast<const double *>(call->in[5].data),
                               optional_input(call, attrs_of(call)->has_gamma, 6),
                               static_cast<T *>(call->out[0].data)});
    });
}

void run_part_weight_sums(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        row_moments *kept = static_cast<row_moments *>(call->scratch);
        lines rows = rows_of(call);
        for_each(call->stream, rows.outer, keep_part_moments{row_sums_of(call, 2), kept});
        iso_kernel_call rest = *call;
        rest.scratch = static_cast<char *>(call->scratch) + moments_bytes(call);
        for_columns(&rest, rows.outer, rows.count,
                    weight_sums<T>{static_cast<const T *>(call->in[0].data),
                                   static_cast<const T *>(call->in[1].data), kept, rows.count,
                                   reals_of(call->out[0]), reals_of(call->out[1])});
    });
}

} // namespace

ISO_CUDA_KERNEL(layer_norm, run_whole, true)
ISO_CUDA_KERNEL(layer_norm_grad, run_whole_gradient, true)
ISO_CUDA_KERNEL_WITH(layer_norm_grad_sums, run_weight_sums, false, weight_sums_scratch)
ISO_CUDA_KERNEL(layer_moments, run_part_moments, false)
ISO_CUDA_KERNEL(layer_scale, run_part_scale, true)
ISO_CUDA_KERNEL(layer_grad_sums, run_part_grad_sums, false)
ISO_CUDA_KERNEL(layer_grad, run_part_grad, true)
ISO_CUDA_KERNEL_WITH(layer_weight_sums, run_part_weight_sums, false, weight_sums_scratch)
