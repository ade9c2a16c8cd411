/* Grouped products of float32 and float64. Steps of k go through shared memory: while one is multiplied, the next is
 * read to registers. A block computes a tile of c; a thread has two groups of neighbouring rows of it, and of these
 * two groups of neighbouring columns. */
#include "runtime/backend/cuda/grouped.h"

#include "runtime/backend/cuda/grouped_parts.h"
#include "runtime/backend/cuda/packs.h"

namespace iso_cuda
{

namespace
{

enum {
    DEPTH = 16,  /* of a step of k */
    GROUPS = 2,  /* of rows, and of columns, of a thread */
    ACROSS = 16, /* threads: ACROSS x ACROSS are a block */
    READS = 2    /* packs of a thread, for one operand */
};
template <class T> constexpr int WIDTH = 16 / sizeof(T); /* elements of a pack */
template <class T> constexpr int SIDE = ACROSS *GROUPS *WIDTH<T>;
template <class T> constexpr int EACH = GROUPS *WIDTH<T>;

/* A tile of one operand: [DEPTH, SIDE] in either form. */
template <class T> struct alignas(16) operand_tile {
    T at[DEPTH][SIDE<T> + WIDTH<T>];
};

/* What a thread reads of a step of k: packs of lines. `across` elements of m or n exist, k of k. */
template <class T, bool ALONG_K> struct reader {
    grouped_lines<T> lines;
    int across;
    int64_t k;
    bool packs;
    pack<T, WIDTH<T>> read[READS];

    static constexpr int LINE_PACKS = (ALONG_K ? DEPTH : SIDE<T>) / WIDTH<T>;
    static_assert(READS * BLOCK * WIDTH<T> == DEPTH * SIDE<T>, "the threads read a whole tile");

    __device__ __forceinline__ static int element()
    {
        return static_cast<int>(threadIdx.x) % LINE_PACKS * WIDTH<T>;
    }
    __device__ __forceinline__ static int line_number(int i)
    {
        return static_cast<int>(threadIdx.x) / LINE_PACKS + i * (BLOCK / LINE_PACKS);
    }

    __device__ __forceinline__ void begin(int64_t step)
    {
        ISO_UNROLL()
        for (int i = 0; i < READS; i++) {
            const int64_t number = (ALONG_K ? 0 : step) + line_number(i), lines_exist = ALONG_K ? across : k;
            const int64_t at = (ALONG_K ? step : 0) + element(), count = ALONG_K ? k : across;
            if (number >= lines_exist || at >= count)
                read[i] = {};
            else if (packs)
                read[i] = load_pack<WIDTH<T>>(lines.line(number) + at);
            else
                read[i] = elements_of<WIDTH<T>>(lines.line(number), at, count);
        }
    }

    __device__ __forceinline__ void put(operand_tile<T> &tile) const
    {
        ISO_UNROLL()
        for (int i = 0; i < READS; i++) {
            const int line = line_number(i);
            if constexpr (ALONG_K) {
                ISO_UNROLL()
                for (int j = 0; j < WIDTH<T>; j++)
                    tile.at[element() + j][line] = read[i].at[j];
            } else {
                *reinterpret_cast<pack<T, WIDTH<T>> *>(&tile.at[line][element()]) = read[i];
            }
        }
    }
};

/* Of row d of a tile, those of the thread: groups that are half a tile apart. */
template <class T>
__device__ __forceinline__ void take_own(T (&own)[EACH<T>], const operand_tile<T> &tile, int d, int thread)
{
    ISO_UNROLL()
    for (int g = 0; g < GROUPS; g++) {
        const auto group = *reinterpret_cast<const pack<T, WIDTH<T>> *>(
            &tile.at[d][g * (SIDE<T> / GROUPS) + thread * WIDTH<T>]);
        ISO_UNROLL()
        for (int i = 0; i < WIDTH<T>; i++)
            own[g * WIDTH<T> + i] = group.at[i];
    }
}

/* Where in the tile is element i of a thread's. */
template <class T> __device__ __forceinline__ int place_of(int i, int thread)
{
    return i / WIDTH<T> * (SIDE<T> / GROUPS) + thread * WIDTH<T> + i % WIDTH<T>;
}

template <class T, grouped_form FORM>
__global__ void __launch_bounds__(BLOCK, 2) groups_kernel(grouped_call call)
{
    __shared__ operand_tile<T> a_tile, b_tile;
    grouped_part part;
    if (!find_part<FORM, SIDE<T>>(call, part))
        return;
    const int down = static_cast<int>(threadIdx.x) / ACROSS, across = static_cast<int>(threadIdx.x) % ACROSS;
    T sum[EACH<T>][EACH<T>] = {};
    for (int pair = 0; pair < call.product.pairs; pair++) {
        reader<T, A_ALONG_K<FORM>> a = {
            lines_of_a<T, FORM>(call, part, pair), part.rows, part.k, call.packs, {}};
        reader<T, B_ALONG_K<FORM>> b = {
            lines_of_b<T, FORM>(call, part, pair), part.columns, part.k, call.packs, {}};
        a.begin(0);
        b.begin(0);
        ISO_UNROLL(1)
        for (int64_t step = 0; step < part.k; step += DEPTH) {
            __syncthreads(); /* the tiles before have been multiplied */
            a.put(a_tile);
            b.put(b_tile);
            __syncthreads();
            if (step + DEPTH < part.k) {
                a.begin(step + DEPTH);
                b.begin(step + DEPTH);
            }
            ISO_UNROLL()
            for (int d = 0; d < DEPTH; d++) {
                T of_a[EACH<T>], of_b[EACH<T>];
                take_own(of_a, a_tile, d, down);
                take_own(of_b, b_tile, d, across);
                ISO_UNROLL()
                for (int i = 0; i < EACH<T>; i++)
                    ISO_UNROLL()
                for (int j = 0; j < EACH<T>; j++)
                    sum[i][j] = fused(of_a[i], of_b[j], sum[i][j]);
            }
        }
    }
    T *c = static_cast<T *>(call.product.c.to.data) + result_of<FORM>(call, part);
    ISO_UNROLL()
    for (int i = 0; i < EACH<T>; i++) {
        const int row = place_of<T>(i, down);
        ISO_UNROLL()
        for (int j = 0; j < EACH<T>; j++) {
            const int column = place_of<T>(j, across);
            if (row < part.rows && column < part.columns)
                c[row * call.product.c.row + column] = sum[i][j];
        }
    }
}

template <class T> void launch_groups(iso_cuda_stream *stream, unsigned blocks, const grouped_call &call)
{
    switch (call.product.form) {
    case BY_MATRIX:
        launch(groups_kernel<T, BY_MATRIX>, blocks, BLOCK, 0, stream, call);
        break;
    case BY_TRANSPOSED:
        launch(groups_kernel<T, BY_TRANSPOSED>, blocks, BLOCK, 0, stream, call);
        break;
    case OVER_ROWS:
        launch(groups_kernel<T, OVER_ROWS>, blocks, BLOCK, 0, stream, call);
        break;
    }
}

bool reads_packs(const grouped_operand &of, int64_t width)
{
    return of.row % width == 0 && aligned({of.x});
}

} // namespace

int64_t grouped_tile(iso_dtype dtype)
{
    return dtype == ISO_BF16 ? TILE_OF_BF16 : dtype == ISO_F64 ? SIDE<double> : SIDE<float>;
}

void multiply_groups(const iso_stream *stream, iso_dtype dtype, const grouped_order &order,
                     const grouped_product &product)
{
    const int64_t tile = grouped_tile(dtype), most_band = 8,
                  width = 16 / static_cast<int64_t>(iso_dtype_size(dtype));
    grouped_call call = {product, order, true, 0, 0, 0, 0};
    for (int pair = 0; pair < product.pairs; pair++)
        call.packs &= reads_packs(product.a[pair], width) && reads_packs(product.b[pair], width);
    call.tiles_m = product.form == OVER_ROWS ? ceil_of(product.m, tile) : order.tiles;
    call.tiles_n = ceil_of(product.n, tile);
    call.band = call.tiles_n < most_band ? call.tiles_n : most_band;
    call.bands = call.band > 0 ? ceil_of(call.tiles_n, call.band) : 0;
    const int64_t blocks =
        call.tiles_m * call.band * call.bands * (product.form == OVER_ROWS ? order.experts : 1);
    iso_cuda_stream *const to = iso_cuda_stream_of(stream);
    if (dtype == ISO_BF16)
        launch_bf16(to, static_cast<unsigned>(blocks), call);
    else if (dtype == ISO_F64)
        launch_groups<double>(to, static_cast<unsigned>(blocks), call);
    else
        launch_groups<float>(to, static_cast<unsigned>(blocks), call);
}

} // namespace iso_cuda
