/* Storage: where every value lies, and for how long it must. */
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/plan/memory_plan.h"
#include "runtime/plan/plan_impl.h"

typedef struct lifetime {
    int begin, end;
    bool defined, shared, forced;
} lifetime;

typedef struct storage {
    iso_plan *plan;
    const iso_program *program;
    lifetime *life; /* [values], of roots */
} storage;

static bool is_variable(const iso_program_value *value)
{
    return value->step < 0 && value->tensor->producer->type == &iso_op_variable;
}

static bool is_constant(const iso_program_value *value)
{
    return value->step < 0 && value->tensor->producer->type == &iso_op_constant;
}

static bool has_fixed_place(const storage *s, int root)
{
    return is_variable(&s->program->value[root]) || is_constant(&s->program->value[root]);
}

static int root_of(const storage *s, int value)
{
    while (s->plan->root[value] != value)
        value = s->plan->root[value];
    return value;
}

/* ---- lifetimes ---- */

static void touch(storage *s, int value, int when)
{
    lifetime *life = &s->life[root_of(s, value)];
    if (!life->defined)
        life->begin = when;
    life->defined = true;
    if (when > life->end)
        life->end = when;
}

static void touch_moves(storage *s, int first, int count, int when)
{
    for (int i = first; i < first + count; i++) {
        const iso_move *move = &s->plan->move[i];
        touch(s, move->from, when);
        s->life[root_of(s, move->from)].shared = true;
        if (move->kind != ISO_MOVE_SCATTER)
            touch(s, move->to, when);
    }
}

static void touch_instruction(storage *s, int when)
{
    const iso_instruction *instruction = &s->plan->instruction[when];
    const iso_program_step *step = &s->program->step[instruction->step];
    switch (instruction->kind) {
    case ISO_READ:
        touch(s, s->program->input_value[instruction->input], when);
        break;
    case ISO_KERNEL:
        for (int i = 0; i < step->op->inputs; i++)
            touch(s, step->input[i], when);
        for (int i = 0; i < step->op->outputs; i++)
            touch(s, step->output[i], when);
        break;
    case ISO_COPY:
        touch(s, step->input[0], when);
        touch(s, step->output[0], when);
        break;
    case ISO_BEGIN:
        for (int i = 0; i < instruction->moves; i++)
            touch(s, s->plan->move[instruction->first_move + i].from, when);
        break;
    case ISO_EXCHANGE:
        touch_moves(s, instruction->first_move, instruction->moves, when);
        break;
    }
}

/* The optimizer reads the inputs of a deferred product at the end of the step, those of its whole group. */
static void touch_deferred(storage *s, const iso_deferred *deferred, int end)
{
    const iso_program_step *step = &s->program->step[deferred->step];
    for (int i = 0; i < step->op->inputs; i++) {
        touch(s, step->input[i], end);
        if (s->plan->buckets->bucket[deferred->bucket].group > 1)
            s->life[root_of(s, step->input[i])].shared = true;
    }
}

static void find_lives(storage *s)
{
    iso_plan *plan = s->plan;
    int end = plan->instructions;
    for (int v = 0; v < s->program->values; v++)
        s->life[v] = (lifetime){.end = -1};
    for (int i = 0; i < end; i++)
        touch_instruction(s, i);
    touch_moves(s, plan->finish_first_move, plan->finish_moves, end);
    for (int i = 0; i < s->program->outputs; i++)
        touch(s, s->program->output_value[i], end);
    for (int i = 0; i < s->program->changes; i++)
        touch(s, s->program->change[i].value, end);
    for (int i = 0; i < plan->deferrals; i++)
        touch_deferred(s, &plan->deferred[i], end);
}

static void share_aliases(storage *s)
{
    for (int v = 0; v < s->program->values; v++)
        s->plan->root[v] = v;
    for (int k = 0; k < s->program->steps; k++) {
        const iso_program_step *step = &s->program->step[k];
        if (iso_plan_is_alias(step->op))
            s->plan->root[step->output[0]] = root_of(s, step->input[0]);
    }
}

/* ---- working in place ---- */

static bool works_in_place(const iso_kernel *kernel, const iso_call *call)
{
    (void)call;
    return kernel->in_place;
}

