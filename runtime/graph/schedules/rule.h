/* The descriptor of a learning-rate schedule: an entry of the list in list.h. Formulas and names are those
 * of keras/src/optimizers/schedules/learning_rate_schedule.py, Keras 3.15. */
#ifndef ISO_GRAPH_SCHEDULES_RULE_H
#define ISO_GRAPH_SCHEDULES_RULE_H

#include "runtime/base/descriptor.h"
#include "runtime/graph/optimizer.h"

typedef struct iso_schedule_rule {
    iso_descriptor
        row; /* the settings are members of iso_schedule, in the order of Keras's config; the first is the initial rate */
    iso_schedule_kind kind;
    int needed;         /* number of settings after the initial rate that must be given */
    bool piecewise;     /* it has boundaries and values instead of settings */
    const char *titled; /* Keras's default name of such an object; NULL: that of the class */
    /* The rate of the step after `iterations` completed ones; NULL: the optimizer's learning rate. */
    double (*rate)(const iso_schedule *schedule, int64_t iterations);
    /* The same by ops of the graph, for updates that are built from them. done: the iterations; ISO_F64 scalars. */
    iso_tensor *(*value)(const iso_schedule *schedule, iso_tensor *done);
    /* Checks the settings (ISO_INVALID). NULL: all values are valid. */
    iso_status (*check)(const iso_schedule *schedule);
} iso_schedule_rule;

#define SCHEDULE(name, NAME, settings) extern const iso_schedule_rule iso_schedule_##name;
#include "runtime/graph/schedules/list.h"

enum { ISO_MAX_SCHEDULE_SETTINGS = 8 };

/* The rows in the order of list.h; and the numeric members of iso_schedule, in the order of checkpoints. */
extern const iso_descriptor *const iso_schedule_rows[];
extern const iso_setting iso_schedule_members[];
/* The row of schedule->kind. */
const iso_schedule_rule *iso_schedule_rule_of(const iso_schedule *schedule);
bool iso_schedule_equal(const iso_schedule *a, const iso_schedule *b);
/* ISO_INVALID names the setting and its value. */
iso_status iso_schedule_check(const iso_schedule *schedule);
/* Checks decay_steps, for the rows that have it. */
iso_status iso_schedule_check_steps(const iso_schedule *schedule);
/* iso_schedule_rate by ops of the graph, within rounding. done: the iterations; all are ISO_F64 scalars. */
iso_tensor *iso_schedule_value(const iso_schedule *schedule, iso_tensor *done, iso_tensor *learning_rate);
/* Parts of it: the whole number at or below x >= 0, and the cosine of pi x for x in [0, 1]. */
iso_tensor *iso_schedule_floor(iso_tensor *x);
iso_tensor *iso_schedule_cosine_of(iso_tensor *x);
/* The settings of the rows that have a decay_rate, and a schedule of one of them. */
extern const iso_setting iso_schedule_rate_settings[];
iso_schedule iso_schedule_by_rate(iso_schedule_kind kind, const iso_exponential_decay_options *given,
                                  size_t size);

#endif
