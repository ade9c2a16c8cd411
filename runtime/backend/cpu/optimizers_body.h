/* The update rules of the optimizers in float32, one pass over memory each. The files of graph/optimizers
 * give the formulas and say what slots and hyper hold. The update of an element depends on its own numbers
 * alone, so an update may be split anywhere. */
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/vector.h"
#include "runtime/graph/optimizers/rule.h"

/* hyper[] as vectors; absent slots are NULL. */
typedef struct settings {
    vf rate, decay, own[6], rest;
    float *slot[3];
} settings;

INLINE settings settings_of(const double *hyper)
{
    settings s = {.rate = vf_set((float)hyper[ISO_HYPER_RATE]),
                  .decay = vf_set((float)hyper[ISO_HYPER_DECAY])};
    for (int i = 0; i < 6; i++)
        s.own[i] = vf_set((float)hyper[ISO_HYPER_OWN + i]);
    s.rest = vf_set((float)(1 - hyper[ISO_HYPER_OWN]));
    return s;
}

/* ---- one vector at element i, with n valid elements ---- */
INLINE void sgd_vector(const settings *s, bool nesterov, float *w, const float *g, int64_t i, int64_t n)
{
    vf step = -(vf_get(g + i, n) * s->rate), x = vf_get(w + i, n);
    x = vf_fnma(x, s->decay, x);
    if (s->slot[0]) {
        vf m = vf_fma(vf_get(s->slot[0] + i, n), s->own[0], step);
        vf_put(s->slot[0] + i, m, n);
        step = nesterov ? vf_fma(m, s->own[0], step) : m;
    }
    vf_put(w + i, x + step, n);
}

INLINE void rmsprop_vector(const settings *s, float *w, const float *g, int64_t i, int64_t n)
{
    vf slope = vf_get(g + i, n), x = vf_get(w + i, n);
    vf v = vf_fma(s->own[0], vf_get(s->slot[0] + i, n), s->rest * (slope * slope)), below = v;
    vf_put(s->slot[0] + i, v, n);
    if (s->slot[2]) {
        vf a = vf_fma(s->own[0], vf_get(s->slot[2] + i, n), s->rest * slope);
        vf_put(s->slot[2] + i, a, n);
        below = vf_fnma(a, a, below);
    }
    vf step = s->rate * slope * vf_rsqrt(below + s->own[2]);
    if (s->slot[1]) {
        step = vf_fma(s->own[1], vf_get(s->slot[1] + i, n), step);
        vf_put(s->slot[1] + i, step, n);
    }
    vf_put(w + i, vf_fnma(x, s->decay, x) - step, n);
}

INLINE void adam_vector(const settings *s, float *w, const float *g, int64_t i, int64_t n)
{
    vf slope = vf_get(g + i, n), x = vf_get(w + i, n), m = vf_get(s->slot[0] + i, n),
       v = vf_get(s->slot[1] + i, n);
    m = vf_fma(slope - m, s->own[0], m);
    v = vf_fma(vf_fma(slope, slope, -v), s->own[1], v);
    vf_put(s->slot[0] + i, m, n);
    vf_put(s->slot[1] + i, v, n);
    if (s->slot[2]) {
        v = vf_max(vf_get(s->slot[2] + i, n), v);
        vf_put(s->slot[2] + i, v, n);
    }
    vf step = vf_quotient(m * s->rate, vf_quick_sqrt(v) + s->own[2]);
    vf_put(w + i, vf_fnma(x, s->decay, x) - step, n);
}

INLINE void adagrad_vector(const settings *s, float *w, const float *g, int64_t i, int64_t n)
{
    vf slope = vf_get(g + i, n), x = vf_get(w + i, n);
    vf a = vf_fma(slope, slope, vf_get(s->slot[0] + i, n));
    vf_put(s->slot[0] + i, a, n);
    vf_put(w + i, vf_fnma(x, s->decay, x) - s->rate * slope * vf_rsqrt(a + s->own[1]), n);
}

