#include "runtime/plan/memory_plan.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/memory.h"

enum { FEW = 4096 }; /* so many blocks at most are placed largest first, in quadratic time */

/* A block with the rest of its last line, and a line after it. */
static size_t span(const iso_block *block)
{
    return iso_padded(block->bytes);
}

static size_t reach(const iso_block *block)
{
    return block->offset + span(block);
}

static int memory_plan_compare(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

static int by_size(const void *a, const void *b)
{
    const iso_block *x = *(iso_block *const *)a, *y = *(iso_block *const *)b;
    if (x->bytes != y->bytes)
        return memory_plan_compare(y->bytes, x->bytes);
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1) : (x > y) - (x < y);
}

/* ---- few blocks: the largest first, each at the lowest offset at which it fits ---- */

/* placed: in the order of their offsets. */
static size_t lowest(const iso_block *block, iso_block *const *placed, int count)
{
    size_t offset = 0;
    for (int i = 0; i < count; i++) {
        if (placed[i]->begin > block->end || block->begin > placed[i]->end)
            continue;
        if (offset + span(block) <= placed[i]->offset)
            break;
        if (reach(placed[i]) > offset)
            offset = reach(placed[i]);
    }
    return offset;
}

static void insert(iso_block *block, iso_block **placed, int count)
{
    int at = count;
    for (; at > 0 && placed[at - 1]->offset > block->offset; at--)
        placed[at] = placed[at - 1];
    placed[at] = block;
}

/* order: by size. placed: [n_placed + count] the blocks that have an offset. limit: the end of the memory; what does
 * not fit gets ISO_NO_OFFSET. */
static void largest_first(iso_block *const *order, int count, iso_block **placed, int n_placed, size_t limit)
{
    for (int i = 0; i < count; i++) {
        order[i]->offset = lowest(order[i], placed, n_placed);
        if (reach(order[i]) <= limit)
            insert(order[i], placed, n_placed++);
        else
            order[i]->offset = ISO_NO_OFFSET;
    }
}

/* ---- many blocks: in order of time, each in a gap that is hardly larger, in n log n ---- */

/* The range from the offset of a block or gap to the next one. Gaps of about the same size are in one
 * list; the last segment of all has no end. */
typedef struct segment {
    size_t offset, bytes;
    bool gap;
    int before, behind;         /* neighbours in memory; -1: none */
    int gap_before, gap_behind; /* neighbours in the list of its size */
} segment;

enum { STEPS = 8, SIZES = 64 * STEPS }; /* size classes: powers of two, each in STEPS steps */

typedef struct heap {
    segment *segments;
    int n_segments, last;
    int unused; /* a list, linked by `behind`, of segments that were joined to others */
    int first[SIZES];
    uint64_t some[SIZES / 64]; /* bit: this size has gaps */
} heap;

/* The size class of a gap of this many bytes; wanted: the smallest class whose gaps are all at least as
 * large. */
static int size_class(size_t bytes, bool wanted)
{
    size_t lines = bytes / ISO_ALIGN;
    int power = 63 - __builtin_clzll((unsigned long long)(lines | 1));
    if (power < 3)
        return (int)lines;
    int class = power * STEPS + (int)(lines >> (power - 3) & (STEPS - 1));
    return class + (wanted && (lines & ((1ull << (power - 3)) - 1)) != 0);
}

static void list_gap(heap *h, int s)
{
    segment *gap = &h->segments[s];
    int class = size_class(gap->bytes, false);
    gap->gap = true;
    gap->gap_before = -1;
    gap->gap_behind = h->first[class];
    if (h->first[class] >= 0)
        h->segments[h->first[class]].gap_before = s;
    h->first[class] = s;
    h->some[class / 64] |= 1ull << class % 64;
}

static void unlist_gap(heap *h, int s)
{
    segment *gap = &h->segments[s];
    int class = size_class(gap->bytes, false);
    gap->gap = false;
    if (gap->gap_behind >= 0)
        h->segments[gap->gap_behind].gap_before = gap->gap_before;
    if (gap->gap_before >= 0)
        h->segments[gap->gap_before].gap_behind = gap->gap_behind;
    else
        h->first[class] = gap->gap_behind;
    if (h->first[class] < 0)
        h->some[class / 64] &= ~(1ull << class % 64);
}

