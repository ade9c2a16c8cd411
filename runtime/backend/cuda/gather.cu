/* The gathers of exchanges: a thread for each element, or for each pack of elements of a run, evaluates the tree over
 * the operands. */
#include "runtime/backend/cuda/gather.h"

#include "runtime/backend/cuda/combine.h"

namespace iso_cuda
{

enum { DEPTH = 24 /* of the tree, as on the CPU */, FEW = 8 };
/* Bytes of a kernel's arguments, with CUDA 12.1 and a driver of release 530 or later ones (before, 4096). */
enum { MOST_ARGUMENTS = 32764 };

/* The tree over at most MOST operands: value(i) gives operand i, an element or a pack. */
template <int MOST> struct tree {
    int count;
    combiner with;
    unsigned char folds[MOST];

    template <class V, class F> __device__ __forceinline__ V evaluate(F value) const
    {
        if (MOST == 1 || count == 1)
            return value(0);
        V stack[MOST < DEPTH ? MOST : DEPTH];
        int depth = 0;
        stack[0] = value(0);
        if (count == 2) {
            with.put(&stack[0], stack[0], value(1));
            return stack[0];
        }
        for (int i = 0; i < count; i++) {
            stack[depth++] = value(i);
            for (int fold = folds[i]; fold > 0; fold--) {
                depth--;
                with.put(&stack[depth - 1], stack[depth - 1], stack[depth]);
            }
        }
        return stack[0];
    }
};

/* A run, whose result is also written to other places. */
template <class T, int MOST> struct run_gatherer {
    enum { WIDTH = 16 / sizeof(T) };
    tree<MOST> operands;
    const T *from[MOST];
    int n_targets;
    T *to[MOST + 1];

    __device__ __forceinline__ void one(int64_t i) const
    {
        T x = operands.template evaluate<T>([&](int k) { return from[k][i]; });
        for (int k = 0; k < n_targets; k++)
            to[k][i] = x;
    }
    __device__ __forceinline__ void pack(int64_t i) const
    {
        typedef iso_cuda::pack<T, WIDTH> pack_type;
        pack_type all = operands.template evaluate<pack_type>(
            [&](int k) { return *reinterpret_cast<const pack_type *>(from[k] + i); });
        for (int k = 0; k < n_targets; k++)
            *reinterpret_cast<pack_type *>(to[k] + i) = all;
    }
};

/* Nested loops: the place of an element differs between the operands. V: an element, or a pack of them. Extents and
 * strides are in V. */
template <class V, int MOST> struct nest_gatherer {
    tree<MOST> operands;
    int rank;
    int64_t count, extent[ISO_MAX_RANK], stride[ISO_MAX_RANK][MOST + 1];
    const V *from[MOST];
    V *to;

    /* Loops over all dimensions that there may be keep the places in registers. */
    template <class index> __device__ __forceinline__ void gather(index i) const
    {
        index at[ISO_MAX_RANK] = {};
        ISO_UNROLL()
        for (int d = ISO_MAX_RANK - 1; d >= 0; d--)
            if (d < rank) {
                const index outer = d > 0 ? i / static_cast<index>(extent[d]) : 0;
                at[d] = i - outer * static_cast<index>(extent[d]);
                i = outer;
            }
        to[place(at, operands.count)] =
            operands.template evaluate<V>([&](int k) { return from[k][place(at, k)]; });
    }
    template <class index>
    __device__ __forceinline__ int64_t place(const index (&at)[ISO_MAX_RANK], int k) const
    {
        int64_t sum = 0;
        ISO_UNROLL()
        for (int d = 0; d < ISO_MAX_RANK; d++)
            if (d < rank)
                sum += static_cast<int64_t>(at[d]) * (d < rank - 1 ? stride[d][k] : 1);
        return sum;
    }
    __device__ __forceinline__ void operator()(int64_t i) const
    {
        if (count <= INT32_MAX) /* divisions of 32 bits take a quarter of the time */
            gather(static_cast<uint32_t>(i));
        else
            gather(i);
    }
};

template <int MOST> tree<MOST> tree_of(const iso_device_gather *gather)
{
    tree<MOST> t = {};
    t.count = gather->n_operands;
    t.with = {!gather->maximum, gather->dtype == ISO_BOOL};
    for (int i = 0; i < t.count; i++)
        t.folds[i] = gather->folds[i];
    return t;
}

template <class T, int MOST> void queue_run(const iso_stream *stream, const iso_device_gather *gather)
{
    run_gatherer<T, MOST> f = {};
    uintptr_t all = 0;
    f.operands = tree_of<MOST>(gather);
    for (int i = 0; i < gather->n_operands; i++) {
        f.from[i] = static_cast<const T *>(gather->operand[i]);
        all |= reinterpret_cast<uintptr_t>(f.from[i]);
    }
    f.n_targets = 1 + gather->n_copies;
    for (int i = 0; i < f.n_targets; i++) {
        f.to[i] = static_cast<T *>(i ? gather->copies[i - 1] : gather->out);
        all |= reinterpret_cast<uintptr_t>(f.to[i]);
    }
    for_packs(stream, gather->extent[0], all % 16 == 0, f);
}

template <class V, int MOST>
void queue_nest_of(const iso_stream *stream, const iso_device_gather *gather, int64_t width)
{
    static_assert(sizeof(int64_t) + sizeof(nest_gatherer<V, MOST>) <= MOST_ARGUMENTS, "those of the kernel");
    nest_gatherer<V, MOST> f = {};
    int operands = gather->n_operands, size = sizeof(V);
    f.operands = tree_of<MOST>(gather);
    f.rank = gather->rank;
    f.count = 1;
    f.to = static_cast<V *>(gather->out);
    for (int i = 0; i < operands; i++)
        f.from[i] = static_cast<const V *>(gather->operand[i]);
    for (int d = 0; d < f.rank; d++) {
        f.extent[d] = gather->extent[d] / (d == f.rank - 1 ? width : 1);
        f.count *= f.extent[d];
        for (int i = 0; i <= operands && d < f.rank - 1; i++)
            f.stride[d][i] = gather->stride[d * (operands + 1) + i] / size;
    }
    for_each(stream, f.count, f);
}

/* Whether all runs begin at multiples of 16 bytes, and are whole packs of `width` elements. */
bool has_packs(const iso_device_gather *gather, int64_t width)
{
    uintptr_t all = reinterpret_cast<uintptr_t>(gather->out);
    for (int i = 0; i < gather->n_operands; i++)
        all |= reinterpret_cast<uintptr_t>(gather->operand[i]);
    for (int i = 0; i < (gather->rank - 1) * (gather->n_operands + 1); i++)
        all |= static_cast<uintptr_t>(gather->stride[i]);
    return all % 16 == 0 && gather->extent[gather->rank - 1] % width == 0;
}

/* Of a few operands in packs, where they have them. */
template <class T> void queue_nest(const iso_stream *stream, const iso_device_gather *gather)
{
    const int width = 16 / sizeof(T);
    if (gather->n_operands > FEW)
        queue_nest_of<T, ISO_MOST_GATHERED>(stream, gather, 1);
    else if (has_packs(gather, width))
        queue_nest_of<pack<T, width>, FEW>(stream, gather, width);
    else
        queue_nest_of<T, FEW>(stream, gather, 1);
}

template <class T> void queue_run_of(const iso_stream *stream, const iso_device_gather *gather)
{
    if (gather->n_operands <= FEW && gather->n_copies <= FEW)
        queue_run<T, FEW>(stream, gather);
    else
        queue_run<T, ISO_MOST_GATHERED>(stream, gather);
}

/* No arithmetic: of any type. */
void queue_copy(const iso_stream *stream, const iso_device_gather *gather)
{
    const int64_t width = 16 / static_cast<int64_t>(iso_dtype_size(gather->dtype));
    if (gather->rank > 1 && has_packs(gather, width))
        queue_nest_of<pack<uint64_t, 2>, 1>(stream, gather, width);
    else
        with_size(gather->dtype, [=](auto zero) {
            if (gather->rank > 1)
                queue_nest_of<decltype(zero), 1>(stream, gather, 1);
            else
                queue_run_of<decltype(zero)>(stream, gather);
        });
}

void queue_sum(const iso_stream *stream, const iso_device_gather *gather)
{
    with_number(gather->dtype, [=](auto zero) {
        if (gather->rank > 1)
            queue_nest<decltype(zero)>(stream, gather);
        else
            queue_run_of<decltype(zero)>(stream, gather);
    });
}

} // namespace iso_cuda

void iso_cuda_gather(iso_stream *stream, const iso_device_gather *gather)
{
    if (gather->n_operands == 1)
        iso_cuda::queue_copy(stream, gather);
    else
        iso_cuda::queue_sum(stream, gather);
}