INLINE void nadam_vector(const settings *s, float *w, const float *g, int64_t i, int64_t n)
{
    vf slope = vf_get(g + i, n), x = vf_get(w + i, n), m = vf_get(s->slot[0] + i, n),
       v = vf_get(s->slot[1] + i, n);
    m = vf_fma(slope - m, s->own[0], m);
    v = vf_fma(vf_fma(slope, slope, -v), s->own[1], v);
    vf_put(s->slot[0] + i, m, n);
    vf_put(s->slot[1] + i, v, n);
    vf sum = vf_fma(m, s->own[3], slope * s->own[4]);
    vf step = vf_quotient(sum * s->rate, vf_quick_sqrt(v * s->own[5]) + s->own[2]);
    vf_put(w + i, vf_fnma(x, s->decay, x) - step, n);
}

/* The sum is rounded as in the reference kernel, because it must have the same sign. NaN gives NaN. */
INLINE void lion_vector(const settings *s, float *w, const float *g, int64_t i, int64_t n)
{
    vf slope = vf_get(g + i, n), x = vf_get(w + i, n), m = vf_get(s->slot[0] + i, n);
    vf sum = m * s->own[0] + slope * s->own[2];
    vf step = vf_select(vf_gt(vf_zero(), sum), -s->rate, sum);
    step = vf_select(vf_gt(sum, vf_zero()), s->rate, step);
    vf_put(s->slot[0] + i, m * s->own[1] + slope * s->own[3], n);
    vf_put(w + i, vf_fnma(x, s->decay, x) - step, n);
}

INLINE void adamax_vector(const settings *s, float *w, const float *g, int64_t i, int64_t n)
{
    vf slope = vf_get(g + i, n), x = vf_get(w + i, n), m = vf_get(s->slot[0] + i, n);
    vf u = vf_max(vf_get(s->slot[1] + i, n) * s->own[1], vf_max(slope, -slope));
    m = vf_fma(slope - m, s->own[0], m);
    vf_put(s->slot[0] + i, m, n);
    vf_put(s->slot[1] + i, u, n);
    vf step = vf_quotient(m * s->rate, s->own[3] * (u + s->own[2]));
    vf_put(w + i, vf_fnma(x, s->decay, x) - step, n);
}

INLINE void adadelta_vector(const settings *s, float *w, const float *g, int64_t i, int64_t n)
{
    vf slope = vf_get(g + i, n), x = vf_get(w + i, n), d = vf_get(s->slot[1] + i, n);
    vf a = vf_fma(s->own[0], vf_get(s->slot[0] + i, n), s->rest * (slope * slope));
    vf step = vf_quick_sqrt(d + s->own[1]) * slope * vf_rsqrt(a + s->own[1]);
    vf_put(s->slot[0] + i, a, n);
    vf_put(s->slot[1] + i, vf_fma(s->own[0], d, s->rest * (step * step)), n);
    vf_put(w + i, vf_fnma(x, s->decay, x) - s->rate * step, n);
}

INLINE void average_vector(vf momentum, vf rest, bool overwrites, float *w, float *average, int64_t i,
                           int64_t n)
{
    vf a = vf_fma(momentum, vf_get(average + i, n), rest * vf_get(w + i, n));
    vf_put(average + i, a, n);
    if (overwrites)
        vf_put(w + i, a, n);
}

#define OVER_ALL(VECTOR)                                                                                     \
    do {                                                                                                     \
        unsigned before = flush_begin();                                                                     \
        int64_t i = 0;                                                                                       \
        for (; i + VL <= n; i += VL)                                                                         \
            VECTOR(VL);                                                                                      \
        if (i < n)                                                                                           \
            VECTOR(n - i);                                                                                   \
        flush_end(before);                                                                                   \
    } while (0)

