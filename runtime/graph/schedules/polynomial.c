/* Keras's PolynomialDecay. */
#include <math.h>

#include "runtime/base/arguments.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/schedules/rule.h"

static const iso_setting settings[] = {
    {"initial_learning_rate", ISO_SETTING_REAL, offsetof(iso_schedule, initial), .fallback = 0},
    ISO_SETTING(iso_schedule, COUNT, decay_steps, 0),
    {"end_learning_rate", ISO_SETTING_REAL, offsetof(iso_schedule, end), .fallback = 1e-4},
    ISO_SETTING(iso_schedule, REAL, power, 1),
    ISO_SETTING(iso_schedule, FLAG, cycle, 0),
    {0},
};

static double rate(const iso_schedule *s, int64_t done)
{
    double steps = (double)s->decay_steps, iterations = (double)done;
    if (s->cycle)
        steps *= done == 0 ? 1 : ceil(iterations / steps);
    else
        iterations = fmin(iterations, steps);
    return (s->initial - s->end) * pow(1 - iterations / steps, s->power) + s->end;
}

static iso_tensor *value(const iso_schedule *s, iso_tensor *done)
{
    double steps = (double)s->decay_steps;
    iso_tensor *length = iso_number(done->graph, ISO_F64, steps);
    if (s->cycle) { /* the length becomes its first multiple that is not below `done` */
        iso_tensor *periods = iso_divide(done, length), *whole = iso_schedule_floor(periods);
        iso_tensor *above = iso_where(iso_less(whole, periods), iso_affine(whole, 1, 1), whole);
        length = iso_affine(iso_maximum(above, iso_number(done->graph, ISO_F64, 1)), steps, 0);
    }
    iso_tensor *left = iso_affine(iso_divide(iso_minimum(done, length), length), -1, 1);
    return iso_affine(iso_power(left, iso_number(done->graph, ISO_F64, s->power)), s->initial - s->end,
                      s->end);
}

static iso_status check(const iso_schedule *s)
{
    iso_status status = iso_schedule_check_steps(s);
    if (status == ISO_OK && !(isfinite(s->end) && s->end >= 0))
        return iso_error(ISO_INVALID, "schedule: end_learning_rate is %g, it must be finite and not negative",
                         s->end);
    if (status == ISO_OK && !(isfinite(s->power) && s->power >= 0))
        return iso_error(ISO_INVALID, "schedule: power is %g, it must be finite and not negative", s->power);
    return status;
}

const iso_schedule_rule iso_schedule_polynomial = {
    .row = {"polynomial", "PolynomialDecay", settings},
    .kind = ISO_SCHEDULE_POLYNOMIAL,
    .needed = 1,
    .rate = rate,
    .value = value,
    .check = check,
};

iso_schedule iso_polynomial_decay_with(const iso_polynomial_decay_options *given, size_t size)
{
    iso_polynomial_decay_options options;
    iso_options_copy(&options, sizeof options, given, size);
    iso_schedule schedule = {.kind = ISO_SCHEDULE_POLYNOMIAL,
                             .initial = options.initial_learning_rate,
                             .decay_steps = options.decay_steps,
                             .end = iso_option_number(options.end_learning_rate, 1e-4),
                             .power = iso_option_number(options.power, 1),
                             .cycle = options.cycle};
    iso_settings_zero(iso_schedule_members, &schedule);
    return schedule;
}
