#include "runtime/base/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic size_t held, peak;

/* The header of a block, in a cache line of its own. */
typedef struct block {
    size_t bytes;
    bool mapped; /* own mapping: large, in huge pages if the system has them, committed when touched */
} block;

static const size_t large = (size_t)4 << 20;

static void account(size_t bytes)
{
    size_t now = atomic_fetch_add(&held, bytes) + bytes;
    size_t top = atomic_load(&peak);
    while (now > top && !atomic_compare_exchange_weak(&peak, &top, now))
        ;
}

static block *map_block(size_t size)
{
    block *header = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (header == MAP_FAILED)
        return NULL;
    madvise(header, size, MADV_HUGEPAGE);
    header->mapped = true;
    return header;
}

static block *take_block(size_t size)
{
    block *header = aligned_alloc(ISO_ALIGN, size);
    return header ? memset(header, 0, size) : NULL;
}

size_t iso_memory_taken(size_t bytes)
{
    return iso_round_to_lines(bytes) + (size_t)3 * ISO_ALIGN;
}

static void *allocate(size_t bytes)
{
    if (bytes > SIZE_MAX - (size_t)4 * ISO_ALIGN)
        return NULL;
    size_t size = iso_memory_taken(bytes);
    block *header = size >= large ? map_block(size) : take_block(size);
    if (!header)
        return NULL;
    header->bytes = size;
    account(size);
    return (char *)header + ISO_ALIGN;
}

iso_status iso_alloc(size_t bytes, const char *what, void **memory)
{
    void *fresh = allocate(bytes);
    if (!fresh)
        return iso_no_memory("%s (%zu bytes)", what, bytes);
    *memory = fresh;
    return ISO_OK;
}

void iso_free(void *memory)
{
    if (!memory)
        return;
    block *header = (block *)((char *)memory - ISO_ALIGN);
    atomic_fetch_sub(&held, header->bytes);
    if (header->mapped)
        munmap(header, header->bytes);
    else
        free(header);
}

void *iso_new(size_t bytes)
{
    return allocate(bytes);
}

void *iso_grow(void *memory, size_t old_count, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    void *fresh = allocate(bytes);
    if (!fresh)
        return NULL;
    if (memory)
        memcpy(fresh, memory, (old_count < count ? old_count : count) * size);
    iso_free(memory);
    return fresh;
}

char *iso_strdup(const char *text)
{
    size_t length = strlen(text) + 1;
    char *copy = allocate(length);
    return copy ? memcpy(copy, text, length) : NULL;
}

void iso_memory_give_back(void *memory, size_t begin, size_t bytes)
{
    const block *header = (const block *)((const char *)memory - ISO_ALIGN);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t first = ((size_t)(uintptr_t)memory + begin + page - 1) / page * page,
                 end = ((size_t)(uintptr_t)memory + begin + bytes) / page * page;
    if (header->mapped && first < end)
        madvise((char *)memory + (first - (size_t)(uintptr_t)memory), end - first, MADV_DONTNEED);
}

size_t iso_memory_room(const void *memory)
{
    return memory ? ((const block *)((const char *)memory - ISO_ALIGN))->bytes - (size_t)3 * ISO_ALIGN : 0;
}

void iso_memory_count(size_t bytes)
{
    account(bytes);
}

void iso_memory_uncount(size_t bytes)
{
    atomic_fetch_sub(&held, bytes);
}

size_t iso_memory_held(void)
{
    return atomic_load(&held);
}

size_t iso_memory_peak(void)
{
    return atomic_load(&peak);
}

iso_status iso_size_mul(size_t a, size_t b, const char *what, size_t *product)
{
    if (__builtin_mul_overflow(a, b, product))
        return iso_error(ISO_INVALID, "%s: %zu times %zu bytes overflows", what, a, b);
    return ISO_OK;
}
