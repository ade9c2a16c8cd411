/* Rows of the cells of recurrences; see cells.h. The formulas are those of graph.h. */
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/math.h"

INLINE vf cell_activate(iso_cell_activation kind, vf x)
{
    const vf zero = vf_zero(), one = vf_set(1);
    switch (kind) {
    case ISO_CELL_TANH:
        return vf_tanh(x);
    case ISO_CELL_SIGMOID:
        return vf_sigmoid(x);
    case ISO_CELL_HARD_SIGMOID: /* a NaN in the second operand stays */
        return vf_min(one, vf_max(zero, x * (1.0f / 6) + 0.5f));
    case ISO_CELL_RELU:
        return vf_max(zero, x);
    default:
        return x;
    }
}

/* The gradient before the function, from that after it and the value y. */
INLINE vf cell_through(iso_cell_activation kind, vf y, vf dy)
{
    const vf zero = vf_zero();
    switch (kind) {
    case ISO_CELL_TANH:
        return dy * (1.0f - y * y);
    case ISO_CELL_SIGMOID:
        return dy * (y * (1.0f - y));
    case ISO_CELL_HARD_SIGMOID:
        return vf_select(vf_gt(y, zero), vf_select(vf_gt(vf_set(1), y), dy * (1.0f / 6), zero), zero);
    case ISO_CELL_RELU:
        return vf_select(vf_gt(y, zero), dy, zero);
    default:
        return dy;
    }
}

void ISO_SIMD(lstm_row_f32)(const iso_cell_row *row)
{
    const int64_t u = row->units;
    for (int64_t j = 0; j < u; j += VL) {
        const int64_t n = u - j;
        vf gate[4];
        for (int k = 0; k < 4; k++) {
            vf z = vf_get(row->x + k * u + j, n) + vf_get(row->r + k * u + j, n);
            gate[k] = cell_activate(k == 2 ? row->activation : row->recurrent, z);
            vf_put(row->gates + k * u + j, gate[k], n);
        }
        vf c = vf_fma(gate[1], vf_get(row->c_before + j, n), gate[0] * gate[2]);
        vf_put(row->c + j, c, n);
        vf_put(row->h + j, gate[3] * cell_activate(row->activation, c), n);
    }
}

void ISO_SIMD(lstm_row_grad_f32)(const iso_cell_row_grad *row)
{
    const int64_t u = row->units;
    for (int64_t j = 0; j < u; j += VL) {
        const int64_t n = u - j;
        vf i = vf_get(row->gates + j, n), f = vf_get(row->gates + u + j, n),
           g = vf_get(row->gates + 2 * u + j, n), o = vf_get(row->gates + 3 * u + j, n);
        vf shown = cell_activate(row->activation, vf_get(row->c + j, n));
        vf dh = vf_get(row->dh + j, n) + vf_get(row->carried_h + j, n);
        vf dc = vf_get(row->dc + j, n) + vf_get(row->carried_c + j, n) +
                cell_through(row->activation, shown, dh * o);
        vf_put(row->dx + j, cell_through(row->recurrent, i, dc * g), n);
        vf_put(row->dx + u + j, cell_through(row->recurrent, f, dc * vf_get(row->c_before + j, n)), n);
        vf_put(row->dx + 2 * u + j, cell_through(row->activation, g, dc * i), n);
        vf_put(row->dx + 3 * u + j, cell_through(row->recurrent, o, dh * shown), n);
        vf_put(row->carried_c + j, dc * f, n);
    }
}

void ISO_SIMD(gru_row_f32)(const iso_cell_row *row)
{
    const int64_t u = row->units;
    for (int64_t j = 0; j < u; j += VL) {
        const int64_t left = u - j;
        vf rn = vf_get(row->r + 2 * u + j, left);
        vf z = cell_activate(row->recurrent, vf_get(row->x + j, left) + vf_get(row->r + j, left));
        vf q = cell_activate(row->recurrent, vf_get(row->x + u + j, left) + vf_get(row->r + u + j, left));
        vf n = cell_activate(row->activation, vf_fma(q, rn, vf_get(row->x + 2 * u + j, left)));
        const vf saved[] = {z, q, n, rn};
        for (int k = 0; k < 4; k++)
            vf_put(row->gates + k * u + j, saved[k], left);
        vf_put(row->h + j, vf_fma(z, vf_get(row->h_before + j, left), (1.0f - z) * n), left);
    }
}

void ISO_SIMD(gru_row_grad_f32)(const iso_cell_row_grad *row)
{
    const int64_t u = row->units;
    for (int64_t j = 0; j < u; j += VL) {
        const int64_t left = u - j;
        vf z = vf_get(row->gates + j, left), q = vf_get(row->gates + u + j, left),
           n = vf_get(row->gates + 2 * u + j, left), rn = vf_get(row->gates + 3 * u + j, left);
        vf dh = vf_get(row->dh + j, left) + vf_get(row->carried_h + j, left);
        vf dn = cell_through(row->activation, n, dh * (1.0f - z));
        vf dz = cell_through(row->recurrent, z, dh * (vf_get(row->h_before + j, left) - n));
        vf dq = cell_through(row->recurrent, q, dn * rn);
        const vf dx[] = {dz, dq, dn}, dr[] = {dz, dq, dn * q};
        for (int k = 0; k < 3; k++) {
            vf_put(row->dx + k * u + j, dx[k], left);
            vf_put(row->dr + k * u + j, dr[k], left);
        }
        vf_put(row->carried_h + j, dh * z, left);
    }
}

void ISO_SIMD(simple_row_f32)(const iso_cell_row *row)
{
    for (int64_t j = 0; j < row->units; j += VL) {
        const int64_t n = row->units - j;
        vf_put(row->h + j, cell_activate(row->activation, vf_get(row->x + j, n) + vf_get(row->r + j, n)), n);
    }
}

void ISO_SIMD(simple_row_grad_f32)(const iso_cell_row_grad *row)
{
    for (int64_t j = 0; j < row->units; j += VL) {
        const int64_t n = row->units - j;
        vf dh = vf_get(row->dh + j, n) + vf_get(row->carried_h + j, n);
        vf_put(row->dx + j, cell_through(row->activation, vf_get(row->h + j, n), dh), n);
    }
}
