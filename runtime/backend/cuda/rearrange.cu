#include "runtime/backend/cuda/rearrange.h"

#include "runtime/backend/cuda/packs.h"
#include "runtime/backend/cuda/transpose.h"

namespace
{

using namespace iso_cuda;

/* ---- transposes: a block has a tile, which it reads and writes along rows ---- */

enum { TILE = 32, LINES = BLOCK / TILE };

template <class T>
__global__ void __launch_bounds__(BLOCK)
    transpose_kernel(matrices m, unsigned tiles_across, unsigned tiles, const T *from, T *to)
{
    __shared__ T tile[TILE][TILE + 1];
    const unsigned matrix = blockIdx.x / tiles, own = blockIdx.x % tiles;
    const int64_t row = static_cast<int64_t>(own / tiles_across) * TILE,
                  column = static_cast<int64_t>(own % tiles_across) * TILE;
    const int across = static_cast<int>(threadIdx.x) % TILE, down = static_cast<int>(threadIdx.x) / TILE;
    int64_t at[2];
    m.each.find(matrix, at);
    for (int i = down; i < TILE; i += LINES)
        if (row + i < m.rows && column + across < m.columns)
            tile[i][across] = from[at[0] + (row + i) * m.from_stride + column + across];
    __syncthreads();
    for (int i = down; i < TILE; i += LINES)
        if (column + i < m.columns && row + across < m.rows)
            to[at[1] + (column + i) * m.to_stride + row + across] = tile[across][i];
}

/* ---- other types: a thread has 4 elements where the addresses allow ---- */

struct widen {
    enum { WIDTH = 4 };
    const bf16 *from;
    float *to;
    __device__ __forceinline__ void one(int64_t i) const
    {
        to[i] = wide(from[i]);
    }
    __device__ __forceinline__ void pack(int64_t i) const
    {
        const auto narrow = load_pack<WIDTH>(from + i);
        iso_cuda::pack<float, WIDTH> all;
        for (int k = 0; k < WIDTH; k++)
            all.at[k] = wide(narrow.at[k]);
        store_pack(to + i, all);
    }
};

/* ---- frames: a thread has a unit of the result ---- */

template <class T> struct reframe {
    iso_cuda_frame f; /* c in units of T */
    const T *from;
    T *to;
    __device__ void operator()(int64_t i) const
    {
        int64_t pixel = quotient_of(i, f.c), line = quotient_of(pixel, f.to_w);
        int64_t image = quotient_of(line, f.to_h), row = line - image * f.to_h + f.down,
                column = pixel - line * f.to_w + f.right;
        bool inside = row >= 0 && row < f.from_h && column >= 0 && column < f.from_w;
        to[i] = inside ? from[((image * f.from_h + row) * f.from_w + column) * f.c + i - pixel * f.c] : T();
    }
};

/* ---- windows: a thread has a unit of the columns, or an element of x ---- */

template <class T> struct copy_windows {
    iso_cuda_windows v; /* c in units of T */
    const T *x;
    T *columns;
    __device__ void operator()(int64_t i) const
    {
        int64_t tap = quotient_of(i, v.c), line = quotient_of(tap, v.s), position = quotient_of(line, v.r);
        int64_t row_of_y = quotient_of(position, v.q), image = quotient_of(row_of_y, v.p);
        int64_t row =
            (row_of_y - image * v.p) * v.stride[0] - v.before[0] + (line - position * v.r) * v.dilation[0];
        int64_t column =
            (position - row_of_y * v.q) * v.stride[1] - v.before[1] + (tap - line * v.s) * v.dilation[1];
        bool inside = row >= 0 && row < v.h && column >= 0 && column < v.w;
        columns[i] = inside ? x[((image * v.h + row) * v.w + column) * v.c + i - tap * v.c] : T();
    }
};

template <class T> struct add_windows {
    typedef compute<T> C;
    iso_cuda_windows v;
    const C *columns;
    T *x;
    __device__ void operator()(int64_t i) const
    {
        int64_t pixel = quotient_of(i, v.c), line = quotient_of(pixel, v.w), image = quotient_of(line, v.h);
        int64_t row = line - image * v.h + v.before[0], column = pixel - line * v.w + v.before[1];
        C sum = 0;
        for (int64_t r = 0; r < v.r; r++)
            for (int64_t s = 0; s < v.s; s++) {
                int64_t y = row - r * v.dilation[0], z = column - s * v.dilation[1];
                int64_t p = y / v.stride[0], q = z / v.stride[1];
                if (y >= 0 && p * v.stride[0] == y && p < v.p && z >= 0 && q * v.stride[1] == z && q < v.q)
                    sum += columns[((((image * v.p + p) * v.q + q) * v.r + r) * v.s + s) * v.c + i -
                                   pixel * v.c];
            }
        narrow(&x[i], sum);
    }
};

template <class T> struct add_parts {
    typedef compute<T> C;
    int64_t parts, stride;
    const C *from;
    T *out;
    __device__ void operator()(int64_t i) const
    {
        C sum = from[i];
        for (int64_t part = 1; part < parts; part++)
            sum += from[part * stride + i];
        narrow(&out[i], sum);
    }
};

} // namespace

