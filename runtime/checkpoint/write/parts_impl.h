/* The parts of a checkpoint that one rank writes: its writing shards, copied. */
#ifndef ISO_CHECKPOINT_WRITE_PARTS_IMPL_H
#define ISO_CHECKPOINT_WRITE_PARTS_IMPL_H

#include <stddef.h>

#include "runtime/base/types.h"
#include "runtime/checkpoint/write/file_layout_impl.h"

enum { ISO_SAVE_CONSTANT = -1 };

/* A part of one tensor. Its shard points to the state's data, after the copy to the copy's. */
typedef struct iso_save_part {
    int tensor;
    int source;  /* the number of its shard; ISO_SAVE_CONSTANT: the specification's constant */
    bool leaves; /* another rank writes it (two_phase_impl.h) */
    iso_state_shard shard;
    size_t bytes;
} iso_save_part;

typedef struct iso_save_parts {
    uint64_t made_for; /* iso_shards_structure of the shards; 0: not made */
    int count;
    iso_save_part *parts;
} iso_save_parts;

/* A hash of everything about the shards except their addresses. Never 0. */
uint64_t iso_shards_structure(const iso_state_shards *shards);
/* Finds this rank's parts. constants: whether it writes the tensors that no shard has. covered: [n_tensors]
 * the elements of each that this rank writes. ISO_INVALID: a shard that does not fit its tensor. Shards whose
 * path is not in the specification are ignored. */
iso_status iso_save_parts_make(const iso_file_spec *spec, const iso_state_shards *shards, bool constants,
                               iso_save_parts *parts, int64_t *covered);
void iso_save_parts_free(iso_save_parts *parts);
/* Total bytes of the parts. */
size_t iso_save_parts_bytes(const iso_save_parts *parts);
/* Whether the shards can be written from where they are: the host may access their memory. */
bool iso_save_parts_may_stay(const iso_state_shards *shards);
/* Points the parts at these shards, which must have the structure that the parts were made for. If `room` is
 * not NULL (iso_save_parts_bytes), copies the shards there and points the parts at the copies. */
iso_status iso_save_parts_take(iso_save_parts *parts, const iso_file_spec *spec,
                               const iso_state_shards *shards, void *room);
/* Writes a part's data at its tensor's offset in the record, and adds its share of the tensor's checksum to
 * crc: [n_tensors]. file -1: only the checksum. ISO_IO. */
iso_status iso_save_part_write(const iso_save_part *part, const iso_commit_record *record, int file,
                               const char *name, uint32_t *crc);

/* ---- copy.c ---- */
/* The same as memcpy, for memory that is not read again soon. The copy bypasses the caches: the old contents of
 * `to` are not fetched, and the cached data stays. The regions do not overlap. */
void iso_copy_nontemporal(void *to, const void *from, size_t bytes);

/* ---- ranges.c ---- */
/* Decomposes ranges of a box's row-major order into boxes, which HDF5 can select. */
enum { ISO_MOST_RANGE_BOXES = 2 * ISO_MAX_RANK };

/* Elements [begin, begin + count) of a box's order as boxes, in that order. Returns their count: at most two
 * per dimension. */
int iso_range_boxes(const iso_box *box, int64_t begin, int64_t count, iso_box boxes[ISO_MOST_RANGE_BOXES]);

#endif
