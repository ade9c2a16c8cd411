/* The memory of a benchmark: laid out as in the plan, or smaller if the machine has less memory. */
#include "runtime/exec/calibrate/benchmark_impl.h"

#include <math.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/graph/graph_impl.h"

enum {
    MADE_UP = 4093,
    FIRST_BOUND = 1 << 30
}; /* made-up elements of each type, as many that are indices too; the first bound */

/* ---- made-up values ---- */

/* A number in [0, 1) for each index. */
static double draw(int i)
{
    return (double)(iso_hash_mix((uint64_t)i + 1) >> 11) * 0x1p-53;
}

static double make_up(const benchmark *r, iso_dtype dtype, int i, bool index)
{
    int64_t most = dtype == ISO_U8 && r->bound > 256 ? 256 : r->bound;
    switch (dtype) {
    case ISO_BOOL:
        return draw(i) < 0.5;
    case ISO_I32:
    case ISO_I64:
    case ISO_U8:
        return floor(draw(i) * (double)most);
    default:
        return index ? floor(draw(i) * (double)most) : draw(i) - 0.5;
    }
}

void iso_benchmark_set_bound(benchmark *r, int64_t bound)
{
    r->bound = bound;
    for (int dtype = ISO_F32; dtype <= ISO_BF16; dtype++)
        for (int i = 0; i < 2 * MADE_UP; i++)
            iso_element_set(r->made_up[dtype], (iso_dtype)dtype, i,
                            make_up(r, (iso_dtype)dtype, i % MADE_UP, i >= MADE_UP));
    iso_benchmark_fill_rows(r);
}

void iso_benchmark_fill(const benchmark *r, int value, void *to, int64_t count)
{
    const iso_program_value *of = &r->plan->program->values[value];
    iso_dtype dtype = of->tensor->dtype;
    bool index = r->whole && of->step < 0;
    size_t element = iso_dtype_size(dtype);
    const char *from = (char *)r->made_up[dtype] + (index ? MADE_UP * element : 0);
    for (int64_t at = 0; at < count; at += MADE_UP) {
        int64_t n = count - at < MADE_UP ? count - at : MADE_UP;
        memcpy((char *)to + (size_t)at * element, from, (size_t)n * element);
    }
}

void iso_benchmark_pull(const benchmark *r, const benchmark_slot *s, int value)
{
    iso_box box = iso_plan_box(r->plan, value, s->slot);
    void *to = iso_benchmark_value(r, s, value);
    if (to)
        iso_benchmark_fill(r, value, to, iso_box_count(&box));
}

/* Weights that keep the size of activations, as Glorot's. */
static void fill_variable(const iso_variable *variable, void *to, int64_t count)
{
    double columns = variable->shape.rank > 0 ? (double)variable->shape.dim[variable->shape.rank - 1] : 1;
    double fan = (double)count / (columns > 0 ? columns : 1), scale = fan > 1 ? 3.4 / sqrt(fan) : 1;
    bool real = variable->dtype == ISO_F32 || variable->dtype == ISO_F64 || variable->dtype == ISO_BF16;
    size_t element = iso_dtype_size(variable->dtype);
    for (int64_t i = 0; i < count && i < MADE_UP; i++)
        iso_element_set(to, variable->dtype, i, real ? scale * (draw((int)i) - 0.5) : 0);
    for (int64_t at = MADE_UP; at < count; at += MADE_UP)
        memcpy((char *)to + (size_t)at * element, to,
               element * (size_t)(count - at < MADE_UP ? count - at : MADE_UP));
}

/* ---- rooms ---- */

char *iso_benchmark_address(const benchmark_room *room, size_t offset)
{
    if (room->bytes >= room->planned)
        return (char *)room->memory + offset;
    return (char *)room->memory + offset % (room->bytes - room->largest) / ISO_ALIGN * ISO_ALIGN;
}

/* share: the part of the planned bytes that there is memory for. */
static iso_status allocate_room(benchmark_room *room, double share, const char *what)
{
    size_t least = 2 * iso_padded(room->largest);
    room->bytes = share < 1 ? (size_t)(share * (double)room->planned) : room->planned;
    if (room->bytes < least)
        room->bytes = least < room->planned ? least : room->planned;
    return iso_alloc(room->bytes, what, &room->memory);
}

