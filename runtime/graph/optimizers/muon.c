/* Keras's Muon (keras/src/optimizers/muon.py; Jordan et al. 2024, kellerjordan.github.io/posts/muon; the length of a
 * step: Liu et al. 2025, arXiv 2502.16982). Of a matrix:
 *     m = momentum m + g;  x = g + momentum m (with nesterov; else m), divided by its norm, and transposed if it has
 *     more rows than columns;  ns_steps times: x = a x + (b y + c y y) x with y = x x^T (a Newton-Schulz iteration,
 *     which brings the singular values near 1);  w -= rate x rms_rate sqrt(longer dimension)
 * The others as Adam (adam.c), with the rate times adam_lr_ratio. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/optimizers/list.h"

enum {
    BETA_1,
    BETA_2,
    EPSILON,
    A,
    B,
    C,
    RATIO,
    MOMENTUM,
    STEPS,
    NESTEROV,
    EXCLUDE,
    ADAM_DECAY,
    RMS_RATE,
    MOST_STEPS = 100
};
static const iso_setting settings[] = {
    ISO_SETTING(iso_muon_options, REAL, adam_beta_1, 0.9),
    ISO_SETTING(iso_muon_options, REAL, adam_beta_2, 0.999),
    ISO_SETTING(iso_muon_options, REAL, epsilon, 1e-7),
    ISO_SETTING(iso_muon_options, REAL, muon_a, 3.4445),
    ISO_SETTING(iso_muon_options, REAL, muon_b, -4.775),
    ISO_SETTING(iso_muon_options, REAL, muon_c, 2.0315),
    ISO_SETTING(iso_muon_options, REAL, adam_lr_ratio, 1),
    ISO_SETTING(iso_muon_options, REAL, momentum, 0.95),
    ISO_SETTING(iso_muon_options, INT, ns_steps, 5),
    {"nesterov", ISO_SETTING_NOT, offsetof(iso_muon_options, no_nesterov), .fallback = 1},
    {"exclude_embeddings", ISO_SETTING_NOT, offsetof(iso_muon_options, with_embeddings), .fallback = 1},
    ISO_SETTING(iso_muon_options, OPTIONAL, adam_weight_decay, 0.004),
    ISO_SETTING(iso_muon_options, OPTIONAL, rms_rate, 0.2),
    {0},
};
enum { MEAN, VELOCITY };
static const iso_optimizer_slot slots[] = {{.name = "momentum"}, {.name = "velocity", .beside = true}, {0}};

static bool is_embedding(const char *path)
{
    static const char word[] = "embedding";
    for (; *path; path++) {
        size_t i = 0;
        while (word[i] && tolower((unsigned char)path[i]) == word[i])
            i++;
        if (!word[i])
            return true;
    }
    return false;
}

static bool has_adam(const iso_optimizer *optimizer, const iso_variable *variable)
{
    return iso_variable_shape(variable)->rank != 2 ||
           (optimizer->hyper[EXCLUDE] != 0 && is_embedding(iso_variable_path(variable)));
}

static bool has_slot(const iso_optimizer *optimizer, const iso_variable *variable, int slot, int *without)
{
    (void)without;
    return slot == MEAN || has_adam(optimizer, variable);
}

static double decay_of(const iso_optimizer *optimizer, const iso_variable *variable)
{
    return has_adam(optimizer, variable) ? optimizer->hyper[ADAM_DECAY] : optimizer->weight_decay;
}

static iso_status check(const iso_optimizer *optimizer)
{
    double steps = optimizer->hyper[STEPS];
    if (steps != floor(steps) || steps > MOST_STEPS)
        return iso_error(ISO_INVALID, "ns_steps of %s is %g: it must be a whole number up to %d",
                         optimizer->rule, steps, MOST_STEPS);
    return ISO_OK;
}

/* ---- Adam ---- */

static iso_tensor *adam(iso_composed_update *update)
{
    const double *hyper = update->optimizer->hyper;
    iso_tensor *g = update->gradient, **slot = update->slot;
    slot[MEAN] = iso_composed_mean(slot[MEAN], g, 1 - hyper[BETA_1]);
    slot[VELOCITY] = iso_composed_mean(slot[VELOCITY], iso_square(g), 1 - hyper[BETA_2]);
    iso_tensor *alpha = iso_divide(iso_sqrt(iso_composed_rest(update, hyper[BETA_2])),
                                   iso_composed_rest(update, hyper[BETA_1]));
    iso_tensor *size = iso_affine(iso_sqrt(slot[VELOCITY]), 1, hyper[EPSILON]);
    return iso_divide(iso_multiply(slot[MEAN], iso_affine(alpha, hyper[RATIO], 0)), size);
}

/* ---- Muon ---- */

static iso_tensor *polynomial(iso_tensor *x, const double *hyper)
{
    iso_tensor *y = iso_matmul_with(x, x, false, true);
    iso_tensor *inner = iso_add(iso_affine(y, hyper[B], 0), iso_affine(iso_matmul(y, y), hyper[C], 0));
    return iso_add(iso_affine(x, hyper[A], 0), iso_matmul(inner, x));
}

/* x of [rows, columns] whose singular values are near 1. */
static iso_tensor *orthogonal(iso_tensor *x, const double *hyper)
{
    static const int swapped[] = {1, 0};
    bool tall = x->shape.dim[0] > x->shape.dim[1];
    iso_tensor *norm = iso_cast(iso_sqrt(iso_composed_squares(x)), x->dtype);
    x = iso_divide(tall ? iso_transpose(x, swapped) : x, iso_affine(norm, 1, 1e-7));
    for (int i = 0; i < (int)hyper[STEPS]; i++)
        x = polynomial(x, hyper);
    return tall ? iso_transpose(x, swapped) : x;
}

static iso_tensor *muon(iso_composed_update *update)
{
    const double *hyper = update->optimizer->hyper;
    iso_tensor *g = update->gradient, **slot = update->slot;
    double longer = (double)(g->shape.dim[0] > g->shape.dim[1] ? g->shape.dim[0] : g->shape.dim[1]);
    slot[MEAN] = iso_add(iso_affine(slot[MEAN], hyper[MOMENTUM], 0), g);
    iso_tensor *x =
        hyper[NESTEROV] != 0 ? iso_add(g, iso_affine(slot[MEAN], hyper[MOMENTUM], 0)) : slot[MEAN];
    x = orthogonal(x, hyper);
    return hyper[RMS_RATE] != 0 ? iso_affine(x, sqrt(longer) * hyper[RMS_RATE], 0) : x;
}

static iso_tensor *direction(iso_composed_update *update)
{
    return has_adam(update->optimizer, update->variable) ? adam(update) : muon(update);
}

const iso_optimizer_rule iso_optimizer_muon = {
    .row = {"muon", "Muon", settings},
    ISO_OPTIMIZER_STRUCT(iso_muon_options),
    .learning_rate = 0.001,
    .weight_decay = 0.004,
    .slot = slots,
    .corrects = true,
    .check = check,
    .direction = direction,
    .has_slot = has_slot,
    .empty_list = "exclude_layers",
    .not_zero = "rms_rate",
    .decay_of = decay_of,
};

iso_optimizer iso_muon_with(const iso_muon_options *options, size_t size)
{
    return iso_optimizer_make(&iso_optimizer_muon, options, size);
}
