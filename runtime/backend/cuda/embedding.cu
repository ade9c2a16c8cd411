/* Look-up in a table of which this slot may hold only some rows, and its gradient. */
#include "runtime/backend/cuda/faults.h"
#include "runtime/backend/cuda/scan.h"
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
        int64_t i = quotient_of(number, table.columns), column = number - i * table.columns,
                row = index.get(i);
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
 * indices. A thread sorts a short list; a block makes a long one in order. */

enum { MOST_SORTED = 64 /* indices of a short list */, SCAN = 1024 /* threads */, ROWS_OF_A_THREAD = 4 };
enum { INDICES_OF_A_THREAD = 8, AT_ONCE = 8 /* loads of a thread that adds */ };
const int64_t MOST_LONG_BLOCKS = 1024;

/* In scratch memory, for `rows` rows of the table and n indices. */
struct sort_memory {
    int32_t *row;       /* [n] the row that each index names; -1: none of this part */
    int32_t *list;      /* [n] */
    int32_t *begin;     /* [rows + 1] where the list of each row begins */
    int32_t *fill;      /* [rows] where it is filled */
    int32_t *long_rows; /* [1] how many lists are long, */
    int32_t *long_row;  /* [n / (MOST_SORTED + 1)] and their rows, in any order */
};

int64_t most_long_rows(int64_t n)
{
    return n / (MOST_SORTED + 1);
}

sort_memory memory_of(void *scratch, int64_t rows, int64_t n)
{
    int32_t *row = static_cast<int32_t *>(scratch), *begin = row + 2 * n, *fill = begin + rows + 1;
    return {row, row + n, begin, fill, fill + rows, fill + rows + 1};
}

size_t sort_bytes(const iso_kernel_call *call, int input)
{
    const int64_t rows = call->out[0].dim[0], n = iso_array_count(&call->in[input]);
    return static_cast<size_t>(2 * n + 2 * rows + 2 + most_long_rows(n)) * sizeof(int32_t);
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
    sort_memory m;
    __device__ void operator()(int64_t i) const
    {
        int64_t row = index.get(i);
        if (row < 0)
            index.raise(i);
        row -= table.first;
        const bool here = row >= 0 && row < table.rows;
        m.row[i] = here ? static_cast<int32_t>(row) : -1;
        if (here)
            atomicAdd(&m.fill[row], 1);
    }
};

/* One block: begin[row] is the sum of the counts before; fill becomes the same. Finds the long lists. */
__global__ void __launch_bounds__(SCAN) add_up(int64_t rows, sort_memory m)
{
    int32_t before = 0;
    for (int64_t tile = 0; tile < rows; tile += SCAN * ROWS_OF_A_THREAD) {
        const int64_t first = tile + static_cast<int64_t>(threadIdx.x) * ROWS_OF_A_THREAD;
        int32_t count[ROWS_OF_A_THREAD], own = 0, all;
        for (int k = 0; k < ROWS_OF_A_THREAD; k++) {
            count[k] = first + k < rows ? m.fill[first + k] : 0;
            own += count[k];
        }
        int32_t sum = before + sum_before<SCAN>(own, all);
        for (int k = 0; k < ROWS_OF_A_THREAD && first + k < rows; k++) {
            m.begin[first + k] = m.fill[first + k] = sum;
            sum += count[k];
            if (count[k] > MOST_SORTED)
                m.long_row[atomicAdd(m.long_rows, 1)] = static_cast<int32_t>(first + k);
        }
        before += all;
    }
    if (threadIdx.x == 0)
        m.begin[rows] = before;
}

/* The numbers of the indices that name a row, in any order: the short lists. */
struct make_lists {
    sort_memory m;
    __device__ void operator()(int64_t i) const
    {
        const int32_t row = m.row[i];
        if (row >= 0 && m.begin[row + 1] - m.begin[row] <= MOST_SORTED)
            m.list[atomicAdd(&m.fill[row], 1)] = static_cast<int32_t>(i);
    }
};

