#include "runtime/backend/cuda/rearrange.h"

#include "runtime/backend/cuda/elements.h"

namespace
{

using namespace iso_cuda;

/* ---- transposes: a block has a tile, which it reads and writes along rows ---- */

enum { TILE = 32, LINES = BLOCK / TILE };

template <class T>
__global__ void __launch_bounds__(BLOCK)
    transpose_kernel(int64_t rows, int64_t columns, int64_t tiles_across, const T *from, T *to)
{
    __shared__ T tile[TILE][TILE + 1];
    const int64_t row = blockIdx.x / tiles_across * TILE, column = blockIdx.x % tiles_across * TILE;
    const int across = static_cast<int>(threadIdx.x) % TILE, down = static_cast<int>(threadIdx.x) / TILE;
    for (int i = down; i < TILE; i += LINES)
        if (row + i < rows && column + across < columns)
            tile[i][across] = from[(row + i) * columns + column + across];
    __syncthreads();
    for (int i = down; i < TILE; i += LINES)
        if (column + i < columns && row + across < rows)
            to[(column + i) * rows + row + across] = tile[across][i];
}

/* ---- frames: a thread has an element of the result, or 16 bytes of channels ---- */

template <class T> struct reframe {
    iso_cuda_frame f; /* c in units of T */
    const T *from;
    T *to;
    __device__ void operator()(int64_t i) const
    {
        int64_t pixel = i / f.c, line = pixel / f.to_w, row = line % f.to_h + f.down;
        int64_t column = pixel - line * f.to_w + f.right, image = line / f.to_h;
        bool inside = row >= 0 && row < f.from_h && column >= 0 && column < f.from_w;
        to[i] = inside ? from[((image * f.from_h + row) * f.from_w + column) * f.c + i - pixel * f.c] : T();
    }
};

template <class T>
void reframe_as(const iso_cuda_frame &frame, size_t size, const void *from, void *to,
                const iso_stream *stream)
{
    iso_cuda_frame f = frame;
    f.c = f.c * static_cast<int64_t>(size) / static_cast<int64_t>(sizeof(T));
    for_each(stream, f.n * f.to_h * f.to_w * f.c,
             reframe<T>{f, static_cast<const T *>(from), static_cast<T *>(to)});
}

} // namespace

void iso_cuda_transpose_matrix(iso_dtype dtype, int64_t rows, int64_t columns, const void *from, void *to,
                               const iso_stream *stream)
{
    const int64_t across = ceil_of(columns, TILE), tiles = ceil_of(rows, TILE) * across;
    with_size(dtype, [=](auto zero) {
        typedef decltype(zero) T;
        launch(transpose_kernel<T>, static_cast<unsigned>(tiles), BLOCK, 0, iso_cuda_stream_of(stream), rows,
               columns, across, static_cast<const T *>(from), static_cast<T *>(to));
    });
}

void iso_cuda_reframe(iso_dtype dtype, const iso_cuda_frame *frame, const void *from, void *to,
                      const iso_stream *stream)
{
    size_t size = iso_dtype_size(dtype);
    if (frame->c * static_cast<int64_t>(size) % 16 == 0 && aligned({from, to}))
        reframe_as<pack<uint64_t, 2>>(*frame, size, from, to, stream);
    else
        with_size(dtype, [=](auto zero) { reframe_as<decltype(zero)>(*frame, size, from, to, stream); });
}
