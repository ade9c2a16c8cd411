/* Windows along a dimension, and their sums, by definition. */
#include "runtime/backend/unfold.h"
#include "runtime/backend/cpu/reference/floats.h"

static void ref_unfold_run(const iso_kernel_call *call)
{
    const iso_array *x = &call->in[0], *y = &call->out[0];
    const iso_unfolding u = iso_unfolding_of(call, x, y);
    int64_t to = 0;
    for (int64_t outer = 0; outer < u.outer; outer++)
        for (int64_t position = 0; position < u.positions; position++)
            for (int64_t inner = 0; inner < u.inner; inner++)
                for (int64_t tap = 0; tap < u.size; tap++) {
                    const int64_t at = iso_unfold_reads(&u, position, tap);
                    for (int64_t c = 0; c < u.c; c++, to++)
                        iso_put(y, to,
                                at < 0 ? 0 : iso_get(x, ((outer * u.d + at) * u.inner + inner) * u.c + c));
                }
}

static double ref_fold_sum(const iso_array *dy, const iso_unfolding *u, int64_t outer, int64_t at,
                           int64_t inner, int64_t c)
{
    double sum = 0;
    for (int64_t tap = 0; tap < u->size; tap++) {
        const int64_t position = iso_unfold_read_by(u, at, tap);
        if (position >= 0)
            sum += iso_get(
                dy, (((outer * u->positions + position) * u->inner + inner) * u->size + tap) * u->c + c);
    }
    return sum;
}

static void ref_fold_run(const iso_kernel_call *call)
{
    const iso_array *dy = &call->in[0], *dx = &call->out[0];
    const iso_unfolding u = iso_unfolding_of(call, dx, dy);
    int64_t to = 0;
    for (int64_t outer = 0; outer < u.outer; outer++)
        for (int64_t at = 0; at < u.d; at++)
            for (int64_t inner = 0; inner < u.inner; inner++)
                for (int64_t c = 0; c < u.c; c++, to++)
                    iso_put(dx, to, ref_fold_sum(dy, &u, outer, at, inner, c));
}

const iso_kernel iso_reference_unfold = {.op = "unfold", .name = "reference", .run = ref_unfold_run};
const iso_kernel iso_reference_fold = {.op = "fold", .name = "reference", .run = ref_fold_run};
