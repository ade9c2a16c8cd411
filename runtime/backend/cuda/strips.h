/* Rows of elements that are next to each other, in registers: a row that fits is read once, however often it is used.
 * Which thread has an element depends on the shape alone, and so does the order of sums. */
#ifndef ISO_BACKEND_CUDA_STRIPS_H
#define ISO_BACKEND_CUDA_STRIPS_H

#include <type_traits>

#include "runtime/backend/cuda/lines.h"
#include "runtime/backend/cuda/packs.h"

namespace iso_cuda
{

template <class T, int N> __device__ __forceinline__ pack<compute<T>, N> widened(const pack<T, N> &x)
{
    pack<compute<T>, N> all;
    ISO_UNROLL()
    for (int k = 0; k < N; k++)
        all.at[k] = wide(x.at[k]);
    return all;
}

/* Elements begin to begin + LENGTH - 1 of a row, in packs of N; this thread's packs, of the L threads of the row. */
template <class T, int L, int N> struct strip {
    typedef compute<T> C;
    enum { KEPT = N == 1 ? 4 : sizeof(C) == 8 ? 16 : 32, PACKS = KEPT / N, LENGTH = L * KEPT };
    pack<C, N> own[PACKS];
    int64_t begin = -1;

    __device__ __forceinline__ int64_t element(int p) const
    {
        return begin + (p * L + member<L>()) * N;
    }

    /* Moves to `at`, in a row of `count`, and reads unless it is there: get(k) is pack k to k + N - 1, of which widen
     * makes the elements. All reads are under way before the first is used. */
    template <class Get, class Widen>
    __device__ __forceinline__ void read(int64_t at, int64_t count, Get get, Widen widen)
    {
        if (begin == at)
            return;
        begin = at;
        decltype(get(at)) taken[PACKS] = {};
        ISO_UNROLL()
        for (int p = 0; p < PACKS; p++)
            if (element(p) < count)
                taken[p] = get(element(p));
        ISO_UNROLL()
        for (int p = 0; p < PACKS; p++)
            own[p] = widen(taken[p]);
    }
    template <class U>
    __device__ __forceinline__ void move(int64_t at, int64_t count, const U *row, bool aligned)
    {
        read(
            at, count, [=](int64_t k) { return load_pack<N>(row + k, aligned); },
            [](const pack<U, N> &x) { return widened(x); });
    }

    /* f(begin) for each strip of a row of `count`. A row of a warp is one strip (for_rows), which stays in
     * registers. */
    template <class F> static __device__ __forceinline__ void for_strips(int64_t count, F f)
    {
        if constexpr (L == WARP)
            f(0);
        else
            for (int64_t begin = 0; begin < count; begin += LENGTH)
                f(begin);
    }

    /* f(k, p) for each pack own[p], which begins at element k, inside a row of `count`. */
    template <class F> __device__ __forceinline__ void each(int64_t count, F f) const
    {
        ISO_UNROLL()
        for (int p = 0; p < PACKS; p++)
            if (element(p) < count)
                f(element(p), p);
    }
};

/* F<T, N> works on rows of elements of T in packs of N, with a function template run<L>(line). `make` makes it from a
 * constant N, which depends on the type in which T is computed: bfloat16 is added in the order of float32. */
template <class T, class Make> void for_rows(const iso_stream *stream, lines of, Make make)
{
    auto launch_all = [&](auto width) {
        auto f = make(width);
        if (of.count <= strip<T, WARP, decltype(width)::value>::LENGTH)
            launch_lines<WARP>(stream, of, f);
        else
            launch_lines<BLOCK>(stream, of, f);
    };
    const int width = 16 / sizeof(compute<T>);
    if (of.count % width == 0)
        launch_all(std::integral_constant<int, width>());
    else
        launch_all(std::integral_constant<int, 1>());
}

} // namespace iso_cuda

#endif
