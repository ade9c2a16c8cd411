#include "runtime/checkpoint/runs_impl.h"

iso_runs iso_runs_of(const iso_piece *piece)
{
    const iso_box *box = &piece->box;
    int64_t most = 1;
    for (int d = box->rank - 1; d >= 0; d--) {
        most *= box->extent[d];
        if (box->extent[d] != piece->shape.dim[d])
            break;
    }
    return (iso_runs){piece, most, piece->begin};
}

bool iso_runs_next(iso_runs *runs, int64_t *own, int64_t *global, int64_t *count)
{
    const iso_piece *piece = runs->piece;
    int64_t left = piece->begin + piece->count - runs->next;
    if (left <= 0)
        return false;
    int64_t whole = runs->most - runs->next % runs->most;
    *own = runs->next - piece->begin;
    *global = iso_box_global_index(&piece->box, &piece->shape, runs->next);
    *count = whole < left ? whole : left;
    runs->next += *count;
    return true;
}
