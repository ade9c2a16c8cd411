/* Buffer assignment: where every value is stored, and for how long. */
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/plan/memory_plan.h"
#include "runtime/plan/plan_impl.h"

typedef struct lifetime {
    int begin, end;
    bool defined, shared, forced;
} lifetime;

typedef struct assigner {
    iso_plan *plan;
    const iso_program *program;
    lifetime *live_range; /* [values], of roots */
} assigner;

static bool is_variable(const iso_program_value *value)
{
    return value->step < 0 && value->tensor->producer->type == &iso_op_variable;
}

static bool is_constant(const iso_program_value *value)
{
    return value->step < 0 && value->tensor->producer->type == &iso_op_constant;
}

static bool is_fixed(const assigner *s, int root)
{
    return is_variable(&s->program->values[root]) || is_constant(&s->program->values[root]);
}

static int plan_root_of(const iso_plan *plan, int value)
{
    while (plan->root[value] != value)
        value = plan->root[value];
    return value;
}

static int root_of(const assigner *s, int value)
{
    return plan_root_of(s->plan, value);
}

/* ---- lifetimes ---- */

static void touch(assigner *s, int value, int when)
{
    lifetime *live_range = &s->live_range[root_of(s, value)];
    if (!live_range->defined)
        live_range->begin = when;
    live_range->defined = true;
    if (when > live_range->end)
        live_range->end = when;
}

static void touch_moves(assigner *s, int first, int count, int when)
{
    for (int i = first; i < first + count; i++) {
        const iso_move *move = &s->plan->moves[i];
        touch(s, move->from, when);
        s->live_range[root_of(s, move->from)].shared = true;
        if (move->kind != ISO_MOVE_SCATTER || move->own_sum)
            touch(s, move->to, when);
        if (move->own_sum)
            s->live_range[root_of(s, move->to)].shared = true;
    }
}

static void touch_instruction(assigner *s, int when)
{
    const iso_instruction *instruction = &s->plan->instructions[when];
    const iso_program_step *step = &s->program->steps[instruction->step];
    switch (instruction->kind) {
    case ISO_READ:
        touch(s, s->program->input_value[instruction->input], when);
        break;
    case ISO_KERNEL:
        for (int i = 0; i < step->op->n_inputs; i++)
            touch(s, step->input[i], when);
        for (int i = 0; i < step->op->n_outputs; i++)
            touch(s, step->output[i], when);
        break;
    case ISO_COPY:
        touch(s, step->input[0], when);
        touch(s, step->output[0], when);
        break;
    case ISO_BEGIN:
        for (int i = 0; i < instruction->n_moves; i++)
            touch(s, s->plan->moves[instruction->first_move + i].from, when);
        break;
    case ISO_EXCHANGE:
        touch_moves(s, instruction->first_move, instruction->n_moves, when);
        break;
    }
}

/* The optimizer reads the inputs of a fused product, those of all slots of its group, at the end of the
 * step. */
static void touch_fused(assigner *s, const iso_fused_update *fused, int end)
{
    for (int t = 0; t < fused->n_terms; t++) {
        const iso_program_step *step = &s->program->steps[fused->term[t]];
        for (int i = 0; i < step->op->n_inputs; i++) {
            if (iso_plan_reads_term(s->plan, step->input[i]))
                continue;
            touch(s, step->input[i], end);
            if (s->plan->buckets->buckets[fused->bucket].group > 1)
                s->live_range[root_of(s, step->input[i])].shared = true;
        }
    }
}

static void find_lives(assigner *s)
{
    iso_plan *plan = s->plan;
    int end = plan->n_instructions;
    for (int v = 0; v < s->program->n_values; v++)
        s->live_range[v] = (lifetime){.end = -1};
    for (int i = 0; i < end; i++)
        touch_instruction(s, i);
    touch_moves(s, plan->epilogue_first_move, plan->n_epilogue_moves, end);
    for (int i = 0; i < s->program->n_outputs; i++)
        touch(s, s->program->output_value[i], end);
    for (int i = 0; i < s->program->n_changes; i++)
        touch(s, s->program->changes[i].value, end);
    for (int i = 0; i < plan->n_fused_updates; i++)
        touch_fused(s, &plan->fused_updates[i], end);
}

/* Reshapes, and sums in place. */
void iso_plan_find_roots(iso_plan *plan)
{
    const iso_program *program = plan->program;
    for (int v = 0; v < program->n_values; v++)
        plan->root[v] = v;
    for (int i = 0; i < plan->n_moves; i++)
        if (iso_move_in_place(&plan->moves[i]))
            plan->root[plan->moves[i].to] = plan->moves[i].from;
    for (int k = 0; k < program->n_steps; k++) {
        const iso_program_step *step = &program->steps[k];
        if (iso_plan_is_alias(step->op))
            plan->root[step->output[0]] = step->input[0];
    }
    for (int v = 0; v < program->n_values; v++)
        plan->root[v] = plan_root_of(plan, v);
}

/* ---- working in place ---- */

