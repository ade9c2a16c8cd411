/* Tiles of bfloat16 in shared memory, and products of their fragments (mma.h). A block has WARPS warps.
 * A row of a tile is D elements and 16 bytes more, so that the rows of a matrix [8, 8] lie in different banks. All D
 * features are multiplied, also those beyond a head's, which are zeros: a product without a test is one run of
 * instructions, in which loads of fragments are under way beside the multiplications. */
#ifndef ISO_BACKEND_CUDA_TILES_H
#define ISO_BACKEND_CUDA_TILES_H

#include "runtime/backend/cuda/elements.h"
#include "runtime/backend/cuda/mma.h"

namespace iso_cuda
{

enum { WARPS = 4, IN_16_BYTES = 8 /* elements */, STEP = 16 /* rows and depth of an "mma" */ };

__device__ __forceinline__ int lane_of_thread()
{
    return static_cast<int>(threadIdx.x) % WARP;
}
__device__ __forceinline__ int warp_of_thread()
{
    return static_cast<int>(threadIdx.x) / WARP;
}
/* g and t of mma.h. */
__device__ __forceinline__ int lane_group()
{
    return lane_of_thread() / 4;
}
__device__ __forceinline__ int lane_in_group()
{
    return lane_of_thread() % 4;
}

/* The rows of one head in global memory. */
struct head_rows {
    const bf16 *first;
    int64_t step; /* elements from one row to the next */
    int rows, features;
    bool packs; /* each row can be read 16 bytes at a time */
};

/* ---- tiles ---- */

template <int D> constexpr int ROW_PACKS = D / IN_16_BYTES + 1;
template <int D, int ROWS> constexpr int TILE_PACKS = ROWS *ROW_PACKS<D>;

template <int D> __device__ __forceinline__ uint4 *pack_at(uint4 *tile, int row, int pack)
{
    return tile + row * ROW_PACKS<D> + pack;
}

/* 8 elements, one by one. */
__device__ inline uint4 read_pack(const head_rows &x, int row, int column)
{
    pack<uint16_t, IN_16_BYTES> read;
    ISO_UNROLL()
    for (int i = 0; i < IN_16_BYTES; i++)
        read.at[i] = row < x.rows && column + i < x.features ? x.first[row * x.step + column + i].bits
                                                             : static_cast<uint16_t>(0);
    uint4 four;
    memcpy(&four, &read, sizeof four);
    return four;
}

/* Begins to copy ROWS rows from `row` on; zeros beyond the last row and the last feature. The block waits by
 * wait_for_copies and a barrier. */
template <int D, int ROWS>
__device__ __forceinline__ void begin_tile(uint4 *tile, const head_rows &x, int row)
{
    const int across = D / IN_16_BYTES, down = WARPS * WARP / across;
    const int first = static_cast<int>(threadIdx.x) / across, column = static_cast<int>(threadIdx.x) % across;
    if (WARPS * WARP % across != 0 && first >= down) /* of the last threads, too few for a row */
        return;
    if (!x.packs) {
        ISO_UNROLL(1)
        for (int i = first; i < ROWS; i += down)
            *pack_at<D>(tile, i, column) = read_pack(x, row + i, column * IN_16_BYTES);
        return;
    }
    const bf16 *from = x.first + (row + first) * x.step + column * IN_16_BYTES;
    ISO_UNROLL()
    for (int i = 0; i < ROWS; i += down) {
        if (ROWS % down != 0 && first + i >= ROWS)
            break;
        const bool exists = row + first + i < x.rows && column * IN_16_BYTES < x.features;
        copy_16(pack_at<D>(tile, first + i, column), exists ? from + i * x.step : x.first, exists);
    }
}

/* ---- fragments of a tile ---- */

/* a: rows from `row` on, features of step `step`. */
template <int D> __device__ __forceinline__ void load_a(uint32_t (&a)[4], uint4 *tile, int row, int step)
{
    const int lane = lane_of_thread();
    load_matrices(a, pack_at<D>(tile, row + lane % STEP, 2 * step + lane / STEP));
}

/* b of two products, whose columns are the rows of the tile from `row` on: words 0 and 1, and 2 and 3. */
template <int D> __device__ __forceinline__ void load_rows(uint32_t (&b)[4], uint4 *tile, int row, int step)
{
    const int lane = lane_of_thread();
    load_matrices(b, pack_at<D>(tile, row + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
}

/* b of two products, whose rows are those of the tile from `row` on, and whose columns the features of a step. */
template <int D>
__device__ __forceinline__ void load_columns(uint32_t (&b)[4], uint4 *tile, int row, int step)
{
    const int lane = lane_of_thread();
    load_transposed(b, pack_at<D>(tile, row + lane % STEP, 2 * step + lane / STEP));
}

template <int D> __device__ void load_rows_of_a(uint32_t (&a)[D / STEP][4], uint4 *tile, int row)
{
    ISO_UNROLL()
    for (int step = 0; step < D / STEP; step++)
        load_a<D>(a[step], tile, row, step);
}

/* ---- products ---- */

/* x [M * 16, N] = a [M * 16, D] tile^T, of the tile's first N rows. */
template <int D, int M, int N>
__device__ __forceinline__ void multiply_by_rows(float (&x)[M][N / 8][4], const uint32_t (&a)[M][D / STEP][4],
                                                 uint4 *tile)
{
    ISO_UNROLL()
    for (int m = 0; m < M; m++)
        ISO_UNROLL()
    for (int n = 0; n < N / 8; n++)
        x[m][n][0] = x[m][n][1] = x[m][n][2] = x[m][n][3] = 0;
    ISO_UNROLL()
    for (int step = 0; step < D / STEP; step++) {
        ISO_UNROLL()
        for (int n = 0; n < N / 8; n += 2) {
            uint32_t b[4];
            load_rows<D>(b, tile, n * 8, step);
            ISO_UNROLL()
            for (int m = 0; m < M; m++) {
                multiply_add(x[m][n], a[m][step], b[0], b[1]);
                multiply_add(x[m][n + 1], a[m][step], b[2], b[3]);
            }
        }
    }
}

/* y [M * 16, D] += x [M * 16, N] tile, of the tile's first N rows; x is rounded to bfloat16. */
template <int D, int M, int N>
__device__ __forceinline__ void add_product(float (&y)[M][D / 8][4], const float (&x)[M][N / 8][4],
                                            uint4 *tile)
{
    ISO_UNROLL()
    for (int n = 0; n < N / 8; n += 2) {
        uint32_t a[M][4];
        ISO_UNROLL()
        for (int m = 0; m < M; m++)
            ISO_UNROLL()
        for (int i = 0; i < 4; i++)
            a[m][i] = two_of(x[m][n + i / 2][i % 2 * 2], x[m][n + i / 2][i % 2 * 2 + 1]);
        ISO_UNROLL()
        for (int step = 0; step < D / STEP; step++) {
            uint32_t b[4];
            load_columns<D>(b, tile, n * 8, step);
            ISO_UNROLL()
            for (int m = 0; m < M; m++) {
                multiply_add(y[m][2 * step], a[m], b[0], b[1]);
                multiply_add(y[m][2 * step + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* ---- results ---- */

/* Where the rows of one head go: bfloat16 or float32. */
struct head_result {
    reals to;
    int64_t first, step;
    int rows, features;
    bool pairs; /* two neighbours can be written at once */
};

__device__ __forceinline__ void put_two(const head_result &out, int64_t at, bool both, float x0, float x1)
{
    if (out.to.dtype == ISO_BF16 && out.pairs && both) {
        *reinterpret_cast<uint32_t *>(static_cast<bf16 *>(out.to.data) + at) = two_of(x0, x1);
        return;
    }
    out.to.put(at, x0);
    if (both)
        out.to.put(at + 1, x1);
}

/* Rows row and row + 8 (of the lane's group) of x [16, D], each times a factor of its own. */
template <int D>
__device__ void put_rows(const head_result &out, int row, const float (&x)[D / 8][4], float factor,
                         float below)
{
    ISO_UNROLL()
    for (int n = 0; n < D / 8; n++) {
        const int column = n * 8 + 2 * lane_in_group();
        if (column >= out.features)
            continue;
        const int64_t at = out.first + row * out.step + column;
        const bool both = column + 1 < out.features;
        if (row < out.rows)
            put_two(out, at, both, x[n][0] * factor, x[n][1] * factor);
        if (row + 8 < out.rows)
            put_two(out, at + 8 * out.step, both, x[n][2] * below, x[n][3] * below);
    }
}

} // namespace iso_cuda

#endif
