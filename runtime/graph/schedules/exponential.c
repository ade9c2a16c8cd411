/* Keras's ExponentialDecay. */
#include <math.h>

#include "runtime/graph/graph_impl.h"
#include "runtime/graph/schedules/rule.h"

static double rate(const iso_schedule *s, int64_t iterations)
{
    double exponent = (double)iterations / (double)s->decay_steps;
    return s->initial * pow(s->rate, s->staircase ? floor(exponent) : exponent);
}

static iso_tensor *value(const iso_schedule *s, iso_tensor *done)
{
    iso_tensor *exponent = iso_divide(done, iso_number(done->graph, ISO_F64, (double)s->decay_steps));
    iso_tensor *base = iso_number(done->graph, ISO_F64, s->rate);
    return iso_affine(iso_power(base, s->staircase ? iso_schedule_floor(exponent) : exponent), s->initial, 0);
}

static iso_status check(const iso_schedule *s)
{
    iso_status status = iso_schedule_check_steps(s);
    if (status == ISO_OK && !(s->rate > 0))
        return iso_error(ISO_INVALID, "schedule: decay_rate is %g, it must be positive", s->rate);
    return status;
}

const iso_schedule_rule iso_schedule_exponential = {
    .row = {"exponential", "ExponentialDecay", iso_schedule_rate_settings},
    .kind = ISO_SCHEDULE_EXPONENTIAL,
    .needed = 2,
    .rate = rate,
    .value = value,
    .check = check,
};

iso_schedule iso_exponential_decay_with(const iso_exponential_decay_options *options, size_t size)
{
    return iso_schedule_by_rate(ISO_SCHEDULE_EXPONENTIAL, options, size);
}
