/* Rotary positions; see functions.h. Products and sums are rounded one by one, in every instruction set. */
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/vector.h"
#include "runtime/backend/cpu/vector_bf16.h"
#include "runtime/backend/rotary.h"

void ISO_SIMD(rotary_angles)(int64_t n, double position, const double *frequency, double *cosine,
                             double *sine)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        iso_turn turn = iso_turn_small(position * frequency[i]);
        cosine[i] = turn.cosine;
        sine[i] = turn.sine;
    }
    for (int64_t i = 0; i < n; i++)
        largest = fabs(position * frequency[i]) > largest ? fabs(position * frequency[i]) : largest;
    for (int64_t i = 0; i < n && largest >= ISO_SMALL_ANGLE; i++) {
        iso_turn turn = iso_turn_of(position * frequency[i]);
        cosine[i] = turn.cosine;
        sine[i] = turn.sine;
    }
}

void ISO_SIMD(rotary_f32)(int64_t rows, int64_t features, int64_t pairs, const float *cosine,
                          const float *sine, const float *x, float *y)
{
    for (int64_t row = 0; row < rows; row++, x += features, y += features)
        for (int64_t i = 0; i < pairs; i += VL) {
            const int64_t n = pairs - i, other = i + features / 2;
            vf c = vf_get(cosine + i, n), s = vf_get(sine + i, n);
            vf a = vf_get(x + i, n), b = vf_get(x + other, n);
            vf_put(y + i, a * c - b * s, n);
            vf_put(y + other, b * c + a * s, n);
        }
}

void ISO_SIMD(rotary_bf16)(int64_t rows, int64_t features, int64_t pairs, const float *cosine,
                           const float *sine, const uint16_t *x, uint16_t *y)
{
    for (int64_t row = 0; row < rows; row++, x += features, y += features)
        for (int64_t i = 0; i < pairs; i += VL) {
            const int64_t n = pairs - i, other = i + features / 2;
            vf c = vf_get(cosine + i, n), s = vf_get(sine + i, n);
            vf a = vf_get_bf16(x + i, n), b = vf_get_bf16(x + other, n);
            vf_put_bf16(y + i, a * c - b * s, n);
            vf_put_bf16(y + other, b * c + a * s, n);
        }
}

void ISO_SIMD(rotary_f64)(int64_t rows, int64_t features, int64_t pairs, const double *cosine,
                          const double *sine, const double *x, double *y)
{
    for (int64_t row = 0; row < rows; row++, x += features, y += features)
        for (int64_t i = 0; i < pairs; i++) {
            const double a = x[i], b = x[i + features / 2];
            y[i] = a * cosine[i] - b * sine[i];
            y[i + features / 2] = b * cosine[i] + a * sine[i];
        }
}
