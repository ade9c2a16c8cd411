/* The ops of a step and their keys. */
#include "runtime/report/plan_ops.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/plan/plan_impl.h"

typedef struct lister {
    const iso_plan *plan;
    int slot, busy;
    iso_plan_ops *ops;
} lister;

/* ---- keys ---- */

static void add_array(iso_text *key, const iso_array *array)
{
    iso_text_add(key, " %s[", iso_dtype_name(array->dtype));
    for (int d = 0; d < array->rank; d++)
        iso_text_add(key, "%s%" PRId64, d ? "," : "", array->dim[d]);
    iso_text_add(key, "]");
}

/* The attributes that an op names: strides, whether an operand is transposed. */
static void add_attributes(iso_text *key, const iso_op *op)
{
    for (const iso_setting *s = op->type->settings; s && s->name && op->attrs; s++)
        iso_text_add(key, " %s=%g", s->name, iso_setting_get(s, op->attrs));
}

static iso_status add_op(const lister *l, iso_plan_op *entry, iso_text *key)
{
    iso_status status = ISO_OK;
    if (key) {
        iso_text_add(key, " @%d", l->busy);
        entry->key = key->failed ? NULL : iso_strdup(iso_text_get(key));
        iso_text_free(key);
        if (!entry->key)
            return iso_no_memory("the ops of a plan");
    }
    status = iso_list_add(l->ops->op, l->ops->count, *entry, "the ops of a plan");
    if (status != ISO_OK)
        iso_free(entry->key);
    return status;
}

/* ---- instructions ---- */

/* A kernel's call of a slot, with the text of its key. */
static void describe_call(const lister *l, int step, iso_plan_op *entry, iso_text *key)
{
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    iso_kernel_call call;
    const iso_op *op = l->plan->program->steps[step].op;
    iso_plan_call(l->plan, step, l->slot, in, out, &call);
    const iso_kernel *kernel = l->plan->site->backend->find(op->type->name, &call);
    entry->type = op->type->name;
    entry->flops = iso_plan_flops(l->plan, &l->plan->program->steps[step], l->slot);
    iso_text_add(key, "%s %s", op->type->name, kernel ? kernel->name : "none");
    add_attributes(key, op);
    for (int i = 0; i < op->n_inputs; i++) {
        add_array(key, &in[i]);
        entry->bytes += (double)iso_array_bytes(&in[i]);
    }
    iso_text_add(key, " >");
    for (int i = 0; i < op->n_outputs; i++) {
        add_array(key, &out[i]);
        entry->bytes += (double)iso_array_bytes(&out[i]);
    }
}

static iso_status list_kernel(const lister *l, int i)
{
    iso_text key = {0};
    iso_plan_op entry = {.kind = ISO_PLAN_OP_KERNEL, .index = i};
    describe_call(l, l->plan->instructions[i].step, &entry, &key);
    return add_op(l, &entry, &key);
}

static iso_status list_copied(const lister *l, iso_plan_op_kind kind, int i, const char *op, double bytes)
{
    iso_text key = {0};
    iso_plan_op entry = {.kind = kind, .index = i, .type = op, .bytes = 2 * bytes};
    iso_text_add(&key, "%s %.0f bytes", op, bytes);
    return add_op(l, &entry, &key);
}

static double value_bytes(const lister *l, int value)
{
    iso_box box = iso_plan_box(l->plan, value, l->slot);
    return (double)iso_box_count(&box) *
           (double)iso_dtype_size(l->plan->program->values[value].tensor->dtype);
}

static iso_status list_instruction(const lister *l, int i)
{
    const iso_instruction *instruction = &l->plan->instructions[i];
    const iso_program *program = l->plan->program;
    switch (instruction->kind) {
    case ISO_KERNEL:
        return list_kernel(l, i);
    case ISO_READ:
        return list_copied(l, ISO_PLAN_OP_READ, i, "read",
                           value_bytes(l, program->input_value[instruction->input]));
    case ISO_COPY:
        return list_copied(l, ISO_PLAN_OP_COPY, i, "copy",
                           value_bytes(l, program->steps[instruction->step].output[0]));
    default:
        return add_op(
            l,
            &(iso_plan_op){.kind = instruction->kind == ISO_BEGIN ? ISO_PLAN_OP_BEGIN : ISO_PLAN_OP_EXCHANGE,
                           .index = i},
            NULL);
    }
}

/* ---- the end of a step ---- */

void iso_plan_operands(const iso_plan *plan, int number, int slot, int *here, int *away)
{
    const iso_bucket *bucket = &plan->buckets->buckets[number];
    const int *domain = plan->site->domain_of_slot;
    int group = bucket->group, in_a_row = 0, mine = domain[slot];
    *here = *away = 0;
    for (int i = 0, last = -1; i < group; i++) {
        int now = domain[iso_group_slot(plan->program->mesh, bucket->axes, slot, i)];
        in_a_row = now == last ? in_a_row + 1 : 1;
        last = now;
        *here += now == mine;
        *away += now != mine && in_a_row == 1; /* a host sends the sum of the slots that follow one another */
    }
}

static iso_status count_elements(void *arg, const iso_bucket_run *run)
{
    *(int64_t *)arg += run->count;
    return ISO_OK;
}

