/* Matrix products of float32 and of bfloat16 by AMX: see amx.h. Blocks of a and b are packed into tiles (Goto and van
 * de Geijn 2008, Anatomy of High-Performance Matrix Multiplication). */
#include "runtime/backend/cpu/amx.h"

#if defined(__x86_64__)
#include <math.h>
#include <string.h>

#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/tiles_amx.h"
#include "runtime/backend/cpu/vector_bf16.h"

enum {
    PANEL = 2 * SIDE,
    PARTS = 3,              /* numbers of bfloat16 whose sum is a float: 8 bits each */
    MOST_K = 1024,          /* elements of a vector in a block; of float32 half of it */
    A_BYTES = 384 << 10,    /* a block of a, which stays in the L2 cache */
    B_BYTES = 8 << 20,      /* a block of b, whose panels go through the L2 cache one after the other */
    B_ONCE_BYTES = 1 << 20, /* the same if a has one block: it then stays in the L2 cache too */
    SUMMED_ROWS = 2048,     /* of c at a time, if sums of several blocks of k are kept beside it */
};

/* a or b, as tiles are made of it: `count` vectors of k elements, which are the rows of a or the columns of b. */
typedef struct operand {
    const void *data;
    bool along_k; /* the elements of a vector are neighbours in memory; else those of one k are */
    int64_t step; /* elements between vectors, or between two k */
    bool pairs;   /* its tiles have pairs of one vector side by side: b */
    int parts;    /* 1: bfloat16 */
    __m512i most; /* of float32: the largest absolute values that were packed, lane by lane, as integers */
} operand;

/* ---- packing ---- */

/* 16 floats, which a part after the other is taken from. */
typedef struct rests {
    __m512i bits;
} rests;

static rests rests_of(__m512 x, __m512i *most)
{
    rests r = {_mm512_castps_si512(x)};
    *most = _mm512_max_epu32(*most, _mm512_and_si512(r.bits, _mm512_set1_epi32(0x7fffffff)));
    return r;
}

/* The largest absolute value; infinite also for NaN, and for what would be rounded to infinity. */
static double largest_of(__m512i most)
{
    const uint32_t bits = _mm512_reduce_max_epu32(most), last = 0x7f7f7fff;
    float value;
    memcpy(&value, &bits, sizeof value);
    return bits > last ? (double)INFINITY : (double)value;
}

/* Whether no sum of products, and no part of one, can become infinite, and the largest products are so far above the
 * smallest normal number that what counts as 0 does not matter beside them. */
bool iso_amx_in_range(const iso_amx_range *range, int64_t k)
{
    const double product = range->a * range->b;
    if (isinf(range->a) || isinf(range->b))
        return false;
    return product == 0 || (product >= 0x1p-76 && product * (double)k <= 0x1p126);
}

static iso_amx_range range_of(__m512i a, __m512i b)
{
    return (iso_amx_range){largest_of(a), largest_of(b)};
}

/* The nearest numbers of bfloat16, as floats; what they lack stays, exactly. */
static __m512i take_part(rests *r)
{
    const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32((int)0xffff0000);
    __m512i part = _mm512_and_si512(_mm512_add_epi32(r->bits, half), upper);
    r->bits = _mm512_castps_si512(_mm512_sub_ps(_mm512_castsi512_ps(r->bits), _mm512_castsi512_ps(part)));
    return part;
}

/* The upper halves of 16 and 16 words: side by side in pairs, or one after the other. */
static __m512i in_pairs(__m512i even, __m512i odd)
{
    return _mm512_or_si512(_mm512_srli_epi32(even, 16), odd);
}

static __m512i in_row(__m512i first, __m512i second)
{
    const __m512i order = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31,
                                           29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_permutex2var_epi16(first, order, second);
}

static __mmask32 first_of(int64_t n)
{
    return n >= DEPTH ? 0xffffffffu : n <= 0 ? 0 : (1u << n) - 1;
}

/* Where a tile is: panels of 32 vectors follow each other, in a panel `depth` times two tiles of 16 vectors, and of a
 * tile all parts. */
static int64_t tile_at(int64_t vector, int64_t element, int64_t depth, int parts)
{
    return ((vector / PANEL * depth + element / DEPTH) * 2 + vector / SIDE % 2) * parts * TILE;
}