/* Each rule has its own loop; the compiler moves the tests of `slot` out of it. */
void ISO_SIMD(sgd_f32)(int64_t n, void *w, void *const *slots, const void *g, const double *hyper)
{
    settings s = settings_of(hyper);
    bool nesterov = hyper[ISO_HYPER_OWN + 1] != 0;
    s.slot[0] = hyper[ISO_HYPER_OWN] != 0 ? slots[0] : NULL;
#define VECTOR(count) sgd_vector(&s, nesterov, w, g, i, count)
    OVER_ALL(VECTOR);
#undef VECTOR
}

void ISO_SIMD(rmsprop_f32)(int64_t n, void *w, void *const *slots, const void *g, const double *hyper)
{
    settings s = settings_of(hyper);
    int count = 0;
    s.slot[0] = slots[count++];
    s.slot[1] = hyper[ISO_HYPER_OWN + 1] > 0 ? slots[count++] : NULL;
    s.slot[2] = hyper[ISO_HYPER_OWN + 3] != 0 ? slots[count] : NULL;
#define VECTOR(count) rmsprop_vector(&s, w, g, i, count)
    OVER_ALL(VECTOR);
#undef VECTOR
}

void ISO_SIMD(adam_f32)(int64_t n, void *w, void *const *slots, const void *g, const double *hyper)
{
    settings s = settings_of(hyper);
    s.slot[0] = slots[0];
    s.slot[1] = slots[1];
    s.slot[2] = hyper[ISO_HYPER_OWN + 3] != 0 ? slots[2] : NULL;
#define VECTOR(count) adam_vector(&s, w, g, i, count)
    OVER_ALL(VECTOR);
#undef VECTOR
}

void ISO_SIMD(adagrad_f32)(int64_t n, void *w, void *const *slots, const void *g, const double *hyper)
{
    settings s = settings_of(hyper);
    s.slot[0] = slots[0];
#define VECTOR(count) adagrad_vector(&s, w, g, i, count)
    OVER_ALL(VECTOR);
#undef VECTOR
}

void ISO_SIMD(nadam_f32)(int64_t n, void *w, void *const *slots, const void *g, const double *hyper)
{
    settings s = settings_of(hyper);
    s.slot[0] = slots[0];
    s.slot[1] = slots[1];
#define VECTOR(count) nadam_vector(&s, w, g, i, count)
    OVER_ALL(VECTOR);
#undef VECTOR
}

void ISO_SIMD(lion_f32)(int64_t n, void *w, void *const *slots, const void *g, const double *hyper)
{
    settings s = settings_of(hyper);
    s.slot[0] = slots[0];
#define VECTOR(count) lion_vector(&s, w, g, i, count)
    OVER_ALL(VECTOR);
#undef VECTOR
}

void ISO_SIMD(adamax_f32)(int64_t n, void *w, void *const *slots, const void *g, const double *hyper)
{
    settings s = settings_of(hyper);
    s.slot[0] = slots[0];
    s.slot[1] = slots[1];
#define VECTOR(count) adamax_vector(&s, w, g, i, count)
    OVER_ALL(VECTOR);
#undef VECTOR
}

void ISO_SIMD(adadelta_f32)(int64_t n, void *w, void *const *slots, const void *g, const double *hyper)
{
    settings s = settings_of(hyper);
    s.slot[0] = slots[0];
    s.slot[1] = slots[1];
#define VECTOR(count) adadelta_vector(&s, w, g, i, count)
    OVER_ALL(VECTOR);
#undef VECTOR
}

void ISO_SIMD(average_f32)(int64_t n, void *w, void *const *slots, const void *g, const double *hyper)
{
    float momentum = (float)hyper[ISO_HYPER_MOMENTUM];
    vf kept = vf_set(momentum), rest = vf_set(1 - momentum);
    bool overwrites = hyper[ISO_HYPER_OVERWRITE] != 0;
    (void)g;
#define VECTOR(count) average_vector(kept, rest, overwrites, w, slots[0], i, count)
    OVER_ALL(VECTOR);
#undef VECTOR
}
