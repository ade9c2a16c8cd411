/* Recurrences, unit by unit: forward, and backward through the same steps. */
#include <math.h>

#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/backend/recurrence.h"

static double activate(iso_cell_activation kind, double x)
{
    switch (kind) {
    case ISO_CELL_TANH:
        return tanh(x);
    case ISO_CELL_SIGMOID:
        return 1 / (1 + exp(-x));
    case ISO_CELL_HARD_SIGMOID:
        x = x / 6 + 0.5;
        return x < 0 ? 0 : x > 1 ? 1 : x;
    case ISO_CELL_RELU:
        return x < 0 ? 0 : x;
    default:
        return x;
    }
}

/* The slope where the function has the value y. */
static double slope(iso_cell_activation kind, double y)
{
    switch (kind) {
    case ISO_CELL_TANH:
        return 1 - y * y;
    case ISO_CELL_SIGMOID:
        return y * (1 - y);
    case ISO_CELL_HARD_SIGMOID:
        return y > 0 && y < 1 ? 1.0 / 6 : 0;
    case ISO_CELL_RELU:
        return y > 0;
    default:
        return 1;
    }
}

/* A step: its position in time, and that of the step before it in the order of the recurrence; -1: there is none. */
typedef struct step {
    const iso_recurrence *r;
    int64_t time, before;
} step;

static step step_of(const iso_recurrence *r, int64_t i)
{
    return (step){r, iso_recurrence_time(r, i), i > 0 ? iso_recurrence_time(r, i - 1) : -1};
}

/* Element j of a cell, which is a row if there are no images, at a time. */
static int64_t index_of(const iso_recurrence *r, const iso_array *array, int64_t row, int64_t time, int64_t j)
{
    return iso_recurrence_index(r->steps, r->pixels, row, time) * iso_last_dim(array) + j;
}

static double at(const step *s, const iso_array *array, int64_t row, int64_t j)
{
    return iso_get(array, index_of(s->r, array, row, s->time, j));
}

static void set(const step *s, const iso_array *array, int64_t row, int64_t j, double value)
{
    iso_put(array, index_of(s->r, array, row, s->time, j), value);
}

/* A state before the step. states: h or c; first: h0 or c0. */
static double before(const step *s, const iso_array *states, const iso_array *first, int64_t row, int64_t j)
{
    if (s->before >= 0)
        return iso_get(states, index_of(s->r, states, row, s->before, j));
    return first ? iso_get(first, row * s->r->units + j) : 0;
}

static double sigma(const step *s, double x)
{
    return activate(s->r->form.recurrent, x);
}
static double alpha(const step *s, double x)
{
    return activate(s->r->form.activation, x);
}
static double sigma_slope(const step *s, double y)
{
    return slope(s->r->form.recurrent, y);
}
static double alpha_slope(const step *s, double y)
{
    return slope(s->r->form.activation, y);
}

/* ---- forward: unit j of a row from what gate k has in x and in r ---- */

/* first: the row of the kernel at which the matrix begins by which the product of cell `to` multiplies the state of
 * cell `from`. */
typedef double visit(const step *s, int64_t from, int64_t to, int64_t first, int64_t j, void *user);

/* The sum of what `with` gives for each cell whose state a cell's product reads: the cell itself, or those under the
 * window. */
static double for_window(const step *s, int64_t row, int64_t j, visit *with, void *user)
{
    const iso_recurrence *r = s->r;
    double sum = 0;
    if (r->size[0] == 0)
        return with(s, row, row, 0, j, user);
    const iso_conv_geometry same = iso_recurrence_geometry(r->window);
    const int64_t image = row / r->pixels * r->pixels, y = row % r->pixels / r->size[1], x = row % r->size[1];
    for (int64_t a = 0; a < r->window[0]; a++)
        for (int64_t b = 0; b < r->window[1]; b++) {
            const int64_t p = y + a - same.pad_before[0], q = x + b - same.pad_before[1];
            if (p >= 0 && p < r->size[0] && q >= 0 && q < r->size[1])
                sum += with(s, image + p * r->size[1] + q, row, (a * r->window[1] + b) * r->units, j, user);
        }
    return sum;
}

static double product_of(const step *s, int64_t from, int64_t to, int64_t first, int64_t j, void *user)
{
    const iso_recurrence *r = s->r;
    double sum = 0;
    (void)to, (void)user;
    for (int64_t k = 0; k < r->units; k++)
        sum += before(s, r->h, r->h0, from, k) * iso_get(r->kernel, (first + k) * r->columns + j);
    return sum;
}

/* Column j of h' kernel + bias. */
static double recurrent(const step *s, int64_t row, int64_t j)
{
    const double product = for_window(s, row, j, product_of, NULL);
    return s->r->bias ? product + iso_get(s->r->bias, j) : product;
}

