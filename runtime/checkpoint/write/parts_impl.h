/* What one rank writes of a checkpoint: its writing shards, copied. */
#ifndef ISO_CHECKPOINT_WRITE_PARTS_IMPL_H
#define ISO_CHECKPOINT_WRITE_PARTS_IMPL_H

#include <stddef.h>

#include "runtime/base/types.h"
#include "runtime/checkpoint/write/file_layout_impl.h"

enum { ISO_SAVE_CONSTANT = -1 };

/* A part of one tensor. Its shard's data is the state's, and after the copy the copy's. */
typedef struct iso_save_part {
    int tensor;
    int source;  /* the number of the shard it comes from; ISO_SAVE_CONSTANT: the contents' constant */
    bool leaves; /* it changes hands before it is written (two_phase_impl.h) */
    iso_state_shard shard;
    size_t bytes;
} iso_save_part;

typedef struct iso_save_parts {
    uint64_t made_for; /* iso_shards_structure; 0: not made */
    int count;
    iso_save_part *parts;
} iso_save_parts;

/* A hash of all that is known of the shards but where they are. Never 0. */
uint64_t iso_shards_structure(const iso_state_shards *shards);
/* Finds this rank's parts. constants: whether it writes those that no shard has. covered: [n_tensors] the
 * elements of each that this rank writes. ISO_INVALID: a shard that does not fit its tensor. Shards whose
 * path the contents do not have are none of the file's. */
iso_status iso_save_parts_make(const iso_file_spec *spec, const iso_state_shards *shards, bool constants,
                               iso_save_parts *parts, int64_t *covered);
void iso_save_parts_free(iso_save_parts *parts);
/* Bytes of all parts. */
size_t iso_save_parts_bytes(const iso_save_parts *parts);
/* Points the parts at these shards, of the structure that they were made for; at copies of them in `room`, of
 * iso_save_parts_bytes, where it is not NULL. */
void iso_save_parts_take(iso_save_parts *parts, const iso_file_spec *spec, const iso_state_shards *shards,
                         void *room);
/* Writes a part's data where the record has its tensor, and adds what it has of the tensor's checksum to crc:
 * [n_tensors]. file -1: the checksum alone. ISO_IO. */
iso_status iso_save_part_write(const iso_save_part *part, const iso_commit_record *record, int file,
                               const char *name, uint32_t *crc);

/* ---- copy.c ---- */
/* As memcpy, for memory that is not read again soon: what is copied does not pass through the caches, so that
 * the old contents of `to` need not be fetched and those of the caches stay. The regions do not overlap. */
void iso_copy_away(void *to, const void *from, size_t bytes);

/* ---- ranges.c ---- */
/* Ranges of a box's row-major order as boxes, as HDF5 selects them. */
enum { ISO_MOST_RANGE_BOXES = 2 * ISO_MAX_RANK };

/* Elements [begin, begin + count) of a box's order as boxes, in that order; returns how many: at most two a
 * dimension. */
int iso_range_boxes(const iso_box *box, int64_t begin, int64_t count, iso_box boxes[ISO_MOST_RANGE_BOXES]);

#endif
