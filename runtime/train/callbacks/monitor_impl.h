/* What callbacks have in common that watch a value of the logs. For runtime/train only. */
#ifndef ISO_TRAIN_MONITOR_IMPL_H
#define ISO_TRAIN_MONITOR_IMPL_H

#include "runtime/base/json.h"
#include "runtime/train/callbacks_impl.h"

/* Filled by the callback: who, name, mode, min_delta. */
typedef struct iso_monitor {
    const char *who;  /* "early stopping", for messages */
    char *name;       /* of the value; owned */
    iso_mode mode;    /* never auto once training has begun */
    double min_delta; /* what is less better than this is not better */
    bool has_best;
    double best;
    bool warned; /* that there is no such value */
} iso_monitor;

/* A copy of the name, the default one where it is NULL. False if there is no memory. */
bool iso_monitor_init(iso_monitor *monitor, const char *who, const char *name, iso_mode mode,
                      double min_delta);
void iso_monitor_free(iso_monitor *monitor);
/* Forgets the best; finds out what is better where the mode is auto. ISO_INVALID where the name does not
 * tell, and where no value of the logs can have it. A value of validation that there is none of is an error
 * where `needed`, else a warning by the chief. */
iso_status iso_monitor_begin(iso_monitor *monitor, const iso_fit_state *state, bool needed);
/* The value at the end of an epoch; false where there is none, of which the chief warns once. */
bool iso_monitor_read(iso_monitor *monitor, const iso_fit_state *state, double *value);
/* Whether a value is better than another, by min_delta at least: never where one of them is NaN. */
bool iso_monitor_is_better(const iso_monitor *monitor, double value, double than);
/* Takes the value where it is better than the best, or the first. */
bool iso_monitor_improve(iso_monitor *monitor, double value);

/* ---- the parts of a callback's state ---- */
/* "best": a number or null. */
void iso_monitor_save(const iso_monitor *monitor, iso_text *json);
/* Takes it out of an object; ISO_INVALID where it is not there. */
iso_status iso_monitor_restore(iso_monitor *monitor, const json_t *object);
/* A member that is an integer from 0 on. */
iso_status iso_state_count(const json_t *object, const char *name, int *value);

/* ---- lines for users ---- */
/* A line on stdout by the chief, after what the progress bar has drawn. */
void iso_fit_say(const iso_fit_state *state, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool iso_fit_is_chief(const iso_fit_state *state);

#endif
