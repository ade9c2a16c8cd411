/* Keras's ExponentialDecay. */
#include <math.h>

#include "runtime/base/arguments.h"
#include "runtime/graph/schedules/list.h"

static const iso_setting settings[] = {
    {"initial_learning_rate", ISO_SETTING_REAL, offsetof(iso_schedule, initial), .fallback = 0},
    ISO_SETTING(iso_schedule, COUNT, decay_steps, 0),
    {"decay_rate", ISO_SETTING_REAL, offsetof(iso_schedule, rate), .fallback = 0},
    ISO_SETTING(iso_schedule, FLAG, staircase, 0),
    {0},
};

static double rate(const iso_schedule *s, int64_t iterations)
{
    double exponent = (double)iterations / (double)s->decay_steps;
    return s->initial * pow(s->rate, s->staircase ? floor(exponent) : exponent);
}

static iso_status check(const iso_schedule *s)
{
    iso_status status = iso_schedule_check_steps(s);
    if (status == ISO_OK && !(s->rate > 0))
        return iso_error(ISO_INVALID, "schedule: decay_rate is %g, it must be positive", s->rate);
    return status;
}

const iso_schedule_rule iso_schedule_exponential = {
    .row = {"exponential", "ExponentialDecay", settings},
    .kind = ISO_SCHEDULE_EXPONENTIAL,
    .needed = 2,
    .rate = rate,
    .check = check,
};

iso_schedule iso_exponential_decay_with(const iso_exponential_decay_options *given, size_t size)
{
    iso_exponential_decay_options options;
    iso_options_copy(&options, sizeof options, given, size);
    iso_schedule schedule = {.kind = ISO_SCHEDULE_EXPONENTIAL,
                             .initial = options.initial_learning_rate,
                             .decay_steps = options.decay_steps,
                             .rate = options.decay_rate,
                             .staircase = options.staircase};
    iso_settings_zero(iso_schedule_members, &schedule);
    return schedule;
}
