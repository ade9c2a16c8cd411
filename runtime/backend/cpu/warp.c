/* The kernels of moved images in float32: the place of a pixel serves all its channels. */
#include <string.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/warp.h"

static bool warp_fits(const iso_kernel_call *call)
{
    return iso_cpu_has_type(call, ISO_F32);
}

static void get_map(const iso_array *maps, int64_t image, double map[6])
{
    for (int i = 0; i < 6; i++)
        map[i] = ((const float *)maps->data)[image * 6 + i];
}

/* y [c] += share * x [c] */
static inline void add_share(int64_t c, float share, const float *x, float *y)
{
    for (int64_t k = 0; k < c; k++)
        y[k] += share * x[k];
}

static inline void warp_pixel(const iso_warp_attrs *attrs, const iso_warp_taps *taps, int64_t c,
                              const float *x, float *y)
{
    memset(y, 0, (size_t)c * sizeof *y);
    for (int i = 0; i < 4; i++) {
        const float share = (float)taps->share[i];
        if (share == 0)
            continue;
        if (taps->pixel[i] >= 0)
            add_share(c, share, x + taps->pixel[i] * c, y);
        else
            for (int64_t k = 0; k < c; k++)
                y[k] += share * (float)attrs->fill_value;
    }
}

static void warp_run(const iso_kernel_call *call)
{
    const iso_warp_attrs *attrs = call->attrs;
    const iso_array *y = &call->out[0];
    const int64_t c = y->dim[3], image = attrs->from[0] * attrs->from[1] * c;
    const float *x = call->in[0].data;
    float *to = y->data;
    double map[6];
    for (int64_t n = 0; n < y->dim[0]; n++, x += image) {
        get_map(&call->in[1], n, map);
        for (int64_t p = 0; p < y->dim[1]; p++)
            for (int64_t q = 0; q < y->dim[2]; q++, to += c) {
                const iso_warp_taps taps = iso_warp_taps_of(attrs, map, p, q);
                warp_pixel(attrs, &taps, c, x, to);
            }
    }
}

static inline void spread_pixel(const iso_warp_taps *taps, int64_t c, const float *dy, float *dx)
{
    for (int i = 0; i < 4; i++)
        if (taps->share[i] != 0 && taps->pixel[i] >= 0)
            add_share(c, (float)taps->share[i], dy, dx + taps->pixel[i] * c);
}

static void warp_run_gradient(const iso_kernel_call *call)
{
    const iso_warp_attrs *attrs = call->attrs;
    const iso_array *dy = &call->in[1];
    const int64_t c = dy->dim[3], image = attrs->from[0] * attrs->from[1] * c;
    const float *from = dy->data;
    float *dx = call->out[0].data;
    double map[6];
    memset(dx, 0, (size_t)iso_array_count(&call->out[0]) * sizeof *dx);
    for (int64_t n = 0; n < dy->dim[0]; n++, dx += image) {
        get_map(&call->in[0], n, map);
        for (int64_t p = 0; p < dy->dim[1]; p++)
            for (int64_t q = 0; q < dy->dim[2]; q++, from += c) {
                const iso_warp_taps taps = iso_warp_taps_of(attrs, map, p, q);
                spread_pixel(&taps, c, from, dx);
            }
    }
}

const iso_kernel iso_cpu_warp = {
    .op = "warp", .name = "pixels", .fits = warp_fits, .run = warp_run, .by_rows = true};
const iso_kernel iso_cpu_warp_grad = {
    .op = "warp_grad", .name = "pixels", .fits = warp_fits, .run = warp_run_gradient, .by_rows = true};
