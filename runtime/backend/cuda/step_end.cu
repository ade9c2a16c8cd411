/* Between slots and at the end of a step: sums, copies of boxes, copies that a fault prevents, and the count of
 * faults. */
#include "runtime/backend/cuda/step_end.h"

#include "runtime/backend/cuda/combine.h"
#include "runtime/backend/cuda/walk.h"
#include "runtime/backend/fault.h"

namespace iso_cuda
{

/* ---- combinations of two arrays ---- */

template <class T> struct combination {
    enum { WIDTH = 16 / sizeof(T) };
    const T *a, *b;
    T *out;
    combiner with;
    __device__ __forceinline__ void one(int64_t i) const
    {
        with.put(&out[i], a[i], b[i]);
    }
    __device__ __forceinline__ void pack(int64_t i) const
    {
        typedef iso_cuda::pack<T, WIDTH> pack_type;
        pack_type x = *reinterpret_cast<const pack_type *>(a + i),
                  y = *reinterpret_cast<const pack_type *>(b + i), z;
        with.put(&z, x, y);
        *reinterpret_cast<pack_type *>(out + i) = z;
    }
};

void combine(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, bool adds,
             const iso_stream *stream)
{
    with_number(dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_packs(stream, n, aligned({a, b, out}),
                  combination<T>{static_cast<const T *>(a),
                                 static_cast<const T *>(b),
                                 static_cast<T *>(out),
                                 {adds, dtype == ISO_BOOL}});
    });
}

/* ---- copies ---- */

template <class T> struct box_copier {
    walk<2> places;
    const T *from;
    T *to;
    __device__ void operator()(int64_t i) const
    {
        int64_t at[2];
        places.find(i, at);
        to[at[1]] = from[at[0]];
    }
};

/* The element of a box's buffer where a region begins, and the steps of its dimensions. */
int64_t steps_in_box(const iso_box *box, const iso_box *region, int64_t *step)
{
    int64_t first = 0, size = 1;
    for (int d = box->rank - 1; d >= 0; d--) {
        step[d] = size;
        first += (region->offset[d] - box->offset[d]) * size;
        size *= box->extent[d];
    }
    return first;
}

template <class T> void copy_region(const iso_box_copy *copy, const iso_stream *stream)
{
    int64_t from_step[ISO_MAX_RANK], to_step[ISO_MAX_RANK];
    int64_t from = steps_in_box(&copy->from_box, &copy->region, from_step),
            to = steps_in_box(&copy->to_box, &copy->region, to_step);
    walk<2> places;
    for (int d = 0; d < copy->region.rank; d++) {
        const int64_t steps[2] = {from_step[d], to_step[d]};
        places.add(copy->region.extent[d], steps);
    }
    for_each(
        stream, places.count,
        box_copier<T>{places, static_cast<const T *>(copy->from) + from, static_cast<T *>(copy->to) + to});
}

int64_t count_of(const iso_box *box)
{
    int64_t count = 1;
    for (int d = 0; d < box->rank; d++)
        count *= box->extent[d];
    return count;
}

/* Several copies, each by blocks of its own, in an argument of less than 4096 bytes. */
enum { MOST_COPIES = 96, COPIED_BY_BLOCK = 1 << 14 /* bytes */ };
struct copies {
    const double *faults; /* NULL: there are none */
    int count;
    unsigned first_block[MOST_COPIES + 1];
    iso_bytes_copy list[MOST_COPIES];
};

template <class T> __device__ void copy_part(const iso_bytes_copy &one, size_t begin, size_t end)
{
    const T *from = static_cast<const T *>(one.from);
    T *to = static_cast<T *>(one.to);
    for (size_t i = begin / sizeof(T) + threadIdx.x; i < end / sizeof(T); i += BLOCK)
        to[i] = from[i];
}

__global__ void __launch_bounds__(BLOCK) copies_kernel(copies c)
{
    if (c.faults && iso_step_faults(*c.faults) != 0)
        return;
    int number = 0;
    while (blockIdx.x >= c.first_block[number + 1])
        number++;
    const iso_bytes_copy one = c.list[number];
    const size_t begin = static_cast<size_t>(blockIdx.x - c.first_block[number]) * COPIED_BY_BLOCK;
    const size_t end = begin + COPIED_BY_BLOCK < one.bytes ? begin + COPIED_BY_BLOCK : one.bytes;
    const uintptr_t all =
        reinterpret_cast<uintptr_t>(one.from) | reinterpret_cast<uintptr_t>(one.to) | one.bytes;
    if (all % 16 == 0)
        copy_part<pack<uint64_t, 2>>(one, begin, end);
    else if (all % sizeof(uint32_t) == 0)
        copy_part<uint32_t>(one, begin, end);
    else
        copy_part<uint8_t>(one, begin, end);
}

struct fault_counter {
    const iso_fault *fault;
    const double *host;
    double *out;
    __device__ void operator()(int64_t) const
    {
        *out = *host + (fault->code != ISO_FAULT_NONE ? 1 : 0);
    }
};

} // namespace iso_cuda

using namespace iso_cuda;

void iso_cuda_sum_slots(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out,
                        iso_stream *stream)
{
    combine(dtype, n, a, b, out, true, stream);
}

void iso_cuda_maximum_slots(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out,
                            iso_stream *stream)
{
    combine(dtype, n, a, b, out, false, stream);
}

void iso_cuda_copy_box(const iso_box_copy *copy, iso_stream *stream)
{
    const char zero = 0;
    size_t bytes = static_cast<size_t>(count_of(&copy->to_box)) * copy->element;
    if (copy->zero)
        stream->device->fill(stream, copy->to, &zero, 1, bytes);
    if (copy->empty)
        return;
    if (copy->whole)
        stream->device->copy(stream, copy->to, copy->from, bytes);
    else if (copy->element == 1)
        copy_region<uint8_t>(copy, stream);
    else if (copy->element == 2)
        copy_region<uint16_t>(copy, stream);
    else if (copy->element == 4)
        copy_region<uint32_t>(copy, stream);
    else
        copy_region<uint64_t>(copy, stream);
}

void iso_cuda_copy_bytes(const iso_bytes_copy *list, int count, const double *faults, iso_stream *stream)
{
    copies c = {};
    c.faults = faults;
    for (int done = 0; done < count; done += c.count) {
        c.count = count - done < MOST_COPIES ? count - done : static_cast<int>(MOST_COPIES);
        for (int i = 0; i < c.count; i++) {
            c.list[i] = list[done + i];
            int64_t blocks = ceil_of(static_cast<int64_t>(c.list[i].bytes), COPIED_BY_BLOCK);
            c.first_block[i + 1] = c.first_block[i] + static_cast<unsigned>(blocks);
        }
        launch(copies_kernel, c.first_block[c.count], BLOCK, 0, iso_cuda_stream_of(stream), c);
    }
}

void iso_cuda_count_fault(const iso_fault *fault, const double *host, double *out, iso_stream *stream)
{
    for_each(stream, 1, fault_counter{fault, host, out});
}
