#ifndef ISOGRID_COPY_IMPL_H
#define ISOGRID_COPY_IMPL_H

#include <stddef.h>

/* As memcpy, for memory that is not read again soon: what is copied does not pass through the caches, so that
 * the old contents of `to` need not be fetched and those of the caches stay. The regions do not overlap. */
void iso_copy_away(void *to, const void *from, size_t bytes);

#endif
