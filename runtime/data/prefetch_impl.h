/* Batches that are worth making once and ahead: a ring of buffers, each holding (or standing for) one batch,
 * whose units (rows; a whole batch where a map takes batches) are made by background threads or by whoever
 * reads them first. */
#ifndef ISO_DATA_PREFETCH_IMPL_H
#define ISO_DATA_PREFETCH_IMPL_H

#include "runtime/data/node_impl.h"

typedef struct iso_prefetcher iso_prefetcher;

/* Batches of `order` over `top`, of which `ahead` are made beforehand, by `threads` threads. Both lent. */
iso_status iso_prefetcher_create(iso_node *top, const iso_order *order, int64_t ahead, int threads,
                                 iso_prefetcher **prefetcher);
/* Waits for what is being made, ends the threads. NULL is fine. */
void iso_prefetcher_destroy(iso_prefetcher *prefetcher);
/* Waits for what is being made and forgets all batches; `order` may be changed now. */
void iso_prefetcher_stop(iso_prefetcher *prefetcher);
/* Goes to batch number `batch` of the epoch. */
void iso_prefetcher_advance(iso_prefetcher *prefetcher, int64_t batch, int64_t epoch);
/* The threads may make batches below number `limit` alone: at first all. */
void iso_prefetcher_limit(iso_prefetcher *prefetcher, int64_t limit);
/* How many batches may be made beforehand. */
int64_t iso_prefetcher_ahead(const iso_prefetcher *prefetcher);
/* Reads rows of the batch that it is at, or a part of each. Threads may call it at once. */
iso_status iso_prefetcher_read(iso_prefetcher *prefetcher, int component, int64_t begin, int64_t count,
                               const iso_row_part *part, iso_dtype dtype, void *out);

#endif
