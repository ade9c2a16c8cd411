/* What callbacks that write checkpoints have in common. For runtime/train only. */
#ifndef ISO_TRAIN_KEEPER_IMPL_H
#define ISO_TRAIN_KEEPER_IMPL_H

#include "runtime/train/state_impl.h"

typedef struct iso_keeper_options {
    bool weights_only, mpio, waits;
    bool stop_on_error; /* a checkpoint that cannot be written is an error instead of a warning */
    bool verbose;       /* a line for each */
    int keep;           /* 0: all */
} iso_keeper_options;

typedef struct iso_keeper iso_keeper;

/* Collective. */
iso_status iso_keeper_create(iso_model *model, const iso_keeper_options *options, iso_keeper **keeper);
/* Waits for what is being written. Collective. */
void iso_keeper_destroy(iso_keeper *keeper);
/* Checks that every rank can write into the folder (iso_saver_try), and counts existing checkpoints for
 * `keep` (iso_saver_adopt). who: for messages. Collective. */
iso_status iso_keeper_adopt(iso_keeper *keeper, const char *who, const char *pattern);
/* Begins to write; what became of the one before is told now. Collective. */
iso_status iso_keeper_save(iso_keeper *keeper, iso_training *training, const char *path, bool best);
void iso_keeper_poll(iso_keeper *keeper);
/* Waits. Collective. */
iso_status iso_keeper_wait(iso_keeper *keeper);
/* After the last save: the chief warns if no checkpoint could be written. */
void iso_keeper_tell_none_kept(const iso_keeper *keeper, const char *pattern);

#endif
