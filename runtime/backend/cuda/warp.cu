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
        const int64_t pixel = quotient_of(i, of.c), k = i - pixel * of.c;
        const int64_t line = quotient_of(pixel, attrs.size[1]), q = pixel - line * attrs.size[1];
        const int64_t n = quotient_of(line, attrs.size[0]), p = line - n * attrs.size[0];
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

enum { CHANNELS = 4 /* of a block */ };

/* Channels begin to end - 1 of an image. */
struct channels {
    images of;
    int64_t n, begin, end;
    __device__ void clear(int64_t pixel) const
    {
        for (int64_t k = begin; k < end; k++)
            of.x.put(of.element(n, pixel, k), 0.0);
    }
    /* Adds a share of a pixel of y, whose first element is number `from`. */
    __device__ void add(int64_t pixel, double share, int64_t from) const
    {
        for (int64_t k = begin; k < end; k++) {
            const int64_t at = of.element(n, pixel, k);
            of.x.put(at, of.x.get<double>(at) + share * of.y.get<double>(from + k));
        }
    }
};

/* A block has an image and a few of its channels. A thread has the pixels of dx whose number is its own, modulo the
 * threads: all threads look at where the pixels of y go, in order, and add what is theirs. */
__global__ void __launch_bounds__(BLOCK) spread(images of, int64_t groups)
{
    __shared__ iso_warp_taps taps[BLOCK];
    const int own = static_cast<int>(threadIdx.x);
    const int64_t n = blockIdx.x / groups, begin = blockIdx.x % groups * CHANNELS;
    const channels to = {of, n, begin, begin + CHANNELS < of.c ? begin + CHANNELS : of.c};
    const int64_t pixels_of_x = of.attrs.from[0] * of.attrs.from[1], width = of.attrs.size[1],
                  pixels = of.attrs.size[0] * width;
    for (int64_t pixel = own; pixel < pixels_of_x; pixel += BLOCK)
        to.clear(pixel);
    for (int64_t first = 0; first < pixels; first += BLOCK) {
        const int64_t pixel = first + own, row = quotient_of(pixel, width);
        const int count = pixels - first < BLOCK ? static_cast<int>(pixels - first) : static_cast<int>(BLOCK);
        if (own < count)
            taps[own] = of.place(n, row, pixel - row * width);
        __syncthreads();
        for (int i = 0; i < 4 * count; i++) {
            const int64_t at = taps[i / 4].pixel[i % 4];
            const double share = taps[i / 4].share[i % 4];
            if (at >= 0 && at % BLOCK == own && share != 0)
                to.add(at, share, (n * pixels + first + i / 4) * of.c);
        }
        __syncthreads();
    }
}

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
    const int64_t groups = ceil_of(dx.dim[3], CHANNELS);
    launch(spread, static_cast<unsigned>(dx.dim[0] * groups), BLOCK, 0, iso_cuda_stream_of(call->stream),
           images_of(call, dx, call->in[0], call->in[1]), groups);
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
