/* Convolutions of each channel by itself, over vectors of channels; see functions.h. */
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/vector.h"

/* The taps that connect an element of x or y along one dimension with elements of the other, and which
 * ones. */
typedef struct overlap {
    int count;
    int64_t tap[ISO_DEPTHWISE_TAPS], at[ISO_DEPTHWISE_TAPS];
} overlap;

/* For an output position: the elements of x. */
INLINE void overlap_elements(const iso_depthwise *d, int i, int64_t position, overlap *m)
{
    m->count = 0;
    for (int64_t tap = 0; tap < d->taps[i]; tap++) {
        int64_t at = position * d->stride[i] - d->pad[i] + tap * d->dilation[i];
        if (at >= 0 && at < d->in[i]) {
            m->tap[m->count] = tap;
            m->at[m->count++] = at;
        }
    }
}

/* For an element of x: the output positions. */
INLINE void overlap_positions(const iso_depthwise *d, int i, int64_t element, overlap *m)
{
    m->count = 0;
    for (int64_t tap = 0; tap < d->taps[i]; tap++) {
        int64_t shift = element + d->pad[i] - tap * d->dilation[i];
        if (shift >= 0 && shift % d->stride[i] == 0 && shift / d->stride[i] < d->out[i]) {
            m->tap[m->count] = tap;
            m->at[m->count++] = shift / d->stride[i];
        }
    }
}

/* The sum, over pairs of taps in `rows` and `columns`, of kernel times `from`, for n channels beginning at
 * the pointers. Rows of `from` have `width` elements of c channels. */
INLINE vf gather(const iso_depthwise *d, const overlap *rows, const overlap *columns, int64_t width,
                 const float *from, const float *kernel, int64_t n)
{
    vf sum = vf_set(0);
    for (int i = 0; i < rows->count; i++) {
        const float *row = from + rows->at[i] * width * d->c,
                    *taps = kernel + rows->tap[i] * d->taps[1] * d->c;
        for (int j = 0; j < columns->count; j++)
            sum =
                vf_fma(vf_get(row + columns->at[j] * d->c, n), vf_get(taps + columns->tap[j] * d->c, n), sum);
    }
    return sum;
}

void ISO_SIMD(depthwise_f32)(const iso_depthwise *d, const float *x, const float *kernel, float *y)
{
    overlap rows, columns;
    for (int64_t p = 0; p < d->out[0]; p++) {
        overlap_elements(d, 0, p, &rows);
        for (int64_t q = 0; q < d->out[1]; q++, y += d->c) {
            overlap_elements(d, 1, q, &columns);
            for (int64_t c = 0; c < d->c; c += VL)
                vf_put(y + c, gather(d, &rows, &columns, d->in[1], x + c, kernel + c, d->c - c), d->c - c);
        }
    }
}

void ISO_SIMD(depthwise_grad_input_f32)(const iso_depthwise *d, const float *kernel, const float *dy,
                                        float *dx)
{
    overlap rows, columns;
    for (int64_t r = 0; r < d->in[0]; r++) {
        overlap_positions(d, 0, r, &rows);
        for (int64_t s = 0; s < d->in[1]; s++, dx += d->c) {
            overlap_positions(d, 1, s, &columns);
            for (int64_t c = 0; c < d->c; c += VL)
                vf_put(dx + c, gather(d, &rows, &columns, d->out[1], dy + c, kernel + c, d->c - c), d->c - c);
        }
    }
}

/* The output positions of a row for which a tap is inside x: [*first, *behind). */
INLINE void positions_of_tap(const iso_depthwise *d, int i, int64_t tap, int64_t *first, int64_t *past)
{
    int64_t before = d->pad[i] - tap * d->dilation[i],
            end = d->in[i] + before; /* position * stride >= before, < end */
    *first = before > 0 ? (before + d->stride[i] - 1) / d->stride[i] : 0;
    *past = end > 0 ? (end + d->stride[i] - 1) / d->stride[i] : 0;
    *past = *past < d->out[i] ? *past : d->out[i];
}

/* Sums the products of a row of x and a row of dy, in four sums, so that no addition waits for the previous
 * one. */
INLINE vf correlate(const float *x, const float *dy, int64_t count, int64_t x_step, int64_t dy_step,
                    int64_t n)
{
    vf sum[4] = {vf_set(0), vf_set(0), vf_set(0), vf_set(0)};
    int64_t q = 0;
    for (; q + 4 <= count; q += 4)
        for (int k = 0; k < 4; k++)
            sum[k] = vf_fma(vf_get(x + (q + k) * x_step, n), vf_get(dy + (q + k) * dy_step, n), sum[k]);
    for (; q < count; q++)
        sum[0] = vf_fma(vf_get(x + q * x_step, n), vf_get(dy + q * dy_step, n), sum[0]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

void ISO_SIMD(depthwise_grad_kernel_f32)(const iso_depthwise *d, int64_t begin, int64_t end, const float *x,
                                         const float *dy, float *dkernel)
{
    overlap rows;
    for (int64_t p = 0; p < d->out[0]; p++) {
        overlap_elements(d, 0, p, &rows);
        for (int i = 0; i < rows.count; i++)
            for (int64_t j = 0; j < d->taps[1]; j++) {
                int64_t first, past, column = -d->pad[1] + j * d->dilation[1];
                positions_of_tap(d, 1, j, &first, &past);
                const float *from = x + (rows.at[i] * d->in[1] + first * d->stride[1] + column) * d->c;
                const float *slope = dy + (p * d->out[1] + first) * d->c;
                float *to = dkernel + (rows.tap[i] * d->taps[1] + j) * d->c;
                for (int64_t c = begin; first < past && c < end; c += VL) {
                    vf sum = correlate(from + c, slope + c, past - first, d->stride[1] * d->c, d->c, end - c);
                    vf_put(to + c, vf_get(to + c, end - c) + sum, end - c);
                }
            }
    }
}
