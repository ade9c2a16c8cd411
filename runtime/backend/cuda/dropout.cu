/* Dropout and noise by global index: one counter gives one number on every backend. */
#include "runtime/backend/cuda/elements.h"
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

template <class T> struct dropout {
    typedef compute<T> C;
    numbering number;
    uint64_t key;
    const iso_step_info *info;
    uint32_t threshold;
    C scale;
    const T *x;
    T *y;
    __device__ void put(int64_t i, uint32_t word) const
    {
        narrow(&y[i], word >> 8 >= threshold ? wide(x[i]) * scale : C(0));
    }
    __device__ void operator()(int64_t i) const
    {
        put(i, iso_random_word(key, info->step, number.of(i)));
    }
};

/* The dropout of a run: a thread has a block of four random numbers. */
template <class T> struct dropout_run {
    dropout<T> of;
    int64_t n;
    __device__ void operator()(int64_t block) const
    {
        uint64_t begin = of.number.first % 4;
        iso_philox draw =
            iso_philox_draw(of.key, of.number.first / 4 + static_cast<uint64_t>(block), of.info->step);
        for (int k = 0; k < 4; k++) {
            int64_t i = block * 4 + k - static_cast<int64_t>(begin);
            if (i >= 0 && i < n)
                of.put(i, draw.word[k]);
        }
    }
};

void run_dropout(const iso_kernel_call *call)
{
    const iso_dropout_attrs *attrs = static_cast<const iso_dropout_attrs *>(call->attrs);
    const iso_array &x = call->in[0];
    int64_t n = iso_array_count(&x);
    with_float(x.dtype, [=](auto zero) {
        typedef decltype(zero) T;
        numbering number = numbering_of(call->in[0]);
        dropout<T> f = {number,
                        attrs->key,
                        call->info,
                        attrs->threshold,
                        static_cast<compute<T>>(attrs->scale),
                        static_cast<const T *>(call->in[0].data),
                        static_cast<T *>(call->out[0].data)};
        if (number.run)
            for_each(call->stream, n > 0 ? ceil_of(n + static_cast<int64_t>(number.first % 4), 4) : 0,
                     dropout_run<T>{f, n});
        else
            for_each(call->stream, n, f);
    });
}

struct noise {
    numbering number;
    uint64_t key;
    const iso_step_info *info;
    double stddev;
    reals x, y;
    __device__ void operator()(int64_t i) const
    {
        uint64_t index = number.of(i);
        double normal[4];
        iso_random_normals(key, info->step, index / 4, normal);
        y.put(i, x.get<double>(i) + stddev * normal[index % 4]);
    }
};

void run_noise(const iso_kernel_call *call)
{
    const iso_noise_attrs *attrs = static_cast<const iso_noise_attrs *>(call->attrs);
    const iso_array &x = call->in[0];
    for_each(
        call->stream, iso_array_count(&x),
        noise{numbering_of(x), attrs->key, call->info, attrs->stddev, reals_of(x), reals_of(call->out[0])});
}

} // namespace

ISO_CUDA_KERNEL(dropout, run_dropout, true)
ISO_CUDA_KERNEL(gaussian_noise, run_noise, true)