void iso_cuda::transpose_matrices(iso_dtype dtype, const matrices &m, const void *from, void *to,
                                  const iso_stream *stream)
{
    const int64_t across = ceil_of(m.columns, TILE), tiles = ceil_of(m.rows, TILE) * across;
    with_size(dtype, [=](auto zero) {
        typedef decltype(zero) T;
        launch(transpose_kernel<T>, static_cast<unsigned>(tiles * m.each.count), BLOCK, 0,
               iso_cuda_stream_of(stream), m, static_cast<unsigned>(across), static_cast<unsigned>(tiles),
               static_cast<const T *>(from), static_cast<T *>(to));
    });
}

void iso_cuda_transpose_matrix(iso_dtype dtype, int64_t rows, int64_t columns, const void *from, void *to,
                               const iso_stream *stream)
{
    matrices m = {rows, columns, columns, rows, {}};
    transpose_matrices(dtype, m, from, to, stream);
}

void iso_cuda_widen(int64_t count, const void *from, void *to, const iso_stream *stream)
{
    for_packs(stream, count, aligned({from, to}),
              widen{static_cast<const bf16 *>(from), static_cast<float *>(to)});
}

void iso_cuda_reframe(iso_dtype dtype, const iso_cuda_frame *frame, const void *from, void *to,
                      const iso_stream *stream)
{
    with_units(dtype, frame->c, {from, to}, [=](auto unit, int64_t of_unit) {
        typedef decltype(unit) T;
        iso_cuda_frame f = *frame;
        f.c /= of_unit;
        for_each(stream, f.n * f.to_h * f.to_w * f.c,
                 reframe<T>{f, static_cast<const T *>(from), static_cast<T *>(to)});
    });
}

void iso_cuda_copy_windows(iso_dtype dtype, const iso_cuda_windows *windows, const void *x, void *columns,
                           const iso_stream *stream)
{
    with_units(dtype, windows->c, {x, columns}, [=](auto unit, int64_t of_unit) {
        typedef decltype(unit) T;
        iso_cuda_windows v = *windows;
        v.c /= of_unit;
        for_each(stream, v.n * v.p * v.q * v.r * v.s * v.c,
                 copy_windows<T>{v, static_cast<const T *>(x), static_cast<T *>(columns)});
    });
}

void iso_cuda_add_windows(iso_dtype dtype, const iso_cuda_windows *windows, const void *columns, void *x,
                          const iso_stream *stream)
{
    with_float(dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_each(stream, windows->n * windows->h * windows->w * windows->c,
                 add_windows<T>{*windows, static_cast<const compute<T> *>(columns), static_cast<T *>(x)});
    });
}

void iso_cuda_add_parts(iso_dtype dtype, int64_t parts, int64_t stride, int64_t count, const void *from,
                        void *out, const iso_stream *stream)
{
    with_float(dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_each(stream, count,
                 add_parts<T>{parts, stride, static_cast<const compute<T> *>(from), static_cast<T *>(out)});
    });
}
