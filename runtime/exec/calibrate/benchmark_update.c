/* The end of a step in a benchmark: the same ops as in apply_updates.c, with synthetic partial sums of other
 * hosts. */
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/base/prefetch.h"
#include "runtime/exec/calibrate/benchmark_impl.h"
#include "runtime/graph/graph_impl.h"

enum { BLOCK = 3072 }; /* elements that are summed and updated at a time, as in apply_updates.c */

typedef struct benchmark_bucket {
    const benchmark *r;
    benchmark_slot *s;
    const iso_bucket *bucket;
    int number, here, away, n_state, member;
    int64_t begin, part;
    size_t element;
    char *weights;              /* the slot's copy of the member */
    iso_rule_run rule, average; /* average NULL: it keeps no averages */
} benchmark_bucket;

static benchmark_bucket bucket_of(const benchmark *r, benchmark_slot *s, int number)
{
    const char *names[ISO_MAX_OPTIMIZER_SLOTS];
    double initial[ISO_MAX_OPTIMIZER_SLOTS] = {0};
    const iso_bucket *bucket = &r->plan->buckets->buckets[number];
    benchmark_bucket b = {.r = r, .s = s, .bucket = bucket, .number = number};
    iso_plan_operands(r->plan, number, s->slot, &b.here, &b.away);
    iso_bucket_part(bucket, r->plan->program->mesh, s->slot, &b.begin, &b.part);
    b.n_state = iso_optimizer_kernel_slots(bucket->optimizer, names, initial);
    b.element = iso_dtype_size(bucket->dtype);
    b.rule = r->backend->optimizer(iso_optimizer_kernel(bucket->optimizer->rule), bucket->dtype);
    if (bucket->optimizer->use_ema)
        b.average = r->backend->optimizer(ISO_AVERAGE_KERNEL, bucket->dtype);
    return b;
}

/* Weights that other slots read are prefetched before their gradient is computed. */
static void prefetch_weights(const benchmark_bucket *b, const iso_bucket_run *run, int64_t at, int64_t n)
{
    if (b->here > 1)
        iso_prefetch_for_writing(b->weights + (size_t)(run->at + at) * b->element, (size_t)n * b->element);
}

static void apply(const benchmark_bucket *b, const iso_bucket_run *run, int64_t at, int64_t n,
                  const void *gradient)
{
    const benchmark *r = b->r;
    size_t stride = iso_padded((size_t)b->part * b->element);
    char *state = iso_benchmark_address(&b->s->state, b->s->state_at[b->number]);
    iso_optimizer_run part = {
        .count = n, .weights = b->weights + (size_t)(run->at + at) * b->element, .gradient = gradient};
    for (int k = 0; k < b->n_state; k++)
        part.slots[k] = state + (size_t)k * stride + (size_t)(run->begin + at - b->begin) * b->element;
    const iso_optimizer_call call = {
        .rule = b->rule, .rates = &b->s->rates[b->number].update, .n_runs = 1, .runs = &part};
    r->backend->optimize(&call, 1, NULL, NULL);
    if (!b->average)
        return;
    part.slots[0] = part.slots[b->n_state - 1];
    part.gradient = part.weights;
    const iso_optimizer_call average = {
        .rule = b->average, .rates = &b->s->rates[b->number].average, .n_runs = 1, .runs = &part};
    r->backend->optimize(&average, 1, NULL, NULL);
}

/* The address of the part of an operand: of a slot of this host, or of a message. */
static const char *operand(const benchmark_bucket *b, int number, int64_t from)
{
    const benchmark *r = b->r;
    if (number < b->here) {
        const benchmark_slot *of = &r->slot[number % r->n_slots];
        int64_t stored =
            r->plan->member_stored[b->number][b->member] + from - b->bucket->members[b->member].offset;
        return iso_benchmark_address(&of->shared, r->plan->bucket_offset[b->number]) +
               (size_t)stored * b->element;
    }
    size_t at = (size_t)(number - b->here) * iso_padded((size_t)b->part * b->element) +
                (size_t)(from - b->begin) * b->element;
    size_t block = BLOCK * sizeof(double);
    return (char *)b->s->incoming +
           (r->incoming_bytes > block ? at % (r->incoming_bytes - block) / ISO_ALIGN * ISO_ALIGN : 0);
}

