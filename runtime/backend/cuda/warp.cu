/* Images moved by maps, the gradient, and uniform numbers; see runtime/graph/ops/network.h. */
#include "runtime/backend/cuda/elements.h"
#include "runtime/backend/index.h"
#include "runtime/backend/warp.h"

namespace
{

using namespace iso_cuda;

/* y [n, h', w', c] and x [n, h, w, c], or their gradients. */
struct images {
    iso_warp_attrs attrs;
    reals x, maps, y;
    int64_t c;
    __device__ iso_warp_taps place(int64_t n, int64_t p, int64_t q) const
    {
        double map[6];
        for (int i = 0; i < 6; i++)
            map[i] = maps.get<double>(n * 6 + i);
        return iso_warp_taps_of(&attrs, map, p, q);
    }
    /* Channel k of a pixel of image n. */
    __device__ int64_t element(int64_t n, int64_t pixel, int64_t k) const
    {
        return (n * attrs.from[0] * attrs.from[1] + pixel) * c + k;
    }
};

struct move {
    images of;
    __device__ void operator()(int64_t i) const
    {
        const iso_warp_attrs &attrs = of.attrs;
        const int64_t k = i % of.c, pixel = i / of.c, q = pixel % attrs.size[1];
        const int64_t p = pixel / attrs.size[1] % attrs.size[0], n = pixel / attrs.size[1] / attrs.size[0];
        const iso_warp_taps taps = of.place(n, p, q);
        double sum = 0;
        for (int j = 0; j < 4; j++)
            if (taps.share[j] != 0)
                sum +=
                    taps.share[j] * (taps.pixel[j] < 0 ? attrs.fill_value
                                                       : of.x.get<double>(of.element(n, taps.pixel[j], k)));
        of.y.put(i, sum);
    }
};

/* A thread has a channel of an image, and adds its pixels one after the other: their order is fixed. */
struct spread {
    images of;
    __device__ void operator()(int64_t i) const
    {
        const iso_warp_attrs &attrs = of.attrs;
        const int64_t k = i % of.c, n = i / of.c;
        for (int64_t pixel = 0; pixel < attrs.from[0] * attrs.from[1]; pixel++)
            of.x.put(of.element(n, pixel, k), 0.0);
        for (int64_t pixel = 0; pixel < attrs.size[0] * attrs.size[1]; pixel++)
            add(n, k, pixel);
    }
    __device__ void add(int64_t n, int64_t k, int64_t pixel) const
    {
        const iso_warp_attrs &attrs = of.attrs;
        const iso_warp_taps taps = of.place(n, pixel / attrs.size[1], pixel % attrs.size[1]);
        const double dy = of.y.get<double>((n * attrs.size[0] * attrs.size[1] + pixel) * of.c + k);
        for (int j = 0; j < 4; j++)
            if (taps.share[j] != 0 && taps.pixel[j] >= 0) {
                const int64_t at = of.element(n, taps.pixel[j], k);
                of.x.put(at, of.x.get<double>(at) + taps.share[j] * dy);
            }
    }
};

images images_of(const iso_kernel_call *call, const iso_array &x, const iso_array &maps, const iso_array &y)
{
    return {*static_cast<const iso_warp_attrs *>(call->attrs), reals_of(x), reals_of(maps), reals_of(y),
            y.dim[3]};
}

void run_warp(const iso_kernel_call *call)
{
    const iso_array &y = call->out[0];
    for_each(call->stream, iso_array_count(&y), move{images_of(call, call->in[0], call->in[1], y)});
}

void run_warp_gradient(const iso_kernel_call *call)
{
    const iso_array &dx = call->out[0];
    for_each(call->stream, dx.dim[0] * dx.dim[3], spread{images_of(call, dx, call->in[0], call->in[1])});
}

struct draw {
    iso_uniform_attrs attrs;
    const iso_step_info *info;
    iso_array array;
    reals y;
    __device__ void operator()(int64_t i) const
    {
        const uint64_t index = iso_index_global(&array, i);
        y.put(i, iso_uniform_number(&attrs, iso_random_word(attrs.key, info->step, index)));
    }
};

void run_uniform(const iso_kernel_call *call)
{
    const iso_array &y = call->out[0];
    for_each(call->stream, iso_array_count(&y),
             draw{*static_cast<const iso_uniform_attrs *>(call->attrs), call->info, y, reals_of(y)});
}

} // namespace

ISO_CUDA_KERNEL(warp, run_warp, false)
ISO_CUDA_KERNEL(warp_grad, run_warp_gradient, false)
ISO_CUDA_KERNEL(uniform, run_uniform, true)
