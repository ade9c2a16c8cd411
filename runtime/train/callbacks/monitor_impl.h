/* Shared by callbacks that watch a value of the logs. For runtime/train only. */
#ifndef ISO_TRAIN_MONITOR_IMPL_H
#define ISO_TRAIN_MONITOR_IMPL_H

#include "runtime/base/json.h"
#include "runtime/train/callbacks_impl.h"

/* The callback fills who, name, mode, min_delta. */
typedef struct iso_monitor {
    const char *who;  /* "early stopping", for messages */
    char *name;       /* of the value; owned */
    iso_mode mode;    /* not auto after training has begun */
    double min_delta; /* a smaller change is no improvement */
    bool has_best;
    double best;
    bool warned; /* that the logs do not have the value */
} iso_monitor;

/* Copies the name; NULL: the default one. False: out of memory. */
bool iso_monitor_init(iso_monitor *monitor, const char *who, const char *name, iso_mode mode,
                      double min_delta);
void iso_monitor_free(iso_monitor *monitor);
/* Resets the best value and resolves the mode auto. ISO_INVALID if the name does not imply a mode, or if the
 * logs can never have the value. A value of validation without validation data is an error if `needed`,
 * otherwise a warning by the chief. */
iso_status iso_monitor_begin(iso_monitor *monitor, const iso_fit_state *state, bool needed);
/* The value at the end of an epoch; false if there is none, of which the chief warns once. */
bool iso_monitor_read(iso_monitor *monitor, const iso_fit_state *state, double *value);
/* Whether a value is better than another by at least min_delta; never if one of them is NaN. */
bool iso_monitor_is_better(const iso_monitor *monitor, double value, double than);
/* Stores the value if it is the first or better than the best; returns whether it did. */
bool iso_monitor_improve(iso_monitor *monitor, double value);

/* ---- the parts of a callback's state ---- */
/* The member "best" of a state: a number or null; the caller owns it. */
json_t *iso_monitor_best(const iso_monitor *monitor);
/* Reads "best" from an object; ISO_INVALID if it is missing. */
iso_status iso_monitor_restore(iso_monitor *monitor, const json_t *object);
/* Reads a member that is an integer of at least 0. */
iso_status iso_state_count(const json_t *object, const char *name, int *value);

/* ---- lines for users ---- */
/* Prints a line on stdout (chief), below the progress bar. */
void iso_fit_print(const iso_fit_state *state, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool iso_fit_is_chief(const iso_fit_state *state);

#endif
