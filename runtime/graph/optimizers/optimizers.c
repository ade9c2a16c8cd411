/* Shared by all optimizers: rows, options, checks, and the numbers of a step. */
#include <math.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/optimizers/list.h"
#include "runtime/graph/schedules/rule.h"

const iso_descriptor *const iso_optimizer_rows[] = {
#define OPTIMIZER(name) &iso_optimizer_##name.row,
#include "runtime/graph/optimizers/list.h"
    NULL,
};
enum { OPTIMIZERS = sizeof iso_optimizer_rows / sizeof iso_optimizer_rows[0] - 1 };
static const iso_optimizer_rule *const default_rule = &iso_optimizer_rmsprop; /* of Keras's compile() */

const iso_setting iso_optimizer_settings[] = {
    ISO_SETTING(iso_optimizer, REAL, learning_rate, 0),
    ISO_SETTING(iso_optimizer, REAL, weight_decay, 0),
    {"clip_norm", ISO_SETTING_REAL, offsetof(iso_optimizer, clip_norm), .keras = "clipnorm"},
    {"global_clip_norm", ISO_SETTING_REAL, offsetof(iso_optimizer, global_clip_norm),
     .keras = "global_clipnorm"},
    {"clip_value", ISO_SETTING_REAL, offsetof(iso_optimizer, clip_value), .keras = "clipvalue"},
    {"accumulation", ISO_SETTING_INT, offsetof(iso_optimizer, accumulation),
     .keras = "gradient_accumulation_steps"},
    ISO_SETTING(iso_optimizer, FLAG, use_ema, 0),
    ISO_SETTING(iso_optimizer, REAL, ema_momentum, 0.99),
    ISO_SETTING(iso_optimizer, INT, ema_overwrite_frequency, 0),
    ISO_SETTING(iso_optimizer, REAL, loss_scale_factor, 0),
    {0},
};

/* ---- rows ---- */

/* The rule whose first member is this row; NULL for NULL. */
static const iso_optimizer_rule *rule_of(const iso_descriptor *row)
{
    return (const iso_optimizer_rule *)(const void *)row;
}

const iso_optimizer_rule *iso_optimizer_rule_find(const char *name)
{
    const iso_descriptor *row = name ? iso_descriptor_of(iso_optimizer_rows, name) : &default_rule->row;
    return rule_of(row);
}

const char *iso_optimizer_kernel(const char *name)
{
    const iso_optimizer_rule *rule = iso_optimizer_rule_find(name);
    if (!rule)
        return name;
    return rule->direction ? iso_optimizer_sgd.row.name : rule->kernel ? rule->kernel : rule->row.name;
}

int iso_optimizer_count(void)
{
    return OPTIMIZERS;
}

const char *iso_optimizer_name(int index)
{
    return index >= 0 && index < OPTIMIZERS ? iso_optimizer_rows[index]->name : NULL;
}

iso_status iso_optimizer_find(const char *name, iso_optimizer *optimizer)
{
    ISO_NEED(name, optimizer);
    const iso_descriptor *row;
    iso_status status = iso_descriptor_find(iso_optimizer_rows, "optimizer", name, &row);
    if (status == ISO_OK)
        *optimizer = iso_optimizer_make(rule_of(row), NULL, 0);
    return status;
}

static double value_of(const iso_optimizer *optimizer, const iso_setting *settings, const char *name)
{
    int i = 0;
    while (strcmp(settings[i].name, name) != 0)
        i++;
    return optimizer->hyper[i];
}

/* own: with the slots of the rule. */
static int list_slots(const iso_optimizer *optimizer, bool own, const char **names, double *initial)
{
    const iso_optimizer_rule *rule = iso_optimizer_rule_find(optimizer->rule);
    int count = 0;
    for (const iso_optimizer_slot *slot = rule->slot; own && slot->name; slot++) {
        if (slot->with && value_of(optimizer, rule->row.setting, slot->with) == 0)
            continue;
        initial[count] = slot->initial ? value_of(optimizer, rule->row.setting, slot->initial) : 0;
        names[count++] = slot->name;
    }
    if (optimizer->use_ema) {
        initial[count] = 0;
        names[count++] = ISO_AVERAGE_SLOT;
    }
    return count;
}

