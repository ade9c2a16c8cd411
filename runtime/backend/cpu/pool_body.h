/* Pools over vectors of channels; see functions.h. */
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/vector.h"

/* The part of a window inside x: rows [top, bottom), columns [left, right); the first element of its image in
 * x, and of its position in y. */
typedef struct window {
    int64_t top, bottom, left, right, image, position;
} window;

INLINE void clip(int64_t begin, int64_t size, int64_t extent, int64_t *low, int64_t *high)
{
    *low = begin > 0 ? begin : 0;
    *high = begin + size < extent ? begin + size : extent;
}

/* The i-th window of all, row by row, image by image. */
INLINE window window_at(const iso_pool2d *p, int64_t i)
{
    window w = {.position = i * p->c};
    int64_t positions = p->out[0] * p->out[1], row = i % positions / p->out[1], column = i % p->out[1];
    w.image = i / positions * p->in[0] * p->in[1] * p->c;
    clip(row * p->stride[0] - p->pad[0], p->size[0], p->in[0], &w.top, &w.bottom);
    clip(column * p->stride[1] - p->pad[1], p->size[1], p->in[1], &w.left, &w.right);
    return w;
}

INLINE int64_t windows_of(const iso_pool2d *p)
{
    return p->n * p->out[0] * p->out[1];
}

#define FOR_WINDOW(w, at)                                                                                    \
    for (int64_t row = (w).top; row < (w).bottom; row++)                                                     \
        for (int64_t column = (w).left, at = (w).image + (row * p->in[1] + column) * p->c;                   \
             column < (w).right; column++, at += p->c)

INLINE vf largest(const iso_pool2d *p, const window *w, const float *x, int64_t n)
{
    vf best = vf_get(x + w->image + (w->top * p->in[1] + w->left) * p->c, n);
    FOR_WINDOW(*w, at)
    {
        vf v = vf_get(x + at, n);
        best = vf_select(vf_gt(v, best), v, best);
        best = vf_select(vf_unordered(v, v), v, best);
    }
    return best;
}

void ISO_SIMD(max_pool_f32)(const iso_pool2d *p, const float *x, float *y)
{
    for (int64_t i = 0; i < windows_of(p); i++) {
        window w = window_at(p, i);
        for (int64_t c = 0; c < p->c; c += VL)
            vf_put(y + w.position + c, largest(p, &w, x + c, p->c - c), p->c - c);
    }
}

/* dy goes to the first element of the window that is not less than y. */
void ISO_SIMD(max_pool_grad_f32)(const iso_pool2d *p, const float *x, const float *y, const float *dy,
                                 float *dx)
{
    const vf zero = vf_zero();
    memset(dx, 0, (size_t)(p->n * p->in[0] * p->in[1] * p->c) * sizeof *dx);
    for (int64_t i = 0; i < windows_of(p); i++) {
        window w = window_at(p, i);
        for (int64_t c = 0; c < p->c; c += VL) {
            int64_t n = p->c - c;
            vf left = vf_get(dy + w.position + c, n), top = vf_get(y + w.position + c, n);
            FOR_WINDOW(w, at)
            {
                vm less = vf_gt(top, vf_get(x + at + c, n));
                vf_put(dx + at + c, vf_get(dx + at + c, n) + vf_select(less, zero, left), n);
                left = vf_select(less, left, zero);
            }
        }
    }
}

INLINE float part_of(const window *w)
{
    return 1 / (float)((w->bottom - w->top) * (w->right - w->left));
}

void ISO_SIMD(average_pool_f32)(const iso_pool2d *p, const float *x, float *y)
{
    for (int64_t i = 0; i < windows_of(p); i++) {
        window w = window_at(p, i);
        for (int64_t c = 0; c < p->c; c += VL) {
            vf sum = vf_zero();
            FOR_WINDOW(w, at)
            sum += vf_get(x + at + c, p->c - c);
            vf_put(y + w.position + c, sum * part_of(&w), p->c - c);
        }
    }
}

void ISO_SIMD(average_pool_grad_f32)(const iso_pool2d *p, const float *dy, float *dx)
{
    memset(dx, 0, (size_t)(p->n * p->in[0] * p->in[1] * p->c) * sizeof *dx);
    for (int64_t i = 0; i < windows_of(p); i++) {
        window w = window_at(p, i);
        for (int64_t c = 0; c < p->c; c += VL) {
            int64_t n = p->c - c;
            vf part = vf_get(dy + w.position + c, n) * part_of(&w);
            FOR_WINDOW(w, at)
            vf_put(dx + at + c, vf_get(dx + at + c, n) + part, n);
        }
    }
}
