/* The contents of a file, as one block of data that a process can hand to another. */
#ifndef ISO_CHECKPOINT_MANIFEST_IMPL_H
#define ISO_CHECKPOINT_MANIFEST_IMPL_H

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/storage_type.h"

/* Limits far above those of any file of weights. */
enum { ISO_MOST_OBJECTS = 1 << 20, ISO_DEEPEST = 64, ISO_LONGEST_NAME = 1024 };
/* Limit on the bytes of /isogrid/state and of /isogrid/index, each. */
#define ISO_LONGEST_STATE ((size_t)256 << 20)

typedef struct iso_manifest_tensor {
    iso_saved_tensor tensor; /* the manifest owns its texts */
    iso_storage_type element;
    bool direct;     /* its elements are contiguous in the file; otherwise HDF5 reads them */
    uint64_t offset; /* offset of the first element in the file; if not direct, HDF5's address of the
                        dataset */
} iso_manifest_tensor;

typedef struct iso_manifest {
    iso_manifest_tensor *tensors;
    iso_saved_group *groups; /* the manifest owns their texts */
    int n_tensors, n_groups;
    char *state, *index; /* texts of /isogrid; NULL: not in the file */
    int n_sums; /* elements of /isogrid/crc32, at this offset in the file; 0: not there, or not as Isogrid
                            writes it */
    uint64_t sums;
    /* Made by iso_manifest_index(): */
    int *by_h5_path, *by_path; /* [n_tensors], [n_paths]: numbers of tensors, sorted */
    int *order;                /* [ordered]: the tensors in the order of /isogrid/index */
    int n_paths, ordered;
} iso_manifest;

void iso_manifest_free(iso_manifest *manifest);
/* Texts are copied. */
iso_status iso_manifest_add_group(iso_manifest *manifest, const char *h5_path, const char *name);
iso_status iso_manifest_add_tensor(iso_manifest *manifest, const iso_manifest_tensor *tensor);
size_t iso_manifest_bytes(const iso_manifest_tensor *tensor); /* bytes of its elements in the file */

/* Packs the manifest without the paths into bytes (iso_free), and unpacks it. The bytes may come from a child
 * process that a hostile file has taken over, so unpacking checks everything that others rely on. file_bytes:
 * the size of the file. */
iso_status iso_manifest_pack(const iso_manifest *manifest, void **bytes, size_t *size);
iso_status iso_manifest_unpack(const void *bytes, size_t size, uint64_t file_bytes, iso_manifest *manifest);

/* Gives the tensors their paths from the text of /isogrid/index, if there is one, and builds the look-up
 * tables. ISO_INVALID if the text is not an index, names a dataset that the file does not have, or names
 * something twice. */
iso_status iso_manifest_index(iso_manifest *manifest);
/* The tensor's number; -1: none. */
int iso_manifest_at(const iso_manifest *manifest, const char *h5_path);
int iso_manifest_of(const iso_manifest *manifest, const char *path);

#endif
