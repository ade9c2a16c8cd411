/* The optimizer's part of a step: a slot adds its part of all gradients of a bucket, and updates that part of
 * the weights with its part of the state, block by block, so that a block stays in the first-level cache. */
#include "runtime/exec/bound_impl.h"

enum { BLOCK = 1024 };

static const void *scalar(const iso_runtime *runtime, const iso_tensor *tensor, int slot)
{
    return iso_runtime_variable(runtime, ((const iso_variable_attrs *)tensor->producer->attrs)->variable,
                                slot);
}

void iso_optimize_prepare(const iso_runtime *runtime, const iso_bucket *bucket, const iso_program *program,
                          int slot, iso_rates *rates)
{
    const iso_op *apply = program->change[bucket->member[0].change].apply;
    int64_t iteration = *(const int64_t *)scalar(runtime, apply->input[2], slot);
    double rate = *(const double *)scalar(runtime, apply->input[3], slot);
    rates->apply = iso_optimizer_prepare(bucket->optimizer, bucket->dtype, iteration, rate, rates->hyper);
}

typedef struct updater {
    const iso_exchange *finish;
    const iso_bucket_state *state;
    iso_rule_run rule;
    const double *hyper;
    int local, slot, pull;
    int64_t part_begin;
    size_t element;
} updater;

static void update_run(const updater *u, const iso_weight_run *run)
{
    _Alignas(64) double room[BLOCK];
    for (int64_t at = 0; at < run->count; at += BLOCK) {
        int64_t n = run->count - at < BLOCK ? run->count - at : BLOCK;
        int64_t in_part = run->begin + at - u->part_begin;
        void *slots[ISO_MAX_OPTIMIZER_SLOTS];
        for (int k = 0; k < u->state->slots; k++)
            slots[k] = (char *)u->state->data[u->local * u->state->slots + k] + (size_t)in_part * u->element;
        const void *gradient = iso_exchange_view(u->finish, u->slot, u->pull, in_part, n);
        if (!gradient) {
            iso_exchange_combine(u->finish, u->slot, u->pull, in_part, n, room);
            gradient = room;
        }
        u->rule(n, run->weights + (size_t)at * u->element, slots, gradient, u->hyper);
    }
}

void iso_optimize(const iso_runtime *runtime, const iso_ready_plan *ready, const iso_update_state *updates,
                  int local, const iso_rates *rates)
{
    const iso_plan *plan = ready->plan;
    const iso_slot_plan *sp = &ready->slot[local];
    for (int r = 0; r < sp->runs; r++) {
        const iso_weight_run *run = &sp->run[r];
        const iso_bucket *bucket = &plan->buckets->bucket[run->bucket];
        int64_t begin, count;
        if (!rates[run->bucket].apply)
            continue;
        iso_bucket_part(bucket, runtime->mesh, sp->local->slot, &begin, &count);
        updater u = {.finish = plan->finish,
                     .state = &updates->state[run->bucket],
                     .rule = runtime->backend->optimizer(bucket->optimizer->rule, bucket->dtype),
                     .hyper = rates[run->bucket].hyper,
                     .local = local,
                     .slot = sp->local->slot,
                     .pull = plan->bucket_pull[run->bucket * runtime->mesh->slots + sp->local->slot],
                     .part_begin = begin,
                     .element = iso_dtype_size(bucket->dtype)};
        update_run(&u, run);
    }
}
