#include "tests/emulator/samples.h"

#include "runtime/backend/cuda/launch.h"
#include "runtime/backend/cuda/mma.h"

namespace
{

const unsigned ALL_LANES = 0xffffffffu;

__device__ float warp_sum(float value)
{
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, distance);
    return value;
}

template <int MISSING> __device__ float block_sum(float value)
{
    __shared__ float part[32];
    value = warp_sum(value);
    if (MISSING != 1)
        __syncthreads(); /* `part` of the call before has been read */
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = value;
    if (MISSING != 2)
        __syncthreads();
    return warp_sum(threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : 0);
}

template <int MISSING> __global__ void row_sums(int columns, const float *x, float *y)
{
    const float *row = x + static_cast<int64_t>(blockIdx.x) * columns;
    float sum = 0, distance = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += row[i];
    float mean = block_sum<MISSING>(sum) / columns;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        distance += fabsf(row[i] - mean);
    distance = block_sum<MISSING>(distance) / columns;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[static_cast<int64_t>(blockIdx.x) * columns + i] = (row[i] - mean) / distance;
}

/* A block of 32 x 8 threads has 32 columns. */
template <int MISSING> __global__ void column_sums(int rows, int columns, const float *x, float *y)
{
    ISO_DYNAMIC_SHARED(float, part); /* [8, 32] */
    int column = static_cast<int>(blockIdx.x * 32 + threadIdx.x), lines = static_cast<int>(blockDim.y);
    float sum = 0;
    for (int row = threadIdx.y; row < rows && column < columns; row += lines)
        sum += x[static_cast<int64_t>(row) * columns + column];
    part[threadIdx.y * 32 + threadIdx.x] = sum;
    for (int half = lines / 2; half > 0; half /= 2) {
        if (MISSING != 3)
            __syncthreads();
        if (static_cast<int>(threadIdx.y) < half)
            part[threadIdx.y * 32 + threadIdx.x] += part[(threadIdx.y + half) * 32 + threadIdx.x];
    }
    if (threadIdx.y == 0 && column < columns)
        y[column] = part[threadIdx.x];
}

enum { TILE = 16 };

template <int MISSING> __global__ void product(int m, int n, int k, const float *a, const float *b, float *c)
{
    __shared__ float rows[TILE][TILE + 1], columns[TILE][TILE + 1];
    int row = static_cast<int>(blockIdx.y * TILE + threadIdx.y);
    int column = static_cast<int>(blockIdx.x * TILE + threadIdx.x);
    float sum = 0;
    for (int first = 0; first < k; first += TILE) {
        int of_a = first + static_cast<int>(threadIdx.x), of_b = first + static_cast<int>(threadIdx.y);
        rows[threadIdx.y][threadIdx.x] = row < m && of_a < k ? a[row * k + of_a] : 0;
        columns[threadIdx.y][threadIdx.x] = of_b < k && column < n ? b[of_b * n + column] : 0;
        if (MISSING != 4)
            __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += rows[threadIdx.y][i] * columns[i][threadIdx.x];
        if (MISSING != 5)
            __syncthreads();
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}

__global__ void votes(int *y, int *total, int *greatest)
{
    unsigned odd = threadIdx.x < 8 ? __ballot_sync(0xff, (threadIdx.x + blockIdx.x) & 1) : 0;
    int largest = static_cast<int>(threadIdx.x);
    for (int distance = 16; distance > 0; distance /= 2) {
        int other = __shfl_down_sync(ALL_LANES, largest, distance);
        largest = other > largest ? other : largest;
    }
    largest = __shfl_sync(ALL_LANES, largest, 0);
    __syncwarp();
    atomicMax(greatest, largest);
    atomicAdd(total, blockIdx.x == 0 ? static_cast<int>(threadIdx.x) + 1 : 0);
    if (threadIdx.x == 0)
        for (y[blockIdx.x] = 0; odd; odd &= odd - 1)
            y[blockIdx.x]++;
    if (__syncthreads_or(threadIdx.x == 40) == 0)
        y[blockIdx.x] = -1;
}

/* ---- tensor cores ---- */

struct fragment {
    uint32_t a[4], left[2], right[2]; /* b's columns 0 to 7, and 8 to 15 */
};

__device__ uint32_t two_at(const uint16_t *x, int first, int step)
{
    return x[first] | static_cast<uint32_t>(x[first + step]) << 16;
}

/* From the formulas of the PTX manual, by word. */
__device__ fragment by_element(const uint16_t *a, const uint16_t *b, const uint16_t *b_rows)
{
    const int g = static_cast<int>(threadIdx.x) >> 2, t = static_cast<int>(threadIdx.x) % 4;
    fragment f;
    for (int word = 0; word < 4; word++) {
        const int row = word == 0 || word == 2 ? g : g + 8, column = word < 2 ? 2 * t : 2 * t + 8;
        f.a[word] = two_at(a, row * 16 + column, 1);
    }
    for (int word = 0; word < 2; word++) {
        const int row = word == 0 ? 2 * t : 2 * t + 8;
        f.left[word] = two_at(b, row * 16 + g, 16);
        f.right[word] = two_at(b_rows, g * 16 + row, 1);
    }
    return f;
}

/* a [16, 16] at x, b [16, 16] 512 bytes on, b_rows [8, 16] behind it. */
__device__ fragment by_matrix(const uint16_t *x)
{
    const int lane = static_cast<int>(threadIdx.x), row = lane % 16, half = lane / 16 * 8;
    uint32_t left[4], right[4];
    fragment f;
    iso_cuda::load_matrices(f.a, x + row * 16 + half);
    iso_cuda::load_transposed(left, x + 256 + row * 16 + half);
    iso_cuda::load_matrices(right, x + 512 + lane % 8 * 16 + lane / 8 % 2 * 8);
    for (int word = 0; word < 2; word++)
        f.left[word] = left[word], f.right[word] = right[word];
    return f;
}

__global__ void fragments(int how, const uint16_t *a, const uint16_t *b, const uint16_t *b_rows, float *c)
{
    __shared__ uint4 shared[2 * 32 + 16 + 1];
    const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
    const uint16_t *x = reinterpret_cast<const uint16_t *>(shared) + (how == SAMPLE_ODD_ADDRESS);
    iso_cuda::copy_16(&shared[lane], a + lane * 8, true);
    iso_cuda::copy_16(&shared[32 + lane], b + lane * 8, true);
    iso_cuda::copy_16(&shared[64 + lane % 16], b_rows + lane % 16 * 8, true);
    if (how != SAMPLE_TOO_EARLY)
        iso_cuda::wait_for_copies();
    __syncthreads();
    const fragment f = how == SAMPLE_BY_ELEMENT ? by_element(a, b, b_rows) : by_matrix(x);
    for (int half = 0; half < 2; half++) {
        float *const first = c + g * 16 + half * 8 + 2 * t, *const second = first + 8 * 16;
        float sums[4] = {first[0], first[1], second[0], second[1]};
        iso_cuda::multiply_add(sums, f.a, half ? f.right[0] : f.left[0], half ? f.right[1] : f.left[1]);
        first[0] = sums[0], first[1] = sums[1], second[0] = sums[2], second[1] = sums[3];
    }
}

/* ---- faults ---- */

__global__ void deadlock()
{
    if (threadIdx.x < 40)
        __syncthreads();
    __shfl_xor_sync(ALL_LANES, 1, 1);
}

__global__ void two_barriers()
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}

