/* Look-up in a table of which this slot may hold only some rows, and its gradient. */
#include "runtime/backend/cuda/faults.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

/* The rows of this part of the table. */
struct part {
    int64_t first, rows, columns;
};

struct look_up {
    indices index;
    part table;
    reals x, y;
    __device__ void operator()(int64_t number) const
    {
        int64_t i = number / table.columns, column = number - i * table.columns, row = index.get(i);
        if (row < 0 && column == 0)
            index.raise(i);
        row = row < 0 ? -1 : row - table.first;
        y.put(number, row >= 0 && row < table.rows ? x.get<double>(row * table.columns + column) : 0);
    }
};

void run_look_up(const iso_kernel_call *call)
{
    const iso_array &table = call->in[0], &y = call->out[0];
    for_each(call->stream, iso_array_count(&call->in[1]) * table.dim[1],
             look_up{indices_of(call, 1, table.global[0]), part{table.offset[0], table.dim[0], table.dim[1]},
                     reals_of(table), reals_of(y)});
}

/* ---- the gradient ----
 * The indices are sorted by counting, so that each row of the table adds what it gets in the order of the
 * indices. In scratch memory: where the list of each row of the table begins; where it is filled; the lists. */

struct sort_memory {
    int32_t *begin, *fill, *list;
};

sort_memory memory_of(const iso_kernel_call *call)
{
    int64_t rows = call->out[0].dim[0];
    int32_t *first = static_cast<int32_t *>(call->scratch);
    return {first, first + rows + 1, first + 2 * rows + 2};
}

size_t sort_bytes(const iso_kernel_call *call, int input)
{
    return static_cast<size_t>(2 * call->out[0].dim[0] + 2 + iso_array_count(&call->in[input])) *
           sizeof(int32_t);
}

size_t gradient_scratch(const iso_kernel_call *call)
{
    return sort_bytes(call, 0);
}

size_t added_gradient_scratch(const iso_kernel_call *call)
{
    return sort_bytes(call, 1);
}

struct clear {
    int32_t *numbers;
    __device__ void operator()(int64_t i) const
    {
        numbers[i] = 0;
    }
};

/* fill[row]: how many indices name it. Sums of integers do not depend on their order. */
struct count_rows {
    indices index;
    part table;
    int32_t *count;
    __device__ void operator()(int64_t i) const
    {
        int64_t row = index.get(i);
        if (row < 0)
            index.raise(i);
        row -= table.first;
        if (row >= 0 && row < table.rows)
            atomicAdd(&count[row], 1);
    }
};

/* One block: begin[row] is the sum of the counts before; fill becomes the same. */
__global__ void __launch_bounds__(BLOCK) add_up(int64_t rows, int32_t *begin, int32_t *fill)
{
    __shared__ int32_t part[BLOCK];
    const int own = static_cast<int>(threadIdx.x);
    const int64_t each = (rows + BLOCK - 1) / BLOCK, first = own * each;
    const int64_t end = first + each < rows ? first + each : rows;
    int32_t sum = 0;
    for (int64_t i = first; i < end; i++)
        sum += fill[i];
    part[own] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < own; i++)
        sum += part[i];
    for (int64_t i = first; i < end; i++) {
        int32_t count = fill[i];
        begin[i] = fill[i] = sum;
        sum += count;
    }
    if (own == BLOCK - 1)
        begin[rows] = sum;
}

/* The numbers of the indices that name a row, in any order. */
struct make_lists {
    indices index;
    part table;
    int32_t *fill, *list;
    __device__ void operator()(int64_t i) const
    {
        int64_t row = index.get(i) - table.first;
        if (index.get(i) >= 0 && row >= 0 && row < table.rows)
            list[atomicAdd(&fill[row], 1)] = static_cast<int32_t>(i);
    }
};

/* Sorts a row's list, as a heap. */
struct sort_lists {
    const int32_t *begin;
    int32_t *list;
    __device__ static void sink(int32_t *heap, int32_t at, int32_t count)
    {
        for (int32_t child; (child = 2 * at + 1) < count; at = child) {
            child += child + 1 < count && heap[child + 1] > heap[child];
            if (heap[at] >= heap[child])
                return;
            int32_t kept = heap[at];
            heap[at] = heap[child];
            heap[child] = kept;
        }
    }
    __device__ void operator()(int64_t row) const
    {
        int32_t *heap = list + begin[row], count = begin[row + 1] - begin[row];
        for (int32_t i = count / 2 - 1; i >= 0; i--)
            sink(heap, i, count);
        for (int32_t i = count - 1; i > 0; i--) {
            int32_t kept = heap[0];
            heap[0] = heap[i];
            heap[i] = kept;
            sink(heap, 0, i);
        }
    }
};

