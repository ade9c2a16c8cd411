/* The best checkpoint of a ModelCheckpoint by a monitored value. For runtime/train only. */
#ifndef ISO_TRAIN_BEST_IMPL_H
#define ISO_TRAIN_BEST_IMPL_H

#include "runtime/train/callbacks/monitor_impl.h"

/* A checkpoint of a folder. Other files may have had its name, but not its number. */
typedef struct iso_best_file {
    char *name;      /* in the folder: "3.weights.h5"; NULL: none, or unknown; owned */
    uint64_t number; /* in its commit record; right on the chief only */
} iso_best_file;

/* A value counts as the best when its checkpoint is committed. */
typedef struct iso_best {
    bool used;
    iso_monitor monitor; /* its best value is that of `kept` */
    iso_best_file kept;  /* no name: the best value is none of a checkpoint */
    bool saving;         /* a better checkpoint has begun; it is not known yet whether it is committed */
    iso_best_file begun; /* that one, and its value */
    double value;
} iso_best;

/* Copies the name, as iso_monitor_init() does. used: otherwise the best does nothing. False: out of memory. */
bool iso_best_init(iso_best *best, bool used, const char *name, iso_mode mode);
void iso_best_free(iso_best *best);
/* As iso_monitor_begin(). */
iso_status iso_best_begin(iso_best *best, const iso_fit_state *state, bool needed);

/* Whether the value of the logs, which is stored in *value, is better than the best. NaN never is. *missing: the logs
 * do not have it, of which the chief warns once. */
bool iso_best_improves(iso_best *best, const iso_fit_state *state, double *value, bool *missing);
/* A save of a better value begins. The name is copied; NULL: iso_best_find is not to look for the file. */
iso_status iso_best_save_begins(iso_best *best, double value, const char *name, uint64_t number);
/* The save has ended: if it is committed, its value is the best from now on. */
void iso_best_save_ends(iso_best *best, bool committed);

/* The state in checkpoints; the caller owns it. */
json_t *iso_best_state(const iso_best *best);
/* Reads it; ISO_INVALID. Older states have no names of files: their best value is kept. */
iso_status iso_best_restore(iso_best *best, const json_t *state);
/* After iso_best_restore: looks for the checkpoints of the state in the folder (NULL: in none). If the one that had
 * begun is there, it is the best; if neither is, the best value is forgotten. ISO_IO: a file cannot be read.
 * Collective. */
iso_status iso_best_find(iso_best *best, iso_context *ctx, const char *folder);

#endif