static bool works_in_place(const iso_kernel *kernel, const iso_kernel_call *call)
{
    (void)call;
    return kernel->in_place;
}

/* Output 0 may take the memory of input i if the input is no longer needed and both have the same size on
 * all slots. Exchanges that read the input have ended. */
static bool may_replace(const assigner *s, int when, int i)
{
    const iso_program_step *step = &s->program->steps[s->plan->instructions[when].step];
    const iso_program_value *in = &s->program->values[step->input[i]],
                            *out = &s->program->values[step->output[0]];
    int root = root_of(s, step->input[i]);
    if (!(step->op->type->in_place & 1u << i) || is_fixed(s, root) || s->live_range[root].end != when ||
        (s->live_range[root_of(s, step->output[0])].shared && !s->live_range[root].shared))
        return false;
    iso_layout a = in->layout, b = out->layout;
    a.partial = b.partial = 0;
    for (int k = 0; k < step->op->n_inputs; k++) /* no other input may be in the same memory */
        if (k != i && root_of(s, step->input[k]) == root)
            return false;
    return in->tensor->dtype == out->tensor->dtype &&
           iso_shape_equal(&in->tensor->shape, &out->tensor->shape) && iso_layout_equal(&a, &b);
}

/* One of two roots takes the other's memory: that of the input, unless the output is in a bucket. */
static void unite(assigner *s, int in, int out)
{
    int kept = s->live_range[out].forced ? out : in, gone = kept == in ? out : in;
    s->plan->root[gone] = kept;
    if (s->live_range[gone].begin < s->live_range[kept].begin)
        s->live_range[kept].begin = s->live_range[gone].begin;
    if (s->live_range[gone].end > s->live_range[kept].end)
        s->live_range[kept].end = s->live_range[gone].end;
}

/* Whether both have their own memory. */
static bool cannot_unite(const assigner *s, int in, int out)
{
    return s->live_range[out].forced && (s->live_range[in].forced || s->live_range[in].shared);
}

static void share_in_place(assigner *s)
{
    for (int when = 0; when < s->plan->n_instructions; when++) {
        if (s->plan->instructions[when].kind != ISO_KERNEL)
            continue;
        const iso_program_step *step = &s->program->steps[s->plan->instructions[when].step];
        for (int i = 0; i < step->op->n_inputs; i++) {
            int in = root_of(s, step->input[i]), out = root_of(s, step->output[0]);
            if (!may_replace(s, when, i) || cannot_unite(s, in, out) ||
                !iso_plan_all_kernels(s->plan, s->plan->instructions[when].step, works_in_place))
                continue;
            unite(s, in, out);
            break;
        }
    }
}

/* ---- offsets ---- */

static size_t bytes_of(const assigner *s, int value)
{
    const iso_program_value *v = &s->program->values[value];
    iso_shape shape = iso_plan_shape(s->plan, value);
    return (size_t)iso_layout_largest(s->program->mesh, &v->layout, &shape) *
           iso_dtype_size(v->tensor->dtype);
}

/* Gradients are computed in their bucket, unless their memory has another purpose too. */
static void force_into_buckets(assigner *s)
{
    const iso_bucket_list *buckets = s->plan->buckets;
    for (int b = 0; b < buckets->count; b++)
        for (int m = 0; m < buckets->buckets[b].n_members; m++) {
            int root = root_of(s, s->program->changes[buckets->buckets[b].members[m].change].value);
            s->plan->member_copied[b][m] =
                is_fixed(s, root) || s->live_range[root].forced || s->program->values[root].step < 0;
            if (!s->plan->member_copied[b][m])
                s->live_range[root].forced = true;
        }
}

/* The first instruction that writes a member's gradient where it is stored; the end of the step, if that copies it
 * there. */
static int member_begin(const assigner *s, int b, int m)
{
    int root = root_of(s, s->program->changes[s->plan->buckets->buckets[b].members[m].change].value);
    return s->plan->member_copied[b][m] ? s->plan->n_instructions : s->live_range[root].begin;
}

/* Buckets lie one after the other at the begin of the shared area, since all of them live at the end of a step. The
 * memory of a gradient is free until the gradient is computed. */
static int place_buckets(const assigner *s, iso_block *block)
{
    iso_plan *plan = s->plan;
    int n = 0;
    plan->fault_offset = 0; /* in all plans: slots that run different ones find out */
    block[n++] = (iso_block){.bytes = 2 * sizeof(double), .end = plan->n_instructions};
    size_t end = iso_padded(block[0].bytes);
    for (int b = 0; b < plan->buckets->count; b++) {
        const iso_bucket *bucket = &plan->buckets->buckets[b];
        size_t element = iso_dtype_size(bucket->dtype);
        plan->bucket_offset[b] = end;
        end += iso_padded(iso_plan_stored_bytes(plan, b));
        for (int m = 0; m < bucket->n_members; m++) {
            plan->member_live[b][m] = member_begin(s, b, m);
            if (iso_plan_fused_of(plan, b, m) < 0)
                block[n++] = (iso_block){.bytes = (size_t)bucket->members[m].capacity * element,
                                         .begin = plan->member_live[b][m],
                                         .end = plan->n_instructions,
                                         .offset = plan->bucket_offset[b] +
                                                   (size_t)plan->member_stored[b][m] * element};
        }
    }
    return n;
}

