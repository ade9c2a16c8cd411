/* Prefetching rows that are read in an order which the processor's prefetcher cannot predict, such as a shuffled
 * epoch's. */
#ifndef ISO_BASE_PREFETCH_H
#define ISO_BASE_PREFETCH_H

#include <stdint.h>

#include "runtime/base/memory.h"

/* How many rows of `bytes` are prefetched before they are read: more if they are short, such as labels. */
static inline int64_t iso_rows_ahead(size_t bytes)
{
    enum { ROWS = 3, LINES = 32 };
    int64_t rows = LINES * ISO_ALIGN / (int64_t)iso_round_to_lines(bytes + 1);
    return rows > ROWS ? rows : ROWS;
}

/* Prefetches the lines of a row, or those at its beginning if it is long. */
static inline void iso_prefetch_row(const void *row, size_t bytes)
{
    enum { MOST = 4096 };
    for (size_t i = 0; i < bytes && i < MOST; i += ISO_ALIGN)
        __builtin_prefetch((const char *)row + i);
}

#endif
