#include "runtime/train/callbacks/monitor_impl.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/session/session.h"
#include "runtime/train/loss.h"
#include "runtime/train/training_impl.h"

bool iso_monitor_init(iso_monitor *monitor, const char *who, const char *name, iso_mode mode,
                      double min_delta)
{
    *monitor = (iso_monitor){.who = who, .mode = mode, .min_delta = fabs(min_delta)};
    monitor->name = iso_strdup(name ? name : "val_loss");
    return monitor->name != NULL;
}

void iso_monitor_free(iso_monitor *monitor)
{
    iso_free(monitor->name);
    monitor->name = NULL;
}

/* ---- direction ---- */

/* Whether a value's name belongs to this metric: "accuracy", "weighted_accuracy", "head_accuracy_2". */
static bool is_metric(const char *name, size_t length, const char *metric)
{
    size_t own = strlen(metric);
    while (length > 1 && isdigit((unsigned char)name[length - 1]))
        length--;
    if (length > 1 && name[length - 1] == '_')
        length--;
    return length >= own && strncmp(name + length - own, metric, own) == 0 &&
           (length == own || name[length - own - 1] == '_');
}

static iso_mode mode_of(const char *name)
{
    if (strncmp(name, "val_", 4) == 0)
        name += 4;
    for (int i = 1; i < ISO_METRIC_COUNT; i++) {
        const iso_metric_type *type = iso_metric_type_of((iso_metric)i);
        const char *const names[] = {type->row.name, type->keras_name, type->alias};
        for (int k = 0; k < 3; k++)
            if (names[k] && is_metric(name, strlen(name), names[k]))
                return type->less_is_better ? ISO_MODE_MIN : ISO_MODE_MAX;
    }
    return is_metric(name, strlen(name), "loss") ? ISO_MODE_MIN : ISO_MODE_AUTO;
}

static bool is_among(const iso_logs *logs, const char *name)
{
    for (int i = 0; i < logs->count; i++)
        if (strcmp(logs->name[i], name) == 0)
            return true;
    return false;
}

/* logs: the values that will be there; all: also those that validation data would give. */
static iso_status no_such_value(const iso_monitor *monitor, const iso_logs *logs, const iso_logs *all)
{
    iso_text near = {0};
    if (!iso_text_add_near(&near, monitor->name, all->name, all->count))
        iso_text_add_nearest(&near, monitor->name, logs->name, logs->count);
    iso_status status = iso_error(ISO_INVALID, "%s monitors '%s': there is no such value%s", monitor->who,
                                  monitor->name, iso_text_get(&near));
    iso_text_free(&near);
    return status;
}

static void warn_of(const iso_monitor *monitor, const char *what, const iso_logs *logs)
{
    iso_text names = {0};
    for (int i = 0; i < logs->count; i++)
        iso_text_add(&names, "%s%s", i ? ", " : "", logs->name[i]);
    iso_warn("%s monitors '%s', %s; there are: %s", monitor->who, monitor->name, what, iso_text_get(&names));
    iso_text_free(&names);
}

/* Whether the logs can have the monitored value. The names that the user's own callbacks log are unknown. */
static iso_status check_name(iso_monitor *monitor, const iso_fit_state *state, bool needed)
{
    const iso_training *t = state->training;
    iso_logs logs = iso_training_expected_logs(t), all = logs;
    all.count = 2 * iso_model_value_count(state->model);
    if (is_among(&logs, monitor->name) || iso_callbacks_may_log(t->callbacks, monitor->name))
        return ISO_OK;
    if (!is_among(&all, monitor->name))
        return no_such_value(monitor, &logs, &all);
    if (needed)
        return iso_error(ISO_INVALID,
                         "%s monitors '%s', which needs validation data: without them nothing is ever the "
                         "best (--validation-data, --validation-split; iso_fit's .validation)",
                         monitor->who, monitor->name);
    if (monitor->chief)
        warn_of(
            monitor,
            "but there are no validation data (--validation-data, --validation-split; iso_fit's .validation)",
            &logs);
    monitor->warned = true;
    return ISO_OK;
}

