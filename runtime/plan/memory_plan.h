/* Memory plans: offsets for blocks that live during parts of a program. */
#ifndef ISO_PLAN_MEMORY_PLAN_H
#define ISO_PLAN_MEMORY_PLAN_H

#include "runtime/base/types.h"

typedef struct iso_block {
    size_t bytes;
    int begin, end; /* first and last instruction at which its contents are needed */
    size_t offset;  /* result */
} iso_block;

/* Gives blocks that live at the same time disjoint ranges, each aligned to a cache line with one spare
 * line after it (kernels may read whole vectors). Largest first, each at the lowest offset at which it
 * fits; if there are many blocks, also in order of time, in n log n. *total: bytes in all. */
iso_status iso_memory_plan(iso_block *blocks, int count, size_t *total);
/* The same, around the first `placed` blocks, which have an offset already. The spare line of one of these may be in
 * the next one. */
iso_status iso_memory_plan_around(iso_block *blocks, int placed, int count, size_t *total);
/* Places blocks in the free memory of a range of `bytes` around the first `placed` ones, with the largest first. The
 * offset of a block that does not fit there becomes ISO_NO_OFFSET. */
#define ISO_NO_OFFSET SIZE_MAX
iso_status iso_memory_plan_within(iso_block *blocks, int placed, int count, size_t bytes);

#endif
