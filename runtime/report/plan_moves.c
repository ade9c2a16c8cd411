/* A plan's report: what moves between slots, in the same bytes that a run counts. */
#include <stdio.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/report/plan_report_impl.h"
#include "runtime/spmd/collective.h"

static iso_report_collective *report_moves_add(iso_reporter *r)
{
    iso_report_collective *fresh = &r->report->collectives[r->report->n_collectives++];
    *fresh = (iso_report_collective){.from.layer = "", .to.layer = ""};
    return fresh;
}

static double dtype_bytes(const iso_reporter *r, int value)
{
    return (double)iso_dtype_size(r->program->values[value].tensor->dtype);
}

/* ---- reshards ---- */

/* The op that computes a value, skipping reshards and reshapes. */
static iso_report_origin maker_of(const iso_reporter *r, int value)
{
    for (int step = r->program->values[value].step; step >= 0; step = r->program->values[value].step) {
        const iso_op *op = r->program->steps[step].op;
        if (op && !iso_plan_is_alias(op))
            return iso_report_origin_of(r, op);
        value = r->program->steps[step].input[0];
    }
    return (iso_report_origin){.layer = ""};
}

static iso_report_origin reader_of(const iso_reporter *r, int value)
{
    int step = r->user[value];
    while (step >= 0 && !r->program->steps[step].op)
        step = r->user[r->program->steps[step].output[0]];
    return iso_report_origin_of(r, step >= 0 ? r->program->steps[step].op : NULL);
}

/* Kernels between two instructions. */
static int count_kernels(const iso_reporter *r, int begin, int end)
{
    int last = end < r->plan->n_instructions ? end : r->plan->n_instructions;
    return last > begin + 1 ? r->kernels_before[last] - r->kernels_before[begin + 1] : 0;
}

/* "gradient of d1/kernel" if an optimizer takes the result, else the tensor's name. */
static void name_moved(const iso_reporter *r, const iso_move *move, iso_report_collective *out)
{
    int change = r->update_of[move->to];
    if (change >= 0) {
        const iso_program_change *update = &r->program->changes[change];
        snprintf(out->tensor, sizeof out->tensor, "gradient of %s", update->variable->path);
        out->to.op = ((const iso_apply_attrs *)update->apply->attrs)->optimizer.rule;
        return;
    }
    snprintf(out->tensor, sizeof out->tensor, "%s", iso_tensor_name(r->program->values[move->from].tensor));
    out->to = reader_of(r, move->to);
}

static void describe_move(iso_reporter *r, const iso_move *move, int begin, int end)
{
    const iso_layout *from = &r->program->values[move->from].layout,
                     *to = &r->program->values[move->to].layout;
    iso_shape shape = iso_plan_shape(r->plan, move->from);
    iso_collective what = iso_collective_of(r->mesh, from, to, &shape, move->kind == ISO_MOVE_SCATTER);
    iso_report_collective *out = report_moves_add(r);
    if (what.kind == ISO_COLLECTIVE_MIXED)
        iso_collective_text(r->mesh, &what, out->kind, sizeof out->kind);
    else
        snprintf(out->kind, sizeof out->kind, "%s", iso_collective_name(what.kind));
    iso_report_axes(r->mesh, what.axes, out->axes, sizeof out->axes);
    name_moved(r, move, out);
    out->from = maker_of(r, move->from);
    out->bytes = what.total * dtype_bytes(r, move->from);
    iso_report_op *op = &r->report->ops[end < r->plan->n_instructions ? end : r->report->n_ops - 1];
    op->taken += out->bytes / r->report->n_slots;
    out->begin = begin;
    out->end = end;
    out->overlaps = count_kernels(r, begin, end);
}

/* The second half of an all-reduce is reported with the first. */
static void describe_moves(iso_reporter *r, int first, int count, int begin, int end)
{
    for (int i = first; i < first + count; i++) {
        const iso_move *move = &r->plan->moves[i];
        if (move->kind != ISO_MOVE_GATHER)
            describe_move(r, move, begin, end + move->gathered);
    }
}

/* ---- the end of a step ---- */

