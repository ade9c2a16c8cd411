/* Tiles of every size that fits the registers; see tile.h. The files that use them include this one, so all
 * functions are static. */
#ifndef ISO_CPU_TILE_BODY_H
#define ISO_CPU_TILE_BODY_H

#include "runtime/backend/cpu/tile.h"
#include "runtime/backend/cpu/vector.h"

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 24")
#endif

enum { TILE_VECTORS = VREGISTERS == 32 ? 5 : 3 };

/* The most rows of a tile of `vectors` vectors, for which the accumulators, one row of B and a broadcast fit
 * the registers. */
INLINE int tile_rows(int vectors)
{
#if VREGISTERS == 32
    static const int rows[] = {16, 14, 9, 6, 5};
#else
    static const int rows[] = {12, 6, 4};
#endif
    return rows[vectors - 1];
}

/* Rows of equal tiles: as few tiles as possible, then as few rows. */
INLINE int64_t tile_rows_of(int64_t rows, int vectors)
{
    int64_t most = tile_rows(vectors), count = (rows + most - 1) / most;
    return count ? (rows + count - 1) / count : 1;
}

/* Quarter cycles that a tile takes for each k: two multiply-adds or two loads in a cycle, and at least the 4
 * cycles of latency of an addition. A vector of b counts as one load and a half because it often crosses a
 * cache line. */
INLINE int64_t tile_cost(int64_t rows, int64_t vectors)
{
    int64_t sums = 2 * rows * vectors, loads = 2 * rows + 3 * vectors;
    int64_t cost = sums > loads ? sums : loads;
    return cost > 16 ? cost : 16;
}

/* The cost for each k of a whole product of `rows` rows and `vectors` vectors in tiles of `width` vectors. */
INLINE int64_t tile_cost_of(int64_t rows, int64_t vectors, int width)
{
    int64_t step = tile_rows_of(rows, width), whole = vectors / width, last = vectors - whole * width;
    int64_t steps = rows / step, rest = rows - steps * step;
    int64_t cost = steps * (whole * tile_cost(step, width) + (last ? tile_cost(step, last) : 0));
    return rest ? cost + whole * tile_cost(rest, width) + (last ? tile_cost(rest, last) : 0) : cost;
}

/* The cheapest width; among equal ones the widest, which has the fewest tiles. */
INLINE int tile_width(int64_t rows, int64_t vectors)
{
    int best = 1;
    int64_t least = tile_cost_of(rows, vectors, 1);
    for (int width = 2; width <= TILE_VECTORS && width <= vectors; width++) {
        int64_t cost = tile_cost_of(rows, vectors, width);
        if (cost <= least) {
            least = cost;
            best = width;
        }
    }
    return best;
}

/* An unrolled loop over vectors: clang would turn it into a memcpy and then keep acc in memory. BODY(j) is a
 * statement. */
#define EACH_VECTOR(count, BODY)                                                                             \
    do {                                                                                                     \
        if ((count) > 0)                                                                                     \
            BODY(0);                                                                                         \
        if ((count) > 1)                                                                                     \
            BODY(1);                                                                                         \
        if ((count) > 2)                                                                                     \
            BODY(2);                                                                                         \
        if ((count) > 3)                                                                                     \
            BODY(3);                                                                                         \
        if ((count) > 4)                                                                                     \
            BODY(4);                                                                                         \
    } while (0)

INLINE void tile_load(const iso_tile *t, const int rows, const int vectors, vf acc[][5])
{
    const int last = t->last, end = vectors - 1;
    const float *c = t->c;
#define LOAD(j) acc[i][j] = vf_load(c + (j)*VL)
    UNROLL
    for (int i = 0; i < rows; i++, c += t->c_row) {
        EACH_VECTOR(end, LOAD);
        acc[i][end] = vf_get(c + end * VL, last);
    }
#undef LOAD
}

INLINE void tile_store(const iso_tile *t, const int rows, const int vectors, vf acc[][5])
{
    const int last = t->last, end = vectors - 1;
    float *c = t->c;
#define ADD(j) acc[i][j] += vf_load(c + (j)*VL)
#define STORE(j) vf_store(c + (j)*VL, acc[i][j])
    if (t->add) {
        UNROLL
        for (int i = 0; i < rows; i++, c += t->c_row) {
            EACH_VECTOR(end, ADD);
            acc[i][end] += vf_get(c + end * VL, last);
        }
        c = t->c;
    }
    UNROLL
    for (int i = 0; i < rows; i++, c += t->c_row) {
        EACH_VECTOR(end, STORE);
        vf_put(c + end * VL, acc[i][end], last);
    }
#undef ADD
#undef STORE
}

