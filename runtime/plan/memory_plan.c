#include "runtime/plan/memory_plan.h"

#include <stdlib.h>

#include "runtime/base/memory.h"

static int by_size(const void *a, const void *b)
{
    const iso_block *x = *(iso_block *const *)a, *y = *(iso_block *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1) : (x > y) - (x < y);
}

static int by_offset(const void *a, const void *b)
{
    const iso_block *x = *(iso_block *const *)a, *y = *(iso_block *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static size_t reach(const iso_block *block)
{
    return block->offset + (block->bytes + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN + ISO_ALIGN;
}

/* The lowest offset at which a block fits between those placed that live at the same time. */
static size_t lowest(const iso_block *block, iso_block **placed, int count, iso_block **alive)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        if (placed[i]->begin <= block->end && block->begin <= placed[i]->end)
            alive[n++] = placed[i];
    qsort(alive, (size_t)n, sizeof *alive, by_offset);
    iso_block trial = *block;
    trial.offset = 0;
    for (int i = 0; i < n; i++) {
        if (reach(&trial) <= alive[i]->offset)
            break;
        if (reach(alive[i]) > trial.offset)
            trial.offset = reach(alive[i]);
    }
    return trial.offset;
}

iso_status iso_memory_plan(iso_block *blocks, int count, size_t *total)
{
    iso_block **order = iso_new(((size_t)count + 1) * 2 * sizeof *order);
    if (!order)
        return iso_error(ISO_NO_MEMORY, "no memory to plan %d blocks", count);
    for (int i = 0; i < count; i++)
        order[i] = &blocks[i];
    qsort(order, (size_t)count, sizeof *order, by_size);
    *total = 0;
    for (int i = 0; i < count; i++) {
        order[i]->offset = lowest(order[i], order, i, order + count);
        if (reach(order[i]) > *total)
            *total = reach(order[i]);
    }
    iso_free(order);
    return ISO_OK;
}
