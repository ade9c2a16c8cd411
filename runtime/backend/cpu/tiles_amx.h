/* Tiles of AMX, for the files that multiply by it. The unit multiplies a tile of 16 rows and 32 columns of bfloat16
 * by one of 32 rows and 16 columns, whose rows stand in pairs, and adds to 16 x 16 sums in float32 (Intel 64 and
 * IA-32 Architectures Software Developer's Manual, volume 1, chapter 18, and TDPBF16PS in volume 2). */
#ifndef ISO_CPU_TILES_AMX_H
#define ISO_CPU_TILES_AMX_H

#include "runtime/backend/cpu/avx512.h"

enum { SIDE = 16, DEPTH = 2 * SIDE, TILE = SIDE * DEPTH /* elements in bfloat16 */, ROW = 64 /* bytes */ };

/* GCC 12 does not know that the instructions for tiles read and write memory. What is written before this call is
 * in memory for the next one of them, and what they have written is read after it. */
static inline void order_memory(void)
{
    __asm__ volatile("" ::: "memory");
}

/* All eight tiles have 16 rows of 64 bytes. */
static inline void configure(void)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } __attribute__((aligned(64))) tiles = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        tiles.row_bytes[i] = ROW;
        tiles.rows[i] = SIDE;
    }
    order_memory();
    _tile_loadconfig(&tiles);
}

/* 32 elements in bfloat16: those of `low` come first. */
static inline __m512i rounded(__m512 low, __m512 high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Two rows of 16 elements as pairs: the even elements are of `low`. */
static inline __m512i paired(__m512i rows)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
                                           7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, rows);
}

/* The first n elements; the others are 0. */
static inline __m512 get(const float *x, int64_t n)
{
    return _mm512_maskz_loadu_ps(lanes(n), n > 0 ? x : &(const float){0});
}

/* Transposes 16 x 16 words of 32 bits in their place, by quarters: of pairs of rows, then of rows that stand 2, 4 and
 * 8 apart. */
static inline void transpose_words(void *words)
{
    __m512i a[SIDE], b[SIDE];
    char *const at = words;
    for (int i = 0; i < SIDE; i++)
        a[i] = _mm512_load_si512(at + i * ROW);
    for (int i = 0; i < SIDE; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (int i = 0; i < SIDE; i += 4)
        for (int j = 0; j < 2; j++) {
            a[i + 2 * j] = _mm512_unpacklo_epi64(b[i + j], b[i + j + 2]);
            a[i + 2 * j + 1] = _mm512_unpackhi_epi64(b[i + j], b[i + j + 2]);
        }
    for (int i = 0; i < SIDE; i += 8)
        for (int j = 0; j < 4; j++) {
            b[i + j] = _mm512_shuffle_i32x4(a[i + j], a[i + j + 4], 0x88);
            b[i + j + 4] = _mm512_shuffle_i32x4(a[i + j], a[i + j + 4], 0xdd);
        }
    for (int j = 0; j < 8; j++) {
        _mm512_store_si512(at + j * ROW, _mm512_shuffle_i32x4(b[j], b[j + 8], 0x88));
        _mm512_store_si512(at + (j + 8) * ROW, _mm512_shuffle_i32x4(b[j], b[j + 8], 0xdd));
    }
}

/* Adds the products of the tiles in 4, 5 and in 6, 7. */
static inline void multiply_tiles(void)
{
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* The sums in 0, 1, 2, 3: c [32, 32], whose rows are `bytes` apart, or zeros. */
static inline void begin_sums(bool add, const float *c, int64_t bytes)
{
    if (!add) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        return;
    }
    const float *below = (const float *)((const char *)c + SIDE * bytes);
    _tile_loadd(0, c, bytes);
    _tile_loadd(1, c + SIDE, bytes);
    _tile_loadd(2, below, bytes);
    _tile_loadd(3, below + SIDE, bytes);
}

static inline void end_sums(float *c, int64_t bytes)
{
    float *below = (float *)((char *)c + SIDE * bytes);
    _tile_stored(0, c, bytes);
    _tile_stored(1, c + SIDE, bytes);
    _tile_stored(2, below, bytes);
    _tile_stored(3, below + SIDE, bytes);
}

#endif