template <class C> struct add_rows {
    const int32_t *begin, *list;
    int64_t columns;
    reals dy, dtable;
    __device__ void operator()(int64_t number) const
    {
        int64_t row = number / columns, column = number - row * columns;
        C sum = 0;
        for (int32_t i = begin[row]; i < begin[row + 1]; i++)
            sum += dy.get<C>(list[i] * columns + column);
        dtable.put(number, sum);
    }
};

/* The same for the rows that are touched, by the first index of each. */
template <class C> struct add_touched {
    indices index;
    const int32_t *begin, *list;
    part table;
    reals dy, dtable;
    __device__ void operator()(int64_t number) const
    {
        int64_t i = number / table.columns, column = number - i * table.columns;
        int64_t row = index.get(i) < 0 ? -1 : index.get(i) - table.first;
        if (row < 0 || row >= table.rows || list[begin[row]] != static_cast<int32_t>(i))
            return;
        C sum = 0;
        for (int32_t k = begin[row]; k < begin[row + 1]; k++)
            sum += dy.get<C>(list[k] * table.columns + column);
        dtable.put(row * table.columns + column, dtable.get<C>(row * table.columns + column) + sum);
    }
};

struct copy {
    reals x, y;
    __device__ void operator()(int64_t i) const
    {
        y.put(i, x.get<double>(i));
    }
};

part part_of(const iso_array &table)
{
    return {table.offset[0], table.dim[0], table.dim[1]};
}

/* Lists, for each row of the table, the elements of input `input` that name it, in order. */
sort_memory sort_indices(const iso_kernel_call *call, int input)
{
    const int64_t n = iso_array_count(&call->in[input]);
    part table = part_of(call->out[0]);
    indices index = indices_of(call, input, static_cast<const iso_embedding_attrs *>(call->attrs)->rows);
    sort_memory m = memory_of(call);
    for_each(call->stream, table.rows, clear{m.fill});
    for_each(call->stream, n, count_rows{index, table, m.fill});
    launch(add_up, 1, BLOCK, 0, iso_cuda_stream_of(call->stream), table.rows, m.begin, m.fill);
    for_each(call->stream, n, make_lists{index, table, m.fill, m.list});
    for_each(call->stream, table.rows, sort_lists{m.begin, m.list});
    return m;
}

void run_gradient(const iso_kernel_call *call)
{
    const iso_array &dtable = call->out[0];
    part table = part_of(dtable);
    sort_memory m = sort_indices(call, 0);
    with_compute(dtable.dtype, [=](auto zero) {
        for_each(call->stream, iso_array_count(&call->out[0]),
                 add_rows<decltype(zero)>{m.begin, m.list, table.columns, reals_of(call->in[1]),
                                          reals_of(call->out[0])});
    });
}

void run_added_gradient(const iso_kernel_call *call)
{
    const iso_array &base = call->in[0], &dtable = call->out[0];
    part table = part_of(dtable);
    indices index = indices_of(call, 1, static_cast<const iso_embedding_attrs *>(call->attrs)->rows);
    sort_memory m = sort_indices(call, 1);
    if (base.data != dtable.data)
        for_each(call->stream, iso_array_count(&dtable), copy{reals_of(base), reals_of(dtable)});
    with_compute(dtable.dtype, [=](auto zero) {
        for_each(call->stream, iso_array_count(&call->in[2]),
                 add_touched<decltype(zero)>{index, m.begin, m.list, table, reals_of(call->in[2]),
                                             reals_of(call->out[0])});
    });
}

} // namespace

ISO_CUDA_KERNEL(embedding, run_look_up, false)
ISO_CUDA_KERNEL_WITH(embedding_grad, run_gradient, false, gradient_scratch)
ISO_CUDA_KERNEL_WITH(embedding_grad_add, run_added_gradient, true, added_gradient_scratch)