static void update_run(const benchmark_bucket *b, const iso_bucket_run *run)
{
    _Alignas(ISO_ALIGN) double room[BLOCK];
    for (int64_t at = 0; at < run->count; at += BLOCK) {
        int64_t n = run->count - at < BLOCK ? run->count - at : BLOCK;
        const void *sum = operand(b, 0, run->begin + at);
        prefetch_weights(b, run, at, n);
        for (int k = 1; k < b->here + b->away; k++, sum = room)
            b->r->backend->sum(b->bucket->dtype, n, sum, operand(b, k, run->begin + at), room, NULL);
        apply(b, run, at, n, sum);
    }
}

static iso_status update_visited(void *arg, const iso_bucket_run *run)
{
    update_run(arg, run);
    return ISO_OK;
}

/* The rows from `row` on of a gradient that fit into a block, of those before `end`. */
static void product_rows(const benchmark_bucket *b, const iso_bucket_run *run, int64_t row, int64_t end)
{
    const iso_slot_product *product = &b->s->products[iso_plan_fused_of(b->r->plan, b->number, b->member)];
    int64_t rows = product->room.rows, at = row * product->columns - run->first;
    int64_t offset[2] = {row, 0}, extent[2] = {end - row < rows ? end - row : rows, product->columns};
    int64_t first = at > 0 ? at : 0, count = extent[0] * extent[1] + (at < 0 ? at : 0);
    prefetch_weights(b, run, first, count);
    for (int g = 0; g < product->group; g++)
        for (int t = 0; t < product->n_terms; t++)
            product->term[t].kernel[g]->run_part(&product->term[t].call[g], offset, extent, g + t > 0,
                                                 product->blocks, iso_fused_part_scratch(product, 0));
    apply(b, run, first, count, product->blocks);
}

/* Rows [first, end) of a gradient, block by block; every other step from the last one to the first. */
static iso_status product_visited(void *arg, const iso_bucket_run *run)
{
    const benchmark_bucket *b = arg;
    const iso_slot_product *product = &b->s->products[iso_plan_fused_of(b->r->plan, b->number, b->member)];
    int64_t first = run->first / product->columns, end = (run->first + run->count) / product->columns;
    int64_t rows = product->room.rows, blocks = (end - first + rows - 1) / rows;
    iso_product_prepare(product);
    for (int64_t i = 0; i < blocks; i++)
        product_rows(b, run, first + rows * (b->r->round % 2 ? blocks - 1 - i : i), end);
    return ISO_OK;
}

static void visit_member(benchmark_bucket *b, int member, iso_bucket_run_visit visit)
{
    const iso_bucket_member *of = &b->bucket->members[member];
    b->member = member;
    b->weights = iso_benchmark_variable(b->r, b->s, of->variable);
    iso_bucket_visit_runs(b->bucket, of, b->r->plan->program->mesh, b->s->slot, visit, b);
}

static void copy_gradients(const benchmark *r, const benchmark_slot *s)
{
    const iso_plan *plan = r->plan;
    for (int b = 0; b < plan->buckets->count; b++)
        for (int m = 0; m < plan->buckets->buckets[b].n_members; m++) {
            const iso_bucket *bucket = &plan->buckets->buckets[b];
            int value = plan->program->changes[bucket->members[m].change].value;
            iso_box box = iso_plan_box(plan, value, s->slot);
            size_t element = iso_dtype_size(bucket->dtype);
            if (plan->member_copied[b][m])
                memcpy(iso_benchmark_address(&s->shared, plan->bucket_offset[b]) +
                           (size_t)plan->member_stored[b][m] * element,
                       iso_benchmark_value(r, s, value), (size_t)iso_box_count(&box) * element);
        }
}

void iso_benchmark_end_op(const benchmark *r, benchmark_slot *s, const iso_plan_op *op)
{
    if (op->kind == ISO_PLAN_OP_PREPARE)
        copy_gradients(r, s);
    if (op->kind == ISO_PLAN_OP_PRODUCT) {
        const iso_fused_update *fused = &r->plan->fused_updates[op->index];
        benchmark_bucket b = bucket_of(r, s, fused->bucket);
        visit_member(&b, fused->member, product_visited);
    }
    if (op->kind == ISO_PLAN_OP_UPDATE) {
        benchmark_bucket b = bucket_of(r, s, op->index);
        for (int m = 0; m < b.bucket->n_members; m++)
            if (iso_plan_fused_of(r->plan, op->index, m) < 0)
                visit_member(&b, m, update_visited);
    }
}