static iso_report_collective *at_the_end(iso_reporter *r, const char *kind, uint32_t axes)
{
    iso_report_collective *out = report_moves_add(r);
    snprintf(out->kind, sizeof out->kind, "%s", kind);
    iso_report_axes(r->mesh, axes, out->axes, sizeof out->axes);
    out->begin = out->end = r->report->n_ops - 1;
    return out;
}

/* Every slot receives the number of slots that met a fault in the data. */
static void describe_faults(iso_reporter *r)
{
    double slots = r->mesh->n_slots;
    if (slots < 2)
        return;
    iso_report_collective *out = at_the_end(r, "all-reduce", (1u << r->mesh->n_axes) - 1);
    snprintf(out->tensor, sizeof out->tensor, "faults of the data");
    double takers = slots > ISO_PLAN_MANY ? 2 : slots; /* slot 0 takes all others', which take the sum */
    out->bytes = takers * (slots - 1) * sizeof(double);
}

static int64_t elements_of(const iso_variable *variable)
{
    int64_t count = 0;
    return iso_shape_count(&variable->shape, &count) == ISO_OK ? count : 0;
}

/* Each slot takes the others' partial sums of the part that it updates. All groups together hold every
 * element. */
static void describe_gradients(iso_reporter *r, int number)
{
    const iso_bucket *bucket = &r->plan->buckets->buckets[number];
    const iso_variable *last = NULL;
    int64_t elements = 0;
    int members = 0;
    for (int m = 0; m < bucket->n_members; m++)
        if (iso_plan_fused_of(r->plan, number, m) < 0) {
            last = bucket->members[m].variable;
            elements += elements_of(last);
            members++;
        }
    if (bucket->group < 2 || !members)
        return;
    iso_report_collective *out = at_the_end(r, "reduce-scatter", bucket->axes);
    if (iso_plan_overlaps(r->plan, number)) {
        out->begin = r->plan->bucket_begin[number];
        out->overlaps = count_kernels(r, out->begin, out->end);
    }
    if (members == 1)
        snprintf(out->tensor, sizeof out->tensor, "gradient of %s", last->path);
    else
        snprintf(out->tensor, sizeof out->tensor, "gradients of %d variables", members);
    out->to.op = bucket->optimizer->rule;
    out->bytes = (double)elements * (bucket->group - 1) * (double)iso_dtype_size(bucket->dtype);
    r->update_bytes += out->bytes;
}

/* ---- gradients that the optimizer computes ---- */

/* What one slot reads for its part of a gradient. */
typedef struct product_reads {
    const iso_plan *plan;
    const iso_fused_update *fused;
    int slot;
    double bytes;
} product_reads;

/* Each run is a product of its own, which reads its inputs from each other slot. */
static iso_status add_reads(void *arg, const iso_bucket_run *run)
{
    product_reads *reads = arg;
    if (run->count > 0)
        reads->bytes += iso_plan_fused_bytes(reads->plan, reads->fused, reads->slot, run->first, run->count);
    return ISO_OK;
}

/* Bytes of the other slots' inputs that a slot reads for its part of the gradient. */
static double read_by(const iso_reporter *r, const iso_fused_update *fused, int slot)
{
    const iso_bucket *bucket = &r->plan->buckets->buckets[fused->bucket];
    product_reads reads = {.plan = r->plan, .fused = fused, .slot = slot};
    iso_bucket_visit_runs(bucket, &bucket->members[fused->member], r->mesh, slot, add_reads, &reads);
    return reads.bytes;
}

static void describe_product(iso_reporter *r, const iso_fused_update *fused)
{
    const iso_bucket *bucket = &r->plan->buckets->buckets[fused->bucket];
    const iso_bucket_member *member = &bucket->members[fused->member];
    if (bucket->group < 2)
        return;
    iso_report_collective *out = at_the_end(r, "slice", bucket->axes);
    snprintf(out->tensor, sizeof out->tensor, "inputs of the gradient of %s", member->variable->path);
    out->from = iso_report_origin_of(r, r->program->steps[fused->term[0]].op);
    out->to.op = bucket->optimizer->rule;
    for (int slot = 0; slot < r->mesh->n_slots; slot++)
        out->bytes += read_by(r, fused, slot);
    r->update_bytes += out->bytes;
}

/* ---- new weights ---- */

