/* Rotary positions: a table of the cosines and sines of all positions, then the pairs. Products and sums are rounded one
 * by one, as on the CPU. */
#include "runtime/backend/cuda/packs.h"
#include "runtime/backend/rotary.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

/* A part x [outer, positions, rows, 2 half] of a tensor; `first` is its first position. */
struct extents {
    int64_t positions, rows, half, first;
};

extents extents_of(const iso_kernel_call *call)
{
    const iso_array &x = call->in[0];
    const int64_t axis = static_cast<const iso_rotary_attrs *>(call->attrs)->axis;
    extents e = {x.dim[axis], 1, x.dim[x.rank - 1] / 2, x.offset[axis]};
    for (int64_t d = axis + 1; d < x.rank - 1; d++)
        e.rows *= x.dim[d];
    return e;
}

/* The frequencies of some pairs: the host computes them, so that they have the bits that the CPU has. */
struct frequencies {
    static constexpr int64_t MOST = 128;
    double of[MOST];
    int64_t first, count;
};

frequencies frequencies_of(const iso_rotary_attrs *attrs, int64_t first, int64_t half)
{
    frequencies f = {{}, first, half - first < frequencies::MOST ? half - first : frequencies::MOST};
    for (int64_t i = 0; i < f.count; i++)
        f.of[i] = iso_rotary_frequency(attrs, first + i, 2 * half);
    return f;
}

/* cosine, sine [positions, half] of these pairs */
template <class C> struct fill_table {
    frequencies f;
    extents e;
    C *cosine, *sine;
    __device__ void operator()(int64_t i) const
    {
        const int64_t position = quotient_of(i, f.count), pair = i - position * f.count;
        const int64_t at = position * e.half + f.first + pair;
        const iso_turn turn = iso_turn_of(static_cast<double>(e.first + position) * f.of[pair]);
        cosine[at] = static_cast<C>(turn.cosine);
        sine[at] = static_cast<C>(turn.sine);
    }
};

/* Pairs i to i + WIDTH - 1, which are in one row. */
template <class T> struct turn_pairs {
    typedef compute<T> C;
    static constexpr int WIDTH = 16 / sizeof(T);
    extents e;
    const C *cosine, *sine;
    const T *x;
    T *y;
    template <int N> __device__ __forceinline__ void turn(int64_t i) const
    {
        const int64_t row = quotient_of(i, e.half), pair = i - row * e.half, at = row * 2 * e.half + pair;
        const int64_t place = remainder_of(quotient_of(row, e.rows), e.positions) * e.half + pair;
        const auto a = load_pack<N>(x + at), b = load_pack<N>(x + at + e.half);
        const auto c = load_pack<N>(cosine + place), s = load_pack<N>(sine + place);
        iso_cuda::pack<T, N> low, high;
        ISO_UNROLL()
        for (int k = 0; k < N; k++) {
            const C p = wide(a.at[k]), q = wide(b.at[k]);
            narrow(&low.at[k], p * c.at[k] - q * s.at[k]);
            narrow(&high.at[k], q * c.at[k] + p * s.at[k]);
        }
        store_pack(y + at, low);
        store_pack(y + at + e.half, high);
    }
    __device__ void pack(int64_t i) const
    {
        turn<WIDTH>(i);
    }
    __device__ void one(int64_t i) const
    {
        turn<1>(i);
    }
};

/* The table, in the type of the products; each half begins at a multiple of 16 bytes. */
int64_t table_elements(const extents &e)
{
    return ceil_of(e.positions * e.half, 4) * 4;
}

size_t table_scratch(const iso_kernel_call *call)
{
    const size_t size = call->in[0].dtype == ISO_F64 ? sizeof(double) : sizeof(float);
    return static_cast<size_t>(2 * table_elements(extents_of(call))) * size;
}

void run_rotary(const iso_kernel_call *call)
{
    const iso_rotary_attrs *attrs = static_cast<const iso_rotary_attrs *>(call->attrs);
    const extents e = extents_of(call);
    const void *x = call->in[0].data;
    void *y = call->out[0].data;
    const int64_t pairs = iso_array_count(&call->in[0]) / 2;
    if (pairs == 0)
        return;
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        typedef compute<T> C;
        C *cosine = static_cast<C *>(call->scratch), *sine = cosine + table_elements(e);
        for (int64_t first = 0; first < e.half; first += frequencies::MOST) {
            const frequencies f = frequencies_of(attrs, first, e.half);
            for_each(call->stream, e.positions * f.count, fill_table<C>{f, e, cosine, sine});
        }
        const bool packs = e.half % turn_pairs<T>::WIDTH == 0 && aligned({x, y});
        for_packs(call->stream, pairs, packs,
                  turn_pairs<T>{e, cosine, sine, static_cast<const T *>(x), static_cast<T *>(y)});
    });
}

} // namespace

ISO_CUDA_KERNEL_WITH(rotary, run_rotary, true, table_scratch)
