/* Keras's InverseTimeDecay. */
#include <math.h>

#include "runtime/graph/graph_impl.h"
#include "runtime/graph/schedules/rule.h"

static double rate(const iso_schedule *s, int64_t iterations)
{
    double done = (double)iterations / (double)s->decay_steps;
    return s->initial / (1 + s->rate * (s->staircase ? floor(done) : done));
}

static iso_tensor *value(const iso_schedule *s, iso_tensor *done)
{
    iso_tensor *periods = iso_divide(done, iso_number(done->graph, ISO_F64, (double)s->decay_steps));
    iso_tensor *below = iso_affine(s->staircase ? iso_schedule_floor(periods) : periods, s->rate, 1);
    return iso_divide(iso_number(done->graph, ISO_F64, s->initial), below);
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
    .row = {"inverse_time", "InverseTimeDecay", iso_schedule_rate_settings},
    .kind = ISO_SCHEDULE_INVERSE_TIME,
    .needed = 2,
    .rate = rate,
    .value = value,
    .check = check,
};

iso_schedule iso_inverse_time_decay_with(const iso_exponential_decay_options *options, size_t size)
{
    return iso_schedule_by_rate(ISO_SCHEDULE_INVERSE_TIME, options, size);
}
