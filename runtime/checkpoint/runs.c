#include "runtime/checkpoint/runs_impl.h"

iso_runs iso_runs_of(const iso_state_shard *shard)
{
    const iso_box *box = &shard->box;
    int64_t most = 1;
    for (int d = box->rank - 1; d >= 0; d--) {
        most *= box->extent[d];
        if (box->extent[d] != shard->shape.dim[d])
            break;
    }
    return (iso_runs){shard, most, shard->begin};
}

bool iso_runs_next(iso_runs *runs, int64_t *own, int64_t *global, int64_t *count)
{
    const iso_state_shard *shard = runs->shard;
    int64_t left = shard->begin + shard->count - runs->next;
    if (left <= 0)
        return false;
    int64_t whole = runs->most - runs->next % runs->most;
    *own = runs->next - shard->begin;
    *global = iso_box_global_index(&shard->box, &shard->shape, runs->next);
    *count = whole < left ? whole : left;
    runs->next += *count;
    return true;
}