static void lstm_unit(const step *s, int64_t row, int64_t j)
{
    const iso_recurrence *r = s->r;
    double gate[4];
    for (int k = 0; k < 4; k++) {
        double z = at(s, r->x, row, k * r->units + j) + recurrent(s, row, k * r->units + j);
        gate[k] = k == 2 ? alpha(s, z) : sigma(s, z);
        set(s, r->gates, row, k * r->units + j, gate[k]);
    }
    double c = gate[1] * before(s, r->c, r->c0, row, j) + gate[0] * gate[2];
    set(s, r->c, row, j, c);
    set(s, r->h, row, j, gate[3] * alpha(s, c));
}

static void gru_unit(const step *s, int64_t row, int64_t j)
{
    const iso_recurrence *r = s->r;
    double x[3], y[3];
    for (int k = 0; k < 3; k++) {
        x[k] = at(s, r->x, row, k * r->units + j);
        y[k] = recurrent(s, row, k * r->units + j);
    }
    const double z = sigma(s, x[0] + y[0]), q = sigma(s, x[1] + y[1]), n = alpha(s, x[2] + q * y[2]);
    const double saved[] = {z, q, n, y[2]};
    for (int k = 0; k < 4; k++)
        set(s, r->gates, row, k * r->units + j, saved[k]);
    set(s, r->h, row, j, z * before(s, r->h, r->h0, row, j) + (1 - z) * n);
}

static void simple_unit(const step *s, int64_t row, int64_t j)
{
    const iso_recurrence *r = s->r;
    set(s, r->h, row, j, alpha(s, at(s, r->x, row, j) + recurrent(s, row, j)));
}

/* A step that the mask leaves out. */
static void skipped_unit(const step *s, int64_t row, int64_t j)
{
    const iso_recurrence *r = s->r;
    set(s, r->h, row, j, before(s, r->h, r->h0, row, j));
    if (r->c)
        set(s, r->c, row, j, before(s, r->c, r->c0, row, j));
    for (int k = 0; r->gates && k < 4; k++)
        set(s, r->gates, row, k * r->units + j, 0);
}

typedef void unit_function(const step *s, int64_t row, int64_t j);
static unit_function *const unit_functions[] = {
    [ISO_CELL_LSTM] = lstm_unit, [ISO_CELL_GRU] = gru_unit, [ISO_CELL_SIMPLE] = simple_unit};

static void ref_recurrence_run(const iso_kernel_call *call)
{
    const iso_recurrence r = iso_recurrence_of(call);
    for (int64_t i = 0; i < r.steps; i++) {
        const step s = step_of(&r, i);
        for (int64_t row = 0; row < iso_recurrence_cells(&r); row++) {
            unit_function *unit =
                iso_recurrence_skips(&r, row, s.time) ? skipped_unit : unit_functions[r.form.cell];
            for (int64_t j = 0; j < r.units; j++)
                unit(&s, row, j);
        }
    }
}

/* ---- gradient ----
 * carried [2, cells, units], in double: the gradients of h and c that the later steps gave. */

static double *carried_of(const iso_recurrence *r, double *carried, int which, int64_t row, int64_t j)
{
    return carried + (which * iso_recurrence_cells(r) + row) * r->units + j;
}

/* Puts the gradients of z = x + r of gate k. */
static void put_dz(const step *s, int64_t row, int64_t j, int k, double dz)
{
    set(s, s->r->dx, row, k * s->r->units + j, dz);
    if (s->r->dr)
        set(s, s->r->dr, row, k * s->r->units + j, dz);
}

static double saved_gate(const step *s, int64_t row, int64_t j, int k)
{
    return at(s, s->r->gates, row, k * s->r->units + j);
}

/* Each takes *dh, the gradient of h, and leaves in it what reaches h' without the product; *dc: of c, then of c'. */
static void lstm_unit_grad(const step *s, int64_t row, int64_t j, double *dh, double *dc)
{
    const iso_recurrence *r = s->r;
    const double i = saved_gate(s, row, j, 0), f = saved_gate(s, row, j, 1), g = saved_gate(s, row, j, 2),
                 o = saved_gate(s, row, j, 3), shown = alpha(s, at(s, r->c, row, j));
    double of_c = *dc + *dh * o * alpha_slope(s, shown);
    put_dz(s, row, j, 0, of_c * g * sigma_slope(s, i));
    put_dz(s, row, j, 1, of_c * before(s, r->c, r->c0, row, j) * sigma_slope(s, f));
    put_dz(s, row, j, 2, of_c * i * alpha_slope(s, g));
    put_dz(s, row, j, 3, *dh * shown * sigma_slope(s, o));
    *dc = of_c * f;
    *dh = 0;
}

