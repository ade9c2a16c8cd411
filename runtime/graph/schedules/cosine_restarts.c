/* Keras's CosineDecayRestarts. */
#include <math.h>

#include "runtime/base/arguments.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/schedules/rule.h"

static const iso_setting settings[] = {
    {"initial_learning_rate", ISO_SETTING_REAL, offsetof(iso_schedule, initial), .fallback = 0},
    {"first_decay_steps", ISO_SETTING_COUNT, offsetof(iso_schedule, decay_steps), .fallback = 0},
    ISO_SETTING(iso_schedule, REAL, t_mul, 2),
    ISO_SETTING(iso_schedule, REAL, m_mul, 1),
    ISO_SETTING(iso_schedule, REAL, alpha, 0),
    {0},
};

/* done: in units of the first period. Returns the number of restarts so far; *done becomes the share of a period. */
static double restarts(double t_mul, double *done)
{
    if (t_mul == 1) {
        double count = floor(*done);
        *done -= count;
        return count;
    }
    double count = floor(log(1 - *done * (1 - t_mul)) / log(t_mul)), period = pow(t_mul, count);
    *done = (*done - (1 - period) / (1 - t_mul)) / period;
    return count;
}

static double rate(const iso_schedule *s, int64_t iterations)
{
    double done = (double)iterations / (double)s->decay_steps;
    double factor = pow(s->m_mul, restarts(s->t_mul, &done));
    double decayed = 0.5 * factor * (1 + cos(3.14159265358979323846 * done));
    return s->initial * ((1 - s->alpha) * decayed + s->alpha);
}

/* restarts() by ops. */
static iso_tensor *restarts_value(double t_mul, iso_tensor **done)
{
    iso_graph *graph = (*done)->graph;
    if (t_mul == 1) {
        iso_tensor *count = iso_schedule_floor(*done);
        *done = iso_subtract(*done, count);
        return count;
    }
    iso_tensor *grown = iso_affine(*done, t_mul - 1, 1);
    iso_tensor *count =
        iso_schedule_floor(iso_divide(iso_log(grown), iso_number(graph, ISO_F64, log(t_mul))));
    iso_tensor *period = iso_power(iso_number(graph, ISO_F64, t_mul), count);
    iso_tensor *before = iso_affine(period, 1 / (t_mul - 1), -1 / (t_mul - 1));
    *done = iso_divide(iso_subtract(*done, before), period);
    return count;
}

static iso_tensor *value(const iso_schedule *s, iso_tensor *iterations)
{
    iso_tensor *done = iso_divide(iterations, iso_number(iterations->graph, ISO_F64, (double)s->decay_steps));
    iso_tensor *count = restarts_value(s->t_mul, &done);
    iso_tensor *factor = iso_power(iso_number(done->graph, ISO_F64, s->m_mul), count);
    iso_tensor *cosine = iso_affine(iso_schedule_cosine_of(done), 0.5, 0.5);
    return iso_affine(iso_multiply(factor, cosine), s->initial * (1 - s->alpha), s->initial * s->alpha);
}

static iso_status check(const iso_schedule *s)
{
    if (s->decay_steps <= 0)
        return iso_error(ISO_INVALID, "schedule: first_decay_steps is %lld, it must be positive",
                         (long long)s->decay_steps);
    if (!(isfinite(s->t_mul) && s->t_mul >= 1))
        return iso_error(ISO_INVALID, "schedule: t_mul is %g, it must be finite and at least 1", s->t_mul);
    if (!(isfinite(s->m_mul) && s->m_mul >= 0))
        return iso_error(ISO_INVALID, "schedule: m_mul is %g, it must be finite and not negative", s->m_mul);
    if (!(isfinite(s->alpha) && s->alpha >= 0))
        return iso_error(ISO_INVALID, "schedule: alpha is %g, it must be finite and not negative", s->alpha);
    return ISO_OK;
}

const iso_schedule_rule iso_schedule_cosine_restarts = {
    .row = {"cosine_restarts", "CosineDecayRestarts", settings},
    .kind = ISO_SCHEDULE_COSINE_RESTARTS,
    .needed = 1,
    .titled = "SGDRDecay",
    .rate = rate,
    .value = value,
    .check = check,
};

iso_schedule iso_cosine_decay_restarts_with(const iso_cosine_decay_restarts_options *given, size_t size)
{
    iso_cosine_decay_restarts_options options;
    iso_options_copy(&options, sizeof options, given, size);
    iso_schedule schedule = {.kind = ISO_SCHEDULE_COSINE_RESTARTS,
                             .initial = options.initial_learning_rate,
                             .decay_steps = options.first_decay_steps,
                             .t_mul = iso_option_number(options.t_mul, 2),
                             .m_mul = iso_option_number(options.m_mul, 1),
                             .alpha = options.alpha};
    iso_settings_zero(iso_schedule_members, &schedule);
    return schedule;
}
