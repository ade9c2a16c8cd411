#include "runtime/checkpoint/write/parts_impl.h"

/* Cuts a box whose dimensions before d have extent 1 already. */
typedef struct cutter {
    iso_box *boxes;
    int count;
} cutter;

/* [begin, begin + count) of the order of dimensions d and after. */
static void ranges_cut(cutter *c, iso_box box, int d, int64_t begin, int64_t count)
{
    int64_t inner = 1;
    for (int i = d + 1; i < box.rank; i++)
        inner *= box.extent[i];
    while (count > 0) {
        int64_t row = d < box.rank ? begin / inner : 0, rest = begin - row * inner;
        int64_t left = inner - rest, part = left < count ? left : count;
        iso_box now = box;
        if (d < box.rank) {
            now.offset[d] += row;
            now.extent[d] = 1;
        }
        if (rest == 0 && count >= inner) { /* whole rows */
            part = count / inner * inner;
            if (d < box.rank)
                now.extent[d] = count / inner;
            c->boxes[c->count++] = now;
        } else
            ranges_cut(c, now, d + 1, rest, part);
        begin += part;
        count -= part;
    }
}

int iso_range_boxes(const iso_box *box, int64_t begin, int64_t count, iso_box boxes[ISO_MOST_RANGE_BOXES])
{
    cutter c = {boxes, 0};
    ranges_cut(&c, *box, 0, begin, count);
    return c.count;
}