iso_status iso_monitor_begin(iso_monitor *monitor, const iso_fit_state *state, bool needed)
{
    monitor->has_best = monitor->warned = false;
    monitor->chief = iso_fit_is_chief(state);
    iso_status status = check_name(monitor, state, needed);
    if (status != ISO_OK)
        return status;
    if (!isfinite(monitor->min_delta))
        return iso_error(ISO_INVALID, "%s: min_delta is %g, it must be a number", monitor->who,
                         monitor->min_delta);
    if ((int)monitor->mode < ISO_MODE_AUTO || (int)monitor->mode > ISO_MODE_MAX)
        return iso_error(ISO_INVALID, "%s: %d is not a mode", monitor->who, (int)monitor->mode);
    if (monitor->mode == ISO_MODE_AUTO)
        monitor->mode = mode_of(monitor->name);
    if (monitor->mode == ISO_MODE_AUTO)
        return iso_error(ISO_INVALID,
                         "%s monitors '%s', whose name does not say whether it should increase or decrease: "
                         "give the mode min or max",
                         monitor->who, monitor->name);
    return ISO_OK;
}

bool iso_monitor_is_better(const iso_monitor *monitor, double value, double than)
{
    return monitor->mode == ISO_MODE_MAX ? value - monitor->min_delta > than
                                         : value + monitor->min_delta < than;
}

bool iso_monitor_improves(const iso_monitor *monitor, double value)
{
    return !monitor->has_best || iso_monitor_is_better(monitor, value, monitor->best);
}

bool iso_monitor_improve(iso_monitor *monitor, double value)
{
    if (!iso_monitor_improves(monitor, value))
        return false;
    monitor->has_best = true;
    monitor->best = value;
    return true;
}

/* ---- the value ---- */

bool iso_monitor_read(iso_monitor *monitor, const iso_fit_state *state, double *value)
{
    for (int i = 0; i < state->logs.count; i++)
        if (strcmp(state->logs.name[i], monitor->name) == 0) {
            *value = state->logs.value[i];
            return true;
        }
    if (!monitor->warned && monitor->chief)
        warn_of(monitor, "which is not among the logs", &state->logs);
    monitor->warned = true;
    return false;
}

/* ---- state ---- */

static const char *mode_name(const iso_monitor *monitor)
{
    return monitor->mode == ISO_MODE_MAX ? "max" : "min";
}

void iso_monitor_save(const iso_monitor *monitor, json_t *object)
{
    json_object_set_new(object, "best", monitor->has_best ? iso_json_number(monitor->best) : json_null());
    json_object_set_new(object, "monitor", json_string(monitor->name));
    json_object_set_new(object, "mode", json_string(mode_name(monitor)));
}

/* Forgets a best value that cannot be compared with this run's values. */
static bool forget_other(iso_monitor *monitor, const json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "monitor"));
    const char *mode = json_string_value(json_object_get(object, "mode"));
    if (!name || !mode || (!strcmp(name, monitor->name) && !strcmp(mode, mode_name(monitor))))
        return false;
    if (monitor->has_best && monitor->chief)
        iso_warn("%s: the checkpoint was written by a run that monitors '%s' (%s); it is '%s' (%s) from here "
                 "on, and the best value so far is forgotten",
                 monitor->who, name, mode, monitor->name, mode_name(monitor));
    monitor->has_best = false;
    return true;
}

iso_status iso_monitor_restore(iso_monitor *monitor, const json_t *object, bool *other)
{
    const json_t *best = json_object_get(object, "best");
    monitor->has_best = !json_is_null(best);
    if (monitor->has_best && !iso_json_get_number(best, &monitor->best))
        return iso_error(ISO_INVALID, "'best' must be a number or null");
    bool forgotten = forget_other(monitor, object);
    if (other)
        *other = forgotten;
    return ISO_OK;
}

iso_status iso_state_count(const json_t *object, const char *name, int *value)
{
    const json_t *member = json_object_get(object, name);
    if (!json_is_integer(member) || json_integer_value(member) < 0 || json_integer_value(member) > INT32_MAX)
        return iso_error(ISO_INVALID, "'%s' must be an integer of at least 0", name);
    *value = (int)json_integer_value(member);
    return ISO_OK;
}

/* ---- lines ---- */

bool iso_fit_is_chief(const iso_fit_state *state)
{
    const iso_context *ctx = state->training->ctx;
    return iso_is_chief(ctx);
}

void iso_fit_print(const iso_fit_state *state, const char *format, ...)
{
    va_list args;
    if (!iso_fit_is_chief(state))
        return;
    iso_progress_break(state->training->progress);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
}
