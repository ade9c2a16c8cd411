/* Keras's InverseTimeDecay. */
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
    double done = (double)iterations / (double)s->decay_steps;
    return s->initial / (1 + s->rate * (s->staircase ? floor(done) : done));
}

static iso_status check(const iso_schedule *s)
{
    iso_status status = iso_schedule_check_steps(s);
    if (status == ISO_OK && !(isfinite(s->rate) && s->rate >= 0))
        return iso_error(ISO_INVALID, "schedule: decay_rate is %g, it must be finite and not negative",
                         s->rate);
    return status;
}

const iso_schedule_rule iso_schedule_inverse_time = {
    .row = {"inverse_time", "InverseTimeDecay", settings},
    .kind = ISO_SCHEDULE_INVERSE_TIME,
    .needed = 2,
    .rate = rate,
    .check = check,
};

iso_schedule iso_inverse_time_decay_with(const iso_inverse_time_decay_options *given, size_t size)
{
    iso_inverse_time_decay_options options;
    iso_options_copy(&options, sizeof options, given, size);
    iso_schedule schedule = {.kind = ISO_SCHEDULE_INVERSE_TIME,
                             .initial = options.initial_learning_rate,
                             .decay_steps = options.decay_steps,
                             .rate = options.decay_rate,
                             .staircase = options.staircase};
    iso_settings_zero(iso_schedule_members, &schedule);
    return schedule;
}
