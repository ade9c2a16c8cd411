/* What the kernels of grouped products share: the part of a product that a block computes, and the lines of its
 * operands. A line is a row of a matrix in memory: it goes along k, or along m or n where k is from line to line. */
#ifndef ISO_BACKEND_CUDA_GROUPED_PARTS_H
#define ISO_BACKEND_CUDA_GROUPED_PARTS_H

#include "runtime/backend/cuda/grouped.h"

namespace iso_cuda
{

/* As a kernel gets it. Blocks that run at the same time have the tiles of a few rows and of `band` columns, so that
 * they find most of what they read in the L2 cache. */
struct grouped_call {
    grouped_product product;
    grouped_order order;
    bool packs;                            /* all operands can be read 16 bytes at a time */
    int64_t tiles_m, tiles_n, band, bands; /* tiles of all experts, or of one with OVER_ROWS */
};

/* A tile of c: `rows` rows from `row` on, `columns` columns from `column` on, of expert `expert`, whose rows are the
 * positions from `first` on. */
struct grouped_part {
    int64_t expert, first, row, column, k;
    int rows, columns;
};

__device__ __forceinline__ int least(int64_t a, int b)
{
    return a < b ? static_cast<int>(a) : b;
}

/* False: the block has no tile. */
template <grouped_form FORM, int TILE> __device__ bool find_part(const grouped_call &call, grouped_part &part)
{
    const grouped_order &order = call.order;
    const int64_t in_band = call.tiles_m * call.band, number = blockIdx.x % (in_band * call.bands);
    const int64_t band = number / in_band, in = number - band * in_band;
    const int64_t tile_m = in / call.band, tile_n = band * call.band + in % call.band;
    part.expert = FORM == OVER_ROWS ? blockIdx.x / (in_band * call.bands) : order.tile_expert[tile_m];
    if (tile_n >= call.tiles_n || part.expert < 0)
        return false;
    part.first = order.begin[part.expert];
    const int64_t rows = order.begin[part.expert + 1] - part.first;
    part.row = (FORM == OVER_ROWS ? tile_m : tile_m - order.first_tile[part.expert]) * TILE;
    part.column = tile_n * TILE;
    part.k = FORM == OVER_ROWS ? rows : call.product.k;
    part.rows = least((FORM == OVER_ROWS ? call.product.m : rows) - part.row, TILE);
    part.columns = least(call.product.n - part.column, TILE);
    return true;
}

/* The lines of an operand of a tile. rows: of x, by number; nullptr: they follow each other. */
template <class T> struct grouped_lines {
    const T *x;
    int64_t row;
    const int32_t *rows;
    __device__ __forceinline__ const T *line(int64_t number) const
    {
        return x + (rows ? rows[number] : number) * row;
    }
};

/* Line 0 is number `line` of the expert's. */
template <class T>
__device__ __forceinline__ grouped_lines<T> lines_of(const grouped_operand &of, const grouped_part &part,
                                                     int64_t line, int64_t column)
{
    grouped_lines<T> lines = {static_cast<const T *>(of.x) + column, of.row, nullptr};
    if (of.expert > 0)
        lines.x += part.expert * of.expert + line * of.row;
    else if (of.rows)
        lines.rows = of.rows + part.first + line;
    else
        lines.x += (part.first + line) * of.row;
    return lines;
}

/* Whether the lines of a, and of b, go along k. */
template <grouped_form FORM> constexpr bool A_ALONG_K = FORM != OVER_ROWS;
template <grouped_form FORM> constexpr bool B_ALONG_K = FORM == BY_TRANSPOSED;

template <class T, grouped_form FORM>
__device__ __forceinline__ grouped_lines<T> lines_of_a(const grouped_call &call, const grouped_part &part,
                                                       int pair)
{
    return lines_of<T>(call.product.a[pair], part, A_ALONG_K<FORM> ? part.row : 0,
                       A_ALONG_K<FORM> ? 0 : part.row);
}
template <class T, grouped_form FORM>
__device__ __forceinline__ grouped_lines<T> lines_of_b(const grouped_call &call, const grouped_part &part,
                                                       int pair)
{
    return lines_of<T>(call.product.b[pair], part, B_ALONG_K<FORM> ? part.column : 0,
                       B_ALONG_K<FORM> ? 0 : part.column);
}

/* Where the tile of c begins. */
template <grouped_form FORM>
__device__ __forceinline__ int64_t result_of(const grouped_call &call, const grouped_part &part)
{
    const grouped_result &c = call.product.c;
    const int64_t row = FORM == OVER_ROWS ? part.row : part.first + part.row;
    return part.expert * c.expert + row * c.row + part.column;
}

/* Elements `at` to `at` + N - 1 of a line of `count` elements, zeros beyond it. */
template <int N, class T>
__device__ __forceinline__ pack<T, N> elements_of(const T *line, int64_t at, int64_t count)
{
    pack<T, N> read = {};
    ISO_UNROLL()
    for (int i = 0; i < N; i++)
        if (at + i < count)
            read.at[i] = line[at + i];
    return read;
}

/* The kernel of bfloat16, with tiles of TILE_OF_BF16. */
enum { TILE_OF_BF16 = 128, BLOCK_OF_BF16 = 256 };
void launch_bf16(iso_cuda_stream *stream, unsigned blocks, const grouped_call &call);

} // namespace iso_cuda

#endif
