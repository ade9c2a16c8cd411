/* The layout of a checkpoint's file: what HDF5 makes of its groups and tensors, without the tensors' bytes.
 *
 * HDF5 lays the file out in memory (memory_driver_impl.h), so no failing disk ever meets it.
 * What it wrote beside the tensors, the skeleton, is kept by the chief and is of the size of the names; the
 * state's text, the number and the checksums are put in at every save. All ranks keep where tensors lie. */
#ifndef ISO_CHECKPOINT_WRITE_FILE_LAYOUT_IMPL_H
#define ISO_CHECKPOINT_WRITE_FILE_LAYOUT_IMPL_H

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/commit_record.h"
#include "runtime/checkpoint/saver.h"

typedef struct iso_file_layout {
    uint64_t structure;       /* hash of what it was made for; 0: there is none */
    iso_commit_record record; /* places and bytes of the tensors; checksums and number are a save's */
    /* The rest is the chief's. */
    char *skeleton; /* the bytes that belong to no tensor, in order */
    size_t skeleton_bytes;
    size_t state_capacity;
    char *state; /* within the skeleton; state_capacity bytes */
    char *crcs;  /* the same, 4 bytes a tensor; NULL where there are none */
} iso_file_layout;

/* Whether a place is for what Isogrid keeps beside the tensors: below /isogrid, but for /isogrid/variables/.
 */
bool iso_place_is_own(const char *place);
/* Places, paths, types, shapes, groups and names: what makes two saves have the same layout. Never 0. */
uint64_t iso_file_spec_structure(const iso_file_spec *spec);
/* ISO_INVALID: contents that no file can hold: names that are no places, shapes that are too large, too many
 * tensors, constants that are missing. */
iso_status iso_file_spec_check(const iso_file_spec *spec);

/* Lays a file out, with room for a state twice as long as the contents'. On one rank. layout is freed by
 * iso_file_layout_free. */
iso_status iso_file_layout_make(const iso_file_spec *spec, iso_file_layout *layout);
void iso_file_layout_free(iso_file_layout *layout);
/* Whether the state of these contents fits where the layout has room for it. */
bool iso_file_layout_holds(const iso_file_layout *layout, const iso_file_spec *spec);
/* Puts the state and the tensors' checksums (as the record has them) into the skeleton, and the skeleton's
 * checksum into the record. */
void iso_file_layout_set_state(iso_file_layout *layout, const char *state);
void iso_file_layout_set_crcs(iso_file_layout *layout);
/* Writes the skeleton. ISO_IO. */
iso_status iso_file_layout_write(const iso_file_layout *layout, int file, const char *name);

#endif