/* Output 0 may take the memory of input i where the input is not needed any more and both have one size
 * everywhere. */
static bool may_replace(const storage *s, int when, int i)
{
    const iso_program_step *step = &s->program->step[s->plan->instruction[when].step];
    const iso_program_value *in = &s->program->value[step->input[i]],
                            *out = &s->program->value[step->output[0]];
    int root = root_of(s, step->input[i]);
    if (!(step->op->type->in_place & 1u << i) || has_fixed_place(s, root) || s->life[root].end != when ||
        s->life[root].shared || s->life[root_of(s, step->output[0])].shared)
        return false;
    iso_layout a = in->layout, b = out->layout;
    a.partial = b.partial = 0;
    for (int k = 0; k < step->op->inputs; k++) /* no other input may lie in the same memory */
        if (k != i && root_of(s, step->input[k]) == root)
            return false;
    return in->tensor->dtype == out->tensor->dtype &&
           iso_shape_equal(&in->tensor->shape, &out->tensor->shape) && iso_layout_equal(&a, &b);
}

static void share_in_place(storage *s)
{
    for (int when = 0; when < s->plan->instructions; when++) {
        if (s->plan->instruction[when].kind != ISO_KERNEL)
            continue;
        const iso_program_step *step = &s->program->step[s->plan->instruction[when].step];
        for (int i = 0; i < step->op->inputs; i++) {
            if (!may_replace(s, when, i) || s->life[step->output[0]].forced ||
                !iso_plan_all_kernels(s->plan, s->plan->instruction[when].step, works_in_place))
                continue;
            int root = root_of(s, step->input[i]), out = root_of(s, step->output[0]);
            s->plan->root[out] = root;
            if (s->life[out].end > s->life[root].end)
                s->life[root].end = s->life[out].end;
            break;
        }
    }
}

/* ---- offsets ---- */

static size_t bytes_of(const storage *s, int value)
{
    const iso_program_value *v = &s->program->value[value];
    iso_shape shape = iso_plan_shape(s->plan, value);
    return (size_t)iso_layout_largest(s->program->mesh, &v->layout, &shape) *
           iso_dtype_size(v->tensor->dtype);
}

/* Gradients are made where their bucket is, unless their memory has another purpose too. */
static void force_into_buckets(storage *s)
{
    const iso_bucket_list *buckets = s->plan->buckets;
    for (int b = 0; b < buckets->count; b++)
        for (int m = 0; m < buckets->bucket[b].members; m++) {
            int root = root_of(s, s->program->change[buckets->bucket[b].member[m].change].value);
            s->plan->member_copied[b][m] =
                has_fixed_place(s, root) || s->life[root].forced || s->program->value[root].step < 0;
            if (!s->plan->member_copied[b][m])
                s->life[root].forced = true;
        }
}

static int bucket_begin(const storage *s, int b)
{
    const iso_bucket *bucket = &s->plan->buckets->bucket[b];
    int begin = s->plan->instructions;
    for (int m = 0; m < bucket->members; m++) {
        int root = root_of(s, s->program->change[bucket->member[m].change].value);
        if (!s->plan->member_copied[b][m] && s->life[root].begin < begin)
            begin = s->life[root].begin;
    }
    return begin;
}

static iso_status plan_shared(storage *s, iso_block *block, int *owner)
{
    iso_plan *plan = s->plan;
    int n = 0, end = plan->instructions;
    for (int v = 0; v < s->program->values; v++)
        if (plan->root[v] == v && s->life[v].defined && s->life[v].shared && !s->life[v].forced &&
            !has_fixed_place(s, v)) {
            owner[n] = v;
            block[n++] =
                (iso_block){.bytes = bytes_of(s, v), .begin = s->life[v].begin, .end = s->life[v].end};
        }
    int values = n;
    for (int b = 0; b < plan->buckets->count; b++)
        block[n++] = (iso_block){.bytes = (size_t)plan->buckets->bucket[b].total *
                                          iso_dtype_size(plan->buckets->bucket[b].dtype),
                                 .begin = bucket_begin(s, b),
                                 .end = end};
    block[n++] = (iso_block){.bytes = 2 * sizeof(double), .begin = 0, .end = end};
    iso_status status = iso_memory_plan(block, n, &plan->shared_bytes);
    for (int i = 0; i < values && status == ISO_OK; i++)
        plan->place[owner[i]] = (iso_place){.kind = ISO_PLACE_SHARED, .offset = block[i].offset};
    for (int b = 0; b < plan->buckets->count; b++)
        plan->bucket_offset[b] = block[values + b].offset;
    plan->fault_offset = block[n - 1].offset;
    return status;
}

