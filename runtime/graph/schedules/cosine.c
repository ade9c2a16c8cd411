/* Keras's CosineDecay. */
#include <math.h>

#include "runtime/base/arguments.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/schedules/rule.h"

static const iso_setting settings[] = {
    {"initial_learning_rate", ISO_SETTING_REAL, offsetof(iso_schedule, initial), .fallback = 0},
    ISO_SETTING(iso_schedule, COUNT, decay_steps, 0),
    ISO_SETTING(iso_schedule, REAL, alpha, 0),
    ISO_SETTING(iso_schedule, OPTIONAL, warmup_target, 0),
    ISO_SETTING(iso_schedule, COUNT, warmup_steps, 0),
    {0},
};

static double half_cosine(const iso_schedule *s, double from, double iterations)
{
    double done = fmin(iterations / (double)s->decay_steps, 1);
    double decayed = 0.5 * (1 + cos(3.14159265358979323846 * done));
    return from * ((1 - s->alpha) * decayed + s->alpha);
}

static double rate(const iso_schedule *s, int64_t done)
{
    double warmup = (double)s->warmup_steps, iterations = (double)done;
    if (s->warmup_target == 0)
        return half_cosine(s, s->initial, iterations);
    if (iterations < warmup)
        return s->initial + (s->warmup_target - s->initial) * (iterations / warmup);
    return half_cosine(s, s->warmup_target, iterations - warmup);
}

static iso_tensor *half_cosine_value(const iso_schedule *s, double from, iso_tensor *iterations)
{
    iso_tensor *one = iso_number(iterations->graph, ISO_F64, 1);
    iso_tensor *done = iso_minimum(iso_affine(iterations, 1 / (double)s->decay_steps, 0), one);
    double half = 0.5 * from * (1 - s->alpha);
    return iso_affine(iso_schedule_cosine_of(done), half, half + from * s->alpha);
}

static iso_tensor *value(const iso_schedule *s, iso_tensor *done)
{
    double warmup = (double)s->warmup_steps;
    if (s->warmup_target == 0)
        return half_cosine_value(s, s->initial, done);
    iso_tensor *after = half_cosine_value(s, s->warmup_target, iso_affine(done, 1, -warmup));
    if (warmup == 0)
        return after;
    iso_tensor *rising = iso_affine(done, (s->warmup_target - s->initial) / warmup, s->initial);
    return iso_where(iso_less(done, iso_number(done->graph, ISO_F64, warmup)), rising, after);
}

static iso_status check(const iso_schedule *s)
{
    iso_status status = iso_schedule_check_steps(s);
    if (status == ISO_OK && s->warmup_steps < 0)
        return iso_error(ISO_INVALID, "schedule: warmup_steps is %lld, it must not be negative",
                         (long long)s->warmup_steps);
    if (status == ISO_OK && !(isfinite(s->warmup_target) && s->warmup_target >= 0))
        return iso_error(ISO_INVALID, "schedule: warmup_target is %g, it must be finite and not negative",
                         s->warmup_target);
    if (status == ISO_OK && !(isfinite(s->alpha) && s->alpha >= 0))
        return iso_error(ISO_INVALID, "schedule: alpha is %g, it must be finite and not negative", s->alpha);
    return status;
}

const iso_schedule_rule iso_schedule_cosine = {
    .row = {"cosine", "CosineDecay", settings},
    .kind = ISO_SCHEDULE_COSINE,
    .needed = 1,
    .rate = rate,
    .value = value,
    .check = check,
};

iso_schedule iso_cosine_decay_with(const iso_cosine_decay_options *given, size_t size)
{
    iso_cosine_decay_options options;
    iso_options_copy(&options, sizeof options, given, size);
    iso_schedule schedule = {.kind = ISO_SCHEDULE_COSINE,
                             .initial = options.initial_learning_rate,
                             .decay_steps = options.decay_steps,
                             .alpha = options.alpha,
                             .warmup_target = options.warmup_target,
                             .warmup_steps = options.warmup_steps};
    iso_settings_zero(iso_schedule_members, &schedule);
    return schedule;
}