/* Sorts a row's short list, as a heap. */
struct sort_lists {
    sort_memory m;
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
        int32_t *heap = m.list + m.begin[row], count = m.begin[row + 1] - m.begin[row];
        if (count > MOST_SORTED)
            return;
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

/* A block for each long list: it reads all rows in order, and keeps the numbers of the indices that name its own. */
__global__ void __launch_bounds__(BLOCK) make_long_lists(int64_t n, sort_memory m)
{
    for (int64_t k = blockIdx.x; k < *m.long_rows; k += gridDim.x) {
        const int32_t row = m.long_row[k];
        int32_t at = m.begin[row];
        for (int64_t tile = 0; tile < n; tile += BLOCK * INDICES_OF_A_THREAD) {
            const int64_t first = tile + static_cast<int64_t>(threadIdx.x) * INDICES_OF_A_THREAD;
            int32_t named[INDICES_OF_A_THREAD], own = 0, all;
            for (int i = 0; i < INDICES_OF_A_THREAD; i++)
                named[i] = first + i < n ? m.row[first + i] : -1;
            for (int i = 0; i < INDICES_OF_A_THREAD; i++)
                own += named[i] == row;
            int32_t to = at + sum_before<BLOCK>(own, all);
            for (int i = 0; i < INDICES_OF_A_THREAD; i++)
                if (named[i] == row)
                    m.list[to++] = static_cast<int32_t>(first + i);
            at += all;
        }
    }
}

/* Adds the listed rows of dy, a whole group or the first `count`, in order, after all have been read. */
template <bool WHOLE, class T>
__device__ __forceinline__ void add_group(compute<T> &sum, const int32_t *list, int count, const T *dy,
                                          int64_t columns)
{
    T read[AT_ONCE];
    ISO_UNROLL()
    for (int j = 0; j < AT_ONCE; j++)
        read[j] = dy[list[WHOLE || j < count ? j : 0] * columns];
    ISO_UNROLL()
    for (int j = 0; j < AT_ONCE; j++)
        if (WHOLE || j < count)
            sum += wide(read[j]);
}

/* dy: at the column. */
template <class T>
__device__ __forceinline__ compute<T> sum_of_list(const sort_memory &m, int64_t row, const T *dy,
                                                  int64_t columns)
{
    const int32_t *list = m.list + m.begin[row];
    int left = m.begin[row + 1] - m.begin[row];
    compute<T> sum = 0;
    ISO_UNROLL(1)
    for (; left >= AT_ONCE; left -= AT_ONCE, list += AT_ONCE)
        add_group<true>(sum, list, AT_ONCE, dy, columns);
    if (left > 0)
        add_group<false>(sum, list, left, dy, columns);
    return sum;
}

template <class T> struct add_rows {
    sort_memory m;
    int64_t columns;
    const T *dy;
    reals dtable;
    __device__ void operator()(int64_t number) const
    {
        int64_t row = quotient_of(number, columns), column = number - row * columns;
        dtable.put(number, sum_of_list(m, row, dy + column, columns));
    }
};

/* The same for the rows that are touched, by the first index of each. */
template <class T> struct add_touched {
    sort_memory m;
    int64_t columns;
    const T *dy;
    reals dtable;
    __device__ void operator()(int64_t number) const
    {
        int64_t i = quotient_of(number, columns), column = number - i * columns, row = m.row[i];
        if (row < 0 || m.list[m.begin[row]] != static_cast<int32_t>(i))
            return;
        int64_t at = row * columns + column;
        dtable.put(at, dtable.get<compute<T>>(at) + sum_of_list(m, row, dy + column, columns));
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
    const int64_t n = iso_array_count(&call->in[input]), most_long = most_long_rows(n);
    const part table = part_of(call->out[0]);
    const sort_memory m = memory_of(call->scratch, table.rows, n);
    iso_cuda_stream *const stream = iso_cuda_stream_of(call->stream);
    for_each(call->stream, table.rows + 1, clear{m.fill}); /* and long_rows, which follows */
    for_each(call->stream, n,
             count_rows{indices_of(call, input, static_cast<const iso_embedding_attrs *>(call->attrs)->rows),
                        table, m});
    launch(add_up, 1, SCAN, 0, stream, table.rows, m);
    for_each(call->stream, n, make_lists{m});
    for_each(call->stream, table.rows, sort_lists{m});
    launch(make_long_lists,
           static_cast<unsigned>(most_long < MOST_LONG_BLOCKS ? most_long : MOST_LONG_BLOCKS), BLOCK, 0,
           stream, n, m);
    return m;
}

/* A thread for each of n elements: F<T> of what the indices of input `input` name, with dy, the input after it.
 * dtable has dy's type, or is float32 where dy is bfloat16. */
template <template <class T> class F> void add_by_row(const iso_kernel_call *call, int input, int64_t n)
{
    const sort_memory m = sort_indices(call, input);
    const iso_array &dy = call->in[input + 1], &dtable = call->out[0];
    with_float(dy.dtype, [&](auto zero) {
        typedef decltype(zero) T;
        for_each(call->stream, n, F<T>{m, dtable.dim[1], static_cast<const T *>(dy.data), reals_of(dtable)});
    });
}

void run_gradient(const iso_kernel_call *call)
{
    add_by_row<add_rows>(call, 0, iso_array_count(&call->out[0]));
}

void run_added_gradient(const iso_kernel_call *call)
{
    const iso_array &base = call->in[0], &dtable = call->out[0];
    if (base.data != dtable.data)
        for_each(call->stream, iso_array_count(&dtable), copy{reals_of(base), reals_of(dtable)});
    add_by_row<add_touched>(call, 1, iso_array_count(&call->in[2]));
}

} // namespace

ISO_CUDA_KERNEL(embedding, run_look_up, false)
ISO_CUDA_KERNEL_WITH(embedding_grad, run_gradient, false, gradient_scratch)
ISO_CUDA_KERNEL_WITH(embedding_grad_add, run_added_gradient, true, added_gradient_scratch)
