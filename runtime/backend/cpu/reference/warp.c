/* Images moved by maps, pixel by pixel, and uniform numbers. */
#include "runtime/backend/warp.h"
#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/backend/index.h"

static void get_map(const iso_array *maps, int64_t image, double map[6])
{
    for (int i = 0; i < 6; i++)
        map[i] = iso_get(maps, image * 6 + i);
}

/* A pixel of y, whose first channel is element `to`, from image x, whose first element is `from`. */
static void warp_pixel(const iso_kernel_call *call, const iso_warp_taps *taps, int64_t from, int64_t to)
{
    const iso_warp_attrs *attrs = call->attrs;
    const int64_t c = iso_last_dim(&call->in[0]);
    for (int64_t k = 0; k < c; k++) {
        double sum = 0;
        for (int i = 0; i < 4; i++)
            if (taps->share[i] != 0)
                sum += taps->share[i] * (taps->pixel[i] < 0
                                             ? attrs->fill_value
                                             : iso_get(&call->in[0], from + taps->pixel[i] * c + k));
        iso_put(&call->out[0], to + k, sum);
    }
}

/* The same of a pixel of dy, whose shares are added to an image of dx. */
static void spread_pixel(const iso_kernel_call *call, const iso_warp_taps *taps, int64_t to, int64_t from)
{
    const iso_array *dx = &call->out[0];
    const int64_t c = iso_last_dim(dx);
    for (int64_t k = 0; k < c; k++)
        for (int i = 0; i < 4; i++)
            if (taps->share[i] != 0 && taps->pixel[i] >= 0) {
                const int64_t at = to + taps->pixel[i] * c + k;
                iso_put(dx, at, iso_get(dx, at) + taps->share[i] * iso_get(&call->in[1], from + k));
            }
}

typedef void visit(const iso_kernel_call *call, const iso_warp_taps *taps, int64_t large, int64_t small);

/* Calls `with` for each pixel of y [n, h', w', c], or dy, with where it comes from. */
static void for_pixels(const iso_kernel_call *call, const iso_array *maps, const iso_array *y, visit *with)
{
    const iso_warp_attrs *attrs = call->attrs;
    const int64_t c = y->dim[3], image = attrs->from[0] * attrs->from[1] * c;
    double map[6];
    for (int64_t n = 0, at = 0; n < y->dim[0]; n++) {
        get_map(maps, n, map);
        for (int64_t p = 0; p < y->dim[1]; p++)
            for (int64_t q = 0; q < y->dim[2]; q++, at += c) {
                const iso_warp_taps taps = iso_warp_taps_of(attrs, map, p, q);
                with(call, &taps, n * image, at);
            }
    }
}

static void ref_warp_run(const iso_kernel_call *call)
{
    for_pixels(call, &call->in[1], &call->out[0], warp_pixel);
}

static void ref_warp_run_gradient(const iso_kernel_call *call)
{
    iso_put_zeros(&call->out[0]);
    for_pixels(call, &call->in[0], &call->in[1], spread_pixel);
}

const iso_kernel iso_reference_warp = {.op = "warp", .name = "reference", .run = ref_warp_run};
const iso_kernel iso_reference_warp_grad = {
    .op = "warp_grad", .name = "reference", .run = ref_warp_run_gradient};

static void ref_uniform_run(const iso_kernel_call *call)
{
    const iso_uniform_attrs *attrs = call->attrs;
    const iso_array *y = &call->out[0];
    for (int64_t i = 0; i < iso_array_count(y); i++)
        iso_put(
            y, i,
            iso_uniform_number(attrs, iso_random_word(attrs->key, call->info->step, iso_index_global(y, i))));
}

const iso_kernel iso_reference_uniform = {
    .op = "uniform", .name = "reference", .run = ref_uniform_run, .in_place = true};
