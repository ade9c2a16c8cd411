/* Accounted memory. Every buffer of Isogrid comes from here, so that a run can report its memory. */
#ifndef ISO_BASE_MEMORY_H
#define ISO_BASE_MEMORY_H

#include <stddef.h>

#include "runtime/base/free.h"
#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ISO_ALIGN = 64 }; /* a cache line */

/* Bytes rounded up to whole cache lines; and with one more line, because kernels may read past the end. */
static inline size_t iso_round_to_lines(size_t bytes)
{
    return (bytes + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
}
static inline size_t iso_padded(size_t bytes)
{
    return iso_round_to_lines(bytes) + ISO_ALIGN;
}

/* Zeroed memory aligned to ISO_ALIGN, with at least ISO_ALIGN readable bytes after its end (kernels may load
 * whole vectors). ISO_NO_MEMORY names `what` and the bytes. bytes may be 0. Owned by the caller: iso_free. */
iso_status iso_alloc(size_t bytes, const char *what, void **memory);

/* Small structures: zeroed; NULL when out of memory. Freed with iso_free. */
void *iso_new(size_t bytes);
/* Like realloc, for arrays of `count` elements of `size` bytes; `memory` must come from iso_new or be
 * NULL. */
void *iso_grow(void *memory, size_t old_count, size_t count, size_t size);
char *iso_strdup(const char *text);
/* The size in bytes of memory from iso_alloc, iso_new or iso_grow: what was requested or a little more.
 * NULL: 0. */
size_t iso_memory_room(const void *memory);

/* Gives the whole pages within [begin, begin + bytes) of memory from iso_alloc back to the system, if it is large.
 * They read as zeros from then on. They are still accounted as held. */
void iso_memory_give_back(void *memory, size_t begin, size_t bytes);

/* The bytes that a block of `bytes` takes of what is accounted, with its header and the end that may be read. */
size_t iso_memory_taken(size_t bytes);

/* Counts memory that was not allocated here (its owner mapped it): adds or subtracts bytes. */
void iso_memory_count(size_t bytes);
void iso_memory_uncount(size_t bytes);
/* The bytes that this process holds now, and the most that it has held so far. */
size_t iso_memory_held(void);
size_t iso_memory_peak(void);

/* The product of two sizes. ISO_INVALID, naming `what`: it overflows. */
iso_status iso_size_mul(size_t a, size_t b, const char *what, size_t *product);

#ifdef __cplusplus
}
#endif
#endif