/* A vector of k elements that are neighbours: a row of each of its tiles. */
static void pack_vector(operand *x, int64_t at, int64_t k, uint16_t *to)
{
    for (int64_t i = 0; i < k; i += DEPTH, at += DEPTH, to += 2 * x->parts * TILE) {
        if (x->parts == 1) {
            const uint16_t *from = (const uint16_t *)x->data + at;
            _mm512_store_si512(to, _mm512_maskz_loadu_epi16(first_of(k - i), from));
            continue;
        }
        const float *from = (const float *)x->data + at;
        rests first = rests_of(get(from, k - i), &x->most);
        rests second = rests_of(get(from + SIDE, k - i - SIDE), &x->most);
        for (int p = 0; p < PARTS; p++) {
            __m512i a = take_part(&first), b = take_part(&second);
            _mm512_store_si512(to + p * TILE, in_row(a, b));
        }
    }
}

/* A pair of elements of 16 vectors in float32: a row of the tiles of their parts. */
static void put_pair(operand *x, __m512 even, __m512 odd, uint16_t *to)
{
    rests first = rests_of(even, &x->most), second = rests_of(odd, &x->most);
    for (int p = 0; p < PARTS; p++) {
        __m512i a = take_part(&first), b = take_part(&second);
        _mm512_store_si512(to + p * TILE, in_pairs(a, b));
    }
}

/* Up to 16 elements, which are neighbours, of n vectors in float32, n <= 16: half of the pairs of their tile. */
static void pack_transposed(operand *x, int64_t at, int64_t k, int64_t n, uint16_t *to)
{
    _Alignas(64) float block[SIDE * SIDE];
    for (int64_t i = 0; i < SIDE; i++)
        _mm512_store_ps(block + i * SIDE,
                        i < n ? get((const float *)x->data + at + i * x->step, k) : _mm512_setzero_ps());
    transpose_words(block);
    for (int64_t i = 0; i < SIDE; i += 2, to += DEPTH)
        put_pair(x, _mm512_load_ps(block + i * SIDE), _mm512_load_ps(block + (i + 1) * SIDE), to);
}

/* Two elements of each of n vectors, which are neighbours, n <= 16; odd: there is the second. A row of their tile. */
static void pack_pair(operand *x, int64_t at, bool odd, int64_t n, uint16_t *to)
{
    const int64_t behind = odd ? at + x->step : at;
    if (x->parts == 1) {
        const uint16_t *from = x->data;
        __m256i low = _mm256_maskz_loadu_epi16(lanes(n), from + at);
        __m256i high = _mm256_maskz_loadu_epi16(odd ? lanes(n) : 0, from + behind);
        _mm512_store_si512(to, paired(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)));
        return;
    }
    const float *from = x->data;
    put_pair(x, get(from + at, n), get(from + behind, odd ? n : 0), to);
}

/* Vectors [first, first + count), elements [begin, begin + k), to tiles of 16 vectors and 32 elements. Elements that
 * fill up a tile are 0. */
static void pack(operand *x, int64_t first, int64_t count, int64_t begin, int64_t k, uint16_t *tiles)
{
    const int64_t depth = (k + DEPTH - 1) / DEPTH, end = (count + PANEL - 1) / PANEL * PANEL;
    if (count % PANEL || k % DEPTH)
        memset(tiles, 0, (size_t)tile_at(end, 0, depth, x->parts) * sizeof *tiles);
    const bool transposes = x->along_k == x->pairs, floats = transposes && x->pairs && x->parts == PARTS;
    for (int64_t i = 0; floats && i < count; i += SIDE)
        for (int64_t j = 0; j < k; j += SIDE)
            pack_transposed(x, (first + i) * x->step + begin + j, k - j, count - i,
                            tiles + tile_at(i, j, depth, x->parts) + j % DEPTH / 2 * DEPTH);
    for (int64_t i = 0; !floats && x->along_k && i < count; i++)
        pack_vector(x, (first + i) * x->step + begin, k,
                    tiles + tile_at(i, 0, depth, x->parts) + i % SIDE * DEPTH);
    for (int64_t j = 0; !x->along_k && j < k; j += 2)
        for (int64_t i = 0; i < count; i += SIDE)
            pack_pair(x, (begin + j) * x->step + first + i, j + 1 < k, count - i,
                      tiles + tile_at(i, j, depth, x->parts) + j % DEPTH / 2 * DEPTH);
    for (int64_t i = 0; transposes && !floats && i < end * depth * x->parts / SIDE; i++)
        transpose_words(tiles + i * TILE); /* pairs, as words */
}