int iso_optimizer_slots(const iso_optimizer *optimizer, const char **names, double *initial)
{
    return list_slots(optimizer, true, names, initial);
}

int iso_optimizer_kernel_slots(const iso_optimizer *optimizer, const char **names, double *initial)
{
    return list_slots(optimizer, !iso_optimizer_rule_find(optimizer->rule)->direction, names, initial);
}

bool iso_optimizer_has_slot(const iso_optimizer *optimizer, const iso_variable *variable, int slot,
                            iso_shape *shape, int *without)
{
    const iso_optimizer_rule *rule = iso_optimizer_rule_find(optimizer->rule);
    *without = 0;
    *shape = *iso_variable_shape(variable);
    if (rule->has_slot && !rule->has_slot(optimizer, variable, slot, without))
        return false;
    if (*without == 0)
        return true;
    shape->rank--;
    for (int d = *without - 1; d < shape->rank; d++)
        shape->dim[d] = shape->dim[d + 1];
    return true;
}

/* ---- options ---- */

iso_optimizer iso_optimizer_make(const iso_optimizer_rule *rule, const void *given, size_t size)
{
    union {
        iso_optimizer_first first;
        char bytes[ISO_MAX_OPTIMIZER_OPTIONS];
    } options;
    iso_optimizer_common common;
    iso_options_copy(options.bytes, rule->size, given, size);
    memcpy(&common, options.bytes + rule->common, sizeof common);
    iso_optimizer optimizer = {.rule = rule->row.name,
                               .learning_rate =
                                   common.schedule.kind == ISO_SCHEDULE_CONSTANT
                                       ? iso_option_number(options.first.learning_rate, rule->learning_rate)
                                       : common.schedule.initial,
                               .schedule = common.schedule,
                               .weight_decay = iso_option_number(common.weight_decay, rule->weight_decay),
                               .no_decay = common.no_decay,
                               .clip_norm = common.clip_norm,
                               .global_clip_norm = common.global_clip_norm,
                               .clip_value = common.clip_value,
                               .accumulation = common.accumulation,
                               .use_ema = common.use_ema,
                               .ema_momentum = iso_option_number(common.ema_momentum, 0.99),
                               .ema_overwrite_frequency = common.ema_overwrite_frequency,
                               .loss_scale_factor = common.loss_scale_factor};
    iso_settings_zero(iso_optimizer_settings, &optimizer);
    for (int i = 0; rule->row.setting[i].name; i++)
        optimizer.hyper[i] = iso_setting_option(&rule->row.setting[i], options.bytes);
    return optimizer;
}

bool iso_optimizer_equal(const iso_optimizer *a, const iso_optimizer *b)
{
    bool same = strcmp(a->rule, b->rule) == 0 && memcmp(a->hyper, b->hyper, sizeof a->hyper) == 0;
    for (const iso_setting *setting = iso_optimizer_settings; setting->name; setting++)
        same = same && iso_setting_get(setting, a) == iso_setting_get(setting, b);
    return same && iso_schedule_equal(&a->schedule, &b->schedule);
}

/* ---- checks ---- */

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

static iso_status check_average(const iso_optimizer *optimizer)
{
    if (optimizer->use_ema && !(optimizer->ema_momentum >= 0 && optimizer->ema_momentum <= 1))
        return iso_error(ISO_INVALID, "ema_momentum is %g: it must be in [0, 1]", optimizer->ema_momentum);
    if (optimizer->ema_overwrite_frequency < 0)
        return iso_error(ISO_INVALID, "ema_overwrite_frequency is %d: it must not be negative",
                         optimizer->ema_overwrite_frequency);
    return ISO_OK;
}

enum { CORRECTED = 2 }; /* settings of a rule that corrects */

static iso_status check_settings(const iso_optimizer *optimizer, const iso_optimizer_rule *rule)
{
    const iso_setting *own = rule->row.setting;
    for (int i = 0; own[i].name; i++) { /* the rule checks a setting whose default is negative */
        bool negative = own[i].fallback < 0;
        if (!isfinite(optimizer->hyper[i]) || (optimizer->hyper[i] < 0 && !negative))
            return iso_error(ISO_INVALID, "%s of %s is %g: it must be finite%s", own[i].name, rule->row.name,
                             optimizer->hyper[i], negative ? "" : " and not negative");
        if (rule->corrects && i < CORRECTED && optimizer->hyper[i] >= 1)
            return iso_error(ISO_INVALID, "%s of %s is %g: it must be below 1", own[i].name, rule->row.name,
                             optimizer->hyper[i]);
    }
    return rule->check ? rule->check(optimizer) : ISO_OK;
}

