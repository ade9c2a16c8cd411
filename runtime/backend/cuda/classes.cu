/* Kernels over a slot's part of sharded classes; see runtime/graph/ops/network.h. A row is a line of input
 * x. */
#include "runtime/backend/cuda/faults.h"
#include "runtime/backend/cuda/lines.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

const iso_class_attrs *attrs_of(const iso_kernel_call *call)
{
    return static_cast<const iso_class_attrs *>(call->attrs);
}

lines rows_of(const iso_kernel_call *call, int x)
{
    return lines_along(call->in[x], attrs_of(call)->axis);
}

/* ---- the largest element and its index ---- */

template <class T> struct least {
    __device__ static T value();
};
#define LEAST(T, VALUE)                                                                                      \
    template <> __device__ T least<T>::value()                                                               \
    {                                                                                                        \
        return VALUE;                                                                                        \
    }
LEAST(float, -INFINITY)
LEAST(double, -INFINITY)
LEAST(int32_t, INT32_MIN)
LEAST(int64_t, INT64_MIN)
LEAST(uint8_t, 0)

template <class T> struct largest {
    typedef compute<T> C;
    const T *x;
    T *y;
    template <int L> __device__ void run(line at) const
    {
        C best = least<C>::value();
        ISO_CUDA_ALONG(L, at)
        best = wide(x[i]) > best ? C(wide(x[i])) : best;
        best = join<L, max_of>(best);
        if (member<L>() == 0)
            narrow(&y[at.row], best);
    }
};

template <class T> struct first_equal {
    const T *x, *max;
    int32_t *y;
    int64_t first;
    template <int L> __device__ void run(line at) const
    {
        int64_t found = INT64_MAX;
        ISO_CUDA_ALONG(L, at)
        {
            auto value = wide(x[i]);
            bool hit = value == wide(max[at.row]) || (first == 0 && k == 0 && value != value);
            found = hit && k < found ? k : found;
        }
        found = join<L, min_of>(found);
        if (member<L>() == 0)
            y[at.row] = found == INT64_MAX ? INT32_MIN : static_cast<int32_t>(-(first + found));
    }
};

struct above {
    reals x, value;
    double *y;
    template <int L> __device__ void run(line at) const
    {
        double mine = value.get<double>(at.row), count = 0;
        ISO_CUDA_ALONG(L, at)
        {
            double other = x.get<double>(i);
            count += is_finite(other) ? other > mine : INFINITY;
        }
        count = join<L, sum_of>(count);
        if (member<L>() == 0)
            y[at.row] = is_finite(mine) ? count : INFINITY;
    }
};

void run_class_max(const iso_kernel_call *call)
{
    with_number(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, rows_of(call, 0),
                  largest<T>{static_cast<const T *>(call->in[0].data), static_cast<T *>(call->out[0].data)});
    });
}

void run_class_first(const iso_kernel_call *call)
{
    with_number(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, rows_of(call, 0),
                  first_equal<T>{
                      static_cast<const T *>(call->in[0].data), static_cast<const T *>(call->in[1].data),
                      static_cast<int32_t *>(call->out[0].data), call->in[0].offset[attrs_of(call)->axis]});
    });
}

void run_class_above(const iso_kernel_call *call)
{
    for_lines(call->stream, rows_of(call, 0),
              above{reals_of(call->in[0]), reals_of(call->in[1]), static_cast<double *>(call->out[0].data)});
}

/* ---- softmax ---- */

template <class C> struct sum_exp {
    reals x, max, y;
    template <int L> __device__ void run(line at) const
    {
        C most = max.get<C>(at.row);
        double sum = 0;
        along<L>(
            at, [&](int64_t i) { return x.get<C>(i); },
            [&](int64_t, int64_t, C value) { sum += exp_of(value - most); });
        sum = join<L, sum_of>(sum);
        if (member<L>() == 0)
            y.put(at.row, sum);
    }
};

template <class C> struct part_softmax {
    reals x, max, sum, y;
    bool logarithm;
    template <int L> __device__ void run(line at) const
    {
        C most = max.get<C>(at.row), all = sum.get<C>(at.row), log_sum = log_of(all);
        along<L>(
            at, [&](int64_t i) { return x.get<C>(i); },
            [&](int64_t, int64_t i, C value) {
                const C shifted = value - most;
                y.put(i, logarithm ? shifted - log_sum : exp_of(shifted) / all);
            });
    }
};

void run_sum_exp(const iso_kernel_call *call)
{
    with_compute(call->in[0].dtype, [=](auto zero) {
        for_lines(
            call->stream, rows_of(call, 0),
            sum_exp<decltype(zero)>{reals_of(call->in[0]), reals_of(call->in[1]), reals_of(call->out[0])});
    });
}

template <bool LOGARITHM> void run_part_softmax(const iso_kernel_call *call)
{
    with_compute(call->in[0].dtype, [=](auto zero) {
        for_lines(call->stream, rows_of(call, 0),
                  part_softmax<decltype(zero)>{reals_of(call->in[0]), reals_of(call->in[1]),
                                               reals_of(call->in[2]), reals_of(call->out[0]), LOGARITHM});
    });
}

/* ---- cross-entropy ---- */

enum { TARGETS, LOGITS, MAX, SUM, SUM_OF_TARGETS, DLOSS, SPARSE_DLOSS = 4 };

