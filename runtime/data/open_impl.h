/* Where iso_dataset_open finds rows. */
#ifndef ISO_DATA_OPEN_IMPL_H
#define ISO_DATA_OPEN_IMPL_H

#include "runtime/data/data.h"
#include "runtime/data/node_impl.h"

/* Rows from a folder of IDX files. Not collective, like all here. */
iso_status iso_open_folder(const char *folder, iso_part part, const char *name, iso_node **node);
iso_status iso_open_hdf5(const char *path, const iso_dataset_open_options *options, iso_node **node);

/* Continues a hash with path, size and time of a file. */
uint64_t iso_file_identity(const char *path, uint64_t hash);

/* A built-in data set: one file defines it, one line of the list in builtin.c names it. */
typedef struct iso_builtin {
    const char *name, *description;
    iso_status (*open)(iso_part part, uint64_t seed, iso_node **node);
} iso_builtin;
const iso_builtin *iso_builtin_find(const char *name);

#endif
