/* Batches that are worth making once and ahead: a ring of buffers, one for each batch. The units of a batch
 * (rows, or the whole batch if a map takes batches) are made by background threads or by the thread that
 * reads them first. */
#ifndef ISO_DATA_PREFETCH_IMPL_H
#define ISO_DATA_PREFETCH_IMPL_H

#include "runtime/data/node_impl.h"

typedef struct iso_prefetcher iso_prefetcher;

/* Batches of `order` over `top`, of which up to `ahead` are made in advance by `threads` threads. order and
 * top are lent. */
iso_status iso_prefetcher_create(iso_node *top, const iso_order *order, int64_t ahead, int threads,
                                 iso_prefetcher **prefetcher);
/* Waits for what is being made, ends the threads. NULL is fine. */
void iso_prefetcher_destroy(iso_prefetcher *prefetcher);
/* Waits for what is being made and forgets all batches; `order` may be changed now. */
void iso_prefetcher_stop(iso_prefetcher *prefetcher);
/* Goes to batch number `batch` of the epoch. */
void iso_prefetcher_advance(iso_prefetcher *prefetcher, int64_t batch, int64_t epoch);
/* The threads may only make batches below number `limit`; at first there is no limit. */
void iso_prefetcher_limit(iso_prefetcher *prefetcher, int64_t limit);
/* The number of batches that may be made in advance. */
int64_t iso_prefetcher_ahead(const iso_prefetcher *prefetcher);
/* The bytes of its buffers that are used if these rows of batches are read: disjoint ranges, in increasing order. */
size_t iso_prefetcher_kept(const iso_prefetcher *prefetcher, const iso_row_range *ranges, int count);
/* Reads rows of the current batch, or a part of each. Several threads may call it at once. */
iso_status iso_prefetcher_read(iso_prefetcher *prefetcher, int component, int64_t begin, int64_t count,
                               const iso_row_part *part, iso_dtype dtype, void *out);

#endif
