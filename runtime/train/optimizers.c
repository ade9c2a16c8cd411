/* Optimizers and schedules as data, with Keras's defaults. The rules themselves are in
 * runtime/graph/ops/optimizers.c. */
#include "runtime/train/optimizers.h"

#include <math.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/text.h"

/* Declares `options` as a copy of what the caller gave; members that the caller's version did not have are
 * zero. */
#define OPTIONS(type)                                                                                        \
    type options;                                                                                            \
    iso_options_copy(&options, sizeof options, given, size)

/* What every optimizer has. */
#define COMMON(name, default_rate, default_decay)                                                            \
    (iso_optimizer)                                                                                          \
    {                                                                                                        \
        .rule = name,                                                                                        \
        .learning_rate = options.schedule.kind == ISO_SCHEDULE_CONSTANT                                      \
                             ? iso_option_number(options.learning_rate, default_rate)                        \
                             : options.schedule.initial,                                                     \
        .schedule = options.schedule,                                                                        \
        .weight_decay = iso_option_number(options.weight_decay, default_decay),                              \
        .no_decay = options.no_decay, .clip_norm = options.clip_norm,                                        \
        .global_clip_norm = options.global_clip_norm, .clip_value = options.clip_value,                      \
        .accumulation = options.accumulation                                                                 \
    }

iso_optimizer iso_sgd_with(const iso_sgd_options *given, size_t size)
{
    OPTIONS(iso_sgd_options);
    iso_optimizer optimizer = COMMON("sgd", 0.01, 0);
    optimizer.hyper[ISO_SGD_MOMENTUM] = iso_option_number(options.momentum, 0);
    optimizer.hyper[ISO_SGD_NESTEROV] = options.nesterov;
    return optimizer;
}

iso_optimizer iso_rmsprop_with(const iso_rmsprop_options *given, size_t size)
{
    OPTIONS(iso_rmsprop_options);
    iso_optimizer optimizer = COMMON("rmsprop", 0.001, 0);
    optimizer.hyper[ISO_RMSPROP_RHO] = iso_option_number(options.rho, 0.9);
    optimizer.hyper[ISO_RMSPROP_MOMENTUM] = iso_option_number(options.momentum, 0);
    optimizer.hyper[ISO_RMSPROP_EPSILON] = iso_option_number(options.epsilon, 1e-7);
    optimizer.hyper[ISO_RMSPROP_CENTERED] = options.centered;
    return optimizer;
}

static iso_optimizer adam(const iso_adam_options *given, size_t size, const char *rule, double decay)
{
    OPTIONS(iso_adam_options);
    iso_optimizer optimizer = COMMON(rule, 0.001, decay);
    optimizer.hyper[ISO_ADAM_BETA_1] = iso_option_number(options.beta_1, 0.9);
    optimizer.hyper[ISO_ADAM_BETA_2] = iso_option_number(options.beta_2, 0.999);
    optimizer.hyper[ISO_ADAM_EPSILON] = iso_option_number(options.epsilon, 1e-7);
    optimizer.hyper[ISO_ADAM_AMSGRAD] = options.amsgrad;
    return optimizer;
}

iso_optimizer iso_adam_with(const iso_adam_options *options, size_t size)
{
    return adam(options, size, "adam", 0);
}

iso_optimizer iso_adamw_with(const iso_adam_options *options, size_t size)
{
    return adam(options, size, "adamw", 0.004);
}

iso_optimizer iso_adagrad_with(const iso_adagrad_options *given, size_t size)
{
    OPTIONS(iso_adagrad_options);
    iso_optimizer optimizer = COMMON("adagrad", 0.001, 0);
    optimizer.hyper[ISO_ADAGRAD_INITIAL] = iso_option_number(options.initial_accumulator, 0.1);
    optimizer.hyper[ISO_ADAGRAD_EPSILON] = iso_option_number(options.epsilon, 1e-7);
    return optimizer;
}

iso_schedule iso_exponential_decay_with(const iso_exponential_decay_options *given, size_t size)
{
    OPTIONS(iso_exponential_decay_options);
    return (iso_schedule){.kind = ISO_SCHEDULE_EXPONENTIAL,
                          .initial = options.initial_learning_rate,
                          .decay_steps = options.decay_steps,
                          .rate = options.decay_rate,
                          .staircase = options.staircase};
}

iso_schedule iso_cosine_decay_with(const iso_cosine_decay_options *given, size_t size)
{
    OPTIONS(iso_cosine_decay_options);
    return (iso_schedule){.kind = ISO_SCHEDULE_COSINE,
                          .initial = iso_option_number(options.initial_learning_rate, 0),
                          .decay_steps = options.decay_steps,
                          .alpha = iso_option_number(options.alpha, 0),
                          .warmup_target = options.warmup_target,
                          .warmup_steps = options.warmup_steps};
}

iso_schedule iso_piecewise_constant(int count, const int64_t *boundaries, const double *values)
{
    iso_schedule schedule = {.kind = ISO_SCHEDULE_PIECEWISE, .n_boundaries = count};
    if (ISO_ANY_NULL(values) || (count > 0 && ISO_ANY_NULL(boundaries)))
        schedule.n_boundaries = -1;
    if (schedule.n_boundaries < 0 || count > ISO_MAX_PIECES)
        return schedule; /* iso_optimizer_check says so */
    for (int i = 0; i < count; i++)
        schedule.boundaries[i] = boundaries[i];
    for (int i = 0; i <= count; i++)
        schedule.value[i] = values[i];
    schedule.initial = values[0];
    return schedule;
}