static void note_thing(benchmark_room *room, size_t bytes)
{
    room->largest = bytes > room->largest ? bytes : room->largest;
}

/* ---- what is where ---- */

static iso_box variable_box(const benchmark *r, const iso_variable *variable, int slot)
{
    return iso_layout_box(r->plan->program->mesh, &r->plan->program->variable_layout[variable->id],
                          &variable->shape, slot);
}

/* Slots with the same box share a copy. */
static void place_variable(benchmark *r, const iso_variable *variable)
{
    for (int s = 0; s < r->n_slots; s++) {
        iso_box box = variable_box(r, variable, r->slot[s].slot);
        int same = 0;
        for (; same < s; same++) {
            iso_box other = variable_box(r, variable, r->slot[same].slot);
            if (iso_box_equal(&box, &other))
                break;
        }
        size_t bytes = iso_plan_copy_bytes(variable, iso_box_count(&box));
        r->slot[s].variable[variable->id] =
            same < s ? r->slot[same].variable[variable->id] : r->variables.planned;
        r->variables.planned += same < s ? 0 : bytes;
        note_thing(&r->variables, bytes);
    }
}

static void place_state(const benchmark *r, benchmark_slot *s)
{
    const iso_plan *plan = r->plan;
    const char *names[ISO_MAX_OPTIMIZER_SLOTS];
    double initial[ISO_MAX_OPTIMIZER_SLOTS] = {0};
    for (int b = 0; b < plan->buckets->count; b++) {
        const iso_bucket *bucket = &plan->buckets->buckets[b];
        int64_t begin, count;
        iso_bucket_part(bucket, plan->program->mesh, s->slot, &begin, &count);
        size_t bytes = iso_padded((size_t)count * iso_dtype_size(bucket->dtype)) *
                       (size_t)iso_optimizer_kernel_slots(bucket->optimizer, names, initial);
        s->state_at[b] = s->state.planned;
        s->state.planned += bytes;
        note_thing(&s->state, bytes);
        note_thing(&s->shared, iso_plan_stored_bytes(plan, b));
    }
}

static void measure_rooms(const benchmark *r, benchmark_slot *s)
{
    const iso_plan *plan = r->plan;
    s->arena.planned = plan->arena_bytes;
    s->shared.planned = plan->shared_bytes;
    for (int v = 0; v < plan->program->n_values; v++) {
        iso_box box = iso_plan_box(plan, v, s->slot);
        size_t bytes = (size_t)iso_box_count(&box) * iso_dtype_size(plan->program->values[v].tensor->dtype);
        if (plan->location[v].kind == ISO_LOCATION_ARENA)
            note_thing(&s->arena, bytes);
        else if (plan->location[v].kind == ISO_LOCATION_SHARED)
            note_thing(&s->shared, bytes);
    }
    place_state(r, s);
}

/* The bytes of other hosts' partial sums that the update of a bucket reads at once. */
static size_t incoming_bytes(const benchmark *r, const benchmark_slot *s)
{
    size_t most = 0;
    for (int b = 0; b < r->plan->buckets->count; b++) {
        int here, away;
        int64_t begin, count;
        iso_bucket_part(&r->plan->buckets->buckets[b], r->plan->program->mesh, s->slot, &begin, &count);
        iso_plan_operands(r->plan, b, s->slot, &here, &away);
        size_t bytes =
            (size_t)away * iso_padded((size_t)count * iso_dtype_size(r->plan->buckets->buckets[b].dtype));
        most = bytes > most ? bytes : most;
    }
    return most;
}

static size_t scratch_bytes(const benchmark *r, const benchmark_slot *s)
{
    size_t most = 0;
    for (int i = 0; i < r->plan->n_instructions; i++) {
        const benchmark_instruction *bound = &s->bound[i];
        size_t bytes = bound->kernel && bound->kernel->scratch ? bound->kernel->scratch(&bound->call) : 0;
        bytes = bound->divided ? iso_division_scratch(&bound->division) : bytes;
        most = bytes > most ? bytes : most;
    }
    for (int i = 0; i < r->plan->n_fused_updates; i++)
        most = s->products[i].room.bytes > most ? s->products[i].room.bytes : most;
    return most;
}

/* ---- allocating ---- */