/* A row's label relative to the part's first class: it may be outside the part. *good: it is a class. */
struct part_labels {
    indices all;
    int64_t first;
    bool lenient;
    template <int L> __device__ int64_t get(int64_t row, bool *good) const
    {
        int64_t number = all.get(row);
        *good = number >= 0;
        if (number < 0 && !lenient && member<L>() == 0)
            all.raise(row);
        return number - first;
    }
};

part_labels labels_of(const iso_kernel_call *call)
{
    int axis = attrs_of(call)->axis;
    const iso_array &x = call->in[1];
    return {indices_of(call, 0, x.global[axis]), x.offset[axis], attrs_of(call)->lenient != 0};
}

struct pick {
    part_labels labels;
    reals x, y;
    template <int L> __device__ void run(line at) const
    {
        bool good;
        int64_t label = labels.get<L>(at.row, &good);
        double value = good || !labels.lenient ? 0 : NAN;
        if (good && label >= 0 && label < at.count)
            value = x.get<double>(at.begin + label * at.step);
        if (member<L>() == 0)
            y.put(at.row, value);
    }
};

struct part_loss {
    reals targets, x, max, sum, y;
    template <int L> __device__ void run(line at) const
    {
        double all = max.get<double>(at.row) + log_of(sum.get<double>(at.row)), loss = 0;
        ISO_CUDA_ALONG(L, at)
        {
            double t = targets.get<double>(i);
            loss += t == 0 ? 0 : t * (all - x.get<double>(i));
        }
        loss = join<L, sum_of>(loss);
        if (member<L>() == 0)
            y.put(at.row, loss);
    }
};

template <class C> struct part_gradient {
    reals targets, x, max, sum, sum_of_targets, dloss, dx;
    template <int L> __device__ void run(line at) const
    {
        C all = static_cast<C>(max.get<double>(at.row) + log_of(sum.get<double>(at.row)));
        C total = sum_of_targets.get<C>(at.row), slope = dloss.get<C>(at.row);
        ISO_CUDA_ALONG(L, at)
        dx.put(i, (exp_of(x.get<C>(i) - all) * total - targets.get<C>(i)) * slope);
    }
};

template <class C> struct part_sparse_gradient {
    part_labels labels;
    reals x, max, sum, dloss, dx;
    template <int L> __device__ void run(line at) const
    {
        bool good;
        int64_t label = labels.get<L>(at.row, &good);
        C all = static_cast<C>(max.get<double>(at.row) + log_of(sum.get<double>(at.row)));
        C slope = dloss.get<C>(at.row);
        along<L>(
            at, [&](int64_t i) { return x.get<C>(i); },
            [&](int64_t k, int64_t i, C value) {
                dx.put(i, good ? (exp_of(value - all) - (k == label ? 1 : 0)) * slope : C(0));
            });
    }
};

void run_pick(const iso_kernel_call *call)
{
    for_lines(call->stream, rows_of(call, 1),
              pick{labels_of(call), reals_of(call->in[1]), reals_of(call->out[0])});
}

void run_part_loss(const iso_kernel_call *call)
{
    for_lines(call->stream, rows_of(call, LOGITS),
              part_loss{reals_of(call->in[TARGETS]), reals_of(call->in[LOGITS]), reals_of(call->in[MAX]),
                        reals_of(call->in[SUM]), reals_of(call->out[0])});
}

void run_part_gradient(const iso_kernel_call *call)
{
    with_compute(call->in[LOGITS].dtype, [=](auto zero) {
        for_lines(call->stream, rows_of(call, LOGITS),
                  part_gradient<decltype(zero)>{reals_of(call->in[TARGETS]), reals_of(call->in[LOGITS]),
                                                reals_of(call->in[MAX]), reals_of(call->in[SUM]),
                                                reals_of(call->in[SUM_OF_TARGETS]), reals_of(call->in[DLOSS]),
                                                reals_of(call->out[0])});
    });
}

void run_part_sparse_gradient(const iso_kernel_call *call)
{
    with_compute(call->in[LOGITS].dtype, [=](auto zero) {
        for_lines(call->stream, rows_of(call, LOGITS),
                  part_sparse_gradient<decltype(zero)>{
                      labels_of(call), reals_of(call->in[LOGITS]), reals_of(call->in[MAX]),
                      reals_of(call->in[SUM]), reals_of(call->in[SPARSE_DLOSS]), reals_of(call->out[0])});
    });
}

} // namespace

ISO_CUDA_KERNEL(class_max, run_class_max, false)
ISO_CUDA_KERNEL(class_first, run_class_first, false)
ISO_CUDA_KERNEL(class_above, run_class_above, false)
ISO_CUDA_KERNEL(class_pick, run_pick, false)
ISO_CUDA_KERNEL(class_sum_exp, run_sum_exp, false)
ISO_CUDA_KERNEL(class_softmax, run_part_softmax<false>, true)
ISO_CUDA_KERNEL(class_log_softmax, run_part_softmax<true>, true)
ISO_CUDA_KERNEL(class_loss, run_part_loss, false)
ISO_CUDA_KERNEL(class_grad, run_part_gradient, true)
ISO_CUDA_KERNEL(class_sparse_grad, run_part_sparse_gradient, true)
