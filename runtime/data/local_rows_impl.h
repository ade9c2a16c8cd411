/* Rows that are stored on the ranks in shares (.local of iso_dataset_arrays): a source, and the window of
 * other ranks' rows that a data set has fetched. */
#ifndef ISO_DATA_LOCAL_ROWS_IMPL_H
#define ISO_DATA_LOCAL_ROWS_IMPL_H

#include "runtime/data/node_impl.h"

typedef struct iso_row_window iso_row_window;

/* A source of this rank's `rows` rows, which are in `memory` (owned by the source on success). Its rows have
 * numbers only after iso_local_rows_connect. Local. */
iso_status iso_local_rows_create(const char *name, const iso_spec *spec, int64_t rows, int64_t all_rows,
                                 const iso_memory_rows *memory, iso_node **node);
/* Joins the ranks' shares into one source. All have the same spec. Collective; all get the same status. */
iso_status iso_local_rows_connect(iso_context *ctx, iso_node *node);
/* The source of a node if its rows are stored in shares, else NULL. */
iso_node *iso_local_rows_below(iso_node *top);
/* Gives the source an identity that depends on its rows and not on the shares. Collective. */
iso_status iso_local_rows_identify(iso_context *ctx, iso_node *source);

/* The rows of other ranks that one reader has fetched. Holds a reference of the source. Several threads may
 * read while one fetches. */
iso_status iso_row_window_create(iso_node *source, iso_row_window **window);
void iso_row_window_destroy(iso_row_window *window); /* NULL is fine */
/* Notes the rows of other ranks that rows of `top` need and the window does not have. An error is reported by
 * the next fetch. */
void iso_row_window_want(iso_row_window *window, iso_node *top, const iso_rows *rows);
/* Fetches the noted rows. They stay until a fetch whose `oldest` is greater than this `newest`. No thread may
 * read rows while they are dropped. An error is local to this rank. Collective. */
iso_status iso_row_window_fetch(iso_row_window *window, int64_t oldest, int64_t newest);
/* Drops all rows. */
void iso_row_window_clear(iso_row_window *window);
/* Sends rows to the other ranks in a round in which this rank fetches none. Collective. */
iso_status iso_local_rows_serve(iso_node *source);

#endif
