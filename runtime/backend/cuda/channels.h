/* Loops over arrays [rows, channels] for functions that have numbers for each channel. A thread steps by whole rows,
 * so all its packs have the same channels, whose numbers it keeps in registers. */
#ifndef ISO_BACKEND_CUDA_CHANNELS_H
#define ISO_BACKEND_CUDA_CHANNELS_H

#include <numeric>

#include "runtime/backend/cuda/packs.h"

namespace iso_cuda
{

/* `step` elements are whole rows and whole packs. A thread begins at the pack of its number, below `step`. */
struct channel_steps {
    int64_t count, channels, step;
};

inline channel_steps steps_of(int64_t count, int64_t channels, int width)
{
    const int64_t most_steps = 8, enough_threads = 128 * BLOCK, cache_line = 8 /* packs */;
    const int64_t period = std::lcm(channels > 0 ? channels : 1, static_cast<int64_t>(width));
    const int64_t periods = ceil_of(count, period), threads = count / width;
    int64_t steps = threads / enough_threads;
    steps = steps < 1 ? 1 : steps > most_steps ? most_steps : steps;
    const int64_t in_lines = ceil_of(ceil_of(periods, steps), cache_line) * cache_line;
    return {count, channels, period * (in_lines < periods ? in_lines : periods)};
}

/* A number of each of N channels. */
template <int N, class E> struct numbers {
    E of[N];
};

/* The numbers of N channels from `first` on; the first channel comes after the last. */
template <int N, class E>
__device__ __forceinline__ numbers<N, E> numbers_of(const E *table, int64_t channels, int64_t first)
{
    numbers<N, E> own;
    ISO_UNROLL()
    for (int k = 0; k < N; k++) {
        own.of[k] = table[first];
        first = first + 1 == channels ? 0 : first + 1;
    }
    return own;
}

/* F has function templates for N elements: channels<N>(first channel) -> numbers; load<N>(i) -> elements i to
 * i + N - 1 of the inputs; put<N>(i, elements, numbers). Several loads are under way before the first is used. */
template <int N, class F> __global__ void __launch_bounds__(BLOCK) channels_kernel(channel_steps s, F f)
{
    enum { LOADS = 4 };
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x, begin = thread * N;
    if (begin >= s.step)
        return;
    const auto own = f.template channels<N>(remainder_of(begin, s.channels));
    int64_t i = begin;
    ISO_UNROLL(1)
    for (; i + (LOADS - 1) * s.step + N <= s.count; i += LOADS * s.step) {
        decltype(f.template load<N>(i)) elements[LOADS];
        ISO_UNROLL()
        for (int k = 0; k < LOADS; k++)
            elements[k] = f.template load<N>(i + k * s.step);
        ISO_UNROLL()
        for (int k = 0; k < LOADS; k++)
            f.template put<N>(i + k * s.step, elements[k], own);
    }
    ISO_UNROLL(1)
    for (; i + N <= s.count; i += s.step)
        f.template put<N>(i, f.template load<N>(i), own);
    ISO_UNROLL(1)
    for (i = s.count - s.count % N + thread; i < s.count; i += s.step / N)
        f.template put<1>(i, f.template load<1>(i), f.template channels<1>(remainder_of(i, s.channels)));
}

template <int N, class F> void launch_channels(const iso_stream *stream, int64_t count, int64_t channels, F f)
{
    const channel_steps s = steps_of(count, channels, N);
    launch(channels_kernel<N, F>, static_cast<unsigned>(ceil_of(s.step / N, BLOCK)), BLOCK, 0,
           iso_cuda_stream_of(stream), s, f);
}

/* In packs of N elements where the addresses allow. */
template <int N, class F>
void for_channels(const iso_stream *stream, int64_t count, int64_t channels, bool packs, F f)
{
    if (packs)
        launch_channels<N>(stream, count, channels, f);
    else
        launch_channels<1>(stream, count, channels, f);
}

} // namespace iso_cuda

#endif
