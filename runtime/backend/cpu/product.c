#include "runtime/backend/cpu/product.h"

#include <math.h>

#include "runtime/backend/cpu/functions.h"

/* Floats of a block of a gradient. A narrow gradient: the block (12 rows of 256, one or two steps of the
 * tiles) stays in the L1 cache, with its weights and its optimizer state. A wide gradient: a strip of whole
 * rows stays in the L2 cache; it takes a quarter of 1 MiB, or half of 512 KiB. Whole rows matter more than
 * the size: weights and state are then read and written contiguously, which takes half the time of runs of 2
 * KiB. */
enum { BLOCK = 3072, STRIP = 65536 };

/* With fewer rows in a block, b would be read too often. */
enum { LEAST_ROWS = 6 };

/* Up to this many contracted rows, every element of a kernel gradient is one sum in order. */
enum { FEW_ROWS = 128 };

/* Up to this many rows of a, a b^T is computed with rows of a in the lanes; the packed a then stays in the L2
 * cache. */
enum { MOST_TRANSPOSED_ROWS = 64 };

/* Whether the library is faster than tiles: a call of it costs 0.2 microseconds. */
static bool large(const iso_product *p)
{
    return p->n > 16 && (double)p->m * (double)p->n * (double)p->k > 100e3;
}

/* Unused lanes cost as much as used ones: with fewer rows than lanes the library is faster. */
static bool is_transposed(const iso_product *p, bool library)
{
    if (!p->transpose_b || p->transpose_a || p->m > MOST_TRANSPOSED_ROWS || p->n <= 1)
        return false;
    return !library || !large(p) || p->m >= iso_cpu_functions()->lanes();
}

iso_product_way iso_product_choose(const iso_product *p, bool single, bool library)
{
    if (single && p->transpose_a && !p->transpose_b && p->k <= FEW_ROWS)
        return ISO_PRODUCT_PARTS;
    if (is_transposed(p, library))
        return ISO_PRODUCT_TRANSPOSED;
    return library && large(p) ? ISO_PRODUCT_LIBRARY : ISO_PRODUCT_TILES;
}

bool iso_product_is_packed(const iso_product *p)
{
    return p->n * LEAST_ROWS > BLOCK;
}

int64_t iso_product_block_rows(const iso_product *p)
{
    int64_t columns = p->n > 0 ? p->n : 1, tile = iso_cpu_functions()->gemm_strip_rows();
    if (!iso_product_is_packed(p))
        return BLOCK / columns;
    int64_t tiles = STRIP / columns / tile;
    return (tiles > 0 ? tiles : 1) * tile;
}

/* ---- blocks of library products ---- */

/* A block has about this many multiplications, or more where there would be too many blocks: the library packs the
 * operands of each block, so small ones cost a tenth of the time. Blocks of whole tiles of the library's kernels: of
 * 24 rows and 48 columns. */
static const double block_size = 128e6;
enum { MOST_PRODUCT_BLOCKS = 16, TILE_ROWS = 24, TILE_COLUMNS = 48 };

typedef struct block_grid {
    int64_t rows, columns; /* of a block */
    int64_t down, across;  /* blocks */
} block_grid;

static int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

/* Parts of whole tiles. */
static int64_t part_of(int64_t n, int64_t parts, int64_t tile)
{
    int64_t part = divide_up(divide_up(n, parts), tile) * tile;
    return part < n ? part : n;
}

/* About square blocks: then the least is packed. */
static block_grid grid_of(const iso_product *p, int speed)
{
    block_grid g = {p->m, p->n, 1, 1};
    double blocks = (double)p->m * (double)p->n * (double)p->k / (block_size * speed);
    if (blocks < 2)
        return g;
    blocks = blocks < MOST_PRODUCT_BLOCKS ? blocks : MOST_PRODUCT_BLOCKS;
    double down = sqrt(blocks * (double)p->m / (double)p->n);
    down = down < 1 ? 1 : down > blocks ? blocks : down;
    g.rows = part_of(p->m, (int64_t)(down + 0.5), TILE_ROWS);
    g.down = divide_up(p->m, g.rows);
    g.columns = part_of(p->n, (int64_t)blocks / g.down > 0 ? (int64_t)blocks / g.down : 1, TILE_COLUMNS);
    g.across = divide_up(p->n, g.columns);
    return g;
}

int64_t iso_product_blocks(const iso_product *p, int speed)
{
    block_grid g = grid_of(p, speed);
    return g.down * g.across;
}

iso_product_block iso_product_block_at(const iso_product *p, int speed, int64_t block)
{
    const block_grid g = grid_of(p, speed);
    const int64_t row = block / g.across * g.rows, column = block % g.across * g.columns;
    const int64_t lda = iso_product_lda(p), ldb = iso_product_ldb(p), ldc = iso_product_ldc(p);
    iso_product part = *p;
    part.m = p->m - row < g.rows ? p->m - row : g.rows;
    part.n = p->n - column < g.columns ? p->n - column : g.columns;
    part.lda = lda;
    part.ldb = ldb;
    part.ldc = ldc;
    return (iso_product_block){.product = part,
                               .a = p->transpose_a ? row : row * lda,
                               .b = p->transpose_b ? column * ldb : column,
                               .c = row * ldc + column};
}