__global__ void past_shared(int count)
{
    ISO_DYNAMIC_SHARED(float, shared);
    __syncthreads();
    if (blockIdx.x == 1 && threadIdx.x == 3)
        shared[count] = 1;
    __syncthreads();
}

__global__ void two_operations()
{
    if (threadIdx.x & 1)
        __shfl_xor_sync(ALL_LANES, 1, 1);
    else
        __ballot_sync(ALL_LANES, 1);
}

__global__ void outside_mask(int source)
{
    if (threadIdx.x < 4)
        __shfl_sync(0xf, 1, source);
}

__global__ void ended_lane()
{
    if (threadIdx.x == 5)
        return;
    __shfl_xor_sync(ALL_LANES, 1, 1);
}

__global__ void nothing()
{
}

__global__ void look(uint32_t *fixed, uint32_t *dynamic)
{
    ISO_DYNAMIC_SHARED(uint32_t, words);
    __shared__ uint32_t word;
    *fixed = word;
    *dynamic = words[0];
}

typedef void row_kernel(int, const float *, float *);
typedef void column_kernel(int, int, const float *, float *);
typedef void product_kernel(int, int, int, const float *, const float *, float *);

} // namespace

void sample_row_sums(int missing, int rows, int columns, const float *x, float *y)
{
    row_kernel *kernel = missing == 1 ? row_sums<1> : missing == 2 ? row_sums<2> : row_sums<0>;
    launch(kernel, rows, 128, 0, nullptr, columns, x, y);
}

void sample_columns(int missing, int rows, int columns, const float *x, float *y)
{
    column_kernel *kernel = missing == 3 ? column_sums<3> : column_sums<0>;
    launch(kernel, (columns + 31) / 32, dim3(32, 8), 8 * 32 * sizeof(float), nullptr, rows, columns, x, y);
}

void sample_product(int missing, int m, int n, int k, const float *a, const float *b, float *c)
{
    product_kernel *kernel = missing == 4 ? product<4> : missing == 5 ? product<5> : product<0>;
    dim3 grid((n + TILE - 1) / TILE, (m + TILE - 1) / TILE);
    launch(kernel, grid, dim3(TILE, TILE), 0, nullptr, m, n, k, a, b, c);
}

void sample_votes(int blocks, int *y, int *total, int *greatest)
{
    launch(votes, blocks, 64, 0, nullptr, y, total, greatest);
}

int sample_fragments(sample_loads how, const uint16_t *a, const uint16_t *b, const uint16_t *b_rows, float *c)
{
    return launch(fragments, 1, 32, 0, nullptr, static_cast<int>(how), a, b, b_rows, c);
}

int sample_run_fault(sample_fault fault)
{
    switch (fault) {
    case SAMPLE_DEADLOCK:
        return launch(deadlock, 2, 64, 0, nullptr);
    case SAMPLE_TWO_BARRIERS:
        return launch(two_barriers, 2, 64, 0, nullptr);
    case SAMPLE_PAST_SHARED:
        return launch(past_shared, 2, 64, 64 * sizeof(float), nullptr, 64);
    case SAMPLE_TWO_OPERATIONS:
        return launch(two_operations, 2, 64, 0, nullptr);
    case SAMPLE_OUTSIDE_MASK:
        return launch(outside_mask, 1, 64, 0, nullptr, 9);
    case SAMPLE_ENDED_LANE:
        return launch(ended_lane, 1, 64, 0, nullptr);
    default:
        return launch(nothing, 1, 1025, 0, nullptr);
    }
}

void sample_poison(uint32_t *fixed, uint32_t *dynamic)
{
    launch(look, 1, 1, sizeof(uint32_t), nullptr, fixed, dynamic);
}