/* Each pointer serves three rows, so that few registers and no multiplications are needed. */
INLINE void tile_run(const iso_tile *t, const int rows, const int vectors)
{
#define LOAD(j) y[j] = vf_load(b + (j)*VL)
#define FMA(j) acc[i][j] = vf_fma(x, y[j], acc[i][j])
    vf acc[16][5] = {{{0}}};
    if (t->start)
        tile_load(t, rows, vectors, acc);
    const int64_t a_row = t->a_row, a_k = t->a_k, b_k = t->b_k, count = t->k;
    for (int64_t p = 0; p < t->planes; p++)
        for (int64_t s = 0; s < t->segments; s++) {
            const float *b = t->b + p * t->b_plane + s * t->b_segment;
            const float *a[6];
            UNROLL
            for (int g = 0; g < (rows + 2) / 3; g++)
                a[g] = t->a + p * t->a_plane + s * t->a_segment + 3 * g * a_row;
            for (int64_t k = 0; k < count; k++) {
                vf y[5];
                EACH_VECTOR(vectors, LOAD);
                UNROLL
                for (int i = 0; i < rows; i++) {
                    vf x = vf_set(a[i / 3][i % 3 * a_row]);
                    EACH_VECTOR(vectors, FMA);
                }
                UNROLL
                for (int g = 0; g < (rows + 2) / 3; g++)
                    a[g] += a_k;
                b += b_k;
            }
        }
#undef LOAD
#undef FMA
    tile_store(t, rows, vectors, acc);
}

#define TILE(rows, vectors)                                                                                  \
    static __attribute__((noinline)) void tile_##vectors##_##rows(const iso_tile *t)                         \
    {                                                                                                        \
        tile_run(t, rows, vectors);                                                                          \
    }
/* clang-format off */
#define TILES_4(T, v) T(1, v) T(2, v) T(3, v) T(4, v)
#define TILES_6(T, v) TILES_4(T, v) T(5, v) T(6, v)
#define TILES_9(T, v) TILES_6(T, v) T(7, v) T(8, v) T(9, v)
#define TILES_12(T, v) TILES_9(T, v) T(10, v) T(11, v) T(12, v)
#define TILES_14(T, v) TILES_12(T, v) T(13, v) T(14, v)
#define TILES_16(T, v) TILES_14(T, v) T(15, v) T(16, v)
#define POINTER(rows, vectors) tile_##vectors##_##rows,
#if VREGISTERS == 32
TILES_16(TILE, 1) TILES_14(TILE, 2) TILES_9(TILE, 3) TILES_6(TILE, 4) TILES_4(TILE, 5) TILE(5, 5)
static void (*const tiles[][16])(const iso_tile *) = {
    {TILES_16(POINTER, 1)}, {TILES_14(POINTER, 2)}, {TILES_9(POINTER, 3)}, {TILES_6(POINTER, 4)},
    {TILES_4(POINTER, 5) POINTER(5, 5)}};
#else
TILES_12(TILE, 1) TILES_6(TILE, 2) TILES_4(TILE, 3)
static void (*const tiles[][12])(const iso_tile *) = {{TILES_12(POINTER, 1)}, {TILES_6(POINTER, 2)}, {TILES_4(POINTER, 3)}};
#endif
/* clang-format on */

/* Runs a tile of 1 to tile_rows(vectors) rows and 1 to TILE_VECTORS vectors. */
INLINE void tile_do(const iso_tile *t, int64_t rows, int vectors)
{
    tiles[vectors - 1][rows - 1](t);
}

/* All of C: rows x columns in tiles of `width` vectors. whole: everything except a, b, c of the tiles and
 * `last`. */
INLINE void tile_all(const iso_tile *whole, int64_t rows, int64_t columns, int width)
{
    iso_tile t = *whole;
    int64_t vectors = (columns + VL - 1) / VL, step = tile_rows_of(rows, width);
    for (int64_t j = 0; j < vectors; j += width) {
        int64_t w = vectors - j < width ? vectors - j : width;
        int64_t left = columns - (j + w - 1) * VL;
        t.last = left < VL ? (int)left : VL;
        t.b = whole->b + j * VL;
        for (int64_t i = 0; i < rows; i += step) {
            t.a = whole->a + i * t.a_row;
            t.c = whole->c + i * t.c_row + j * VL;
            tile_do(&t, rows - i < step ? rows - i : step, (int)w);
        }
    }
}

#endif
