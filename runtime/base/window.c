#include "runtime/base/window.h"

#include "runtime/base/arguments.h"

static void set_range(int64_t n, int64_t first, int64_t end, int64_t *begin, int64_t *extent)
{
    *begin = first < 0 ? 0 : first < n ? first : n;
    end = end < n ? end : n;
    *extent = end > *begin ? end - *begin : 0;
}

/* The index after the last element that a window position reads. */
static int64_t end_of_position(const iso_sliding_window *w, int64_t position)
{
    return position * w->stride - w->before + (w->size - 1) * w->dilation + 1;
}
void iso_sliding_window_reads(const iso_sliding_window *w, int64_t n, int64_t first, int64_t count,
                              int64_t *begin, int64_t *extent)
{
    if (ISO_ANY_NULL_AS("window, begin, extent", w, begin, extent))
        return;
    int64_t from = first * w->stride - w->before;
    set_range(n, from, count > 0 ? end_of_position(w, first + count - 1) : from, begin, extent);
}

void iso_sliding_window_covers(const iso_sliding_window *w, int64_t n, int64_t first, int64_t count,
                               int64_t *begin, int64_t *extent)
{
    if (ISO_ANY_NULL_AS("window, begin, extent", w, begin, extent))
        return;
    int64_t from = first * w->stride - w->before, next = (first + count) * w->stride - w->before;
    int64_t end = count > 0 ? end_of_position(w, first + count - 1) : from;
    if (count > 0 && first + count == w->positions)
        end = n;
    set_range(n, from, end > next ? end : next, begin, extent);
}

bool iso_sliding_window_equal(const iso_sliding_window *a, const iso_sliding_window *b)
{
    if (ISO_ANY_NULL(a, b))
        return false;
    return a->size == b->size && (a->size == 0 || (a->positions == b->positions && a->stride == b->stride &&
                                                   a->dilation == b->dilation && a->before == b->before));
}
