/* Cosine and sine for rotary positions, written once for the kernels of every backend, so that their bits are the
 * same on every machine. */
#ifndef ISO_BACKEND_ROTARY_H
#define ISO_BACKEND_ROTARY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "runtime/base/host_device.h"

typedef struct iso_turn {
    double cosine, sine;
} iso_turn;

/* Below this, pi / 2 in two parts is exact enough. */
#define ISO_SMALL_ANGLE 0x1p20

/* Of an angle whose amount is below ISO_SMALL_ANGLE, with an error of about 1e-16: the remainder of a quarter of a
 * turn in the polynomials of FreeBSD's k_sin.c and k_cos.c. Without branches, so that loops of it become vectors. */
ISO_HOST_DEVICE static inline iso_turn iso_turn_small(double angle)
{
    const double whole = 0x1.8p52; /* a sum with it is rounded to an integer, which its lowest bits are */
    const double shifted = angle * 6.36619772367581382433e-01 + whole, quarters = shifted - whole;
    const double r = (angle - quarters * 1.57079632673412561417e+00) - quarters * 6.07710050650619224932e-11;
    const double z = r * r, half = 0.5 * z, w = 1 - half;
    const double of_sine =
        -1.66666666666666324348e-01 +
        z * (8.33333333332248946124e-03 +
             z * (-1.98412698298579493134e-04 +
                  z * (2.75573137070700676789e-06 +
                       z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10))));
    const double of_cosine =
        4.16666666666666019037e-02 +
        z * (-1.38888888888741095749e-03 +
             z * (2.48015872894767294178e-05 +
                  z * (-2.75573143513906633035e-07 +
                       z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11))));
    const double s = r + r * z * of_sine, c = w + ((1 - w - half) + z * z * of_cosine);
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    const double x = bits & 1 ? s : c, y = bits & 1 ? c : s;
    iso_turn turn;
    turn.cosine = (bits + 1) & 2 ? -x : x;
    turn.sine = bits & 2 ? -y : y;
    return turn;
}

/* Of any angle. */
ISO_HOST_DEVICE static inline iso_turn iso_turn_of(double angle)
{
    if (fabs(angle) < ISO_SMALL_ANGLE)
        return iso_turn_small(angle);
    iso_turn turn;
    turn.cosine = cos(angle);
    turn.sine = sin(angle);
    return turn;
}

#endif
