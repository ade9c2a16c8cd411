/* Softmax along one axis, and its logarithm. Exponentials are of the type of the elements; sums of several are added
 * in double. */
#include "runtime/backend/cuda/exponentials.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

template <class T> struct softmax {
    typedef compute<T> C;
    const T *x;
    T *y;
    bool logarithm;
    template <int L> __device__ void run(line at) const
    {
        const exponentials<C> of = exponentials_of<L>(x, at);
        const C log_sum = static_cast<C>(log_of(of.sum)), factor = static_cast<C>(1 / of.sum);
        along<L>(
            at, [&](int64_t i) { return x[i]; },
            [&](int64_t, int64_t i, T value) {
                const C shifted = wide(value) - of.largest;
                narrow(&y[i], logarithm ? shifted - log_sum : exp_of(shifted) * factor);
            });
    }
};

template <class T> struct softmax_gradient {
    typedef compute<T> C;
    const T *y, *dy;
    T *dx;
    bool logarithm;
    struct both {
        T y, dy;
    };
    template <int L> __device__ void run(line at) const
    {
        double sum = 0;
        auto get = [&](int64_t i) { return both{y[i], dy[i]}; };
        along<L>(at, get, [&](int64_t, int64_t, both of) {
            sum += logarithm ? wide(of.dy) : static_cast<double>(wide(of.y)) * wide(of.dy);
        });
        const C all = static_cast<C>(join<L, sum_of>(sum));
        along<L>(at, get, [&](int64_t, int64_t i, both of) {
            const C slope = wide(of.dy), value = wide(of.y);
            narrow(&dx[i], logarithm ? slope - exp_of(value) * all : value * (slope - all));
        });
    }
};

lines lines_of(const iso_kernel_call *call)
{
    return lines_along(call->in[0], static_cast<const iso_softmax_attrs *>(call->attrs)->axis);
}

template <bool LOGARITHM> void run_softmax(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, lines_of(call),
                  softmax<T>{static_cast<const T *>(call->in[0].data), static_cast<T *>(call->out[0].data),
                             LOGARITHM});
    });
}

template <bool LOGARITHM> void run_gradient(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, lines_of(call),
                  softmax_gradient<T>{static_cast<const T *>(call->in[0].data),
                                      static_cast<const T *>(call->in[1].data),
                                      static_cast<T *>(call->out[0].data), LOGARITHM});
    });
}

} // namespace

ISO_CUDA_KERNEL(softmax, run_softmax<false>, true)
ISO_CUDA_KERNEL(log_softmax, run_softmax<true>, true)
ISO_CUDA_KERNEL(softmax_grad, run_gradient<false>, true)
ISO_CUDA_KERNEL(log_softmax_grad, run_gradient<true>, true)
