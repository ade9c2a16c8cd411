/* Writes checkpoints. For the library only. */
#ifndef ISO_CHECKPOINT_SAVER_H
#define ISO_CHECKPOINT_SAVER_H

#include "runtime/checkpoint/checkpoint.h"

/* The content of a file. Lent for the time of a call. A tensor that no shard has (`path` NULL) is given by
 * `constant`, dense; for other tensors that is NULL. */
typedef struct iso_file_spec {
    int n_tensors, n_groups;
    const iso_saved_tensor *tensors;
    const void *const *constant; /* [n_tensors]; NULL: none */
    const iso_saved_group *groups;
    const char *state; /* JSON */
    uint64_t number;   /* orders checkpoints: the steps trained. Raised above the numbers of all files of the
                          folders that savers with these numbers have adopted */
} iso_file_spec;

/* What savers add to the callers' numbers. The checkpoints of savers that share it, in different folders, are
 * ordered by their numbers too. Zero at first. */
typedef struct iso_saver_numbers {
    uint64_t newest; /* the greatest number in the adopted folders; known to the chief, which writes it */
    uint64_t added;
} iso_saver_numbers;

typedef struct iso_saver iso_saver;

typedef struct iso_saver_options {
    char begin_;
    int keep;   /* how many of the checkpoints that this saver wrote or adopted are kept; 0: all */
    bool mpio;  /* writes through HDF5's parallel driver, before the call returns: for file systems that need
                   it */
    bool waits; /* the call returns when the file is committed, and nothing is copied; otherwise a thread
                   writes a copy while the caller continues, and the saver reuses the copy's memory for the
                   next save */
    bool no_latest; /* leaves the folder's pointer `latest` alone: the file is not one of a series of
                       checkpoints */
    iso_saver_numbers *numbers; /* lent; NULL: the saver has its own */
} iso_saver_options;

/* Collective. */
iso_status iso_saver_create_with(iso_context *ctx, iso_saver **saver, const iso_saver_options *options,
                                 size_t size);
#define iso_saver_create(ctx, saver, ...)                                                                    \
    iso_saver_create_with(ctx, saver, &(iso_saver_options){.begin_ = 0, __VA_ARGS__},                        \
                          sizeof(iso_saver_options))
/* Waits for the save in progress. NULL is ignored. Collective. */
void iso_saver_destroy(iso_saver *saver);

/* Saves. path: ends in ".weights.h5"; its folder is made if it is missing. An existing file of this name is
 * replaced at the commit and unchanged until then. Returns after this rank's writing shards are copied: they
 * may then change. Waits for the save before it, whose status is stored in *last (may be NULL) with its
 * message in iso_saver_message(). best: the folder's pointer `best` moves to this file, which is not rotated
 * away until another one is the best. If the pointer cannot be moved, the next saves try again. ISO_INVALID:
 * shards that do not fit the specification (the writing shards of all ranks must cover each tensor with a
 * path). Collective. */
iso_status iso_saver_save(iso_saver *saver, const char *path, const iso_file_spec *spec,
                          const iso_state_shards *shards, bool best, iso_status *last);
/* Advances a save; cheap, never waits. Call it after each step, equally often on every rank. */
void iso_saver_poll(iso_saver *saver);
/* Whether a save has ended with an error that no call has returned yet. Other ranks may learn of it later. Local. */
bool iso_saver_has_failed(const iso_saver *saver);
/* Waits for the save in progress and returns its status, agreed; ISO_OK if there is none. Each status is
 * returned once. Collective. */
iso_status iso_saver_wait(iso_saver *saver);
/* The message of the last save that failed: "checkpoint ckpt/3.weights.h5: rank 2: ... No space left on
 * device". Lent. */
const char *iso_saver_message(const iso_saver *saver);
/* The number that the file of a save with this number gets now. Right on rank 0 only. Local. */
uint64_t iso_saver_number(const iso_saver *saver, uint64_t number);
/* The pointer `best` is to name this checkpoint of the folder, as after a save with `best`. If it does not, it is
 * moved now or, after an error, by the next save. No save is in progress. ISO_IO. On rank 0. */
iso_status iso_saver_mark(iso_saver *saver, const char *folder, const char *name);
/* Checks that every rank can write a checkpoint of this name: its folder is made if it is missing, and each
 * rank writes a file there and removes it. ISO_INVALID names rank, folder and reason. Collective. */
iso_status iso_saver_try(iso_saver *saver, const char *path);
/* Counts existing checkpoints for `keep`: those of trainings (with a number above 0) in the folder whose names
 * match the pattern, in which {name} matches a number. Later saves of all savers that share its numbers get
 * greater numbers than all files of the folder. Also removes the temporary files of killed savers. Collective. */
iso_status iso_saver_adopt(iso_saver *saver, const char *pattern);

#endif