/* ---- products of panels: 32 rows of a and 32 columns of b ---- */

static void load_a(const uint16_t *a, int parts)
{
    _tile_loadd(4, a, ROW);
    _tile_loadd(5, a + parts * TILE, ROW);
}

static void load_b(const uint16_t *b, int parts)
{
    _tile_loadd(6, b, ROW);
    _tile_loadd(7, b + parts * TILE, ROW);
}

/* The six products of parts that matter: what is left out is below 2^-24 of a product. The small ones come first. */
static void multiply_parts(const uint16_t *a, const uint16_t *b)
{
    load_a(a + 2 * TILE, PARTS);
    load_b(b, PARTS);
    multiply_tiles(); /* 2, 0 */
    load_a(a + TILE, PARTS);
    load_b(b + TILE, PARTS);
    multiply_tiles(); /* 1, 1 */
    load_a(a, PARTS);
    multiply_tiles(); /* 0, 1 */
    load_b(b + 2 * TILE, PARTS);
    multiply_tiles(); /* 0, 2 */
    load_b(b, PARTS);
    load_a(a + TILE, PARTS);
    multiply_tiles(); /* 1, 0 */
    load_a(a, PARTS);
    multiply_tiles(); /* 0, 0 */
}

/* Leaves the sums in the tiles 0, 1, 2, 3. */
static void multiply(int parts, int64_t depth, const uint16_t *a, const uint16_t *b)
{
    order_memory();
    begin_sums(false, NULL, 0);
    if (parts == 1)
        for (int64_t i = 0; i < depth; i++, a += 2 * TILE, b += 2 * TILE) {
            load_a(a, 1);
            load_b(b, 1);
            multiply_tiles();
        }
    else
        for (int64_t i = 0; i < depth; i++, a += 2 * PARTS * TILE, b += 2 * PARTS * TILE)
            multiply_parts(a, b);
}

/* ---- blocks ---- */

typedef struct product {
    int64_t m, n, k;
    operand a, b;
    iso_dtype to;
    void *c;
    int64_t c_row;                     /* elements between rows of c */
    int64_t block_m, block_n, block_k; /* multiples of 32 */
    uint16_t *a_tiles, *b_tiles;
    bool summed; /* c is bfloat16, and there are several blocks of k */
    float *sums; /* then [rows_at_once, block_n] */
    int64_t rows_at_once;
} product;

/* The largest multiple of 32 vectors of k elements that take up to `bytes`. */
static int64_t block_of(int64_t count, int64_t k, int parts, int64_t bytes)
{
    int64_t most = bytes / (k * parts * (int64_t)sizeof(uint16_t)) / PANEL * PANEL;
    return least(multiple(count, PANEL), most > PANEL ? most : PANEL);
}

static product product_of(const iso_product *shape, iso_dtype of, iso_dtype to)
{
    product p = {.m = shape->m, .n = shape->n, .k = shape->k, .to = to, .c_row = iso_product_ldc(shape)};
    const int parts = of == ISO_F32 ? PARTS : 1;
    p.a = (operand){.along_k = !shape->transpose_a, .step = iso_product_lda(shape), .parts = parts};
    p.b = (operand){
        .along_k = shape->transpose_b, .step = iso_product_ldb(shape), .pairs = true, .parts = parts};
    const int64_t most_k = parts == 1 ? MOST_K : MOST_K / 2, blocks = (p.k + most_k - 1) / most_k;
    p.block_k = multiple((p.k + blocks - 1) / blocks, DEPTH);
    p.summed = to == ISO_BF16 && p.k > p.block_k;
    p.rows_at_once = p.summed ? least(p.m, SUMMED_ROWS) : p.m;
    p.block_m = block_of(p.m, p.block_k, parts, A_BYTES);
    p.block_n = block_of(p.n, p.block_k, parts, p.m > p.block_m ? B_BYTES : B_ONCE_BYTES);
    return p;
}

