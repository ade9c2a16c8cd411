#include "runtime/backend/box_copy.h"

#include <string.h>

/* Byte offset of a region's corner in a dense box, and the strides of the box. */
static size_t corner(const iso_box *box, const iso_box *region, size_t element, size_t *stride)
{
    size_t at = 0;
    for (int d = box->rank - 1; d >= 0; d--) {
        stride[d] = d == box->rank - 1 ? element : stride[d + 1] * (size_t)box->extent[d + 1];
        at += (size_t)(region->offset[d] - box->offset[d]) * stride[d];
    }
    return at;
}

static void copy_rows(const char *from, const size_t *from_stride, char *to, const size_t *to_stride,
                      const iso_box *region, int d, size_t element)
{
    if (d >= region->rank - 1) {
        memcpy(to, from, element * (size_t)(region->rank ? region->extent[d] : 1));
        return;
    }
    for (int64_t i = 0; i < region->extent[d]; i++)
        copy_rows(from + (size_t)i * from_stride[d], from_stride, to + (size_t)i * to_stride[d], to_stride,
                  region, d + 1, element);
}

void iso_box_copy_run(const iso_box_copy *copy)
{
    size_t from_stride[ISO_MAX_RANK], to_stride[ISO_MAX_RANK];
    size_t bytes = (size_t)iso_box_count(&copy->to_box) * copy->element;
    if (copy->zero)
        memset(copy->to, 0, bytes);
    if (copy->empty)
        return;
    if (copy->whole) {
        if (copy->to != copy->from)
            memcpy(copy->to, copy->from, bytes);
        return;
    }
    size_t from = corner(&copy->from_box, &copy->region, copy->element, from_stride);
    size_t to = corner(&copy->to_box, &copy->region, copy->element, to_stride);
    copy_rows((const char *)copy->from + from, from_stride, (char *)copy->to + to, to_stride, &copy->region,
              0, copy->element);
}

/* ---- by several threads ---- */

enum { PIECE = 1 << 18 }; /* bytes: with less, waking the threads costs more than they save */

/* A copy in pieces: of bytes where the boxes are equal, else of the region, along a dimension. */
typedef struct copy_loop {
    const iso_box_copy *copy;
    int dimension;
    int64_t pieces;
} copy_loop;

/* The first dimension with elements for all pieces; else the one that has the most. */
static int divided_dimension(const iso_box *region, int64_t pieces)
{
    int most = 0;
    for (int d = 0; d < region->rank; d++) {
        if (region->extent[d] >= pieces)
            return d;
        if (region->extent[d] > region->extent[most])
            most = d;
    }
    return most;
}

static void copy_piece(void *arg, int64_t piece, int thread)
{
    const copy_loop *l = arg;
    iso_box_copy part = *l->copy;
    (void)thread;
    if (part.whole) {
        const int64_t bytes = iso_box_count(&part.to_box) * (int64_t)part.element;
        const int64_t begin = bytes * piece / l->pieces, end = bytes * (piece + 1) / l->pieces;
        memcpy((char *)part.to + begin, (const char *)part.from + begin, (size_t)(end - begin));
        return;
    }
    const int64_t all = part.region.extent[l->dimension], begin = all * piece / l->pieces;
    part.zero = false;
    part.region.offset[l->dimension] += begin;
    part.region.extent[l->dimension] = all * (piece + 1) / l->pieces - begin;
    iso_box_copy_run(&part);
}

static void clear_piece(void *arg, int64_t piece, int thread)
{
    const copy_loop *l = arg;
    const int64_t bytes = iso_box_count(&l->copy->to_box) * (int64_t)l->copy->element;
    const int64_t begin = bytes * piece / l->pieces, end = bytes * (piece + 1) / l->pieces;
    (void)thread;
    memset((char *)l->copy->to + begin, 0, (size_t)(end - begin));
}

void iso_box_copy_divide(const iso_box_copy *copy, iso_thread_pool *pool)
{
    copy_loop l = {.copy = copy};
    const int64_t cleared = iso_box_count(&copy->to_box) * (int64_t)copy->element;
    const int64_t copied = copy->empty ? 0 : iso_box_count(&copy->region) * (int64_t)copy->element;
    if (iso_thread_pool_size(pool) == 1 || cleared < 2 * PIECE || (copy->whole && copy->to == copy->from)) {
        iso_box_copy_run(copy);
        return;
    }
    if (copy->zero) {
        l.pieces = cleared / PIECE;
        iso_parallel_for(pool, l.pieces, clear_piece, &l);
    }
    if (copied == 0)
        return;
    l.pieces = copied / PIECE > 0 ? copied / PIECE : 1;
    l.dimension = divided_dimension(&copy->region, l.pieces);
    if (!copy->whole && copy->region.rank > 0 && copy->region.extent[l.dimension] < l.pieces)
        l.pieces = copy->region.extent[l.dimension];
    iso_parallel_for(pool, l.pieces, copy_piece, &l);
}
