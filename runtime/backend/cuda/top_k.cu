/* The largest elements of rows, and the gradient: which elements of a row were taken. */
#include "runtime/backend/cuda/faults.h"
#include "runtime/backend/cuda/lines.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

/* An element of a row. index -1: none. */
struct element {
    double value;
    int64_t index;
};

/* The one that comes first in the order of iso_top_k_before, in which no two elements are equal. */
struct first_of {
    __device__ __forceinline__ static element join(element a, element b)
    {
        const bool later =
            a.index < 0 || (b.index >= 0 && iso_top_k_before(b.value, b.index, a.value, a.index));
        return later ? b : a;
    }
};

__device__ __forceinline__ element of_lane(element e, int lane)
{
    return {__shfl_sync(0xffffffffu, e.value, lane), __shfl_sync(0xffffffffu, e.index, lane)};
}

/* The first one of all members of the line, in all of them. */
template <int L> __device__ element first_of_line(element own)
{
    if (L == 1)
        return own;
    const int lane = static_cast<int>(threadIdx.x) % WARP;
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        own = first_of::join(own, of_lane(own, lane ^ distance));
    if (L == WARP)
        return own;
    __shared__ element part[BLOCK / WARP];
    __syncthreads(); /* `part` of the call before has been read */
    if (lane == 0)
        part[threadIdx.x / WARP] = own;
    __syncthreads();
    own = part[0];
    for (int i = 1; i < BLOCK / WARP; i++)
        own = first_of::join(own, part[i]);
    return own;
}

/* Goes along the row for each of the k largest. */
template <class T> struct largest {
    const T *x;
    T *values;
    int32_t *index;
    int64_t k_of;
    template <int L> __device__ void run(line at) const
    {
        element last = {0, -1};
        for (int64_t n = 0; n < k_of; n++) {
            element best = {0, -1};
            along<L>(
                at, [&](int64_t i) { return x[i]; },
                [&](int64_t k, int64_t, T read) {
                    const element own = {static_cast<double>(wide(read)), k};
                    if (last.index < 0 || iso_top_k_before(last.value, last.index, own.value, k))
                        best = first_of::join(best, own);
                });
            last = first_of_line<L>(best);
            if (member<L>() == 0) {
                values[at.row * k_of + n] = x[at.begin + last.index];
                index[at.row * k_of + n] = static_cast<int32_t>(last.index);
            }
        }
    }
};

void run_top_k(const iso_kernel_call *call)
{
    const iso_array &x = call->in[0], &values = call->out[0];
    with_float(x.dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, lines_along(x, x.rank - 1),
                  largest<T>{static_cast<const T *>(x.data), static_cast<T *>(values.data),
                             static_cast<int32_t *>(call->out[1].data), last_dim(values)});
    });
}

/* A thread for each element of dx: indices may be equal. */
struct scatter {
    indices index;
    reals dy, dx;
    int64_t classes, k;
    __device__ void operator()(int64_t number) const
    {
        const int64_t row = quotient_of(number, classes), own = number - row * classes;
        double sum = 0;
        for (int64_t i = row * k; i < (row + 1) * k; i++) {
            const int64_t to = index.get(i);
            if (to < 0 && own == 0)
                index.raise(i);
            sum += to == own ? dy.get<double>(i) : 0;
        }
        dx.put(number, sum);
    }
};

void run_top_k_gradient(const iso_kernel_call *call)
{
    const iso_array &index = call->in[0], &dx = call->out[0];
    const int64_t classes = dx.dim[dx.rank - 1];
    for_each(call->stream, iso_array_count(&dx),
             scatter{indices_of(call, 0, classes), reals_of(call->in[1]), reals_of(dx), classes,
                     index.dim[index.rank - 1]});
}

} // namespace

ISO_CUDA_KERNEL(top_k, run_top_k, false)
ISO_CUDA_KERNEL(top_k_grad, run_top_k_gradient, false)