static iso_status allocate_all(benchmark *r, double memory)
{
    iso_status status = ISO_OK;
    double planned = (double)r->variables.planned;
    for (int s = 0; s < r->n_slots; s++) {
        const benchmark_slot *slot = &r->slot[s];
        planned += (double)(slot->arena.planned + slot->shared.planned + slot->state.planned);
        r->incoming_bytes =
            incoming_bytes(r, slot) > r->incoming_bytes ? incoming_bytes(r, slot) : r->incoming_bytes;
    }
    double share = planned > memory ? memory / planned : 1, most = memory / 8 / r->n_slots;
    if ((double)r->incoming_bytes > most)
        r->incoming_bytes = (size_t)most / ISO_ALIGN * ISO_ALIGN;
    ISO_TRY(allocate_room(&r->variables, share, "the weights of a benchmark"));
    for (int s = 0; s < r->n_slots; s++) {
        benchmark_slot *slot = &r->slot[s];
        ISO_TRY(allocate_room(&slot->arena, share, "the arena of a benchmark"));
        ISO_TRY(allocate_room(&slot->shared, share, "the shared area of a benchmark"));
        ISO_TRY(allocate_room(&slot->state, share, "the optimizer's state of a benchmark"));
        ISO_TRY(iso_alloc(r->incoming_bytes, "the messages of a benchmark", &slot->incoming));
        ISO_TRY(iso_alloc(scratch_bytes(r, slot), "the scratch memory of a benchmark", &slot->scratch));
        ISO_TRY(iso_alloc(r->plan->constant_bytes, "the constants of a plan", &slot->constants));
        iso_bind_constants(r->plan, slot->slot, slot->constants);
    }
done:
    return status;
}

/* ---- addresses ---- */

char *iso_benchmark_variable(const benchmark *r, const benchmark_slot *s, const iso_variable *variable)
{
    return iso_benchmark_address(&r->variables, s->variable[variable->id]);
}

void *iso_benchmark_value(const benchmark *r, const benchmark_slot *s, int value)
{
    const iso_location *location = &r->plan->location[value];
    switch (location->kind) {
    case ISO_LOCATION_ARENA:
        return iso_benchmark_address(&s->arena, location->offset);
    case ISO_LOCATION_SHARED:
        return iso_benchmark_address(&s->shared, location->offset);
    case ISO_LOCATION_VARIABLE:
        return iso_benchmark_variable(r, s, location->variable);
    case ISO_LOCATION_CONSTANT:
        return (char *)s->constants + location->offset;
    default:
        return NULL;
    }
}

static void benchmark_memory_address(const benchmark *r, benchmark_slot *s, int i)
{
    const iso_program_step *step = &r->plan->program->steps[r->plan->instructions[i].step];
    benchmark_instruction *bound = &s->bound[i];
    if (r->plan->instructions[i].kind == ISO_KERNEL) {
        for (int k = 0; k < step->op->n_inputs; k++)
            bound->array[k].data = iso_benchmark_value(r, s, step->input[k]);
        for (int k = 0; k < step->op->n_outputs; k++)
            bound->array[step->op->n_inputs + k].data = iso_benchmark_value(r, s, step->output[k]);
        bound->call.scratch = s->scratch;
        bound->call.info = &r->info;
        bound->call.fault = &s->fault;
        bound->call.instruction = i;
    } else if (r->plan->instructions[i].kind == ISO_COPY) {
        bound->copy.from = iso_benchmark_value(r, s, step->input[0]);
        bound->copy.to = iso_benchmark_value(r, s, step->output[0]);
    }
}

/* ---- binding ---- */

static iso_status benchmark_memory_bind(const benchmark *r, benchmark_slot *s, int i)
{
    const iso_instruction *instruction = &r->plan->instructions[i];
    const iso_program_step *step = &r->plan->program->steps[instruction->step];
    benchmark_instruction *bound = &s->bound[i];
    if (instruction->kind == ISO_COPY)
        return iso_bind_copy(r->plan, s->slot, instruction->step, &bound->copy);
    if (instruction->kind != ISO_KERNEL)
        return ISO_OK;
    bound->array = iso_new((size_t)(step->op->n_inputs + step->op->n_outputs + 1) * sizeof *bound->array);
    if (!bound->array)
        return iso_no_memory("a benchmark");
    iso_plan_call(r->plan, instruction->step, s->slot, bound->array, bound->array + step->op->n_inputs,
                  &bound->call);
    bound->kernel = r->backend->find(step->op->type->name, &bound->call);
    if (!bound->kernel)
        return iso_error(ISO_FAILED, "the %s backend has no kernel for the op '%s'", r->backend->name,
                         step->op->type->name);
    bound->divided =
        iso_division_choose(step->op, bound->kernel, &bound->call, r->intra_op_threads, &bound->division);
    return ISO_OK;
}

