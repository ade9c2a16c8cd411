/* Windows along a dimension and their sums. A thread has an element of the result. */
#include "runtime/backend/cuda/elements.h"
#include "runtime/backend/unfold.h"

namespace
{

using namespace iso_cuda;

/* Element i of [outer, rows, inner, c]. */
struct place {
    int64_t outer, row, inner, c;
};

__device__ place place_of(int64_t i, int64_t rows, int64_t inner, int64_t c)
{
    if (i <= INT32_MAX) { /* divisions of 32 bits take a quarter of the time */
        const uint32_t at = static_cast<uint32_t>(i), of_c = static_cast<uint32_t>(c), run = at / of_c;
        const uint32_t row = run / static_cast<uint32_t>(inner), outer = row / static_cast<uint32_t>(rows);
        return {outer, row - outer * rows, run - row * inner, at - run * of_c};
    }
    const int64_t run = i / c, row = run / inner;
    return {row / rows, row % rows, run % inner, i % c};
}

template <class T> struct take_windows {
    iso_unfolding u;
    const T *x;
    T *y;
    __device__ void operator()(int64_t i) const
    {
        const place to = place_of(i, u.positions, u.inner * u.size, u.c); /* inner: [inner, size] */
        const int64_t pixel = to.inner / u.size, tap = to.inner - pixel * u.size;
        const int64_t at = iso_unfold_reads(&u, to.row, tap);
        y[i] = at < 0 ? T() : x[((to.outer * u.d + at) * u.inner + pixel) * u.c + to.c];
    }
};

template <class T> struct add_windows {
    typedef compute<T> C;
    iso_unfolding u;
    const T *dy;
    reals dx; /* float32 where sums of bfloat16 are wanted so */
    __device__ void operator()(int64_t i) const
    {
        const place to = place_of(i, u.d, u.inner, u.c);
        C sum = 0;
        for (int64_t tap = 0; tap < u.size; tap++) {
            const int64_t position = iso_unfold_read_by(&u, to.row, tap);
            if (position >= 0)
                sum += wide(
                    dy[(((to.outer * u.positions + position) * u.inner + to.inner) * u.size + tap) * u.c +
                       to.c]);
        }
        dx.put(i, sum);
    }
};

void run_unfold(const iso_kernel_call *call)
{
    const iso_unfolding u = iso_unfolding_of(call, &call->in[0], &call->out[0]);
    const void *x = call->in[0].data;
    void *y = call->out[0].data;
    const int64_t count = iso_array_count(&call->out[0]);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_each(call->stream, count, take_windows<T>{u, static_cast<const T *>(x), static_cast<T *>(y)});
    });
}

void run_fold(const iso_kernel_call *call)
{
    const iso_unfolding u = iso_unfolding_of(call, &call->out[0], &call->in[0]);
    const void *dy = call->in[0].data;
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_each(call->stream, iso_array_count(&call->out[0]),
                 add_windows<T>{u, static_cast<const T *>(dy), reals_of(call->out[0])});
    });
}

} // namespace

ISO_CUDA_KERNEL(unfold, run_unfold, false)
ISO_CUDA_KERNEL(fold, run_fold, false)
