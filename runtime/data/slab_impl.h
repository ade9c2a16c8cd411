/* Batches that are worth making once and ahead: a ring of slabs, each holding (or standing for) one batch,
 * whose units (rows; a whole batch where a map takes batches) are made by background threads or by whoever
 * reads them first. */
#ifndef ISO_DATA_SLAB_IMPL_H
#define ISO_DATA_SLAB_IMPL_H

#include "runtime/data/level_impl.h"

typedef struct iso_feeder iso_feeder;

/* Batches of `order` over `top`, of which `ahead` are made beforehand, by `threads` threads. Both lent. */
iso_status iso_feeder_create(iso_level *top, const iso_order *order, int64_t ahead, int threads,
                             iso_feeder **feeder);
/* Waits for what is being made, ends the threads. NULL is fine. */
void iso_feeder_destroy(iso_feeder *feeder);
/* Waits for what is being made and forgets all batches; `order` may be changed now. */
void iso_feeder_stop(iso_feeder *feeder);
/* Goes to batch number `batch` of the epoch. */
void iso_feeder_advance(iso_feeder *feeder, int64_t batch, int64_t epoch);
/* The threads may make batches below number `limit` alone: at first all. */
void iso_feeder_limit(iso_feeder *feeder, int64_t limit);
/* How many batches may be made beforehand. */
int64_t iso_feeder_ahead(const iso_feeder *feeder);
/* Reads rows of the batch that it is at, or a part of each. Threads may call it at once. */
iso_status iso_feeder_read(iso_feeder *feeder, int component, int64_t begin, int64_t count,
                           const iso_row_part *part, iso_dtype dtype, void *out);

#endif
