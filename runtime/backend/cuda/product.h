/* Products of matrices in tiles, whose elements functions give: matrices in memory, or windows of images. */
#ifndef ISO_BACKEND_CUDA_PRODUCT_H
#define ISO_BACKEND_CUDA_PRODUCT_H

#include "runtime/backend/cuda/elements.h"

namespace iso_cuda
{

/* A block has TILE x TILE elements of c, of which a thread has EACH x EACH, and goes along k in steps of
 * DEPTH. */
enum { TILE = 64, EACH = 4, DEPTH = 16, ACROSS = TILE / EACH /* threads */ };

/* c [batch, m, n] = sum over k of a(batch, m, k) b(batch, k, n). The sum may be divided among blocks:
 * `splits` parts, which are then added in order. They depend on shapes only. */
struct product_shape {
    int64_t batch, m, n, k, splits, split_k;
};

inline product_shape shape_of_product(int64_t batch, int64_t m, int64_t n, int64_t k)
{
    const int64_t blocks_wanted = 264, least_k = 256, most_splits = 64;
    int64_t tiles = batch * ceil_of(m, TILE) * ceil_of(n, TILE);
    int64_t splits = tiles > 0 ? blocks_wanted / tiles : 1, most = k / least_k;
    splits = splits < most ? splits : most;
    splits = splits < 1 ? 1 : splits > most_splits ? most_splits : splits;
    int64_t split_k = ceil_of(ceil_of(k, splits), DEPTH) * DEPTH;
    return {batch, m, n, k, splits, split_k};
}

template <class C> size_t product_scratch(const product_shape &s)
{
    return s.splits > 1 ? static_cast<size_t>(s.splits * s.batch * s.m * s.n) * sizeof(C) : 0;
}

/* Steps in elements of an operand's index in the batch, of m or n, and of k. */
struct steps {
    int64_t batch, across, k;
};

/* An operand in memory. IN_RUNS: neighbours along k are neighbours in memory. */
template <class T, bool IN_RUNS> struct strided {
    typedef compute<T> C;
    static constexpr bool ALONG_K = IN_RUNS;
    const T *x;
    steps of;
    __device__ __forceinline__ C get(int64_t batch, int64_t across, int64_t k) const
    {
        return wide(x[batch * of.batch + across * of.across + k * of.k]);
    }
};

/* One step of a tile: TILE rows (or columns) by DEPTH of k. Neighbouring threads take neighbours along k or
 * across. */
template <bool ALONG_K> struct tile_position {
    __device__ static int of_k(int part)
    {
        int i = static_cast<int>(threadIdx.x) + part * BLOCK;
        return ALONG_K ? i % DEPTH : i / TILE;
    }
    __device__ static int across(int part)
    {
        int i = static_cast<int>(threadIdx.x) + part * BLOCK;
        return ALONG_K ? i / DEPTH : i % TILE;
    }
};

/* A and B have: a type C in which they compute; ALONG_K, whether neighbours along k are neighbours in
 * memory; and get(batch, m or n, k). partial NULL: OUT's put(batch, m, n, value) gets the sums. */
template <class A, class B, class OUT>
__global__ void __launch_bounds__(BLOCK)
    product_kernel(product_shape s, A a, B b, OUT out, typename A::C *partial, int64_t tiles_n)
{
    typedef typename A::C C;
    __shared__ C as[DEPTH][TILE + 1], bs[DEPTH][TILE + 1];
    const int64_t row = blockIdx.x / tiles_n * TILE, column = blockIdx.x % tiles_n * TILE;
    const int own_row = static_cast<int>(threadIdx.x) / ACROSS,
              own_column = static_cast<int>(threadIdx.x) % ACROSS;
    for (int64_t z = blockIdx.y; z < s.batch * s.splits; z += gridDim.y) {
        const int64_t batch = z / s.splits, split = z % s.splits, first = split * s.split_k;
        const int64_t end = first + s.split_k < s.k ? first + s.split_k : s.k;
        C sum[EACH][EACH] = {};
        for (int64_t k = first; k < end; k += DEPTH) {
            for (int part = 0; part < TILE * DEPTH / BLOCK; part++) {
                int ka = tile_position<A::ALONG_K>::of_k(part), i = tile_position<A::ALONG_K>::across(part);
                as[ka][i] = row + i < s.m && k + ka < end ? a.get(batch, row + i, k + ka) : C(0);
                int kb = tile_position<B::ALONG_K>::of_k(part), j = tile_position<B::ALONG_K>::across(part);
                bs[kb][j] = column + j < s.n && k + kb < end ? b.get(batch, column + j, k + kb) : C(0);
            }
            __syncthreads();
            for (int d = 0; d < DEPTH; d++) {
                C of_a[EACH], of_b[EACH];
                for (int i = 0; i < EACH; i++) {
                    of_a[i] = as[d][own_row + i * ACROSS];
                    of_b[i] = bs[d][own_column + i * ACROSS];
                }
                for (int i = 0; i < EACH; i++)
                    for (int j = 0; j < EACH; j++)
                        sum[i][j] = fused(of_a[i], of_b[j], sum[i][j]);
            }
            __syncthreads();
        }
        for (int i = 0; i < EACH; i++)
            for (int j = 0; j < EACH; j++) {
                int64_t y = row + own_row + i * ACROSS, x = column + own_column + j * ACROSS;
                if (y >= s.m || x >= s.n)
                    continue;
                if (partial)
                    partial[((split * s.batch + batch) * s.m + y) * s.n + x] = sum[i][j];
                else
                    out.put(batch, y, x, sum[i][j]);
            }
    }
}

template <class C, class OUT> struct add_splits {
    product_shape s;
    OUT out;
    const C *partial;
    __device__ void operator()(int64_t i) const
    {
        C sum = partial[i];
        for (int64_t split = 1; split < s.splits; split++)
            sum += partial[split * s.batch * s.m * s.n + i];
        int64_t row = i / s.n;
        out.put(row / s.m, row % s.m, i - row * s.n, sum);
    }
};

template <class A, class B, class OUT>
void run_product(const iso_kernel_call *call, const product_shape &s, A a, B b, OUT out)
{
    typedef typename A::C C;
    const int64_t tiles_n = ceil_of(s.n, TILE), most = 65535, batches = s.batch * s.splits;
    C *partial = s.splits > 1 ? static_cast<C *>(call->scratch) : nullptr;
    dim3 grid(static_cast<unsigned>(ceil_of(s.m, TILE) * tiles_n),
              static_cast<unsigned>(batches < most ? batches : most));
    launch(product_kernel<A, B, OUT>, grid, BLOCK, 0, iso_cuda_stream_of(call->stream), s, a, b, out, partial,
           tiles_n);
    if (partial)
        for_each(call->stream, s.batch * s.m * s.n, add_splits<C, OUT>{s, out, partial});
}

} // namespace iso_cuda

#endif
