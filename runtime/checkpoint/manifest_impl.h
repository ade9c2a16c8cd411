/* What a file holds, as one block of data that a process can hand to another. */
#ifndef ISO_CHECKPOINT_MANIFEST_IMPL_H
#define ISO_CHECKPOINT_MANIFEST_IMPL_H

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/storage_type.h"

/* What no file of weights comes near to. */
enum { ISO_MOST_OBJECTS = 1 << 20, ISO_DEEPEST = 64, ISO_LONGEST_NAME = 1024 };
/* Bytes of /isogrid/state and of /isogrid/index. */
#define ISO_LONGEST_STATE ((size_t)256 << 20)

typedef struct iso_manifest_tensor {
    iso_saved_tensor tensor; /* texts are the manifest's */
    iso_storage_type element;
    bool direct;     /* its elements lie in the file one after the other; else HDF5 has to read them */
    uint64_t offset; /* in the file: of the first element; where it is not direct, HDF5's address of it */
} iso_manifest_tensor;

typedef struct iso_manifest {
    iso_manifest_tensor *tensors;
    iso_saved_group *groups; /* texts are the manifest's */
    int n_tensors, n_groups;
    char *state, *index; /* texts of /isogrid; NULL: there is none */
    /* Made by iso_manifest_index(): */
    int *by_place, *by_path; /* [n_tensors], [n_paths]: numbers of tensors, sorted */
    int *order;              /* [ordered]: the tensors in the order of /isogrid/index */
    int n_paths, ordered;
} iso_manifest;

void iso_manifest_free(iso_manifest *manifest);
/* Texts are copied. */
iso_status iso_manifest_add_group(iso_manifest *manifest, const char *place, const char *name);
iso_status iso_manifest_add_tensor(iso_manifest *manifest, const iso_manifest_tensor *tensor);
size_t iso_manifest_bytes(const iso_manifest_tensor *tensor); /* of its elements in the file */

/* The manifest as bytes (iso_free), without the paths, and back. Bytes may come from a process that a hostile
 * file has got hold of: unpacking checks all that others rely on. file_bytes: the size of the file. */
iso_status iso_manifest_pack(const iso_manifest *manifest, void **bytes, size_t *size);
iso_status iso_manifest_unpack(const void *bytes, size_t size, uint64_t file_bytes, iso_manifest *manifest);

/* Gives the tensors their paths, from the text of /isogrid/index where there is one, and makes them ready to
 * be found. ISO_INVALID where it is no such text, names a place that the file does not have, or one thing
 * twice. */
iso_status iso_manifest_index(iso_manifest *manifest);
/* Numbers of tensors; -1: none. */
int iso_manifest_at(const iso_manifest *manifest, const char *place);
int iso_manifest_of(const iso_manifest *manifest, const char *path);

#endif