static const benchmark_slot *slot_numbered(const benchmark *r, int slot)
{
    for (int s = 0; s < r->n_slots; s++)
        if (r->slot[s].slot == slot)
            return &r->slot[s];
    return r->slot;
}

static void address_product(const benchmark *r, benchmark_slot *s, int number)
{
    const iso_fused_update *fused = &r->plan->fused_updates[number];
    uint32_t axes = r->plan->buckets->buckets[fused->bucket].axes;
    iso_slot_product *product = &s->products[number];
    iso_product_address(product, s->scratch);
    for (int t = 0; t < product->n_terms; t++) {
        const iso_program_step *step = &r->plan->program->steps[fused->term[t]];
        for (int g = 0; g < product->group; g++) {
            int slot = iso_group_slot(r->plan->program->mesh, axes, s->slot, g);
            const benchmark_slot *of = slot_numbered(r, slot);
            for (int i = 0; i < step->op->n_inputs; i++)
                if (!iso_plan_reads_term(r->plan, step->input[i]))
                    product->term[t].array[g * (step->op->n_inputs + 1) + i].data =
                        iso_benchmark_value(r, of, step->input[i]);
        }
    }
}

static void make_rates(const benchmark *r, benchmark_slot *s, int number)
{
    static const int64_t iteration = 10;
    static const double rate = 1e-6;
    const iso_bucket *bucket = &r->plan->buckets->buckets[number];
    const iso_rates_call call = {.rule = iso_optimizer_rule_find(bucket->optimizer->rule),
                                 .optimizer = bucket->optimizer,
                                 .dtype = bucket->dtype,
                                 .iteration = &iteration,
                                 .rate = &rate,
                                 .rates = &s->rates[number]};
    r->backend->prepare(&call, NULL);
}

static iso_status benchmark_memory_slot(const benchmark *r, benchmark_slot *s)
{
    iso_status status = ISO_OK;
    const iso_plan *plan = r->plan;
    s->bound = iso_new(((size_t)plan->n_instructions + 1) * sizeof *s->bound);
    s->products = iso_new(((size_t)plan->n_fused_updates + 1) * sizeof *s->products);
    s->variable = iso_new(((size_t)plan->program->n_variables + 1) * sizeof *s->variable);
    s->state_at = iso_new(((size_t)plan->buckets->count + 1) * sizeof *s->state_at);
    s->rates = iso_new(((size_t)plan->buckets->count + 1) * sizeof *s->rates);
    if (!s->bound || !s->products || !s->variable || !s->state_at || !s->rates)
        ISO_TRY(iso_no_memory("a benchmark"));
    ISO_TRY(iso_plan_ops_list(plan, s->slot, r->threads, &s->ops));
    if (!(s->seconds = iso_new(((size_t)s->ops.count + 1) * sizeof *s->seconds)))
        ISO_TRY(iso_no_memory("a benchmark"));
    for (int i = 0; i < plan->n_instructions; i++)
        ISO_TRY(benchmark_memory_bind(r, s, i));
    for (int i = 0; i < plan->n_fused_updates; i++)
        ISO_TRY(iso_product_make(plan, &plan->fused_updates[i], s->slot, &s->products[i]));
    for (int b = 0; b < plan->buckets->count; b++)
        make_rates(r, s, b);
    measure_rooms(r, s);
done:
    return status;
}

/* ---- making ---- */

static void fill_and_address(benchmark *r)
{
    for (int s = 0; s < r->n_slots; s++) {
        for (int i = 0; i < r->plan->program->n_variables; i++) {
            const iso_variable *variable = r->plan->program->graph->variables[i];
            iso_box box = variable_box(r, variable, r->slot[s].slot);
            fill_variable(variable, iso_benchmark_variable(r, &r->slot[s], variable), iso_box_count(&box));
        }
        for (int i = 0; i < r->plan->n_instructions; i++)
            benchmark_memory_address(r, &r->slot[s], i);
        for (int i = 0; i < r->plan->n_fused_updates; i++)
            address_product(r, &r->slot[s], i);
    }
}