iso_status iso_optimizer_check(const iso_optimizer *optimizer)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(optimizer);
    const iso_descriptor *row = &default_rule->row;
    iso_status status = ISO_OK;
    if (optimizer->rule)
        ISO_TRY(iso_descriptor_find(iso_optimizer_rows, "optimizer", optimizer->rule, &row));
    if (!isfinite(optimizer->learning_rate) || optimizer->learning_rate < 0)
        return iso_error(ISO_INVALID, "learning rate %g: it must be finite and not negative",
                         optimizer->learning_rate);
    if (!isfinite(optimizer->weight_decay) || optimizer->weight_decay < 0)
        return iso_error(ISO_INVALID, "weight decay %g: it must be finite and not negative",
                         optimizer->weight_decay);
    if (optimizer->accumulation < 0)
        return iso_error(ISO_INVALID, "accumulation over %d steps: it must not be negative",
                         optimizer->accumulation);
    if (!isfinite(optimizer->loss_scale_factor) || optimizer->loss_scale_factor < 0)
        return iso_error(ISO_INVALID, "loss_scale_factor is %g: it must be finite and not negative",
                         optimizer->loss_scale_factor);
    ISO_TRY(check_settings(optimizer, rule_of(row)));
    ISO_TRY(iso_schedule_check(&optimizer->schedule));
    ISO_TRY(check_clipping(optimizer));
    ISO_TRY(check_average(optimizer));
done:
    return status;
}

/* ---- a step ---- */

/* Schedules count all iterations; what depends on updates (Adam's powers) counts only updates. */
static int64_t updates_after(const iso_optimizer *optimizer, int64_t iterations)
{
    return optimizer->accumulation > 1 ? iterations / optimizer->accumulation : iterations;
}

static bool ends_accumulation(const iso_optimizer *optimizer, int64_t iterations)
{
    return optimizer->accumulation <= 1 || (iterations + 1) % optimizer->accumulation == 0;
}

/* As in Keras, also in the steps that only accumulate gradients. */
static bool overwrites(const iso_optimizer *optimizer, int64_t iterations)
{
    int every = optimizer->ema_overwrite_frequency;
    return optimizer->use_ema && every > 0 && (updates_after(optimizer, iterations) + 1) % every == 0;
}

bool iso_optimizer_updates(const iso_optimizer *optimizer, int64_t iterations)
{
    return ends_accumulation(optimizer, iterations) || overwrites(optimizer, iterations);
}

bool iso_optimizer_prepare(const iso_optimizer_rule *rule, const iso_optimizer *optimizer, iso_dtype dtype,
                           int64_t iterations, double learning_rate, double *hyper)
{
    double rate = iso_schedule_rate(optimizer, iterations, learning_rate);
    memset(hyper, 0, ISO_MAX_HYPER * sizeof *hyper);
    hyper[ISO_HYPER_RATE] = rate;
    hyper[ISO_HYPER_DECAY] = optimizer->weight_decay * rate;
    for (int i = 0; !rule->direction && rule->row.setting[i].name; i++)
        hyper[ISO_HYPER_OWN + i] = optimizer->hyper[i];
    if (rule->prepare)
        rule->prepare(optimizer, dtype == ISO_F32, updates_after(optimizer, iterations), hyper);
    return ends_accumulation(optimizer, iterations);
}

/* As in Keras, the steps that only accumulate gradients change averages too, and all of those before the first update
 * begin them anew. */
bool iso_optimizer_prepare_average(const iso_optimizer *optimizer, int64_t iterations, double *hyper)
{
    memset(hyper, 0, ISO_MAX_HYPER * sizeof *hyper);
    hyper[ISO_HYPER_MOMENTUM] = updates_after(optimizer, iterations) == 0 ? 0 : optimizer->ema_momentum;
    hyper[ISO_HYPER_OVERWRITE] = overwrites(optimizer, iterations);
    return optimizer->use_ema;
}
