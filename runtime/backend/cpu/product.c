#include "runtime/backend/cpu/product.h"

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
