/* Cross-entropy in which what is predicted well counts less (Lin et al. 2017), of independent fractions and of
 * distributions. */
#include <float.h>

#include "runtime/base/thread_modes.h"
#include "runtime/train/losses_impl.h"

enum { DEFAULT_GAMMA = 2 };
#define DEFAULT_ALPHA 0.25

/* Puts Keras's defaults in place of zeros, and fits targets and predictions. most: the largest alpha. False: an error
 * in the graph. */
static bool prepare(iso_focal_options *o, const char *what, double most)
{
    double alpha = o->alpha = iso_option_number(o->alpha, DEFAULT_ALPHA);
    double gamma = o->gamma = iso_option_number(o->gamma, DEFAULT_GAMMA);
    o->label_smoothing = iso_option_number(o->label_smoothing, 0);
    return iso_loss_match(&o->y_true, &o->y_pred, what) &&
           iso_loss_check_smoothing(o->y_pred, o->label_smoothing) &&
           iso_loss_check(o->y_pred, what, "alpha", alpha, alpha >= 0 && alpha <= most,
                          most == 1 ? "from 0 to 1" : "0 or more") &&
           iso_loss_check(o->y_pred, what, "gamma", gamma, gamma >= 0 && gamma <= DBL_MAX, "0 or more");
}

/* miss^gamma * loss */
static iso_tensor *modulate(iso_tensor *loss, iso_tensor *miss, double gamma)
{
    if (gamma == 0)
        return loss;
    iso_tensor *factor = gamma == 2 ? iso_square(miss) : iso_power(miss, iso_metric_number(miss, gamma));
    return iso_multiply(factor, loss);
}

#define OPTIONS()                                                                                            \
    iso_focal_options o = {0};                                                                               \
    iso_options_copy(&o, sizeof o, given, size);                                                             \
    ISO_NEED_TENSORS_AS("y_true, y_pred", o.y_true, o.y_pred)

iso_tensor *iso_binary_focal_crossentropy_with(const iso_focal_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    OPTIONS();
    if (!prepare(&o, "binary focal cross-entropy", 1))
        return iso_loss_bad(o.y_pred);
    iso_tensor *t = iso_loss_smooth(o.y_true, o.label_smoothing, 2);
    iso_tensor *p = o.from_logits ? iso_sigmoid(o.y_pred) : o.y_pred;
    iso_tensor *hit = iso_add(iso_multiply(t, p), iso_multiply(iso_affine(t, -1, 1), iso_affine(p, -1, 1)));
    iso_tensor *loss = modulate(iso_loss_of_fractions(t, p), iso_affine(hit, -1, 1), o.gamma);
    if (o.apply_class_balancing) /* t * alpha + (1 - t) * (1 - alpha) */
        loss = iso_multiply(iso_affine(t, 2 * o.alpha - 1, 1 - o.alpha), loss);
    return iso_loss_mean(loss);
}

iso_tensor *iso_categorical_focal_crossentropy_with(const iso_focal_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    OPTIONS();
    if (!prepare(&o, "categorical focal cross-entropy", DBL_MAX))
        return iso_loss_bad(o.y_pred);
    const iso_shape *shape = iso_tensor_shape(o.y_pred);
    iso_tensor *t = iso_loss_smooth(o.y_true, o.label_smoothing, (double)shape->dim[shape->rank - 1]);
    iso_tensor *p = iso_loss_normalise(o.from_logits ? iso_softmax(o.y_pred, -1) : o.y_pred);
    iso_tensor *loss = modulate(iso_multiply(t, iso_log(p)), iso_affine(p, -1, 1), o.gamma);
    return iso_affine(iso_loss_sum(loss), -o.alpha, 0);
}

static iso_focal_options options_of(const iso_loss_call *c)
{
    const iso_output_options *s = c->settings;
    return (iso_focal_options){.y_true = c->y_true,
                               .y_pred = c->y_pred,
                               .from_logits = c->from_logits,
                               .label_smoothing = s->label_smoothing,
                               .apply_class_balancing = s->apply_class_balancing,
                               .alpha = s->loss_alpha,
                               .gamma = s->loss_gamma};
}

static iso_tensor *binary(const iso_loss_call *c)
{
    iso_focal_options options = options_of(c);
    return iso_binary_focal_crossentropy_with(&options, sizeof options);
}

static iso_tensor *categorical(const iso_loss_call *c)
{
    iso_focal_options options = options_of(c);
    return iso_categorical_focal_crossentropy_with(&options, sizeof options);
}

#define SETTINGS                                                                                             \
    {"alpha", ISO_SETTING_REAL, offsetof(iso_output_options, loss_alpha), .fallback = DEFAULT_ALPHA},        \
        {"gamma", ISO_SETTING_REAL, offsetof(iso_output_options, loss_gamma), .fallback = DEFAULT_GAMMA},    \
        {"label_smoothing", ISO_SETTING_REAL, offsetof(iso_output_options, label_smoothing), .fallback = 0}, \
    {                                                                                                        \
        0                                                                                                    \
    }
static const iso_setting of_binary[] = {
    {"apply_class_balancing", ISO_SETTING_FLAG, offsetof(iso_output_options, apply_class_balancing),
     .fallback = 0},
    SETTINGS,
};
static const iso_setting of_categorical[] = {SETTINGS};

/* Each Keras class has two rows: for probabilities and for logits. */
#define BINARY                                                                                               \
    .row.keras = "BinaryFocalCrossentropy", .row.setting = of_binary, .saved = "binary_focal_crossentropy",  \
    .logits = &iso_loss_binary_focal_crossentropy_logits, .build = binary
const iso_loss_type iso_loss_binary_focal_crossentropy = {.row.name = "binary_focal_crossentropy", BINARY};
const iso_loss_type iso_loss_binary_focal_crossentropy_logits = {
    .row.name = "binary_focal_crossentropy_logits", BINARY};

#define CATEGORICAL                                                                                          \
    .row.keras = "CategoricalFocalCrossentropy", .row.setting = of_categorical,                              \
    .saved = "categorical_focal_crossentropy", .logits = &iso_loss_categorical_focal_crossentropy_logits,    \
    .build = categorical
const iso_loss_type iso_loss_categorical_focal_crossentropy = {.row.name = "categorical_focal_crossentropy",
                                                               CATEGORICAL};
const iso_loss_type iso_loss_categorical_focal_crossentropy_logits = {
    .row.name = "categorical_focal_crossentropy_logits", CATEGORICAL};