static size_t tile_bytes(int64_t count, const product *p)
{
    return (size_t)(count * p->block_k * p->a.parts) * sizeof(uint16_t);
}

/* Lays out the scratch memory (NULL: only counts); returns its bytes. */
static size_t lay_out(product *p, char *scratch)
{
    const size_t of_a = tile_bytes(p->block_m, p), of_b = tile_bytes(p->block_n, p);
    if (scratch) {
        p->a_tiles = (uint16_t *)scratch;
        p->b_tiles = (uint16_t *)(scratch + of_a);
        p->sums = p->summed ? (float *)(scratch + of_a + of_b) : NULL;
    }
    return of_a + of_b + (p->summed ? (size_t)(p->rows_at_once * p->block_n) * sizeof(float) : 0);
}

/* One block of k, in the products of some rows and a block of columns: sums are added to earlier ones, or no others
 * follow. */
typedef struct turn {
    bool add, last;
    int64_t depth, first_row, first_column;
} turn;

/* A part of c. sums: where its sums are, in rows that are `step` elements apart; NULL: in no memory, since there is
 * one block of k and c is bfloat16. rounded: c, if it is bfloat16 and this is the last block of k. */
typedef struct part {
    int64_t rows, columns, step, c_step;
    float *sums;
    uint16_t *rounded;
} part;

static part part_of(const product *p, const turn *t, int64_t row, int64_t column, int64_t rows,
                    int64_t columns)
{
    part of = {.rows = rows,
               .columns = columns,
               .step = p->to == ISO_F32 ? p->c_row : p->block_n,
               .c_step = p->c_row};
    if (p->to == ISO_F32)
        of.sums = (float *)p->c + row * p->c_row + column;
    else if (p->sums)
        of.sums = p->sums + (row - t->first_row) * p->block_n + (column - t->first_column);
    if (p->to == ISO_BF16 && t->last)
        of.rounded = (uint16_t *)p->c + row * p->c_row + column;
    return of;
}

/* A tile of sums [16, 16] to a part, from this row and column on. */
static void put_tile(const part *to, bool add, int64_t row, int64_t column, const float *tile)
{
    const int64_t n = to->columns - column;
    for (int64_t i = row; i < to->rows && i < row + SIDE && n > 0; i++, tile += SIDE) {
        float *sums = to->sums ? to->sums + i * to->step + column : NULL;
        vf sum = vf_load(tile);
        if (add)
            sum += vf_get(sums, n);
        if (!to->rounded)
            vf_put(sums, sum, n);
        else if (n >= SIDE)
            vf_store_bf16(to->rounded + i * to->c_step + column, sum);
        else
            vf_store_bf16_n(to->rounded + i * to->c_step + column, sum, n);
    }
}

/* The tiles 0, 1, 2, 3 to a part. Through memory tile by tile: if it were larger, loads of the next product would
 * wait for stores that have the same lower bits of addresses. */
static void put_tiles(const part *to, bool add)
{
    _Alignas(64) float tile[SIDE * SIDE];
    if (!add && !to->rounded && to->rows == PANEL && to->columns == PANEL) {
        end_sums(to->sums, to->step * (int64_t)sizeof *to->sums);
        order_memory();
        return;
    }
    _tile_stored(0, tile, ROW);
    order_memory();
    put_tile(to, add, 0, 0, tile);
    _tile_stored(1, tile, ROW);
    order_memory();
    put_tile(to, add, 0, SIDE, tile);
    _tile_stored(2, tile, ROW);
    order_memory();
    put_tile(to, add, SIDE, 0, tile);
    _tile_stored(3, tile, ROW);
    order_memory();
    put_tile(to, add, SIDE, SIDE, tile);
}

/* Rows [row, row + rows) and some columns of c, one block of each, from packed tiles. */
static void multiply_block(const product *p, const turn *t, int64_t row, int64_t rows, int64_t columns)
{
    const int parts = p->a.parts;
    for (int64_t j = 0; j < columns; j += PANEL)
        for (int64_t i = 0; i < rows; i += PANEL) {
            const part to = part_of(p, t, row + i, t->first_column + j, least(rows - i, PANEL),
                                    least(columns - j, PANEL));
            multiply(parts, t->depth, p->a_tiles + tile_at(i, 0, t->depth, parts),
                     p->b_tiles + tile_at(j, 0, t->depth, parts));
            put_tiles(&to, t->add);
        }
}

