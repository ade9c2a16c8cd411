/* The layout of a checkpoint's file: everything that HDF5 writes for its groups and tensors, except the
 * tensors' bytes.
 *
 * HDF5 lays the file out in memory (memory_driver_impl.h), so it never sees a failing disk. The bytes that it
 * writes beside the tensors, the skeleton, are kept by the chief and take about as much memory as the names.
 * The state's text, the number and the checksums are put in at every save. All ranks keep the tensors'
 * offsets. */
#ifndef ISO_CHECKPOINT_WRITE_FILE_LAYOUT_IMPL_H
#define ISO_CHECKPOINT_WRITE_FILE_LAYOUT_IMPL_H

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/commit_record.h"
#include "runtime/checkpoint/saver.h"

typedef struct iso_file_layout {
    uint64_t structure;       /* hash of the structure that it was made for; 0: not made */
    iso_commit_record record; /* offsets and sizes of the tensors; each save sets checksums and number */
    /* The rest is set on the chief only. */
    char *skeleton; /* the bytes that belong to no tensor, in order */
    size_t skeleton_bytes;
    size_t state_capacity;
    char *state; /* within the skeleton; state_capacity bytes */
    char *crcs;  /* same; 4 bytes per tensor; NULL if there are no tensors */
} iso_file_layout;

/* Whether an HDF5 path is reserved for Isogrid's own data: below /isogrid, except /isogrid/variables/. */
bool iso_h5_path_is_own(const char *h5_path);
/* A hash of everything that determines the layout: HDF5 paths, paths, types, shapes, groups and names. Never
 * 0. */
uint64_t iso_file_spec_structure(const iso_file_spec *spec);
/* ISO_INVALID: a specification that no file can hold: invalid HDF5 paths, shapes that are too large, too many
 * tensors, missing constants. */
iso_status iso_file_spec_check(const iso_file_spec *spec);

/* Lays a file out, with room for a state twice as long as the specification's. On one rank. layout is freed
 * by iso_file_layout_free. */
iso_status iso_file_layout_make(const iso_file_spec *spec, iso_file_layout *layout);
void iso_file_layout_free(iso_file_layout *layout);
/* Whether the specification's state fits into the room that the layout has for it. */
bool iso_file_layout_holds(const iso_file_layout *layout, const iso_file_spec *spec);
/* Puts the state and the tensors' checksums (from the record) into the skeleton, and the skeleton's checksum
 * into the record. */
void iso_file_layout_set_state(iso_file_layout *layout, const char *state);
void iso_file_layout_set_crcs(iso_file_layout *layout);
/* Writes the skeleton. ISO_IO. */
iso_status iso_file_layout_write(const iso_file_layout *layout, int file, const char *name);

#endif