/* Elements of a bucket that a slot updates from summed gradients: those that no fused update computes. */
static int64_t count_updated(const iso_plan *plan, int number, int slot)
{
    const iso_bucket *bucket = &plan->buckets->buckets[number];
    int64_t count = 0;
    for (int m = 0; m < bucket->n_members; m++)
        if (iso_plan_fused_of(plan, number, m) < 0)
            iso_bucket_visit_runs(bucket, &bucket->members[m], plan->program->mesh, slot, count_elements,
                                  &count);
    return count;
}

/* The optimizer reads each operand and writes weights and slots, which it has read. */
static double update_bytes(const iso_bucket *bucket, int64_t count, int operands)
{
    const char *names[ISO_MAX_OPTIMIZER_SLOTS];
    double initial[ISO_MAX_OPTIMIZER_SLOTS] = {0};
    int slots = iso_optimizer_kernel_slots(bucket->optimizer, names, initial);
    return (double)count * (operands + 2 * (slots + 1)) * (double)iso_dtype_size(bucket->dtype);
}

static iso_status list_update(const lister *l, int number)
{
    const iso_bucket *bucket = &l->plan->buckets->buckets[number];
    int64_t count = count_updated(l->plan, number, l->slot);
    int here, away;
    iso_text key = {0};
    if (count == 0)
        return ISO_OK;
    iso_plan_operands(l->plan, number, l->slot, &here, &away);
    iso_text_add(&key, "update %s %s[%" PRId64 "] of %d here, %d from other hosts", bucket->optimizer->rule,
                 iso_dtype_name(bucket->dtype), count, here, away);
    iso_plan_op entry = {.kind = ISO_PLAN_OP_UPDATE,
                         .index = number,
                         .type = "update",
                         .flops = (double)count * (here + away + 9),
                         .bytes = update_bytes(bucket, count, here + away)};
    return add_op(l, &entry, &key);
}

static iso_status list_product(const lister *l, int number)
{
    const iso_fused_update *fused = &l->plan->fused_updates[number];
    const iso_bucket *bucket = &l->plan->buckets->buckets[fused->bucket];
    int64_t count = 0;
    iso_text key = {0};
    iso_plan_op entry = {.kind = ISO_PLAN_OP_PRODUCT, .index = number};
    iso_bucket_visit_runs(bucket, &bucket->members[fused->member], l->plan->program->mesh, l->slot,
                          count_elements, &count);
    if (count == 0)
        return ISO_OK;
    iso_text_add(&key, "update %s %" PRId64 " of %d x ", bucket->optimizer->rule, count, bucket->group);
    for (int t = 0; t < fused->n_terms; t++) {
        iso_text_add(&key, "%s", t ? " and " : "");
        describe_call(l, fused->term[t], &entry, &key);
    }
    iso_box box = iso_plan_box(l->plan, l->plan->program->steps[fused->term[0]].output[0], l->slot);
    entry.type = l->plan->program->steps[fused->term[0]].op->type->name;
    entry.flops = iso_plan_fused_flops(l->plan, fused, l->slot) * bucket->group * (double)count /
                  (double)iso_box_count(&box);
    entry.bytes += update_bytes(bucket, count, 0);
    return add_op(l, &entry, &key);
}

/* False: no slot copies gradients. */
static bool copied_gradients(const lister *l, double *bytes)
{
    bool copied = false;
    *bytes = 0;
    for (int b = 0; b < l->plan->buckets->count; b++)
        for (int m = 0; m < l->plan->buckets->buckets[b].n_members; m++)
            if (l->plan->member_copied[b][m]) {
                copied = true;
                *bytes += value_bytes(
                    l, l->plan->program->changes[l->plan->buckets->buckets[b].members[m].change].value);
            }
    return copied;
}

static iso_status list_end(const lister *l)
{
    iso_status status = ISO_OK;
    double copied;
    if (copied_gradients(l, &copied))
        ISO_TRY(list_copied(l, ISO_PLAN_OP_PREPARE, 0, "copy", copied));
    ISO_TRY(add_op(l, &(iso_plan_op){.kind = ISO_PLAN_OP_END}, NULL));
    for (int i = 0; i < l->plan->n_fused_updates; i++)
        ISO_TRY(list_product(l, i));
    for (int b = 0; b < l->plan->buckets->count; b++)
        ISO_TRY(list_update(l, b));
done:
    return status;
}

iso_status iso_plan_ops_list(const iso_plan *plan, int slot, int busy, iso_plan_ops *ops)
{
    lister l = {plan, slot, busy, ops};
    iso_status status = ISO_OK;
    *ops = (iso_plan_ops){0};
    for (int i = 0; i < plan->n_instructions && status == ISO_OK; i++)
        status = list_instruction(&l, i);
    if (status == ISO_OK)
        status = list_end(&l);
    if (status != ISO_OK)
        iso_plan_ops_free(ops);
    return status;
}

void iso_plan_ops_free(iso_plan_ops *ops)
{
    for (int i = 0; i < ops->count; i++)
        iso_free(ops->op[i].key);
    iso_free(ops->op);
    *ops = (iso_plan_ops){0};
}
