/* Grouped products of bfloat16 by tensor cores, with sums in float32. A block computes a tile of 128 x 128; its 8
 * warps 64 x 32 each. While a step of k is multiplied, the next one is copied to shared memory. */
#include "runtime/backend/cuda/grouped_parts.h"
#include "runtime/backend/cuda/tiles.h"

namespace iso_cuda
{

namespace
{

enum {
    SIDE = TILE_OF_BF16,
    THREADS = BLOCK_OF_BF16,
    DEPTH = 32,     /* of a step of k */
    WARP_ROWS = 64, /* of the tile of a warp */
    WARP_COLUMNS = 32,
    WARPS_ACROSS = SIDE / WARP_COLUMNS,
    PACKS_OF_DEPTH = DEPTH / IN_16_BYTES,
    PACKS_OF_SIDE = SIDE / IN_16_BYTES,
    COPIES = SIDE * DEPTH / IN_16_BYTES / THREADS /* of a thread, for one operand */
};

/* The tile of one operand in shared memory. Lines have 16 bytes more, so that those of a matrix [8, 8] lie in
 * different banks. ALONG_K: [SIDE, DEPTH]; else [DEPTH, SIDE]. */
template <bool ALONG_K> constexpr int LINE_PACKS = (ALONG_K ? PACKS_OF_DEPTH : PACKS_OF_SIDE) + 1;
const int OPERAND_PACKS = SIDE * LINE_PACKS<true>;
static_assert(DEPTH * LINE_PACKS<false> <= OPERAND_PACKS, "a tile fits in either form");

template <bool ALONG_K> __device__ __forceinline__ uint4 *pack_of(uint4 *tile, int line, int pack)
{
    return tile + line * LINE_PACKS<ALONG_K> + pack;
}

/* What a thread copies: packs of lines. `across` elements of m or n exist, k of k. */
template <bool ALONG_K> struct copier {
    grouped_lines<bf16> lines;
    const bf16 *own[COPIES]; /* ALONG_K: the thread's lines */
    int across;
    int64_t k;
    bool packs;

    __device__ __forceinline__ static int pack_number()
    {
        return static_cast<int>(threadIdx.x) % (ALONG_K ? PACKS_OF_DEPTH : PACKS_OF_SIDE);
    }
    __device__ __forceinline__ static int line_number(int copy)
    {
        const int across = ALONG_K ? PACKS_OF_DEPTH : PACKS_OF_SIDE;
        return static_cast<int>(threadIdx.x) / across + copy * (THREADS / across);
    }

    __device__ __forceinline__ copier(const grouped_lines<bf16> &of, int exist, int64_t depth, bool aligned)
        : lines(of), across(exist), k(depth), packs(aligned)
    {
        ISO_UNROLL()
        for (int i = 0; i < COPIES; i++)
            own[i] = ALONG_K && line_number(i) < across ? lines.line(line_number(i)) : lines.x;
    }

    /* Begins to copy a step of k, with zeros for what does not exist. */
    __device__ __forceinline__ void begin(uint4 *tile, int64_t step) const
    {
        ISO_UNROLL()
        for (int i = 0; i < COPIES; i++) {
            const int line = line_number(i);
            const int64_t number = ALONG_K ? line : step + line, lines_exist = ALONG_K ? across : k;
            const int64_t at = (ALONG_K ? step : 0) + pack_number() * IN_16_BYTES,
                          count = ALONG_K ? k : across;
            const bool exists = number < lines_exist && at < count;
            const bf16 *from = ALONG_K ? own[i] : exists ? lines.line(number) : lines.x;
            uint4 *to = pack_of<ALONG_K>(tile, line, pack_number());
            if (packs) {
                copy_16(to, exists ? from + at : lines.x, exists);
            } else {
                const auto read = elements_of<IN_16_BYTES>(from, at, exists ? count : 0);
                memcpy(to, &read, sizeof read);
            }
        }
    }
};

/* The fragment a of 16 rows from `row` on, in a step of 16 of k. */
template <bool ALONG_K>
__device__ __forceinline__ void load_left(uint32_t (&a)[4], uint4 *tile, int row, int step)
{
    const int lane = lane_of_thread();
    if constexpr (ALONG_K)
        load_matrices(a, pack_of<true>(tile, row + lane % STEP, 2 * step + lane / STEP));
    else
        load_transposed(a, pack_of<false>(tile, STEP * step + lane % 8 + lane / 16 * 8,
                                          row / IN_16_BYTES + lane / 8 % 2));
}

/* The fragments b of 8 columns from `column` on (words 0 and 1), and of the next 8. */
template <bool ALONG_K>
__device__ __forceinline__ void load_right(uint32_t (&b)[4], uint4 *tile, int column, int step)
{
    const int lane = lane_of_thread();
    if constexpr (ALONG_K)
        load_matrices(b, pack_of<true>(tile, column + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
    else
        load_transposed(b,
                        pack_of<false>(tile, STEP * step + lane % STEP, column / IN_16_BYTES + lane / STEP));
}

typedef float warp_sums[WARP_ROWS / STEP][WARP_COLUMNS / 8][4];

template <grouped_form FORM>
__device__ __forceinline__ void multiply_step(warp_sums &sum, uint4 *a_tile, uint4 *b_tile, int row,
                                              int column)
{
    ISO_UNROLL()
    for (int step = 0; step < DEPTH / STEP; step++) {
        uint32_t a[WARP_ROWS / STEP][4];
        ISO_UNROLL()
        for (int m = 0; m < WARP_ROWS / STEP; m++)
            load_left<A_ALONG_K<FORM>>(a[m], a_tile, row + m * STEP, step);
        ISO_UNROLL()
        for (int n = 0; n < WARP_COLUMNS / 8; n += 2) {
            uint32_t b[4];
            load_right<B_ALONG_K<FORM>>(b, b_tile, column + n * 8, step);
            ISO_UNROLL()
            for (int m = 0; m < WARP_ROWS / STEP; m++) {
                multiply_add(sum[m][n], a[m], b[0], b[1]);
                multiply_add(sum[m][n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

template <grouped_form FORM>
__device__ __forceinline__ void put_sums(const grouped_call &call, const grouped_part &part,
                                         const warp_sums &sum, int row, int column)
{
    const grouped_result &c = call.product.c;
    const bool pairs = c.row % 2 == 0 && reinterpret_cast<uintptr_t>(c.to.data) % 4 == 0;
    const head_result out = {
        c.to, result_of<FORM>(call, part) + column, c.row, part.rows, part.columns - column, pairs};
    ISO_UNROLL()
    for (int m = 0; m < WARP_ROWS / STEP; m++)
        put_rows<WARP_COLUMNS>(out, row + m * STEP + lane_group(), sum[m], 1, 1);
}

template <grouped_form FORM> __global__ void __launch_bounds__(THREADS, 2) bf16_kernel(grouped_call call)
{
    __shared__ uint4 tiles[2][2][OPERAND_PACKS];
    grouped_part part;
    if (!find_part<FORM, SIDE>(call, part))
        return;
    const int row = warp_of_thread() / WARPS_ACROSS * WARP_ROWS,
              column = warp_of_thread() % WARPS_ACROSS * WARP_COLUMNS;
    const bool works = row < part.rows && column < part.columns; /* the warp */
    warp_sums sum = {};
    for (int pair = 0; pair < call.product.pairs; pair++) {
        const copier<A_ALONG_K<FORM>> a(lines_of_a<bf16, FORM>(call, part, pair), part.rows, part.k,
                                        call.packs);
        const copier<B_ALONG_K<FORM>> b(lines_of_b<bf16, FORM>(call, part, pair), part.columns, part.k,
                                        call.packs);
        int turn = 0;
        a.begin(tiles[0][0], 0);
        b.begin(tiles[0][1], 0);
        wait_for_copies();
        __syncthreads();
        ISO_UNROLL(1)
        for (int64_t step = 0; step < part.k; step += DEPTH, turn ^= 1) {
            if (step + DEPTH < part.k) {
                a.begin(tiles[turn ^ 1][0], step + DEPTH);
                b.begin(tiles[turn ^ 1][1], step + DEPTH);
            }
            if (works)
                multiply_step<FORM>(sum, tiles[turn][0], tiles[turn][1], row, column);
            wait_for_copies();
            __syncthreads();
        }
    }
    if (works)
        put_sums<FORM>(call, part, sum, row, column);
}

} // namespace

void launch_bf16(iso_cuda_stream *stream, unsigned blocks, const grouped_call &call)
{
    switch (call.product.form) {
    case BY_MATRIX:
        launch(bf16_kernel<BY_MATRIX>, blocks, THREADS, 0, stream, call);
        break;
    case BY_TRANSPOSED:
        launch(bf16_kernel<BY_TRANSPOSED>, blocks, THREADS, 0, stream, call);
        break;
    case OVER_ROWS:
        launch(bf16_kernel<OVER_ROWS>, blocks, THREADS, 0, stream, call);
        break;
    }
}

} // namespace iso_cuda