/* ---- by name ---- */

static iso_optimizer default_sgd(void)
{
    return iso_sgd();
}

static iso_optimizer default_rmsprop(void)
{
    return iso_rmsprop();
}

static iso_optimizer default_adam(void)
{
    return iso_adam();
}

static iso_optimizer default_adamw(void)
{
    return iso_adamw();
}

static iso_optimizer default_adagrad(void)
{
    return iso_adagrad();
}

static const struct {
    const char *name;
    iso_optimizer (*make)(void);
} optimizers[] = {
    {"sgd", default_sgd},     {"rmsprop", default_rmsprop}, {"adam", default_adam},
    {"adamw", default_adamw}, {"adagrad", default_adagrad},
};
enum { OPTIMIZERS = sizeof optimizers / sizeof optimizers[0] };

int iso_optimizer_count(void)
{
    return OPTIMIZERS;
}

const char *iso_optimizer_name(int index)
{
    return index >= 0 && index < iso_optimizer_count() ? optimizers[index].name : NULL;
}

iso_status iso_optimizer_find(const char *name, iso_optimizer *optimizer)
{
    ISO_NEED(name, optimizer);
    const char *names[OPTIMIZERS];
    for (int i = 0; i < OPTIMIZERS; i++) {
        names[i] = optimizers[i].name;
        if (strcmp(names[i], name) == 0) {
            *optimizer = optimizers[i].make();
            return ISO_OK;
        }
    }
    iso_text text = {0};
    iso_text_add_nearest(&text, name, names, OPTIMIZERS);
    iso_status status = iso_error(ISO_INVALID, "unknown optimizer '%s'%s", name, iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

/* ---- checks ---- */

static iso_status check_schedule(const iso_schedule *schedule)
{
    bool decays = schedule->kind == ISO_SCHEDULE_EXPONENTIAL || schedule->kind == ISO_SCHEDULE_COSINE;
    if (decays && schedule->decay_steps <= 0)
        return iso_error(ISO_INVALID, "schedule: decay_steps is %lld, it must be positive",
                         (long long)schedule->decay_steps);
    if (schedule->kind == ISO_SCHEDULE_EXPONENTIAL && !(schedule->rate > 0))
        return iso_error(ISO_INVALID, "schedule: decay_rate is %g, it must be positive", schedule->rate);
    if (schedule->warmup_steps < 0)
        return iso_error(ISO_INVALID, "schedule: warmup_steps is %lld, it must not be negative",
                         (long long)schedule->warmup_steps);
    if (schedule->n_boundaries < 0 || schedule->n_boundaries > ISO_MAX_PIECES)
        return iso_error(ISO_INVALID, "schedule: %d boundaries, at most %d are possible",
                         schedule->n_boundaries, ISO_MAX_PIECES);
    for (int i = 1; i < schedule->n_boundaries; i++)
        if (schedule->boundaries[i] <= schedule->boundaries[i - 1])
            return iso_error(ISO_INVALID, "schedule: boundary %lld follows %lld, they must increase",
                             (long long)schedule->boundaries[i], (long long)schedule->boundaries[i - 1]);
    return ISO_OK;
}

static iso_status check_clipping(const iso_optimizer *optimizer)
{
    if (optimizer->clip_norm < 0 || optimizer->global_clip_norm < 0 || optimizer->clip_value < 0)
        return iso_error(ISO_INVALID,
                         "clip_norm %g, global_clip_norm %g, clip_value %g: none may be negative",
                         optimizer->clip_norm, optimizer->global_clip_norm, optimizer->clip_value);
    if ((optimizer->clip_norm > 0) + (optimizer->global_clip_norm > 0) + (optimizer->clip_value > 0) > 1)
        return iso_error(ISO_INVALID, "clip_norm %g, global_clip_norm %g, clip_value %g: only one may be set",
                         optimizer->clip_norm, optimizer->global_clip_norm, optimizer->clip_value);
    return ISO_OK;
}

iso_status iso_optimizer_check(const iso_optimizer *optimizer)
{
    ISO_NEED(optimizer);
    iso_optimizer found;
    iso_status status = ISO_OK;
    if (optimizer->rule)
        ISO_TRY(iso_optimizer_find(optimizer->rule, &found));
    if (!isfinite(optimizer->learning_rate) || optimizer->learning_rate < 0)
        return iso_error(ISO_INVALID, "learning rate %g: it must be finite and not negative",
                         optimizer->learning_rate);
    if (!isfinite(optimizer->weight_decay) || optimizer->weight_decay < 0)
        return iso_error(ISO_INVALID, "weight decay %g: it must be finite and not negative",
                         optimizer->weight_decay);
    for (int i = 0; i < ISO_MAX_HYPER; i++)
        if (!isfinite(optimizer->hyper[i]) || optimizer->hyper[i] < 0)
            return iso_error(ISO_INVALID, "setting %d of %s is %g: it must be finite and not negative", i,
                             optimizer->rule, optimizer->hyper[i]);
    if (optimizer->accumulation < 0)
        return iso_error(ISO_INVALID, "accumulation over %d steps: it must not be negative",
                         optimizer->accumulation);
    ISO_TRY(check_schedule(&optimizer->schedule));
    ISO_TRY(check_clipping(optimizer));
done:
    return status;
}
