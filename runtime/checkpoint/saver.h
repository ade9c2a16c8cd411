/* Writing checkpoints. For the library only. */
#ifndef ISO_CHECKPOINT_SAVER_H
#define ISO_CHECKPOINT_SAVER_H

#include "runtime/checkpoint/checkpoint.h"

/* What a file is to hold. Lent for the time of a call. Tensors that no shard has (`path` NULL) are given by
 * `constant`, dense; else that is NULL. */
typedef struct iso_file_spec {
    int n_tensors, n_groups;
    const iso_saved_tensor *tensors;
    const void *const *constant; /* [n_tensors]; NULL: none */
    const iso_saved_group *groups;
    const char *state; /* JSON */
    uint64_t number;   /* orders checkpoints of a folder: the steps trained. Raised above the numbers of all
                          that the saver wrote or adopted */
} iso_file_spec;

typedef struct iso_saver iso_saver;

typedef struct iso_saver_options {
    char begin_;
    int keep;   /* of the checkpoints that this saver wrote or was told of, so many are left; 0: all */
    bool mpio;  /* through HDF5's parallel driver, before the call returns: for file systems that want it */
    bool waits; /* the call returns when the file is committed, and nothing is copied; else a thread writes a
                   copy, whose memory the saver keeps for the next, while the caller goes on */
    bool no_latest; /* `latest` of the folder stays: the file is not one of a row of checkpoints */
} iso_saver_options;

/* Collective. */
iso_status iso_saver_create_with(iso_context *ctx, iso_saver **saver, const iso_saver_options *options,
                                 size_t size);
#define iso_saver_create(ctx, saver, ...)                                                                    \
    iso_saver_create_with(ctx, saver, &(iso_saver_options){.begin_ = 0, __VA_ARGS__},                        \
                          sizeof(iso_saver_options))
/* Waits for the save under way. NULL is nothing. Collective. */
void iso_saver_destroy(iso_saver *saver);

/* Saves. path: ends in ".weights.h5"; its folder is made where it is missing; what had the name before is
 * replaced at the commit and not changed before. Returns when this rank's writing shards are copied: they
 * may change from then on. Waits for the save before, whose status goes to *last (may be NULL) with its
 * message in iso_saver_message(). best: the pointer `best` of the folder moves to this file, which then is not
 * rotated away while it has it. ISO_INVALID: shards that do not fit the contents (each tensor with a path
 * must be covered by the writing shards of all ranks). Collective. */
iso_status iso_saver_save(iso_saver *saver, const char *path, const iso_file_spec *spec,
                          const iso_state_shards *shards, bool best, iso_status *last);
/* Moves a save on; cheap, never waits. To be called after each step, on every rank as often. */
void iso_saver_poll(iso_saver *saver);
/* Waits for the save under way: its status, agreed; ISO_OK where there is none. A status is given out once.
 * Collective. */
iso_status iso_saver_wait(iso_saver *saver);
/* Of the last save that failed: "checkpoint ckpt/3.weights.h5: rank 2: ... No space left on device". Lent. */
const char *iso_saver_message(const iso_saver *saver);
/* Whether every rank can write a checkpoint of this name: its folder is made where it is missing, and each
 * rank writes a file there that it removes. ISO_INVALID names rank, folder and reason. Collective. */
iso_status iso_saver_try(iso_saver *saver, const char *path);
/* Checkpoints that were there before count for `keep`: those of the folder whose names the pattern, with
 * {...} for anything, fits; also removes what savers that were killed left behind. Collective. */
iso_status iso_saver_adopt(iso_saver *saver, const char *pattern);

#endif