static iso_status plan_arena(storage *s, iso_block *block, int *owner)
{
    iso_plan *plan = s->plan;
    int n = 0;
    for (int v = 0; v < s->program->values; v++)
        if (plan->root[v] == v && s->life[v].defined && !s->life[v].shared && !s->life[v].forced &&
            !has_fixed_place(s, v)) {
            owner[n] = v;
            block[n++] =
                (iso_block){.bytes = bytes_of(s, v), .begin = s->life[v].begin, .end = s->life[v].end};
        }
    iso_status status = iso_memory_plan(block, n, &plan->arena_bytes);
    for (int i = 0; i < n && status == ISO_OK; i++)
        plan->place[owner[i]] = (iso_place){.kind = ISO_PLACE_ARENA, .offset = block[i].offset};
    return status;
}

static void place_fixed(storage *s)
{
    iso_plan *plan = s->plan;
    for (int v = 0; v < s->program->values; v++) {
        const iso_program_value *value = &s->program->value[v];
        if (is_variable(value)) {
            plan->place[v] = (iso_place){
                .kind = ISO_PLACE_VARIABLE,
                .variable = ((const iso_variable_attrs *)value->tensor->producer->attrs)->variable};
        } else if (is_constant(value)) {
            plan->place[v] = (iso_place){.kind = ISO_PLACE_CONSTANT, .offset = plan->constant_bytes};
            plan->constant_bytes += (bytes_of(s, v) + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN + ISO_ALIGN;
        }
    }
    for (int b = 0; b < plan->buckets->count; b++)
        for (int m = 0; m < plan->buckets->bucket[b].members; m++) {
            const iso_bucket_member *member = &plan->buckets->bucket[b].member[m];
            size_t within = (size_t)member->offset * iso_dtype_size(plan->buckets->bucket[b].dtype);
            if (!plan->member_copied[b][m])
                plan->place[root_of(s, s->program->change[member->change].value)] =
                    (iso_place){.kind = ISO_PLACE_SHARED, .offset = plan->bucket_offset[b] + within};
        }
}

static void keep_lives(const storage *s)
{
    iso_plan *plan = s->plan;
    for (int v = 0; v < s->program->values; v++) {
        bool own = plan->root[v] == v && s->life[v].defined && !s->life[v].forced && !has_fixed_place(s, v);
        plan->life[v] = own ? (iso_life){s->life[v].begin, s->life[v].end} : (iso_life){0, -1};
    }
    for (int b = 0; b < plan->buckets->count; b++)
        plan->bucket_life[b] = bucket_begin(s, b);
}

iso_status iso_plan_storage(iso_plan *plan)
{
    const iso_program *program = plan->program;
    iso_status status = ISO_OK;
    storage s = {.plan = plan, .program = program};
    size_t blocks = (size_t)(program->values + plan->buckets->count + 1);
    iso_block *block = iso_new(blocks * sizeof *block);
    int *owner = iso_new(blocks * sizeof *owner);
    s.life = iso_new(blocks * sizeof *s.life);
    if (!block || !owner || !s.life)
        ISO_TRY(iso_error(ISO_NO_MEMORY, "no memory to place %d values", program->values));
    share_aliases(&s);
    find_lives(&s);
    force_into_buckets(&s);
    share_in_place(&s);
    ISO_TRY(plan_shared(&s, block, owner));
    ISO_TRY(plan_arena(&s, block, owner));
    place_fixed(&s);
    keep_lives(&s);
    for (int v = 0; v < program->values; v++)
        plan->place[v] = plan->place[root_of(&s, v)];
done:
    iso_free(block);
    iso_free(owner);
    iso_free(s.life);
    return status;
}