static int find_gap(const heap *h, size_t bytes)
{
    int class = size_class(bytes, true);
    uint64_t word = h->some[class / 64] & ~0ull << class % 64;
    for (int w = class / 64;; word = h->some[w]) {
        if (word)
            return h->first[w * 64 + __builtin_ctzll(word)];
        if (++w == SIZES / 64)
            return -1;
    }
}

static int new_segment(heap *h, segment value)
{
    int s = h->unused >= 0 ? h->unused : h->n_segments++;
    if (s == h->unused)
        h->unused = h->segments[s].behind;
    h->segments[s] = value;
    return s;
}

/* Adds the rest of a segment that a block leaves as a new gap after it. */
static void split(heap *h, int s, size_t bytes)
{
    segment *taken = &h->segments[s];
    size_t left = taken->bytes - bytes;
    if (left == 0)
        return;
    int rest = new_segment(
        h, (segment){.offset = taken->offset + bytes, .bytes = left, .before = s, .behind = taken->behind});
    if (taken->behind >= 0)
        h->segments[taken->behind].before = rest;
    taken->behind = rest;
    taken->bytes = bytes;
    list_gap(h, rest);
}

/* Extends memory so that a block fits after the last one. */
static int extend(heap *h, size_t bytes)
{
    int s = h->last;
    if (s >= 0 && h->segments[s].gap) {
        unlist_gap(h, s);
        h->segments[s].bytes = bytes;
        return s;
    }
    size_t end = s >= 0 ? h->segments[s].offset + h->segments[s].bytes : 0;
    int fresh = new_segment(h, (segment){.offset = end, .bytes = bytes, .before = s, .behind = -1});
    if (s >= 0)
        h->segments[s].behind = fresh;
    h->last = fresh;
    return fresh;
}

static int memory_plan_take(heap *h, size_t bytes)
{
    int s = find_gap(h, bytes);
    if (s < 0)
        return extend(h, bytes);
    unlist_gap(h, s);
    split(h, s, bytes);
    if (h->segments[s].behind >= 0 && h->last == s)
        h->last = h->segments[s].behind;
    return s;
}

/* Joins a segment with the one after it. */
static void memory_plan_join(heap *h, int s)
{
    int next = h->segments[s].behind;
    h->segments[s].bytes += h->segments[next].bytes;
    h->segments[s].behind = h->segments[next].behind;
    if (h->segments[s].behind >= 0)
        h->segments[h->segments[s].behind].before = s;
    if (h->last == next)
        h->last = s;
    h->segments[next].behind = h->unused;
    h->unused = next;
}

static void give_back(heap *h, int s)
{
    int behind = h->segments[s].behind, before = h->segments[s].before;
    if (behind >= 0 && h->segments[behind].gap) {
        unlist_gap(h, behind);
        memory_plan_join(h, s);
    }
    if (before >= 0 && h->segments[before].gap) {
        unlist_gap(h, before);
        memory_plan_join(h, before);
        s = before;
    }
    list_gap(h, s);
}

static int by_begin(const void *a, const void *b)
{
    const iso_block *x = *(iso_block *const *)a, *y = *(iso_block *const *)b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1) : by_size(a, b);
}

static int by_end(const void *a, const void *b)
{
    const iso_block *x = *(iso_block *const *)a, *y = *(iso_block *const *)b;
    return x->end != y->end ? (x->end < y->end ? -1 : 1) : (x > y) - (x < y);
}

/* segment_of: memory for the segment of each block, by its number in `blocks`. */
static void as_time_goes(heap *h, const iso_block *blocks, iso_block **begins, iso_block **ends, int count,
                         int *segment_of)
{
    int ended = 0;
    h->n_segments = 0;
    h->last = h->unused = -1;
    memset(h->first, -1, sizeof h->first);
    memset(h->some, 0, sizeof h->some);
    qsort(begins, (size_t)count, sizeof *begins, by_begin);
    qsort(ends, (size_t)count, sizeof *ends, by_end);
    for (int i = 0; i < count; i++) {
        for (; ends[ended]->end < begins[i]->begin; ended++)
            give_back(h, segment_of[ends[ended] - blocks]);
        int s = memory_plan_take(h, span(begins[i]));
        begins[i]->offset = h->segments[s].offset;
        segment_of[begins[i] - blocks] = s;
    }
}

/* ---- both ---- */

static size_t reach_of(iso_block *const *order, int count)
{
    size_t total = 0;
    for (int i = 0; i < count; i++)
        total = reach(order[i]) > total ? reach(order[i]) : total;
    return total;
}

static void raise_by(iso_block *const *order, int count, size_t bytes)
{
    for (int i = 0; i < count; i++)
        order[i]->offset += bytes;
}

