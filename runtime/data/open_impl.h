/* The sources of iso_dataset_open. */
#ifndef ISO_DATA_OPEN_IMPL_H
#define ISO_DATA_OPEN_IMPL_H

#include "runtime/data/data.h"
#include "runtime/data/node_impl.h"

/* Rows from a folder of IDX files. Not collective, like all here. */
iso_status iso_open_folder(const char *folder, iso_part part, const char *name, iso_node **node);
/* Rows of `context` tokens and their targets. checked: another rank of the host has checked its tokens. */
iso_status iso_open_tokens(const char *path, const iso_dataset_open_options *options, bool checked,
                           iso_node **node);
bool iso_is_hdf5(const char *path);
iso_status iso_open_hdf5(const char *path, const iso_dataset_open_options *options, iso_node **node);

/* Continues a hash with path, size and time of a file. */
uint64_t iso_file_identity(const char *path, uint64_t hash);

/* A built-in data set: one file defines it, one line of the list in builtin.c names it. */
typedef struct iso_builtin {
    const char *name, *description;
    iso_status (*open)(iso_part part, uint64_t seed, iso_node **node);
    /* *path: of its files, the caller's; NULL: they are missing. ISO_NO_MEMORY. NULL: it has no files. */
    iso_status (*folder)(char **path);
} iso_builtin;
const iso_builtin *iso_builtin_find(const char *name);

/* ---- share.c ---- */
/* Rows that one rank of a host reads and all ranks of the host share. */
/* Opens a source in this process. With sharing, only one rank of a host does it. checked: that rank has opened it
 * before, so its contents are good. */
typedef struct iso_opener {
    iso_status (*open)(const void *arguments, bool checked, iso_node **node);
    const void *arguments;
} iso_opener;

/* The first rank of each host opens the source. If its rows are in memory, the host's other ranks map them, so that
 * the pages exist once, but for 4 MiB while they are moved. If they cannot be shared, each rank opens the source by
 * itself. ISO_INVALID: the hosts' first ranks found different rows. All ranks get the same status. Collective. */
iso_status iso_host_shared_open(iso_context *ctx, const char *name, const iso_opener *opener,
                                iso_node **node);

#endif
