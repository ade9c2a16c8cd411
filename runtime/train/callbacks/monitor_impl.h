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
    bool chief;  /* this rank is */
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
/* Whether the value is the first or better than the best. */
bool iso_monitor_improves(const iso_monitor *monitor, double value);
/* The same, and stores such a value as the best. */
bool iso_monitor_improve(iso_monitor *monitor, double value);

/* ---- the parts of a callback's state ---- */
/* Sets the members "best" (a number or null), "monitor" and "mode" of a state. After iso_monitor_begin. */
void iso_monitor_save(const iso_monitor *monitor, json_t *object);
/* Reads them; ISO_INVALID if "best" is missing. *other (NULL: not wanted): the best value is of another monitored
 * value, or of the other mode. It is forgotten then, so that this run's first value is the best, and the chief warns.
 * Older states have neither name nor mode. */
iso_status iso_monitor_restore(iso_monitor *monitor, const json_t *object, bool *other);
/* Reads a member that is an integer of at least 0. */
iso_status iso_state_count(const json_t *object, const char *name, int *value);

/* ---- lines for users ---- */
/* Prints a line on stdout (chief), below the progress bar. */
void iso_fit_print(const iso_fit_state *state, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool iso_fit_is_chief(const iso_fit_state *state);

#endif
