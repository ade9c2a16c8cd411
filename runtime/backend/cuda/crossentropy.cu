/* Cross-entropy of rows of logits. */
#include "runtime/backend/cuda/exponentials.h"
#include "runtime/backend/cuda/faults.h"

namespace
{

using namespace iso_cuda;

enum { LABELS, LOGITS, DLOSS };

template <int L> __device__ int64_t class_of(const indices &labels, int64_t row)
{
    int64_t number = labels.get(row);
    if (number < 0 && member<L>() == 0)
        labels.raise(row);
    return number;
}

template <class T> struct sparse {
    indices labels;
    const T *x;
    reals loss;
    template <int L> __device__ void run(line at) const
    {
        int64_t number = class_of<L>(labels, at.row);
        double all = exponentials_of<L>(x, at).log_sum();
        if (member<L>() == 0)
            loss.put(at.row, number < 0 ? 0 : all - wide(x[at.begin + number]));
    }
};

template <class T> struct sparse_gradient {
    typedef compute<T> C;
    indices labels;
    const T *x;
    reals dloss;
    T *dx;
    template <int L> __device__ void run(line at) const
    {
        int64_t number = class_of<L>(labels, at.row);
        C all = static_cast<C>(exponentials_of<L>(x, at).log_sum()), slope = dloss.get<C>(at.row);
        along<L>(
            at, [&](int64_t i) { return x[i]; },
            [&](int64_t k, int64_t i, T value) {
                const C share = exp_of(wide(value) - all) - (k == number ? 1 : 0);
                narrow(&dx[i], number < 0 ? C(0) : share * slope);
            });
    }
};

template <class T> struct dense {
    reals labels;
    const T *x;
    reals loss;
    template <int L> __device__ void run(line at) const
    {
        double all = exponentials_of<L>(x, at).log_sum(), sum = 0;
        ISO_CUDA_ALONG(L, at)
        {
            double t = labels.get<double>(i);
            sum += t == 0 ? 0 : t * (all - wide(x[i]));
        }
        sum = join<L, sum_of>(sum);
        if (member<L>() == 0)
            loss.put(at.row, sum);
    }
};

template <class T> struct dense_gradient {
    typedef compute<T> C;
    reals labels;
    const T *x;
    reals dloss;
    T *dx;
    template <int L> __device__ void run(line at) const
    {
        C all = static_cast<C>(exponentials_of<L>(x, at).log_sum()), slope = dloss.get<C>(at.row);
        double sum = 0;
        ISO_CUDA_ALONG(L, at)
        sum += labels.get<double>(i);
        C targets = static_cast<C>(join<L, sum_of>(sum));
        ISO_CUDA_ALONG(L, at)
        narrow(&dx[i], (exp_of(wide(x[i]) - all) * targets - labels.get<C>(i)) * slope);
    }
};

lines rows_of(const iso_kernel_call *call)
{
    const iso_array &logits = call->in[LOGITS];
    return lines_along(logits, logits.rank - 1);
}

indices labels_of(const iso_kernel_call *call)
{
    return indices_of(call, LABELS, last_dim(call->in[LOGITS]));
}

void run_sparse(const iso_kernel_call *call)
{
    with_float(call->in[LOGITS].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, rows_of(call),
                  sparse<T>{labels_of(call), static_cast<const T *>(call->in[LOGITS].data),
                            reals_of(call->out[0])});
    });
}

void run_sparse_gradient(const iso_kernel_call *call)
{
    with_float(call->in[LOGITS].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, rows_of(call),
                  sparse_gradient<T>{labels_of(call), static_cast<const T *>(call->in[LOGITS].data),
                                     reals_of(call->in[DLOSS]), static_cast<T *>(call->out[0].data)});
    });
}

void run_dense(const iso_kernel_call *call)
{
    with_float(call->in[LOGITS].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, rows_of(call),
                  dense<T>{reals_of(call->in[LABELS]), static_cast<const T *>(call->in[LOGITS].data),
                           reals_of(call->out[0])});
    });
}

void run_dense_gradient(const iso_kernel_call *call)
{
    with_float(call->in[LOGITS].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, rows_of(call),
                  dense_gradient<T>{reals_of(call->in[LABELS]), static_cast<const T *>(call->in[LOGITS].data),
                                    reals_of(call->in[DLOSS]), static_cast<T *>(call->out[0].data)});
    });
}

} // namespace

ISO_CUDA_KERNEL(sparse_crossentropy, run_sparse, false)
ISO_CUDA_KERNEL(sparse_crossentropy_grad, run_sparse_gradient, true)
ISO_CUDA_KERNEL(crossentropy, run_dense, false)
ISO_CUDA_KERNEL(crossentropy_grad, run_dense_gradient, true)
