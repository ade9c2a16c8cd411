/* Dropout and noise by global index: one counter gives one number on every backend. */
#include "runtime/backend/cuda/packs.h"
#include "runtime/backend/index.h"
#include "runtime/base/random.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

/* Whether the part's elements are a run of the global tensor's, which begins at *first. */
bool is_run(const iso_array &x, uint64_t *first)
{
    bool inner_whole = true;
    for (int d = x.rank - 1; d > 0; d--) {
        inner_whole &= x.dim[d] == x.global[d];
        if (!inner_whole)
            for (int outer = 0; outer < d; outer++)
                if (x.dim[outer] != 1)
                    return false;
    }
    *first = iso_array_count(&x) > 0 ? iso_index_global(&x, 0) : 0;
    return true;
}

/* The global index of an element. */
struct numbering {
    bool run;
    uint64_t first;
    iso_array array;
    __device__ uint64_t of(int64_t i) const
    {
        return run ? first + static_cast<uint64_t>(i) : iso_index_global(&array, i);
    }
};

numbering numbering_of(const iso_array &x)
{
    numbering n = {false, 0, x};
    n.run = is_run(x, &n.first);
    return n;
}

/* ---- functions of an element and the random numbers of its block of four, of which its own is number k ---- */

template <class T> struct dropout {
    typedef compute<T> C;
    uint64_t key;
    const iso_step_info *info;
    uint32_t threshold;
    C scale;
    __device__ __forceinline__ iso_philox draw(uint64_t block) const
    {
        return iso_philox_draw(key, block, info->step);
    }
    __device__ __forceinline__ C get(C x, const iso_philox &drawn, int k) const
    {
        return drawn.word[k] >> 8 >= threshold ? x * scale : C(0);
    }
};

template <class T> struct noise {
    typedef compute<T> C;
    uint64_t key;
    const iso_step_info *info;
    double stddev;
    struct normals {
        double at[4];
    };
    __device__ __forceinline__ normals draw(uint64_t block) const
    {
        normals drawn;
        iso_random_normals(key, info->step, block, drawn.at);
        return drawn;
    }
    __device__ __forceinline__ C get(C x, const normals &drawn, int k) const
    {
        return static_cast<C>(x + stddev * drawn.at[k]);
    }
};

/* ---- y = F of x ---- */

template <class T, class F> struct each_alone {
    numbering number;
    F f;
    const T *x;
    T *y;
    __device__ void operator()(int64_t i) const
    {
        const uint64_t index = number.of(i);
        narrow(&y[i], f.get(wide(x[i]), f.draw(index / 4), static_cast<int>(index % 4)));
    }
};

/* A run of n elements, whose first has the number `begin` in block `first`. A thread has a block. */
template <class T, class F> struct blocks_of_run {
    uint64_t first;
    int64_t begin, n;
    bool packs; /* blocks are whole, and addresses are multiples of 16 */
    F f;
    const T *x;
    T *y;
    __device__ void operator()(int64_t block) const
    {
        const auto drawn = f.draw(first + static_cast<uint64_t>(block));
        const int64_t start = block * 4 - begin;
        if (packs && start + 4 <= n) {
            put<sizeof(T) == 8 ? 2 : 4>(start, drawn);
            return;
        }
        for (int k = 0; k < 4; k++)
            if (start + k >= 0 && start + k < n)
                narrow(&y[start + k], f.get(wide(x[start + k]), drawn, k));
    }
    /* Elements `start` to `start` + 3, in packs of N. */
    template <int N, class D> __device__ __forceinline__ void put(int64_t start, const D &drawn) const
    {
        ISO_UNROLL()
        for (int i = 0; i < 4; i += N) {
            const auto in = load_pack<N>(x + start + i);
            pack<T, N> out;
            ISO_UNROLL()
            for (int k = 0; k < N; k++)
                narrow(&out.at[k], f.get(wide(in.at[k]), drawn, i + k));
            store_pack(y + start + i, out);
        }
    }
};

template <class T, class F> void run_drawn(const iso_kernel_call *call, F f)
{
    const T *x = static_cast<const T *>(call->in[0].data);
    T *y = static_cast<T *>(call->out[0].data);
    const int64_t n = iso_array_count(&call->in[0]);
    const numbering number = numbering_of(call->in[0]);
    const int64_t begin = static_cast<int64_t>(number.first % 4);
    if (number.run)
        for_each(call->stream, n > 0 ? ceil_of(n + begin, 4) : 0,
                 blocks_of_run<T, F>{number.first / 4, begin, n, begin == 0 && aligned({x, y}), f, x, y});
    else
        for_each(call->stream, n, each_alone<T, F>{number, f, x, y});
}

void run_dropout(const iso_kernel_call *call)
{
    const iso_dropout_attrs *attrs = static_cast<const iso_dropout_attrs *>(call->attrs);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        run_drawn<T>(call, dropout<T>{attrs->key, call->info, attrs->threshold,
                                      static_cast<compute<T>>(attrs->scale)});
    });
}

void run_noise(const iso_kernel_call *call)
{
    const iso_noise_attrs *attrs = static_cast<const iso_noise_attrs *>(call->attrs);
    with_float(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        run_drawn<T>(call, noise<T>{attrs->key, call->info, attrs->stddev});
    });
}

} // namespace

ISO_CUDA_KERNEL(dropout, run_dropout, true)
ISO_CUDA_KERNEL(gaussian_noise, run_noise, true)
