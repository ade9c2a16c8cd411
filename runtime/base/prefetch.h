/* Prefetching what the processor's prefetcher cannot predict: the rows of a shuffled epoch, and lines that are to be
 * written and that other cores have read. */
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

/* Requests the lines of [memory, memory + bytes) for writing. A store to a line that another core has read waits
 * until that core has given it up; if the lines are requested early, the waits overlap with other work. If no other
 * core has read them, it only costs time. __builtin_prefetch would emit a prefetch for reading where the compiler may
 * not use this instruction, and such a prefetch makes these stores slower. Processors without it ignore it. */
static inline void iso_prefetch_for_writing(void *memory, size_t bytes)
{
    for (char *line = memory; line < (char *)memory + bytes; line += ISO_ALIGN)
#if defined __x86_64__
        __asm__ volatile("prefetchw %0" : : "m"(*line));
#else
        __builtin_prefetch(line, 1);
#endif
}

#endif