/* The blocks to place. */
typedef struct placement {
    iso_block *blocks; /* [count] */
    int count;
    iso_block **order;  /* [count] by size */
    iso_block **placed; /* [n_placed + count] the blocks that have an offset, in the order of their offsets */
    int n_placed;
    iso_block **other; /* [2 * count] memory */
} placement;

/* Tries two ways and uses the better one: all blocks in order of time; or the few largest blocks first,
 * and above them the others in order of time. */
static void place_many(const placement *p, heap *h, int *segment_of, size_t *kept)
{
    iso_block **begins = p->other, **ends = p->other + p->count;
    memcpy(begins, p->order, (size_t)p->count * sizeof *begins);
    memcpy(ends, p->order, (size_t)p->count * sizeof *ends);
    as_time_goes(h, p->blocks, begins, ends, p->count, segment_of);
    raise_by(p->order, p->count, reach_of(p->placed, p->n_placed));
    size_t simple = reach_of(p->order, p->count);
    for (int i = 0; i < p->count; i++)
        kept[i] = p->blocks[i].offset;
    largest_first(p->order, FEW, p->placed, p->n_placed, SIZE_MAX);
    size_t base = reach_of(p->placed, p->n_placed + FEW);
    memcpy(begins, p->order + FEW, (size_t)(p->count - FEW) * sizeof *begins);
    memcpy(ends, p->order + FEW, (size_t)(p->count - FEW) * sizeof *ends);
    as_time_goes(h, p->blocks, begins, ends, p->count - FEW, segment_of);
    raise_by(p->order + FEW, p->count - FEW, base);
    if (simple <= reach_of(p->order, p->count))
        for (int i = 0; i < p->count; i++)
            p->blocks[i].offset = kept[i];
}

static iso_status try_both(const placement *p)
{
    heap h;
    h.segments = iso_new((2 * (size_t)p->count + 1) * sizeof *h.segments);
    int *segment_of = iso_new((size_t)p->count * sizeof *segment_of);
    size_t *kept = iso_new((size_t)p->count * sizeof *kept);
    bool room = h.segments && segment_of && kept;
    if (room)
        place_many(p, &h, segment_of, kept);
    iso_free(h.segments);
    iso_free(segment_of);
    iso_free(kept);
    return room ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory to plan %d blocks", p->count);
}

/* Gets the memory of a placement. Released by iso_free(p->order). */
static iso_status prepare(iso_block *blocks, int placed, int count, placement *p)
{
    *p = (placement){.blocks = blocks + placed, .count = count - placed, .n_placed = placed};
    p->order = iso_new(((size_t)p->count * 4 + (size_t)placed + 1) * sizeof *p->order);
    if (!p->order)
        return iso_error(ISO_NO_MEMORY, "no memory to plan %d blocks", count);
    p->other = p->order + p->count;
    p->placed = p->other + 2 * p->count;
    for (int i = 0; i < p->count; i++)
        p->order[i] = &p->blocks[i];
    qsort(p->order, (size_t)p->count, sizeof *p->order, by_size);
    for (int i = 0; i < placed; i++)
        insert(&blocks[i], p->placed, i);
    return ISO_OK;
}

iso_status iso_memory_plan_around(iso_block *blocks, int placed, int count, size_t *total)
{
    placement p;
    iso_status status = prepare(blocks, placed, count, &p);
    if (status != ISO_OK)
        return status;
    *total = reach_of(p.placed, placed);
    if (p.count <= FEW)
        largest_first(p.order, p.count, p.placed, placed, SIZE_MAX);
    else
        status = try_both(&p);
    size_t reached = reach_of(p.order, p.count);
    *total = reached > *total ? reached : *total;
    iso_free(p.order);
    return status;
}

iso_status iso_memory_plan(iso_block *blocks, int count, size_t *total)
{
    return iso_memory_plan_around(blocks, 0, count, total);
}

iso_status iso_memory_plan_within(iso_block *blocks, int placed, int count, size_t bytes)
{
    placement p;
    iso_status status = prepare(blocks, placed, count, &p);
    if (status != ISO_OK)
        return status;
    int tried = p.count < FEW ? p.count : FEW;
    largest_first(p.order, tried, p.placed, placed, bytes);
    for (int i = tried; i < p.count; i++)
        p.order[i]->offset = ISO_NO_OFFSET;
    iso_free(p.order);
    return ISO_OK;
}
