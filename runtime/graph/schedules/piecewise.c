/* Keras's PiecewiseConstantDecay. */
#include "runtime/base/arguments.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/schedules/rule.h"

static double rate(const iso_schedule *s, int64_t iterations)
{
    int i = 0;
    while (i < s->n_boundaries && iterations > s->boundaries[i])
        i++;
    return s->value[i];
}

static iso_tensor *value(const iso_schedule *s, iso_tensor *done)
{
    iso_tensor *rate = iso_number(done->graph, ISO_F64, s->value[s->n_boundaries]);
    for (int i = s->n_boundaries - 1; i >= 0; i--)
        rate = iso_where(iso_greater(done, iso_number(done->graph, ISO_F64, (double)s->boundaries[i])), rate,
                         iso_number(done->graph, ISO_F64, s->value[i]));
    return rate;
}

static iso_status check(const iso_schedule *s)
{
    if (s->n_boundaries < 0 || s->n_boundaries > ISO_MAX_PIECES)
        return iso_error(ISO_INVALID, "schedule: %d boundaries, 0 to %d are possible", s->n_boundaries,
                         ISO_MAX_PIECES);
    for (int i = 1; i < s->n_boundaries; i++)
        if (s->boundaries[i] <= s->boundaries[i - 1])
            return iso_error(ISO_INVALID, "schedule: boundary %lld follows %lld, they must increase",
                             (long long)s->boundaries[i], (long long)s->boundaries[i - 1]);
    return ISO_OK;
}

const iso_schedule_rule iso_schedule_piecewise = {
    .row = {"piecewise", "PiecewiseConstantDecay", NULL},
    .kind = ISO_SCHEDULE_PIECEWISE,
    .piecewise = true,
    .titled = "PiecewiseConstant",
    .rate = rate,
    .value = value,
    .check = check,
};

iso_schedule iso_piecewise_constant(int count, const int64_t *boundaries, const double *values)
{
    iso_schedule schedule = {.kind = ISO_SCHEDULE_PIECEWISE, .n_boundaries = count};
    if (ISO_ANY_NULL(values) || (count > 0 && ISO_ANY_NULL(boundaries)))
        schedule.n_boundaries = count < 0 ? count : -1;
    if (schedule.n_boundaries < 0 || count > ISO_MAX_PIECES)
        return schedule; /* iso_optimizer_check reports it */
    for (int i = 0; i < count; i++)
        schedule.boundaries[i] = boundaries[i];
    for (int i = 0; i <= count; i++)
        schedule.value[i] = values[i];
    schedule.initial = values[0];
    return schedule;
}
