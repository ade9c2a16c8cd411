/* Softmax along one axis, and its logarithm. Sums are double, exponentials of the type of the elements. */
#include "runtime/backend/cuda/lines.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

/* The largest element, and the sum of exp(x - largest). */
template <int L, class C, class T> __device__ double exponentials(const T *x, line at, C *largest)
{
    double sum = 0;
    *largest = -INFINITY;
    ISO_CUDA_ALONG(L, at)
    *largest = max_of::join(*largest, wide(x[i]));
    *largest = join<L, max_of>(*largest);
    ISO_CUDA_ALONG(L, at)
    sum += exp_of(wide(x[i]) - *largest);
    return join<L, sum_of>(sum);
}

template <class T> struct softmax {
    typedef compute<T> C;
    const T *x;
    T *y;
    bool logarithm;
    template <int L> __device__ void run(line at) const
    {
        C largest;
        double sum = exponentials<L>(x, at, &largest);
        C log_sum = static_cast<C>(log_of(sum)), factor = static_cast<C>(1 / sum);
        ISO_CUDA_ALONG(L, at)
        {
            C shifted = wide(x[i]) - largest;
            narrow(&y[i], logarithm ? shifted - log_sum : exp_of(shifted) * factor);
        }
    }
};

template <class T> struct softmax_gradient {
    typedef compute<T> C;
    const T *y, *dy;
    T *dx;
    bool logarithm;
    template <int L> __device__ void run(line at) const
    {
        double sum = 0;
        ISO_CUDA_ALONG(L, at)
        sum += logarithm ? wide(dy[i]) : static_cast<double>(wide(y[i])) * wide(dy[i]);
        C all = static_cast<C>(join<L, sum_of>(sum));
        ISO_CUDA_ALONG(L, at)
        {
            C slope = wide(dy[i]), of = wide(y[i]);
            narrow(&dx[i], logarithm ? slope - exp_of(of) * all : of * (slope - all));
        }
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
