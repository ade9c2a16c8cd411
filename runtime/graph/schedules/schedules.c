/* Shared by all schedules, and the schedule of a constant rate. */
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/schedules/rule.h"

const iso_descriptor *const iso_schedule_rows[] = {
#define SCHEDULE(name, NAME, settings) &iso_schedule_##name.row,
#include "runtime/graph/schedules/list.h"
    NULL,
};

const iso_schedule_rule iso_schedule_constant = {.row = {"constant", NULL, NULL},
                                                 .kind = ISO_SCHEDULE_CONSTANT};

const iso_setting iso_schedule_members[] = {
    ISO_SETTING(iso_schedule, REAL, initial, 0),
    ISO_SETTING(iso_schedule, REAL, rate, 0),
    ISO_SETTING(iso_schedule, REAL, alpha, 0),
    ISO_SETTING(iso_schedule, REAL, warmup_target, 0),
    ISO_SETTING(iso_schedule, COUNT, decay_steps, 0),
    ISO_SETTING(iso_schedule, COUNT, warmup_steps, 0),
    ISO_SETTING(iso_schedule, FLAG, staircase, false),
    ISO_SETTING(iso_schedule, REAL, end, 0),
    ISO_SETTING(iso_schedule, REAL, power, 0),
    ISO_SETTING(iso_schedule, REAL, t_mul, 0),
    ISO_SETTING(iso_schedule, REAL, m_mul, 0),
    ISO_SETTING(iso_schedule, FLAG, cycle, false),
    {0},
};

const iso_setting iso_schedule_rate_settings[] = {
    {"initial_learning_rate", ISO_SETTING_REAL, offsetof(iso_schedule, initial), .fallback = 0},
    ISO_SETTING(iso_schedule, COUNT, decay_steps, 0),
    {"decay_rate", ISO_SETTING_REAL, offsetof(iso_schedule, rate), .fallback = 0},
    ISO_SETTING(iso_schedule, FLAG, staircase, 0),
    {0},
};

iso_schedule iso_schedule_by_rate(iso_schedule_kind kind, const iso_exponential_decay_options *given,
                                  size_t size)
{
    iso_exponential_decay_options options;
    iso_options_copy(&options, sizeof options, given, size);
    iso_schedule schedule = {.kind = kind,
                             .initial = options.initial_learning_rate,
                             .decay_steps = options.decay_steps,
                             .rate = options.decay_rate,
                             .staircase = options.staircase};
    iso_settings_zero(iso_schedule_members, &schedule);
    return schedule;
}

const iso_schedule_rule *iso_schedule_rule_of(const iso_schedule *schedule)
{
    for (int i = 0; iso_schedule_rows[i]; i++) {
        const iso_schedule_rule *rule = (const iso_schedule_rule *)(const void *)iso_schedule_rows[i];
        if (rule->kind == schedule->kind)
            return rule;
    }
    return &iso_schedule_constant;
}

bool iso_schedule_equal(const iso_schedule *a, const iso_schedule *b)
{
    bool same = a->kind == b->kind && a->n_boundaries == b->n_boundaries &&
                memcmp(a->boundaries, b->boundaries, sizeof a->boundaries) == 0 &&
                memcmp(a->value, b->value, sizeof a->value) == 0;
    for (const iso_setting *member = iso_schedule_members; member->name; member++)
        same = same && iso_setting_get(member, a) == iso_setting_get(member, b);
    return same;
}

iso_status iso_schedule_check(const iso_schedule *schedule)
{
    const iso_schedule_rule *rule = iso_schedule_rule_of(schedule);
    if (rule->kind != schedule->kind)
        return iso_error(ISO_INVALID, "schedule: kind %d, there is no such schedule", (int)schedule->kind);
    return rule->check ? rule->check(schedule) : ISO_OK;
}

iso_status iso_schedule_check_steps(const iso_schedule *schedule)
{
    if (schedule->decay_steps <= 0)
        return iso_error(ISO_INVALID, "schedule: decay_steps is %lld, it must be positive",
                         (long long)schedule->decay_steps);
    return ISO_OK;
}

iso_tensor *iso_schedule_value(const iso_schedule *schedule, iso_tensor *done, iso_tensor *learning_rate)
{
    const iso_schedule_rule *rule = iso_schedule_rule_of(schedule);
    return rule->value ? rule->value(schedule, done) : learning_rate;
}

iso_tensor *iso_schedule_floor(iso_tensor *x)
{
    return iso_cast(iso_cast(x, ISO_I64), ISO_F64);
}

/* cos(pi x) = -sin(y), y = pi (x - 1/2): its series, whose rest is below 1e-17 for |y| <= pi / 2. */
iso_tensor *iso_schedule_cosine_of(iso_tensor *x)
{
    enum { LAST = 23 };
    iso_tensor *y = iso_affine(x, 3.14159265358979323846, -1.57079632679489661923), *square = iso_square(y);
    iso_tensor *sum = iso_affine(square, -1.0 / (LAST * (LAST - 1)), 1);
    for (int k = LAST - 2; k > 1; k -= 2)
        sum = iso_affine(iso_multiply(square, sum), -1.0 / (k * (k - 1)), 1);
    return iso_negate(iso_multiply(y, sum));
}

double iso_schedule_rate(const iso_optimizer *optimizer, int64_t iterations, double learning_rate)
{
    ISO_DEFAULT_MODES();
    if (ISO_ANY_NULL(optimizer))
        return 0;
    const iso_schedule_rule *rule = iso_schedule_rule_of(&optimizer->schedule);
    return rule->rate ? rule->rate(&optimizer->schedule, iterations) : learning_rate;
}
