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

/* A run of one variable's elements: [begin, begin + count) of the bucket's flat range. */
typedef struct weight_run {
    int64_t begin, count;
    char *weights;
} weight_run;

typedef struct updater {
    const iso_plan *plan;
    const iso_bucket *bucket;
    const iso_bucket_state *state;
    iso_rule_run rule;
    const double *hyper;
    int local, slot, pull;
    int64_t part_begin;
    size_t element;
} updater;

static void update_run(const updater *u, const weight_run *run)
{
    _Alignas(64) double room[BLOCK];
    for (int64_t at = 0; at < run->count; at += BLOCK) {
        int64_t n = run->count - at < BLOCK ? run->count - at : BLOCK;
        int64_t in_part = run->begin + at - u->part_begin;
        void *slots[ISO_MAX_OPTIMIZER_SLOTS];
        for (int k = 0; k < u->state->slots; k++)
            slots[k] = (char *)u->state->data[u->local * u->state->slots + k] + (size_t)in_part * u->element;
        const void *gradient = iso_exchange_view(u->plan->finish, u->slot, u->pull, in_part, n);
        if (!gradient) {
            iso_exchange_combine(u->plan->finish, u->slot, u->pull, in_part, n, room);
            gradient = room;
        }
        u->rule(n, run->weights + (size_t)at * u->element, slots, gradient, u->hyper);
    }
}

void iso_optimize(const iso_runtime *runtime, const iso_ready_plan *ready, const iso_update_state *updates,
                  int b, int local, const iso_rates *rates)
{
    const iso_plan *plan = ready->plan;
    const iso_bucket *bucket = &plan->buckets->bucket[b];
    int slot = runtime->local[local].slot;
    int64_t begin, count;
    iso_bucket_part(bucket, runtime->mesh, slot, &begin, &count);
    if (!rates->apply || count == 0)
        return;
    updater u = {.plan = plan,
                 .bucket = bucket,
                 .state = &updates->state[b],
                 .rule = runtime->backend->optimizer(bucket->optimizer->rule, bucket->dtype),
                 .hyper = rates->hyper,
                 .local = local,
                 .slot = slot,
                 .pull = plan->bucket_pull[b * runtime->mesh->slots + slot],
                 .part_begin = begin,
                 .element = iso_dtype_size(bucket->dtype)};
    for (int m = 0; m < bucket->members; m++) {
        const iso_bucket_member *member = &bucket->member[m];
        iso_box box = iso_runtime_variable_box(runtime, member->variable, slot);
        int64_t end = member->offset + iso_box_count(&box);
        int64_t from = member->offset > begin ? member->offset : begin,
                to = end < begin + count ? end : begin + count;
        if (from >= to)
            continue;
        char *weights = iso_runtime_variable(runtime, member->variable, slot);
        weight_run part = {.begin = from,
                           .count = to - from,
                           .weights = weights + (size_t)(from - member->offset) * u.element};
        update_run(&u, &part);
    }
}