static void gru_unit_grad(const step *s, int64_t row, int64_t j, double *dh, double *dc)
{
    const iso_recurrence *r = s->r;
    const double z = saved_gate(s, row, j, 0), q = saved_gate(s, row, j, 1), n = saved_gate(s, row, j, 2),
                 rn = saved_gate(s, row, j, 3);
    const double dn = *dh * (1 - z) * alpha_slope(s, n);
    (void)dc;
    put_dz(s, row, j, 0, *dh * (before(s, r->h, r->h0, row, j) - n) * sigma_slope(s, z));
    put_dz(s, row, j, 1, dn * rn * sigma_slope(s, q));
    put_dz(s, row, j, 2, dn);
    set(s, r->dr, row, 2 * r->units + j, dn * q);
    *dh *= z;
}

static void simple_unit_grad(const step *s, int64_t row, int64_t j, double *dh, double *dc)
{
    (void)dc;
    put_dz(s, row, j, 0, *dh * alpha_slope(s, at(s, s->r->h, row, j)));
    *dh = 0;
}

/* The gradients of the state are those of the state before the step. */
static void skipped_unit_grad(const step *s, int64_t row, int64_t j, double *dh, double *dc)
{
    (void)dh;
    (void)dc;
    for (int64_t k = 0; k < s->r->columns; k += s->r->units) {
        set(s, s->r->dx, row, k + j, 0);
        if (s->r->dr)
            set(s, s->r->dr, row, k + j, 0);
    }
}

typedef void unit_grad_function(const step *s, int64_t row, int64_t j, double *dh, double *dc);
static unit_grad_function *const unit_grad_functions[] = {
    [ISO_CELL_LSTM] = lstm_unit_grad, [ISO_CELL_GRU] = gru_unit_grad, [ISO_CELL_SIMPLE] = simple_unit_grad};

/* Adds what column j of dr of cell `to` gives the state of cell `from`. */
static double carry(const step *s, int64_t from, int64_t to, int64_t first, int64_t j, void *carried)
{
    const iso_recurrence *r = s->r;
    const double dr = at(s, r->dr ? r->dr : r->dx, to, j);
    for (int64_t k = 0; k < r->units; k++)
        *carried_of(r, carried, 0, from, k) += dr * iso_get(r->kernel, (first + k) * r->columns + j);
    return 0;
}

static void ref_step_grad(const step *s, double *carried)
{
    const iso_recurrence *r = s->r;
    const int64_t cells = iso_recurrence_cells(r);
    for (int64_t row = 0; row < cells; row++) {
        unit_grad_function *unit =
            iso_recurrence_skips(r, row, s->time) ? skipped_unit_grad : unit_grad_functions[r->form.cell];
        for (int64_t j = 0; j < r->units; j++) {
            double *dh = carried_of(r, carried, 0, row, j), *dc = carried_of(r, carried, 1, row, j);
            *dh += at(s, r->dh, row, j);
            *dc += r->dc ? at(s, r->dc, row, j) : 0;
            unit(s, row, j, dh, dc);
        }
    }
    for (int64_t row = 0; row < cells; row++)
        for (int64_t j = 0; j < r->columns; j++)
            for_window(s, row, j, carry, carried);
}

static size_t ref_recurrence_grad_scratch(const iso_kernel_call *call)
{
    const iso_recurrence r = iso_recurrence_grad_of(call);
    return (size_t)(2 * iso_recurrence_cells(&r) * r.units) * sizeof(double);
}

static void ref_recurrence_grad_run(const iso_kernel_call *call)
{
    const iso_recurrence r = iso_recurrence_grad_of(call);
    const int64_t states = iso_recurrence_cells(&r) * r.units;
    double *carried = call->scratch;
    for (int64_t i = 0; i < 2 * states; i++)
        carried[i] = 0;
    for (int64_t i = r.steps - 1; i >= 0; i--) {
        const step s = step_of(&r, i);
        ref_step_grad(&s, carried);
    }
    for (int64_t i = 0; i < states && r.dh0; i++)
        iso_put(r.dh0, i, carried[i]);
    for (int64_t i = 0; i < states && r.dc0; i++)
        iso_put(r.dc0, i, carried[states + i]);
}

const iso_kernel iso_reference_recurrence = {
    .op = "recurrence", .name = "reference", .run = ref_recurrence_run};
const iso_kernel iso_reference_recurrence_grad = {.op = "recurrence_grad",
                                                  .name = "reference",
                                                  .scratch = ref_recurrence_grad_scratch,
                                                  .run = ref_recurrence_grad_run};
