/* Attention of bfloat16 in tiles, after FlashAttention-2 (Dao 2023, arXiv 2307.08691): scores and weights never leave
 * the registers of the warps, which multiply by their tensor cores (mma.h). A block has some queries of one head, and
 * goes over the keys, tile by tile, with a softmax around the largest score so far; or, for the gradients of keys
 * and values, some keys, and goes over the queries. No two blocks add to the same number, and the order of sums
 * depends on shapes only. Sums are float32; weights, and gradients of scores, are rounded to bfloat16 before they are
 * multiplied.
 *
 * The gradient is two kernels. The first one goes over the keys twice: for the statistics of its queries, which it
 * also leaves in scratch memory for the second kernel, and for the queries' gradients. */
#include <float.h>
#include <math.h>

#include "runtime/backend/cuda/attention.h"
#include "runtime/backend/cuda/attention_tiles.h"

namespace
{

using namespace iso_cuda;

enum {
    THREADS = WARPS * WARP,
    KEYS = 64 /* of a tile */,
    MOST_FEATURES = 128,
    MOST_TILES = 65535 /* of a grid */
};

/* ---- the call, as kernels see it ---- */

struct operand {
    const bf16 *data; /* [groups, n, heads, features] */
    int n, features;
    bool packs;
};

struct result {
    reals to;
    int n, features;
    bool pairs;
};

/* Statistics of the softmax of a query; its score is times LOG2_E. */
enum { LARGEST, ONE_OVER_SUM, MEAN_SLOPE /* of the weights' gradients, weighted */, STATISTICS };

struct fused_call {
    attention_form form;
    iso_array query; /* for the numbers of weights */
    iso_attention_mask mask, query_mask;
    int heads;
    operand q, k, v, dy;
    result out[3];
    float *statistics; /* [STATISTICS, groups * heads, rows] */
};

/* The head of a block, and its group. */
struct head_place {
    int64_t group, head;
};

__device__ head_place place_of_block(const fused_call &f)
{
    const int64_t group = static_cast<int64_t>(blockIdx.x) / f.heads;
    return {group, static_cast<int64_t>(blockIdx.x) - group * f.heads};
}

__device__ attention_head head_of(const fused_call &f, const head_place &at)
{
    attention_head head = {};
    head.mask = f.mask, head.query_mask = f.query_mask;
    head.mask.data = iso_attention_mask_at(&f.mask, at.group, at.head, 0);
    head.query_mask.data = iso_attention_mask_at(&f.query_mask, at.group, at.head, 0);
    if (f.form.dropout.threshold > 0)
        head.number = iso_attention_number(&f.query, f.form.keys, at.group, at.head, 0);
    return head;
}

__device__ head_rows rows_of(const fused_call &f, const operand &x, const head_place &at)
{
    const int64_t first = (at.group * x.n * f.heads + at.head) * x.features;
    return {x.data + first, static_cast<int64_t>(f.heads) * x.features, x.n, x.features, x.packs};
}

__device__ head_result result_of(const fused_call &f, const result &x, const head_place &at)
{
    const int64_t first = (at.group * x.n * f.heads + at.head) * x.features;
    return {x.to, first, static_cast<int64_t>(f.heads) * x.features, x.n, x.features, x.pairs};
}

__device__ float *statistics_of(const fused_call &f, int which)
{
    return f.statistics + (static_cast<int64_t>(which) * gridDim.x + blockIdx.x) * f.form.rows;
}

/* ---- rows of a warp: a lane has two in a fragment, row g and row g + 8 ---- */

__device__ __forceinline__ float largest_of_lanes(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float sum_of_lanes(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* What weights are relative to: a row whose scores are all -INFINITY has sums of 0. */
__device__ __forceinline__ float around(float largest)
{
    return largest == -INFINITY ? 0 : largest;
}

struct row_statistics {
    float largest[2], sum[2], mean[2]; /* sum and mean: of the lane's own columns, until joined */
};

__device__ __forceinline__ row_statistics no_statistics()
{
    return {{-INFINITY, -INFINITY}, {0, 0}, {0, 0}};
}

/* Takes the largest scores of a tile into account; returns what sums so far are to be multiplied by. */
__device__ __forceinline__ float rise(row_statistics *s, int half, const float (&x)[KEYS / 8][4])
{
    float largest = s->largest[half];
    ISO_UNROLL()
    for (int n = 0; n < KEYS / 8; n++)
        largest = fmaxf(largest, fmaxf(x[n][2 * half], x[n][2 * half + 1]));
    largest = largest_of_lanes(largest);
    const float factor = power_of_two(s->largest[half] - around(largest));
    s->largest[half] = largest;
    s->sum[half] *= factor, s->mean[half] *= factor;
    return factor;
}

/* 0 where the bit is 0. */
template <int N> __device__ __forceinline__ void keep_bits(float (&x)[N / 8][4], unsigned bits, float scale)
{
    if (bits == ~0u && scale == 1)
        return;
    ISO_UNROLL()
    for (int n = 0; n < N / 8; n++)
        ISO_UNROLL()
    for (int i = 0; i < 4; i++)
        x[n][i] = bit_of(bits, n, i) ? x[n][i] * scale : 0;
}

/* ---- forward ---- */

/* x: scores, which become weights times the sum of their row so far. y: the rows' results so far. */
template <int D>
__device__ __forceinline__ void weigh(float (&x)[KEYS / 8][4], float (&y)[D / 8][4], row_statistics *s)
{
    ISO_UNROLL()
    for (int half = 0; half < 2; half++) {
        const float factor = rise(s, half, x), top = around(s->largest[half]);
        ISO_UNROLL()
        for (int n = 0; n < D / 8; n++)
            y[n][2 * half] *= factor, y[n][2 * half + 1] *= factor;
        ISO_UNROLL()
        for (int n = 0; n < KEYS / 8; n++)
            ISO_UNROLL()
        for (int i = 2 * half; i < 2 * half + 2; i++) {
            x[n][i] = power_of_two(x[n][i] - top);
            s->sum[half] += x[n][i];
        }
    }
}

/* A block has M * 16 queries for each of its warps. Copies of keys are under way while the warps multiply weights by
 * values, and copies of values while they multiply queries by keys. */
template <int D, int M> __global__ void __launch_bounds__(THREADS) forward_kernel(fused_call f)
{
    enum { WARP_ROWS = M * STEP, ROWS = WARPS * WARP_ROWS };
    static_assert(ROWS <= 2 * KEYS, "queries lie where tiles of keys and values will");
    __shared__ uint4 tiles[2 * TILE_PACKS<D, KEYS>];
    uint4 *const key_tile = tiles, *const value_tile = tiles + TILE_PACKS<D, KEYS>;
    const head_place at = place_of_block(f);
    const attention_head head = head_of(f, at);
    const head_rows k = rows_of(f, f.k, at), v = rows_of(f, f.v, at);
    const int first = static_cast<int>(gridDim.y - 1 - blockIdx.y) * ROWS,
              in_block = warp_of_thread() * WARP_ROWS, row = first + in_block;
    uint32_t q[M][D / STEP][4];
    begin_tile<D, ROWS>(tiles, rows_of(f, f.q, at), first);
    wait_for_copies();
    __syncthreads();
    ISO_UNROLL()
    for (int m = 0; m < M; m++)
        load_rows_of_a<D>(q[m], tiles, in_block + m * STEP);
    __syncthreads();
    const key_range keys = keys_of_rows(f.form, first, first + ROWS);
    row_statistics s[M];
    float y[M][D / 8][4] = {};
    ISO_UNROLL()
    for (int m = 0; m < M; m++)
        s[m] = no_statistics();
    int key = keys.begin / KEYS * KEYS;
    begin_tile<D, KEYS>(key_tile, k, key);
    ISO_UNROLL(1)
    for (; key < keys.end; key += KEYS) {
        const bool has = has_weights(f.form, {row, row + WARP_ROWS, key, key + KEYS});
        float x[M][KEYS / 8][4];
        wait_for_copies();
        __syncthreads();
        begin_tile<D, KEYS>(value_tile, v, key);
        if (has) {
            multiply_by_rows<D, M, KEYS>(x, q, key_tile);
            ISO_UNROLL()
            for (int m = 0; m < M; m++) {
                const tile_at<false> tile = {row + m * STEP, key};
                const bool whole = is_whole(f.form, head, {tile.row, tile.row + STEP, key, key + KEYS});
                const tile_bits bits = bits_of_tile<false, KEYS>(f.form, head, tile, whole);
                scores_of_tile<false, KEYS>(f.form, tile, bits.seen, whole, x[m]);
                weigh<D>(x[m], y[m], &s[m]);
                keep_bits<KEYS>(x[m], bits.stays, 1);
            }
        }
        wait_for_copies();
        __syncthreads();
        if (key + KEYS < keys.end)
            begin_tile<D, KEYS>(key_tile, k, key + KEYS);
        if (has)
            add_product<D, M, KEYS>(y, x, value_tile);
    }
    ISO_UNROLL()
    for (int m = 0; m < M; m++) {
        const float above = f.form.kept_scale / sum_of_lanes(s[m].sum[0]),
                    below = f.form.kept_scale / sum_of_lanes(s[m].sum[1]);
        put_rows<D>(result_of(f, f.out[0], at), row + m * STEP + lane_group(), y[m], above, below);
    }
}

/* ---- gradients of queries ---- */

__device__ __forceinline__ void add_statistics(const float (&x)[KEYS / 8][4],
                                               const float (&slopes)[KEYS / 8][4], row_statistics *s)
{
    ISO_UNROLL()
    for (int half = 0; half < 2; half++) {
        rise(s, half, x);
        const float top = around(s->largest[half]);
        ISO_UNROLL()
        for (int n = 0; n < KEYS / 8; n++)
            ISO_UNROLL()
        for (int i = 2 * half; i < 2 * half + 2; i++) {
            const float e = power_of_two(x[n][i] - top);
            s->sum[half] += e;
            s->mean[half] = fused(e, slopes[n][i], s->mean[half]);
        }
    }
}

/* They are the whole row's then: largest is what weights are relative to, sum is 1 over it. */
__device__ __forceinline__ void finish_statistics(const fused_call &f, int row, row_statistics *s)
{
    ISO_UNROLL()
    for (int half = 0; half < 2; half++) {
        s->largest[half] = around(s->largest[half]);
        s->sum[half] = 1 / sum_of_lanes(s->sum[half]);
        s->mean[half] = sum_of_lanes(s->mean[half]) * s->sum[half];
        const int own = row + half * 8;
        if (lane_in_group() > 0 || own >= f.form.rows)
            continue;
        statistics_of(f, LARGEST)[own] = s->largest[half];
        statistics_of(f, ONE_OVER_SUM)[own] = s->sum[half];
        statistics_of(f, MEAN_SLOPE)[own] = s->mean[half];
    }
}

/* x: scores, which become their gradients, without the scale. slopes: of the weights before dropout. */
__device__ __forceinline__ void slopes_of_scores(float (&x)[KEYS / 8][4], const float (&slopes)[KEYS / 8][4],
                                                 unsigned seen, const row_statistics &s)
{
    ISO_UNROLL()
    for (int n = 0; n < KEYS / 8; n++)
        ISO_UNROLL()
    for (int i = 0; i < 4; i++) {
        const float weight = power_of_two(x[n][i] - s.largest[i / 2]) * s.sum[i / 2];
        x[n][i] = bit_of(seen, n, i) ? weight * (slopes[n][i] - s.mean[i / 2]) : 0;
    }
}

template <int D> __global__ void __launch_bounds__(THREADS) grad_queries_kernel(fused_call f)
{
    enum { ROWS = WARPS * STEP };
    __shared__ uint4 tiles[2 * TILE_PACKS<D, KEYS>];
    uint4 *const key_tile = tiles, *const value_tile = tiles + TILE_PACKS<D, KEYS>;
    const head_place at = place_of_block(f);
    const attention_head head = head_of(f, at);
    const head_rows k = rows_of(f, f.k, at), v = rows_of(f, f.v, at);
    const int first = static_cast<int>(gridDim.y - 1 - blockIdx.y) * ROWS, in_block = warp_of_thread() * STEP,
              row = first + in_block;
    uint32_t q[1][D / STEP][4], dy[1][D / STEP][4];
    begin_tile<D, ROWS>(key_tile, rows_of(f, f.q, at), first);
    begin_tile<D, ROWS>(value_tile, rows_of(f, f.dy, at), first);
    wait_for_copies();
    __syncthreads();
    load_rows_of_a<D>(q[0], key_tile, in_block);
    load_rows_of_a<D>(dy[0], value_tile, in_block);
    __syncthreads();
    const key_range keys = keys_of_rows(f.form, first, first + ROWS);
    const int first_key = keys.begin / KEYS * KEYS;
    row_statistics s = no_statistics();
    float dq[1][D / 8][4] = {};
    ISO_UNROLL(1)
    for (int pass = 0; pass < 2; pass++) {
        begin_tile<D, KEYS>(value_tile, v, first_key);
        ISO_UNROLL(1)
        for (int key = first_key; key < keys.end; key += KEYS) {
            const bool has = has_weights(f.form, {row, row + STEP, key, key + KEYS});
            float slopes[1][KEYS / 8][4], x[1][KEYS / 8][4];
            wait_for_copies();
            __syncthreads();
            begin_tile<D, KEYS>(key_tile, k, key);
            if (has)
                multiply_by_rows<D, 1, KEYS>(slopes, dy, value_tile);
            wait_for_copies();
            __syncthreads();
            if (key + KEYS < keys.end)
                begin_tile<D, KEYS>(value_tile, v, key + KEYS);
            if (!has)
                continue;
            multiply_by_rows<D, 1, KEYS>(x, q, key_tile);
            const tile_at<false> tile = {row, key};
            const bool whole = is_whole(f.form, head, {row, row + STEP, key, key + KEYS});
            const tile_bits bits = bits_of_tile<false, KEYS>(f.form, head, tile, whole);
            scores_of_tile<false, KEYS>(f.form, tile, bits.seen, whole, x[0]);
            keep_bits<KEYS>(slopes[0], bits.stays, f.form.kept_scale);
            if (pass == 0) {
                add_statistics(x[0], slopes[0], &s);
            } else {
                slopes_of_scores(x[0], slopes[0], bits.seen, s);
                add_product<D, 1, KEYS>(dq, x, key_tile);
            }
        }
        if (pass == 0)
            finish_statistics(f, row + lane_group(), &s);
    }
    put_rows<D>(result_of(f, f.out[0], at), row + lane_group(), dq[0], f.form.slope_scale,
                f.form.slope_scale);
}

/* ---- gradients of keys and values ---- */

/* A tile of queries, the gradients of their results, and their statistics. */
template <int D, int ROWS> struct query_tile {
    uint4 q[TILE_PACKS<D, ROWS>], dy[TILE_PACKS<D, ROWS>];
    float statistics[STATISTICS][ROWS];
};

template <int D, int ROWS>
__device__ void begin_query_tile(query_tile<D, ROWS> *tile, const fused_call &f, const head_place &at,
                                 int row)
{
    begin_tile<D, ROWS>(tile->q, rows_of(f, f.q, at), row);
    begin_tile<D, ROWS>(tile->dy, rows_of(f, f.dy, at), row);
    for (int i = static_cast<int>(threadIdx.x); i < STATISTICS * ROWS; i += THREADS) {
        const int which = i / ROWS, own = row + i % ROWS;
        const bool exists = own < f.form.rows;
        copy_4(&tile->statistics[which][i % ROWS], statistics_of(f, which) + (exists ? own : 0), exists);
    }
}

/* The first tile from `row` on of which a query attends to keys of the block; beyond the last row: there is none. */
template <int ROWS> __device__ int next_rows(const attention_form &f, int row, int key)
{
    while (row < f.rows && !has_weights(f, {row, row + ROWS, key, key + KEYS}))
        row += ROWS;
    return row;
}

/* x: scores, keys as rows, which become weights. */
template <int ROWS>
__device__ __forceinline__ void weights_by_keys(float (&x)[ROWS / 8][4], const float (*statistics)[ROWS])
{
    ISO_UNROLL()
    for (int n = 0; n < ROWS / 8; n++)
        ISO_UNROLL()
    for (int i = 0; i < 4; i++) {
        const int column = n * 8 + 2 * lane_in_group() + i % 2;
        x[n][i] = power_of_two(x[n][i] - statistics[LARGEST][column]) * statistics[ONE_OVER_SUM][column];
    }
}

/* slopes: of the weights before dropout, which become those of the scores, without the scale. */
template <int ROWS>
__device__ __forceinline__ void slopes_by_keys(float (&slopes)[ROWS / 8][4],
                                               const float (&weights)[ROWS / 8][4], unsigned seen,
                                               const float (*statistics)[ROWS])
{
    ISO_UNROLL()
    for (int n = 0; n < ROWS / 8; n++)
        ISO_UNROLL()
    for (int i = 0; i < 4; i++) {
        const int column = n * 8 + 2 * lane_in_group() + i % 2;
        slopes[n][i] =
            bit_of(seen, n, i) ? weights[n][i] * (slopes[n][i] - statistics[MEAN_SLOPE][column]) : 0;
    }
}

/* BOTH: a block has the gradients of its keys and of its values; otherwise one of them, and there are twice as many
 * blocks: with many features a warp has not enough registers for both. */
template <int D, int ROWS, bool BOTH>
__global__ void __launch_bounds__(THREADS) grad_keys_kernel(fused_call f)
{
    enum { OF_KEYS, OF_VALUES };
    __shared__ query_tile<D, ROWS> tiles[2];
    static_assert(sizeof tiles >= 2 * TILE_PACKS<D, KEYS> * sizeof(uint4),
                  "keys and values lie there at first");
    uint4 *const staged = tiles[0].q;
    const head_place at = place_of_block(f);
    const attention_head head = head_of(f, at);
    const int first = static_cast<int>(blockIdx.y) * KEYS, in_block = warp_of_thread() * STEP,
              key = first + in_block;
    const bool of_keys = BOTH || blockIdx.z == OF_KEYS, of_values = BOTH || blockIdx.z == OF_VALUES;
    uint32_t k[1][D / STEP][4], v[1][D / STEP][4];
    begin_tile<D, KEYS>(staged, rows_of(f, f.k, at), first);
    begin_tile<D, KEYS>(staged + TILE_PACKS<D, KEYS>, rows_of(f, f.v, at), first);
    wait_for_copies();
    __syncthreads();
    load_rows_of_a<D>(k[0], staged, in_block);
    load_rows_of_a<D>(v[0], staged + TILE_PACKS<D, KEYS>, in_block);
    __syncthreads();
    float sums[BOTH ? 2 : 1][1][D / 8][4] = {};
    int row = next_rows<ROWS>(f.form, 0, first);
    if (row < f.form.rows)
        begin_query_tile(&tiles[0], f, at, row);
    ISO_UNROLL(1)
    for (int stage = 0, next; row < f.form.rows; row = next, stage ^= 1) {
        query_tile<D, ROWS> &tile = tiles[stage];
        next = next_rows<ROWS>(f.form, row + ROWS, first);
        wait_for_copies();
        __syncthreads();
        if (next < f.form.rows)
            begin_query_tile(&tiles[stage ^ 1], f, at, next);
        if (!has_weights(f.form, {row, row + ROWS, key, key + STEP}))
            continue;
        float x[1][ROWS / 8][4], slopes[1][ROWS / 8][4];
        multiply_by_rows<D, 1, ROWS>(x, k, tile.q);
        const tile_at<true> tile_place = {row, key};
        const bool whole = is_whole(f.form, head, {row, row + ROWS, key, key + STEP});
        const tile_bits bits = bits_of_tile<true, ROWS>(f.form, head, tile_place, whole);
        scores_of_tile<true, ROWS>(f.form, tile_place, bits.seen, whole, x[0]);
        weights_by_keys<ROWS>(x[0], tile.statistics);
        if (of_keys) {
            multiply_by_rows<D, 1, ROWS>(slopes, v, tile.dy);
            keep_bits<ROWS>(slopes[0], bits.stays, f.form.kept_scale);
            slopes_by_keys<ROWS>(slopes[0], x[0], bits.seen, tile.statistics);
            add_product<D, 1, ROWS>(sums[0], slopes, tile.q);
        }
        if (of_values) {
            keep_bits<ROWS>(x[0], bits.stays, 1);
            add_product<D, 1, ROWS>(sums[BOTH ? 1 : 0], x, tile.dy);
        }
    }
    if (of_keys)
        put_rows<D>(result_of(f, f.out[1], at), key + lane_group(), sums[0][0], f.form.slope_scale,
                    f.form.slope_scale);
    if (of_values)
        put_rows<D>(result_of(f, f.out[2], at), key + lane_group(), sums[BOTH ? 1 : 0][0], f.form.kept_scale,
                    f.form.kept_scale);
}

/* ---- on the host ---- */

/* A masked score that is no higher leaves a weight of 0, unless all scores of its query are as low. */
const double MOST_FILL = -1e6;

attention_form form_of(const iso_kernel_call *call, const iso_attention &a)
{
    const iso_band_attrs &band = a.attrs->band;
    attention_form form = {};
    form.band = band, form.dropout = a.attrs->dropout;
    form.first_row = a.first_row;
    form.rows = static_cast<int>(a.rows), form.keys = static_cast<int>(a.keys);
    form.scale = static_cast<float>(a.attrs->scale * LOG2_E),
    form.fill = static_cast<float>(fmax(band.fill * LOG2_E, -static_cast<double>(FLT_MAX)));
    form.slope_scale = static_cast<float>(a.attrs->scale);
    form.kept_scale = a.attrs->dropout.threshold > 0 ? static_cast<float>(a.attrs->dropout.scale) : 1;
    form.leaves_out =
        !iso_attention_has_masks(&a) && (band.causal || band.window > 0) && band.fill <= MOST_FILL;
    form.zero_masked = a.attrs->zero_masked;
    form.info = call->info;
    return form;
}

operand operand_of(const iso_array &x)
{
    const int features = static_cast<int>(x.dim[x.rank - 1]);
    return {static_cast<const bf16 *>(x.data), static_cast<int>(x.dim[x.rank - 3]), features,
            features % IN_16_BYTES == 0 && aligned({x.data})};
}

result result_of_array(const iso_array &x)
{
    const int features = static_cast<int>(x.dim[x.rank - 1]);
    return {reals_of(x), static_cast<int>(x.dim[x.rank - 3]), features,
            features % 2 == 0 && reinterpret_cast<uintptr_t>(x.data) % sizeof(uint32_t) == 0};
}

fused_call fused_call_of(const iso_kernel_call *call)
{
    const iso_attention a = iso_attention_of(call);
    fused_call f = {};
    f.form = form_of(call, a);
    f.query = call->in[ISO_ATTENTION_QUERY];
    f.mask = a.mask, f.query_mask = a.query_mask;
    f.heads = static_cast<int>(a.heads);
    f.q = operand_of(call->in[ISO_ATTENTION_QUERY]), f.k = operand_of(call->in[ISO_ATTENTION_KEY]),
    f.v = operand_of(call->in[ISO_ATTENTION_VALUE]), f.dy = operand_of(call->in[call->n_inputs - 1]);
    for (int i = 0; i < call->n_outputs; i++)
        f.out[i] = result_of_array(call->out[i]);
    f.statistics = static_cast<float *>(call->scratch);
    return f;
}

/* The D of the kernels: features that their tiles hold. */
int width_of(const iso_attention &a)
{
    const int64_t features = a.k > a.v ? a.k : a.v;
    for (const int width : {32, 64, 80, 96})
        if (features <= width)
            return width;
    return MOST_FEATURES;
}

void launch_tiles(const iso_kernel_call *call, void (*kernel)(fused_call), int64_t n, int rows,
                  unsigned parts)
{
    const iso_attention a = iso_attention_of(call);
    const dim3 grid(static_cast<unsigned>(a.groups * a.heads), static_cast<unsigned>(ceil_of(n, rows)),
                    parts);
    launch(kernel, grid, THREADS, 0, iso_cuda_stream_of(call->stream), fused_call_of(call));
}

void run(const iso_kernel_call *call)
{
    const iso_attention a = iso_attention_of(call);
    switch (width_of(a)) {
    case 32:
        return launch_tiles(call, forward_kernel<32, 2>, a.rows, 2 * WARPS * STEP, 1);
    case 64:
        return launch_tiles(call, forward_kernel<64, 2>, a.rows, 2 * WARPS * STEP, 1);
    case 80:
        return launch_tiles(call, forward_kernel<80, 1>, a.rows, WARPS * STEP, 1);
    case 96:
        return launch_tiles(call, forward_kernel<96, 1>, a.rows, WARPS * STEP, 1);
    default:
        launch_tiles(call, forward_kernel<128, 1>, a.rows, WARPS * STEP, 1);
    }
}

void run_gradient(const iso_kernel_call *call)
{
    const iso_attention a = iso_attention_of(call);
    switch (width_of(a)) {
    case 32:
        launch_tiles(call, grad_queries_kernel<32>, a.rows, WARPS * STEP, 1);
        return launch_tiles(call, grad_keys_kernel<32, 64, true>, a.keys, KEYS, 1);
    case 64:
        launch_tiles(call, grad_queries_kernel<64>, a.rows, WARPS * STEP, 1);
        return launch_tiles(call, grad_keys_kernel<64, 64, true>, a.keys, KEYS, 1);
    case 80:
        launch_tiles(call, grad_queries_kernel<80>, a.rows, WARPS * STEP, 1);
        return launch_tiles(call, grad_keys_kernel<80, 32, true>, a.keys, KEYS, 1);
    case 96:
        launch_tiles(call, grad_queries_kernel<96>, a.rows, WARPS * STEP, 1);
        return launch_tiles(call, grad_keys_kernel<96, 32, true>, a.keys, KEYS, 1);
    default:
        launch_tiles(call, grad_queries_kernel<128>, a.rows, WARPS * STEP, 1);
        launch_tiles(call, grad_keys_kernel<128, 32, false>, a.keys, KEYS, 2);
    }
}

size_t gradient_scratch(const iso_kernel_call *call)
{
    const iso_attention a = iso_attention_of(call);
    return static_cast<size_t>(STATISTICS * a.groups * a.heads * a.rows) * sizeof(float);
}

bool fits(const iso_kernel_call *call)
{
    if (call->n_inputs == 0 || call->in[0].dtype != ISO_BF16)
        return false;
    const iso_attention a = iso_attention_of(call);
    const int64_t most = static_cast<int64_t>(MOST_TILES) * KEYS;
    return a.attrs->cap == 0 && !a.attrs->adds && a.keys > 0 && a.k > 0 && a.v > 0 && a.k <= MOST_FEATURES &&
           a.v <= MOST_FEATURES && a.keys <= most && a.rows <= most && a.groups * a.heads <= INT32_MAX;
}

constexpr iso_kernel fused_kernel(const char *op, run_function *run, scratch_function *scratch)
{
    iso_kernel kernel = make_kernel(op, run, false, scratch);
    kernel.name = "fused";
    kernel.fits = fits;
    return kernel;
}

} // namespace

const iso_kernel iso_cuda_fused_attention = fused_kernel("attention", run, nullptr);
const iso_kernel iso_cuda_fused_attention_grad =
    fused_kernel("attention_grad", run_gradient, gradient_scratch);
