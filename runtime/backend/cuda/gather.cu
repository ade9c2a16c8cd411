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
        V stack[MOST < DEPTH ? MOST : DEPTH];
        int depth = 0;
        stack[0] = value(0);
        if (count == 1)
            return stack[0];
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

/* Nested loops: the place of an element differs between the operands. Strides are in elements. */
template <class T, int MOST> struct nest_gatherer {
    tree<MOST> operands;
    int rank;
    int64_t extent[ISO_MAX_RANK], stride[ISO_MAX_RANK][MOST + 1];
    const T *from[MOST];
    T *to;

    __device__ __forceinline__ void operator()(int64_t i) const
    {
        int64_t at[ISO_MAX_RANK], rest = i;
        for (int d = rank - 1; d >= 0; d--) {
            at[d] = rest % extent[d];
            rest /= extent[d];
        }
        to[place(at, operands.count)] =
            operands.template evaluate<T>([&](int k) { return from[k][place(at, k)]; });
    }
    __device__ __forceinline__ int64_t place(const int64_t *at, int k) const
    {
        int64_t sum = at[rank - 1];
        for (int d = 0; d < rank - 1; d++)
            sum += at[d] * stride[d][k];
        return sum;
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

template <class T, int MOST> void queue_nest(const iso_stream *stream, const iso_device_gather *gather)
{
    static_assert(sizeof(int64_t) + sizeof(nest_gatherer<T, MOST>) <= MOST_ARGUMENTS, "those of the kernel");
    nest_gatherer<T, MOST> f = {};
    int operands = gather->n_operands, size = sizeof(T);
    int64_t count = 1;
    f.operands = tree_of<MOST>(gather);
    f.rank = gather->rank;
    f.to = static_cast<T *>(gather->out);
    for (int i = 0; i < operands; i++)
        f.from[i] = static_cast<const T *>(gather->operand[i]);
    for (int d = 0; d < f.rank; d++) {
        f.extent[d] = gather->extent[d];
        count *= f.extent[d];
        for (int i = 0; i <= operands && d < f.rank - 1; i++)
            f.stride[d][i] = gather->stride[d * (operands + 1) + i] / size;
    }
    for_each(stream, count, f);
}

template <class T, int MOST> void queue(const iso_stream *stream, const iso_device_gather *gather)
{
    if (gather->rank == 1)
        queue_run<T, MOST>(stream, gather);
    else
        queue_nest<T, MOST>(stream, gather);
}

template <class T> void queue_of(const iso_stream *stream, const iso_device_gather *gather)
{
    if (gather->n_operands <= FEW && gather->n_copies <= FEW)
        queue<T, FEW>(stream, gather);
    else
        queue<T, ISO_MOST_GATHERED>(stream, gather);
}

} // namespace iso_cuda

void iso_cuda_gather(iso_stream *stream, const iso_device_gather *gather)
{
    if (gather->n_operands == 1) /* no arithmetic: of any type */
        iso_cuda::with_size(gather->dtype,
                            [=](auto zero) { iso_cuda::queue_of<decltype(zero)>(stream, gather); });
    else
        iso_cuda::with_number(gather->dtype,
                              [=](auto zero) { iso_cuda::queue_of<decltype(zero)>(stream, gather); });
}