/* Elements of all copies of a variable: each domain has one copy of every box that its slots hold. */
static double count_copies(const iso_reporter *r, const iso_variable *variable)
{
    const iso_layout *layout = &r->program->variable_layout[variable->id];
    const iso_copies *copies = &r->copies[iso_layout_sharded_axes(layout)];
    if (copies->even)
        return copies->even * (double)elements_of(variable);
    double elements = 0;
    for (int i = 0; i < copies->n_holders; i++) {
        iso_box box = iso_layout_box(r->mesh, layout, &variable->shape, copies->holders[i]);
        elements += (double)iso_box_count(&box);
    }
    return elements;
}

uint32_t iso_report_update_axes(const iso_reporter *r, int number)
{
    const iso_bucket *bucket = &r->plan->buckets->buckets[number];
    int first = bucket->members[0].variable->id;
    uint32_t finer = iso_layout_sharded_axes(&r->program->update_layout[first]) &
                     ~iso_layout_sharded_axes(&r->program->variable_layout[first]);
    return bucket->axes | finer;
}

/* Each copy takes the parts that slots of other domains updated. */
static void describe_weights(iso_reporter *r, int number)
{
    const iso_bucket *bucket = &r->plan->buckets->buckets[number];
    double copies = 0, once = 0;
    for (int m = 0; m < bucket->n_members; m++) {
        copies += count_copies(r, bucket->members[m].variable);
        once += (double)elements_of(bucket->members[m].variable);
    }
    if (copies == once)
        return;
    iso_report_collective *out = at_the_end(r, "all-gather", iso_report_update_axes(r, number));
    if (bucket->n_members == 1)
        snprintf(out->tensor, sizeof out->tensor, "new %s", bucket->members[0].variable->path);
    else
        snprintf(out->tensor, sizeof out->tensor, "new weights of %d variables", bucket->n_members);
    out->from.op = bucket->optimizer->rule;
    out->bytes = (copies - once) * (double)iso_dtype_size(bucket->dtype);
    r->update_bytes += out->bytes;
    r->bucket_weights[number] = out->bytes;
    int end = r->plan->bucket_gather_end[number];
    if (end < 0)
        return;
    out->next_step = true;
    out->begin = r->plan->instructions[end].begin;
    out->end = end;
    out->overlaps = count_kernels(r, out->begin, end);
}

/* ---- all ---- */

/* Whether there is enough to compute while a collective is in progress. */
static bool is_hidden(const iso_plan_report *report, const iso_report_collective *c)
{
    double meanwhile = 0;
    for (int i = c->begin + 1; i < c->end; i++)
        meanwhile += report->ops[i].flops;
    return c->overlaps && iso_plan_hides(meanwhile, report->flops);
}

iso_status iso_report_moves(iso_reporter *r)
{
    const iso_plan *plan = r->plan;
    iso_plan_report *report = r->report;
    size_t most =
        (size_t)plan->n_moves + (size_t)plan->n_fused_updates + 2 * (size_t)plan->buckets->count + 1;
    report->collectives = iso_new(most * sizeof *report->collectives);
    if (!report->collectives)
        return iso_no_memory("the report of %zu collectives", most);
    for (int i = 0; i < plan->n_instructions; i++)
        if (plan->instructions[i].kind == ISO_EXCHANGE)
            describe_moves(r, plan->instructions[i].first_move, plan->instructions[i].n_moves,
                           plan->instructions[i].begin, i);
    describe_moves(r, plan->epilogue_first_move, plan->n_epilogue_moves, report->n_ops - 1,
                   report->n_ops - 1);
    describe_faults(r);
    for (int i = 0; i < plan->n_fused_updates; i++)
        describe_product(r, &plan->fused_updates[i]);
    for (int b = 0; b < plan->buckets->count; b++) {
        describe_gradients(r, b);
        if (!plan->site->one_domain)
            describe_weights(r, b);
    }
    for (int i = 0; i < report->n_collectives; i++) {
        report->bytes += report->collectives[i].bytes;
        report->hidden += is_hidden(report, &report->collectives[i]) ? report->collectives[i].bytes : 0;
    }
    report->accumulation_bytes =
        report->bytes - (iso_buckets_accumulate(plan->buckets) ? r->update_bytes : 0);
    return ISO_OK;
}