/* Rows [row, end) and a block of columns of c. */
static void multiply_columns(product *p, int64_t row, int64_t end, int64_t column)
{
    const int64_t columns = least(p->n - column, p->block_n);
    for (int64_t l = 0; l < p->k; l += p->block_k) {
        const int64_t k = least(p->k - l, p->block_k);
        const turn t = {.add = l > 0,
                        .last = l + p->block_k >= p->k,
                        .depth = (k + DEPTH - 1) / DEPTH,
                        .first_row = row,
                        .first_column = column};
        pack(&p->b, column, columns, l, k, p->b_tiles);
        for (int64_t i = row; i < end; i += p->block_m) {
            const int64_t rows = least(end - i, p->block_m);
            pack(&p->a, i, rows, l, k, p->a_tiles);
            multiply_block(p, &t, i, rows, columns);
        }
    }
}

static void multiply_all(product *p)
{
    for (int64_t row = 0; row < p->m; row += p->rows_at_once)
        for (int64_t column = 0; column < p->n; column += p->block_n)
            multiply_columns(p, row, least(p->m, row + p->rows_at_once), column);
}

size_t iso_amx_product_scratch(const iso_product *shape, iso_dtype of, iso_dtype to)
{
    product p = product_of(shape, of, to);
    return lay_out(&p, NULL);
}

/* Returns the range of float32. */
static iso_amx_range compute_product(const iso_product *shape, iso_dtype of, const void *a, const void *b,
                                     iso_dtype to, void *c, void *scratch)
{
    product p = product_of(shape, of, to);
    lay_out(&p, scratch);
    p.a.data = a;
    p.b.data = b;
    p.c = c;
    configure();
    multiply_all(&p);
    _tile_release(); /* the system need not save the tiles of this thread */
    return range_of(p.a.most, p.b.most);
}

bool iso_amx_product(const iso_product *shape, iso_dtype of, const void *a, const void *b, iso_dtype to,
                     void *c, void *scratch)
{
    const iso_amx_range range = compute_product(shape, of, a, b, to, c, scratch);
    return of != ISO_F32 || iso_amx_in_range(&range, shape->k);
}

void iso_amx_product_block(const iso_product *shape, const float *a, const float *b, float *c, void *scratch,
                           iso_amx_range *range)
{
    *range = compute_product(shape, ISO_F32, a, b, ISO_F32, c, scratch);
}

/* ---- parts of a product: b is packed once ---- */

/* Before the tiles: what iso_amx_parts_good returns. */
typedef struct parts_head {
    _Alignas(64) bool good;
} parts_head;

static product parts_of(const iso_product *shape, iso_dtype of, int64_t rows)
{
    product p = product_of(shape, of, ISO_F32);
    p.block_k = multiple(p.k, DEPTH);
    p.block_n = multiple(p.n, PANEL);
    p.block_m = multiple(rows, PANEL);
    return p;
}

static uint16_t *tiles_of(const void *packed)
{
    return (uint16_t *)((parts_head *)packed + 1);
}

size_t iso_amx_packed_bytes(const iso_product *shape, iso_dtype of)
{
    product p = parts_of(shape, of, 0);
    return sizeof(parts_head) + tile_bytes(p.block_n, &p);
}

size_t iso_amx_strip_bytes(const iso_product *shape, iso_dtype of, int64_t rows)
{
    product p = parts_of(shape, of, rows);
    return tile_bytes(p.block_m, &p);
}

static __m512i most_of(const float *x, int64_t n)
{
    __m512i most = _mm512_setzero_si512();
    for (int64_t i = 0; i < n; i += SIDE)
        rests_of(get(x + i, n - i), &most);
    return most;
}

