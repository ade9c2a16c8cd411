/* Tiles of scores, of queries and keys of one head, whose elements the lanes of a warp hold as c of an "mma" (mma.h):
 * which keys a query attends to, and which weights stay after dropout. Tiles have queries as rows, or keys. */
#ifndef ISO_BACKEND_CUDA_ATTENTION_TILES_H
#define ISO_BACKEND_CUDA_ATTENTION_TILES_H

#include "runtime/backend/attention.h"
#include "runtime/backend/cuda/tiles.h"
#include "runtime/base/random.h"

namespace iso_cuda
{

/* A score times log2(e) is what a weight is a power of two of. */
const float LOG2_E = 1.44269504088896341f;

/* What all heads share. */
struct attention_form {
    iso_band_attrs band;
    iso_dropout_attrs dropout;
    int64_t first_row; /* the global position of query 0 */
    int rows, keys;
    float scale, fill; /* of scores, times LOG2_E */
    float slope_scale; /* of scores: that of their gradients */
    float kept_scale;  /* of weights that are not dropped */
    bool leaves_out;   /* tiles that the band masks have no part in any sum */
    bool zero_masked;
    const iso_step_info *info;
};

/* One head. */
struct attention_head {
    iso_attention_mask mask, query_mask; /* from its own data on */
    uint64_t number;                     /* of the random number of query 0's first weight */
};

/* Queries [row, row_end) and keys [key, key_end). */
struct tile_box {
    int row, row_end, key, key_end;
};

struct key_range {
    int begin, end;
};

/* The keys of the band of a query. */
__device__ __forceinline__ key_range band_of(const attention_form &f, int row)
{
    int64_t begin, end;
    iso_band_columns(&f.band, f.first_row + row, f.keys, &begin, &end);
    return {static_cast<int>(begin), static_cast<int>(end)};
}

/* The keys to which any of the queries attends; all, if one may attend to none, and so weighs all alike: the last
 * bands are the first that are empty. */
__device__ inline key_range keys_of_rows(const attention_form &f, int row, int row_end)
{
    const int last = (row_end < f.rows ? row_end : f.rows) - 1;
    const key_range at_first = band_of(f, row), at_last = band_of(f, last);
    if (!f.leaves_out || at_last.begin == at_last.end)
        return {0, f.keys};
    return {at_first.begin, at_last.end};
}

/* Whether a weight of the box may be other than 0. */
__device__ inline bool has_weights(const attention_form &f, const tile_box &box)
{
    if (box.row >= f.rows || box.key >= f.keys)
        return false;
    const key_range keys = keys_of_rows(f, box.row, box.row_end);
    return box.key < keys.end && box.key_end > keys.begin;
}

__device__ inline bool has_masks(const attention_head &head)
{
    return head.mask.data || head.query_mask.data;
}

/* Whether each query attends to each key of the box, and all exist. */
__device__ inline bool is_whole(const attention_form &f, const attention_head &head, const tile_box &box)
{
    if (has_masks(head) || box.row_end > f.rows || box.key_end > f.keys)
        return false;
    return band_of(f, box.row_end - 1).begin <= box.key && band_of(f, box.row).end >= box.key_end;
}

/* ---- elements: number 4 n + i of a lane is element i of the tile's columns from 8 n on ---- */

/* The place of a lane's elements. BY_KEYS: the rows of the tile are keys. */
template <bool BY_KEYS> struct tile_at {
    int row, key; /* the first ones */
    __device__ __forceinline__ int row_of(int n, int i) const
    {
        return row + (BY_KEYS ? n * 8 + 2 * lane_in_group() + i % 2 : lane_group() + i / 2 * 8);
    }
    __device__ __forceinline__ int key_of(int n, int i) const
    {
        return key + (BY_KEYS ? lane_group() + i / 2 * 8 : n * 8 + 2 * lane_in_group() + i % 2);
    }
};

/* ---- bits of a lane's elements: N columns have at most 32 ---- */

template <bool BY_KEYS, int N>
__device__ unsigned unmasked_bits(const attention_form &f, const attention_head &head,
                                  const tile_at<BY_KEYS> &at)
{
    unsigned bits = 0;
    ISO_UNROLL()
    for (int n = 0; n < N / 8; n++)
        ISO_UNROLL()
    for (int i = 0; i < 4; i++) {
        const int row = at.row_of(n, i), key = at.key_of(n, i);
        const bool is =
            row < f.rows && key < f.keys &&
            iso_attention_counts(iso_attention_join_masks(&head.mask, &head.query_mask, 0, 0, row), key);
        bits |= static_cast<unsigned>(is) << (4 * n + i);
    }
    return bits;
}

/* Those that exist, and whose key is in the band of the query. */
template <bool BY_KEYS, int N>
__device__ unsigned band_bits(const attention_form &f, const tile_at<BY_KEYS> &at)
{
    unsigned bits = 0;
    ISO_UNROLL(1)
    for (int n = 0; n < N / 8; n++)
        ISO_UNROLL()
    for (int i = 0; i < 4; i++) {
        const int row = at.row_of(n, i), key = at.key_of(n, i);
        const key_range band = band_of(f, row);
        bits |= static_cast<unsigned>(row < f.rows && key >= band.begin && key < band.end) << (4 * n + i);
    }
    return bits;
}

/* The draw of four weights, the first of which has this number: bit i, whether weight i stays. */
__device__ inline unsigned draw_four(const attention_form &f, uint64_t number)
{
    const iso_philox draw = iso_philox_draw(f.dropout.key, number / 4, f.info->step);
    unsigned bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= static_cast<unsigned>(draw.word[i] >> 8 >= f.dropout.threshold) << i;
    return bits;
}

/* A draw is of four keys of one query, if the number of keys is a multiple of 4; so the lanes that hold them share
 * it. Queries as rows: two lanes, each of which draws for one of their two rows. */
__device__ inline unsigned drawn_together(const attention_form &f, uint64_t number, const tile_at<false> &at,
                                          int n)
{
    const int t = lane_in_group(), row = at.row_of(n, t % 2 * 2), key = at.key + n * 8 + t / 2 * 4;
    const unsigned own = draw_four(f, number + static_cast<uint64_t>(row) * static_cast<uint64_t>(f.keys) +
                                          static_cast<uint64_t>(key));
    const unsigned other = __shfl_xor_sync(0xffffffffu, own, 1);
    const unsigned above = (t % 2 ? other : own) >> t % 2 * 2 & 3,
                   below = (t % 2 ? own : other) >> t % 2 * 2 & 3;
    return above | below << 2;
}

/* Keys as rows: four lanes, each of which draws for one of their two queries and one half of the keys. */
__device__ inline unsigned drawn_together(const attention_form &f, uint64_t number, const tile_at<true> &at,
                                          int n)
{
    const int g = lane_group(), which = g % 4, row = at.row_of(n, which),
              key = at.key + which / 2 * 8 + g / 4 * 4;
    unsigned all = draw_four(f, number + static_cast<uint64_t>(row) * static_cast<uint64_t>(f.keys) +
                                    static_cast<uint64_t>(key))
                   << 4 * which;
    all |= __shfl_xor_sync(0xffffffffu, all, 4);
    all |= __shfl_xor_sync(0xffffffffu, all, 8);
    unsigned bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= (all >> (4 * i + which) & 1) << i;
    return bits;
}

template <bool BY_KEYS>
__device__ unsigned drawn_alone(const attention_form &f, uint64_t number, const tile_at<BY_KEYS> &at, int n)
{
    unsigned bits = 0;
    ISO_UNROLL(1)
    for (int i = 0; i < 4; i++) {
        const uint64_t own = number + static_cast<uint64_t>(at.row_of(n, i)) * static_cast<uint64_t>(f.keys) +
                             static_cast<uint64_t>(at.key_of(n, i));
        bits |= (draw_four(f, own) >> own % 4 & 1) << i;
    }
    return bits;
}

/* Weights that are not dropped. */
template <bool BY_KEYS, int N>
__device__ unsigned drawn_bits(const attention_form &f, const attention_head &head,
                               const tile_at<BY_KEYS> &at)
{
    unsigned bits = 0;
    ISO_UNROLL(1)
    for (int n = 0; n < N / 8; n++)
        bits |= (f.keys % 4 == 0 ? drawn_together(f, head.number, at, n) : drawn_alone(f, head.number, at, n))
                << 4 * n;
    return bits;
}

/* Of a lane's elements: whether the query attends to the key, and whether the weight stays. */
struct tile_bits {
    unsigned seen, stays;
};

template <bool BY_KEYS, int N>
__device__ __forceinline__ tile_bits bits_of_tile(const attention_form &f, const attention_head &head,
                                                  const tile_at<BY_KEYS> &at, bool whole)
{
    tile_bits bits = {~0u, ~0u};
    if (!whole)
        bits.seen = band_bits<BY_KEYS, N>(f, at);
    if (has_masks(head)) {
        const unsigned unmasked = unmasked_bits<BY_KEYS, N>(f, head, at);
        bits.seen &= unmasked;
        bits.stays = f.zero_masked ? unmasked : ~0u;
    }
    if (f.dropout.threshold > 0)
        bits.stays &= drawn_bits<BY_KEYS, N>(f, head, at);
    return bits;
}

__device__ __forceinline__ bool bit_of(unsigned bits, int n, int i)
{
    return bits >> (4 * n + i) & 1;
}

/* x: products of queries and keys, which become scores times LOG2_E; -INFINITY beyond the last query or key. */
template <bool BY_KEYS, int N>
__device__ __forceinline__ void scores_of_tile(const attention_form &f, const tile_at<BY_KEYS> &at,
                                               unsigned seen, bool whole, float (&x)[N / 8][4])
{
    ISO_UNROLL()
    for (int n = 0; n < N / 8; n++)
        ISO_UNROLL()
    for (int i = 0; i < 4; i++)
        x[n][i] *= f.scale;
    if (whole)
        return;
    ISO_UNROLL()
    for (int n = 0; n < N / 8; n++)
        ISO_UNROLL()
    for (int i = 0; i < 4; i++)
        if (!bit_of(seen, n, i))
            x[n][i] = at.key_of(n, i) < f.keys && at.row_of(n, i) < f.rows ? f.fill : -INFINITY;
}

} // namespace iso_cuda

#endif
