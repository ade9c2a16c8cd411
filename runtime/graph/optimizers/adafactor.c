/* Keras's Adafactor (keras/src/optimizers/adafactor.py; Shazeer and Stern 2018, arXiv 1804.04235). The t-th update,
 * with s = g^2 + epsilon_1 and beta = 1 - t^beta_2_decay:
 *     r = beta r + (1 - beta) mean of s over the last dimension;  c likewise over the dimension before it;
 *     v = r c / mean of r over its last dimension;  u = g / sqrt(v);
 *     w -= min(rate, 1 / sqrt(t)) max(epsilon_2, rms(w)) u / max(1, rms(u) / clip_threshold)
 * Of a variable with fewer than 2 dimensions, v = beta v + (1 - beta) s. As in Keras, the rate is at most 1 / sqrt(t)
 * whatever relative_step says, and v is kept although r and c determine it. */
#include <math.h>

#include "runtime/base/arguments.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/optimizers/list.h"

enum { BETA_2_DECAY, EPSILON_1, EPSILON_2, CLIP_THRESHOLD };
static const iso_setting settings[] = {
    ISO_SETTING(iso_adafactor_options, REAL, beta_2_decay, -0.8),
    ISO_SETTING(iso_adafactor_options, REAL, epsilon_1, 1e-30),
    ISO_SETTING(iso_adafactor_options, REAL, epsilon_2, 1e-3),
    ISO_SETTING(iso_adafactor_options, REAL, clip_threshold, 1),
    {"relative_step", ISO_SETTING_NOT, offsetof(iso_adafactor_options, fixed_step), .fallback = 1},
    {0},
};
enum { ROWS, COLUMNS, VELOCITY };
static const iso_optimizer_slot slots[] = {
    {.name = "row_mean"}, {.name = "column_mean", .beside = true}, {.name = "velocity", .beside = true}, {0}};

static bool has_slot(const iso_optimizer *optimizer, const iso_variable *variable, int slot, int *without)
{
    int rank = iso_variable_shape(variable)->rank;
    (void)optimizer;
    if (slot != VELOCITY)
        *without = slot == ROWS ? rank : rank - 1;
    return slot == VELOCITY || rank >= 2;
}

static iso_status check(const iso_optimizer *optimizer)
{
    const double *hyper = optimizer->hyper;
    if (hyper[BETA_2_DECAY] > 0)
        return iso_error(ISO_INVALID, "beta_2_decay of %s is %g: it must not be positive", optimizer->rule,
                         hyper[BETA_2_DECAY]);
    if (!(hyper[CLIP_THRESHOLD] > 0))
        return iso_error(ISO_INVALID, "clip_threshold of %s is %g: it must be positive", optimizer->rule,
                         hyper[CLIP_THRESHOLD]);
    return ISO_OK;
}

static void prepare(const iso_optimizer *optimizer, bool narrow, int64_t updates, double *hyper)
{
    (void)optimizer;
    (void)narrow;
    hyper[ISO_HYPER_RATE] = fmin(hyper[ISO_HYPER_RATE], 1 / sqrt((double)updates + 1));
}

/* state = beta state + (1 - beta) value; rest: 1 - beta, a scalar of their type. */
static iso_tensor *moved(iso_tensor *state, iso_tensor *value, iso_tensor *rest)
{
    return iso_add(iso_multiply(iso_affine(rest, -1, 1), state), iso_multiply(rest, value));
}

static iso_tensor *with_dimension(iso_tensor *x, int axis)
{
    iso_shape shape = x->shape;
    for (int d = shape.rank++; d > axis; d--)
        shape.dim[d] = shape.dim[d - 1];
    shape.dim[axis] = 1;
    return iso_reshape_to(x, shape);
}

/* r c / mean of r: the velocity that the means stand for. Its root comes from the roots of the three: where neither
 * row nor column has a gradient, the product is below all float32 numbers, and Keras divides 0 by 0. */
static iso_tensor *product_of_means(iso_tensor *rows, iso_tensor *columns, iso_tensor **root)
{
    int last = rows->shape.rank - 1;
    iso_tensor *mean = iso_reduce_mean(rows, &last, 1, true);
    iso_tensor *share = with_dimension(iso_divide(rows, mean), last + 1);
    iso_tensor *share_root = with_dimension(iso_divide(iso_sqrt(rows), iso_sqrt(mean)), last + 1);
    *root = iso_multiply(share_root, with_dimension(iso_sqrt(columns), last));
    return iso_multiply(share, with_dimension(columns, last));
}

/* The root of the mean of squares; sum: of the squares of a tensor of this shape. */
static iso_tensor *root_mean(iso_tensor *sum, const iso_shape *shape)
{
    int64_t count = 1;
    for (int d = 0; d < shape->rank; d++)
        count *= shape->dim[d];
    return iso_sqrt(iso_affine(sum, 1 / (double)count, 0));
}

/* max(epsilon_2, rms(w)) / max(1, rms(u) / clip_threshold), an ISO_F64 scalar. */
static iso_tensor *length(const iso_composed_update *update, iso_tensor *u)
{
    const double *hyper = update->optimizer->hyper;
    iso_graph *graph = u->graph;
    iso_tensor *weight = root_mean(iso_composed_weight_squares(update), &u->shape);
    iso_tensor *size =
        iso_affine(root_mean(iso_composed_squares(u), &u->shape), 1 / hyper[CLIP_THRESHOLD], 0);
    return iso_divide(iso_maximum(weight, iso_number(graph, ISO_F64, hyper[EPSILON_2])),
                      iso_maximum(size, iso_number(graph, ISO_F64, 1)));
}

static iso_tensor *direction(iso_composed_update *update)
{
    const double *hyper = update->optimizer->hyper;
    iso_tensor *g = update->gradient, **slot = update->slot;
    iso_tensor *square = iso_affine(iso_square(g), 1, hyper[EPSILON_1]), *root;
    iso_tensor *exponent = iso_number(g->graph, ISO_F64, hyper[BETA_2_DECAY]);
    iso_tensor *rest = iso_cast(iso_power(update->number, exponent), g->dtype);
    int last = g->shape.rank - 1, before = last - 1;
    if (slot[ROWS]) {
        slot[ROWS] = moved(slot[ROWS], iso_reduce_mean(square, &last, 1, false), rest);
        slot[COLUMNS] = moved(slot[COLUMNS], iso_reduce_mean(square, &before, 1, false), rest);
        slot[VELOCITY] = product_of_means(slot[ROWS], slot[COLUMNS], &root);
    } else {
        slot[VELOCITY] = moved(slot[VELOCITY], square, rest);
        root = iso_sqrt(slot[VELOCITY]);
    }
    iso_tensor *u = iso_divide(g, root);
    return iso_multiply(u, iso_cast(length(update, u), u->dtype));
}

const iso_optimizer_rule iso_optimizer_adafactor = {
    .row = {"adafactor", "Adafactor", settings},
    ISO_OPTIMIZER_STRUCT(iso_adafactor_options),
    .learning_rate = 0.001,
    .slot = slots,
    .check = check,
    .prepare = prepare,
    .direction = direction,
    .has_slot = has_slot,
    .stand_ins = true,
};

iso_optimizer iso_adafactor_with(const iso_adafactor_options *options, size_t size)
{
    return iso_optimizer_make(&iso_optimizer_adafactor, options, size);
}