/* Adds the values that own memory and are shared, or are not, as blocks from number n on. Returns the new number. */
static int add_values(const assigner *s, bool shared, iso_block *block, int *owner, int n)
{
    for (int v = 0; v < s->program->n_values; v++) {
        const lifetime *live_range = &s->live_range[v];
        if (s->plan->root[v] != v || !live_range->defined || live_range->shared != shared ||
            live_range->forced || is_fixed(s, v))
            continue;
        owner[n] = v;
        block[n++] = (iso_block){.bytes = bytes_of(s, v), .begin = live_range->begin, .end = live_range->end};
    }
    return n;
}

static void locate(const assigner *s, iso_location_kind kind, const iso_block *block, const int *owner,
                   int first, int end)
{
    for (int i = first; i < end; i++)
        s->plan->location[owner[i]] = (iso_location){.kind = kind, .offset = block[i].offset};
}

/* Private values too are in the shared area if there is free memory between what must be there; the others are in the
 * arena. */
static iso_status plan_areas(const assigner *s, iso_block *block, int *owner)
{
    iso_plan *plan = s->plan;
    iso_status status = ISO_OK;
    int buckets = place_buckets(s, block), shared = add_values(s, true, block, owner, buckets);
    ISO_TRY(iso_memory_plan_around(block, buckets, shared, &plan->shared_bytes));
    locate(s, ISO_LOCATION_SHARED, block, owner, buckets, shared);
    int all = add_values(s, false, block, owner, shared), left = 0;
    ISO_TRY(iso_memory_plan_within(block, shared, all, plan->shared_bytes));
    locate(s, ISO_LOCATION_SHARED, block, owner, shared, all);
    for (int i = shared; i < all; i++)
        if (block[i].offset == ISO_NO_OFFSET) {
            owner[left] = owner[i];
            block[left++] = block[i];
        }
    ISO_TRY(iso_memory_plan(block, left, &plan->arena_bytes));
    locate(s, ISO_LOCATION_ARENA, block, owner, 0, left);
done:
    return status;
}

static void assign_fixed(assigner *s)
{
    iso_plan *plan = s->plan;
    for (int v = 0; v < s->program->n_values; v++) {
        const iso_program_value *value = &s->program->values[v];
        if (is_variable(value)) {
            plan->location[v] = (iso_location){
                .kind = ISO_LOCATION_VARIABLE,
                .variable = ((const iso_variable_attrs *)value->tensor->producer->attrs)->variable};
        } else if (is_constant(value)) {
            plan->location[v] = (iso_location){.kind = ISO_LOCATION_CONSTANT, .offset = plan->constant_bytes};
            plan->constant_bytes += iso_padded(bytes_of(s, v));
        }
    }
    for (int b = 0; b < plan->buckets->count; b++)
        for (int m = 0; m < plan->buckets->buckets[b].n_members; m++) {
            const iso_bucket_member *member = &plan->buckets->buckets[b].members[m];
            size_t within =
                (size_t)plan->member_stored[b][m] * iso_dtype_size(plan->buckets->buckets[b].dtype);
            if (!plan->member_copied[b][m] && iso_plan_fused_of(plan, b, m) < 0)
                plan->location[root_of(s, s->program->changes[member->change].value)] =
                    (iso_location){.kind = ISO_LOCATION_SHARED, .offset = plan->bucket_offset[b] + within};
        }
}

static void keep_lives(const assigner *s)
{
    iso_plan *plan = s->plan;
    for (int v = 0; v < s->program->n_values; v++) {
        bool own =
            plan->root[v] == v && s->live_range[v].defined && !s->live_range[v].forced && !is_fixed(s, v);
        plan->live_range[v] =
            own ? (iso_live_range){s->live_range[v].begin, s->live_range[v].end} : (iso_live_range){0, -1};
    }
}

iso_status iso_plan_assign_buffers(iso_plan *plan)
{
    const iso_program *program = plan->program;
    iso_status status = ISO_OK;
    assigner s = {.plan = plan, .program = program};
    size_t blocks = (size_t)program->n_values + (size_t)program->n_changes + 1;
    iso_block *block = iso_new(blocks * sizeof *block);
    int *owner = iso_new(blocks * sizeof *owner);
    s.live_range = iso_new(((size_t)program->n_values + 1) * sizeof *s.live_range);
    if (!block || !owner || !s.live_range)
        ISO_TRY(iso_no_memory("the buffers of %d values", program->n_values));
    find_lives(&s);
    force_into_buckets(&s);
    share_in_place(&s);
    ISO_TRY(plan_areas(&s, block, owner));
    assign_fixed(&s);
    keep_lives(&s);
    for (int v = 0; v < program->n_values; v++)
        plan->location[v] = plan->location[root_of(&s, v)];
done:
    iso_free(block);
    iso_free(owner);
    iso_free(s.live_range);
    return status;
}
