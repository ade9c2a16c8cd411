/* A normal store that misses the cache first reads the line that it overwrites, which is a third of a large
 * copy's traffic. The C library uses streaming stores only for copies larger than the cache, and no tensor is
 * larger than a cache of hundreds of MiB. */
#include "runtime/checkpoint/write/parts_impl.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

enum {
    LINE = 64,
    PAGE = 4096,
    PAGES = 4, /* copied at once, one line of each in turn: they are in different rows of the DRAM */
    BLOCK = PAGES * PAGE,
};

/* to: aligned to 16 bytes. */
static void stream_line(char *to, const char *from)
{
    __m128i part[4];
    for (int i = 0; i < 4; i++)
        part[i] = _mm_loadu_si128((const __m128i *)(const void *)from + i);
    for (int i = 0; i < 4; i++)
        _mm_stream_si128((__m128i *)(void *)to + i, part[i]);
}

static void stream_block(char *to, const char *from)
{
    for (size_t line = 0; line < PAGE; line += LINE)
        for (size_t page = 0; page < BLOCK; page += PAGE)
            stream_line(to + page + line, from + page + line);
}

void iso_copy_nontemporal(void *to, const void *from, size_t bytes)
{
    size_t head = (uintptr_t) - (uintptr_t)to % LINE, at = head;
    if (bytes < 2 * BLOCK) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(to, from, head);
    for (; at + BLOCK <= bytes; at += BLOCK)
        stream_block((char *)to + at, (const char *)from + at);
    _mm_sfence(); /* streaming stores are not ordered with others */
    memcpy((char *)to + at, (const char *)from + at, bytes - at);
}
#else
void iso_copy_nontemporal(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif
