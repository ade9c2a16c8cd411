/* Kernels of windows along a dimension and of their sums. A slice of x, [inner, c], is a slice of several windows. */
#include <string.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/windows.h"

enum { RUN = 16 /* bytes that are copied at once */ };

/* `count` runs of `bytes`, which begin so many bytes apart; from NULL: zeros. */
static void unfold_copy(int64_t count, size_t bytes, const char *from, size_t from_step, char *to,
                        size_t to_step)
{
    for (int64_t i = 0; i < count; i++, to += to_step) {
        size_t k = 0;
        if (!from) {
            memset(to, 0, bytes);
            continue;
        }
        for (; k + RUN <= bytes; k += RUN)
            memcpy(to + k, from + k, RUN);
        for (; k + sizeof(uint16_t) <= bytes; k += sizeof(uint16_t))
            memcpy(to + k, from + k, sizeof(uint16_t));
        from += from_step;
    }
}

void iso_cpu_unfold_windows(const iso_unfolding *u, size_t bytes, int64_t first, int64_t count, const void *x,
                            void *y)
{
    const size_t run = (size_t)u->c * bytes, slice = (size_t)u->inner * run;
    char *to = y;
    for (int64_t position = first; position < first + count; position++, to += slice * (size_t)u->size)
        for (int64_t tap = 0; tap < u->size; tap++) {
            const int64_t at = iso_unfold_reads(u, position, tap);
            const char *from = at < 0 ? NULL : (const char *)x + (size_t)at * slice;
            unfold_copy(u->inner, run, from, run, to + (size_t)tap * run, (size_t)u->size * run);
        }
}

static void unfold_run(const iso_kernel_call *call)
{
    const iso_array *x = &call->in[0], *y = &call->out[0];
    const iso_unfolding u = iso_unfolding_of(call, x, y);
    const size_t bytes = iso_dtype_size(x->dtype), slice = (size_t)(u.inner * u.c) * bytes;
    const char *from = x->data;
    char *to = y->data;
    for (int64_t outer = 0; outer < u.outer; outer++) {
        iso_cpu_unfold_windows(&u, bytes, 0, u.positions, from, to);
        from += (size_t)u.d * slice;
        to += (size_t)(u.positions * u.size) * slice;
    }
}

static bool unfold_fits(const iso_kernel_call *call)
{
    return call->in[0].dtype == call->out[0].dtype;
}

/* The elements `tap` of a window, [inner, .., c] in rows of all its elements, are those of a slice of dx, or are
 * added to it. */
#define FOLD(T)                                                                                              \
    static void fold_add_##T(const iso_unfolding *u, const T *restrict dy, bool first, T *restrict dx)       \
    {                                                                                                        \
        for (int64_t i = 0; i < u->inner; i++, dx += u->c, dy += u->size * u->c)                             \
            if (first)                                                                                       \
                memcpy(dx, dy, (size_t)u->c * sizeof(T));                                                    \
            else                                                                                             \
                for (int64_t c = 0; c < u->c; c++)                                                           \
                    dx[c] += dy[c];                                                                          \
    }                                                                                                        \
    static void fold_slice_##T(const iso_unfolding *u, const T *dy, int64_t at, T *dx)                       \
    {                                                                                                        \
        bool first = true;                                                                                   \
        for (int64_t tap = 0; tap < u->size; tap++) {                                                        \
            const int64_t position = iso_unfold_read_by(u, at, tap);                                         \
            if (position < 0)                                                                                \
                continue;                                                                                    \
            fold_add_##T(u, dy + (position * u->inner * u->size + tap) * u->c, first, dx);                   \
            first = false;                                                                                   \
        }                                                                                                    \
        if (first)                                                                                           \
            memset(dx, 0, (size_t)(u->inner * u->c) * sizeof(T));                                            \
    }                                                                                                        \
    static void fold_##T(const iso_unfolding *u, const T *dy, T *dx)                                         \
    {                                                                                                        \
        const int64_t slice = u->inner * u->c;                                                               \
        for (int64_t outer = 0; outer < u->outer; outer++, dy += u->positions * u->size * slice)             \
            for (int64_t at = 0; at < u->d; at++, dx += slice)                                               \
                fold_slice_##T(u, dy, at, dx);                                                               \
    }
FOLD(float)
FOLD(double)

void iso_cpu_fold_windows(const iso_unfolding *u, int64_t first, int64_t count, const float *dy, float *dx)
{
    const int64_t row = u->size * u->c;
    for (int64_t position = first; position < first + count; position++, dy += u->inner * row)
        for (int64_t tap = 0; tap < u->size; tap++) {
            const int64_t at = iso_unfold_reads(u, position, tap);
            if (at >= 0)
                fold_add_float(u, dy + tap * u->c, false, dx + at * u->inner * u->c);
        }
}

static bool fold_fits(const iso_kernel_call *call)
{
    return iso_cpu_has_type(call, ISO_F32) || iso_cpu_has_type(call, ISO_F64);
}

static void fold_run(const iso_kernel_call *call)
{
    const iso_array *dy = &call->in[0], *dx = &call->out[0];
    const iso_unfolding u = iso_unfolding_of(call, dx, dy);
    if (dx->dtype == ISO_F32)
        fold_float(&u, dy->data, dx->data);
    else
        fold_double(&u, dy->data, dx->data);
}

const iso_kernel iso_cpu_unfold = {
    .op = "unfold", .name = "copy", .fits = unfold_fits, .run = unfold_run, .by_rows = true};
const iso_kernel iso_cpu_fold = {
    .op = "fold", .name = "add", .fits = fold_fits, .run = fold_run, .by_rows = true};