static iso_status find_slots(benchmark *r)
{
    const int *host = r->plan->site->host_of_slot;
    for (int s = 0; s < r->plan->program->mesh->n_slots; s++)
        r->n_slots += host[s] == host[0];
    r->slot = iso_new((size_t)r->n_slots * sizeof *r->slot);
    if (!r->slot)
        return iso_no_memory("a benchmark of %d slots", r->n_slots);
    for (int s = 0, n = 0; n < r->n_slots; s++)
        if (host[s] == host[0])
            r->slot[n++].slot = s;
    return ISO_OK;
}

static void count_barriers(benchmark *r)
{
    const iso_plan_ops *ops = &r->slot[0].ops;
    for (int i = 0; i < ops->count && !r->n_until_end; i++) {
        iso_plan_op_kind kind = ops->op[i].kind;
        r->n_barriers += kind == ISO_PLAN_OP_BEGIN || kind == ISO_PLAN_OP_EXCHANGE || kind == ISO_PLAN_OP_END;
        r->n_until_end = kind == ISO_PLAN_OP_END ? i + 1 : 0;
    }
}

iso_status iso_benchmark_make(const iso_dry_plan *dry, const iso_graph *graph,
                              const iso_benchmark_options *options, benchmark *r)
{
    iso_status status = ISO_OK;
    *r = (benchmark){.plan = dry->plan,
                     .backend = dry->site.backend,
                     .info = {.step = 1, .seed = graph->seed, .rows = options->rows}};
    if (!r->backend->device(0)->host_access)
        ISO_TRY(iso_error(ISO_INVALID,
                          "calibrate measures kernels of the host's processors, not of backend '%s'",
                          r->backend->name));
    ISO_TRY(find_slots(r));
    r->shared = options->shared;
    r->threads = options->threads < r->n_slots ? options->threads : r->n_slots;
    r->intra_op_threads = options->shared ? 1 : options->threads / r->threads;
    for (int dtype = ISO_F32; dtype <= ISO_BF16; dtype++)
        if (!(r->made_up[dtype] = iso_new(2 * MADE_UP * iso_dtype_size((iso_dtype)dtype))))
            ISO_TRY(iso_no_memory("made-up values"));
    for (int s = 0; s < r->n_slots; s++)
        ISO_TRY(benchmark_memory_slot(r, &r->slot[s]));
    for (int i = 0; i < r->plan->program->n_variables; i++)
        place_variable(r, r->plan->program->graph->variables[i]);
    ISO_TRY(allocate_all(r, options->memory));
    ISO_TRY(iso_benchmark_allocate_rows(r, options->memory / 16));
    iso_benchmark_set_bound(r, FIRST_BOUND);
    fill_and_address(r);
    count_barriers(r);
done:
    return status;
}

static void benchmark_memory_free(const benchmark *r, benchmark_slot *s)
{
    for (int i = 0; s->bound && i < r->plan->n_instructions; i++)
        iso_free(s->bound[i].array);
    for (int i = 0; s->products && i < r->plan->n_fused_updates; i++)
        iso_product_free(&s->products[i]);
    iso_free(s->arena.memory);
    iso_free(s->shared.memory);
    iso_free(s->state.memory);
    iso_free(s->incoming);
    iso_free(s->scratch);
    iso_free(s->constants);
    iso_free(s->bound);
    iso_free(s->products);
    iso_free(s->variable);
    iso_free(s->state_at);
    iso_free(s->rates);
    iso_free(s->seconds);
    iso_plan_ops_free(&s->ops);
}

void iso_benchmark_free(benchmark *r)
{
    for (int s = 0; r->slot && s < r->n_slots; s++)
        benchmark_memory_free(r, &r->slot[s]);
    for (int dtype = ISO_F32; dtype <= ISO_BF16; dtype++)
        iso_free(r->made_up[dtype]);
    for (int i = 0; i < ISO_MAX_FUNCTION_INPUTS; i++)
        iso_free(r->rows[i]);
    iso_free(r->variables.memory);
    iso_free(r->slot);
    *r = (benchmark){0};
}