void iso_amx_parts_begin(const iso_product *shape, iso_dtype of, const void *a, const void *b, void *packed)
{
    product p = parts_of(shape, of, 0);
    p.b.data = b;
    pack(&p.b, 0, p.n, 0, p.k, tiles_of(packed));
    if (of == ISO_F32) {
        const iso_amx_range range = range_of(most_of(a, p.m * p.k), p.b.most);
        ((parts_head *)packed)->good = iso_amx_in_range(&range, p.k);
    } else {
        ((parts_head *)packed)->good = true;
    }
}

bool iso_amx_parts_good(const void *packed)
{
    return ((const parts_head *)packed)->good;
}

/* The columns [first, first + columns) of a panel that are needed, through memory. */
static void put_columns(const part *to, int64_t first, bool add)
{
    _Alignas(64) float whole[PANEL * PANEL];
    end_sums(whole, PANEL * sizeof *whole);
    order_memory();
    for (int64_t i = 0; i < to->rows; i++)
        for (int64_t j = 0; j < to->columns; j++) {
            float *sum = to->sums + i * to->step + j;
            *sum = add ? *sum + whole[i * PANEL + first + j] : whole[i * PANEL + first + j];
        }
}

void iso_amx_part(const iso_product *shape, iso_dtype of, int64_t most_rows, const void *a,
                  const void *packed, const int64_t *offset, const int64_t *extent, bool add, float *c,
                  void *strip)
{
    product p = parts_of(shape, of, most_rows);
    const int parts = p.a.parts;
    const uint16_t *b_tiles = tiles_of(packed);
    const int64_t depth = p.block_k / DEPTH, end = offset[1] + extent[1];
    p.a.data = a;
    configure();
    for (int64_t i = 0; i < extent[0]; i += p.block_m) {
        const int64_t rows = least(extent[0] - i, p.block_m);
        pack(&p.a, offset[0] + i, rows, 0, p.k, strip);
        for (int64_t j = offset[1] / PANEL * PANEL; j < end; j += PANEL)
            for (int64_t row = 0; row < rows; row += PANEL) {
                const int64_t from = j > offset[1] ? j : offset[1];
                const part to = {.rows = least(rows - row, PANEL),
                                 .columns = least(j + PANEL, end) - from,
                                 .step = extent[1],
                                 .sums = c + (i + row) * extent[1] + (from - offset[1])};
                multiply(parts, depth, (uint16_t *)strip + tile_at(row, 0, depth, parts),
                         b_tiles + tile_at(j, 0, depth, parts));
                if (from == j)
                    put_tiles(&to, add);
                else
                    put_columns(&to, from - j, add);
            }
    }
    _tile_release();
}
#else
size_t iso_amx_product_scratch(const iso_product *shape, iso_dtype of, iso_dtype to)
{
    (void)shape, (void)of, (void)to;
    return 0;
}

bool iso_amx_product(const iso_product *shape, iso_dtype of, const void *a, const void *b, iso_dtype to,
                     void *c, void *scratch)
{
    (void)shape, (void)of, (void)a, (void)b, (void)to, (void)c, (void)scratch;
    return false;
}

void iso_amx_product_block(const iso_product *shape, const float *a, const float *b, float *c, void *scratch,
                           iso_amx_range *range)
{
    (void)shape, (void)a, (void)b, (void)c, (void)scratch, (void)range;
}

bool iso_amx_in_range(const iso_amx_range *range, int64_t k)
{
    (void)range, (void)k;
    return false;
}

size_t iso_amx_packed_bytes(const iso_product *shape, iso_dtype of)
{
    (void)shape, (void)of;
    return 0;
}

size_t iso_amx_strip_bytes(const iso_product *shape, iso_dtype of, int64_t rows)
{
    (void)shape, (void)of, (void)rows;
    return 0;
}

void iso_amx_parts_begin(const iso_product *shape, iso_dtype of, const void *a, const void *b, void *packed)
{
    (void)shape, (void)of, (void)a, (void)b, (void)packed;
}

bool iso_amx_parts_good(const void *packed)
{
    (void)packed;
    return false;
}

void iso_amx_part(const iso_product *shape, iso_dtype of, int64_t most_rows, const void *a,
                  const void *packed, const int64_t *offset, const int64_t *extent, bool add, float *c,
                  void *strip)
{
    (void)shape, (void)of, (void)most_rows, (void)a, (void)packed, (void)offset, (void)extent, (void)add;
    (void)c, (void)strip;
}
#endif
