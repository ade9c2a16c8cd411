/* A cache in a file: the rows of the stages before it, computed once. */
#ifndef ISO_DATA_CACHE_FILE_IMPL_H
#define ISO_DATA_CACHE_FILE_IMPL_H

#include "runtime/data/local_rows_impl.h"
#include "runtime/data/node_impl.h"

/* A node with the rows of `order` over `top` (both frozen, built and lent), read from the file at `path`. The
 * file is made first if it is missing, broken or was made from something else. The ranks of a host share its
 * pages. Collective. */
iso_status iso_cache_file(iso_context *ctx, const char *path, iso_node *top, const iso_order *order,
                          iso_node **node);

/* Private to the two files of the cache. */
typedef struct iso_cache_layout {
    uint64_t identity; /* of what the rows are made from */
    iso_spec spec;
    iso_spans spans;
    size_t offset[ISO_MAX_COMPONENTS]; /* of a component in the file */
    size_t bytes;                      /* of the file */
} iso_cache_layout;

iso_status iso_cache_layout_of(const iso_node *top, const iso_order *order, iso_cache_layout *layout);
/* ISO_OK with *node NULL and the reason in `why` if there is no such file or it is not the wanted one.
 * verify: reads the whole file and compares the checksum. */
iso_status iso_cache_file_open(const char *path, const iso_cache_layout *layout, bool verify,
                               const char *name, iso_node **node, char *why, size_t why_size);
/* Rows of other ranks are fetched in rounds, as many on every rank; {0}: all rows are local. */
typedef struct iso_cache_rounds {
    iso_row_window *window;
    int64_t elements; /* of a round */
    int64_t left;     /* rounds that the writer has not done: after an error its caller does them */
} iso_cache_rounds;
iso_cache_rounds iso_cache_rounds_of(const iso_cache_layout *layout, iso_row_window *window);
iso_status iso_cache_file_write(const char *path, const iso_cache_layout *layout, iso_node *top,
                                const iso_order *order, iso_cache_rounds *rounds);

#endif
