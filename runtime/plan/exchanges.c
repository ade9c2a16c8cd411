/* The exchanges of a plan: which slot pulls which boxes from which.
 *
 * A rank adds the pulls of its own slots. If slots are in several memory domains, it also adds the pulls of the
 * others, because senders and the ranks of one host must agree on messages. If several slots of a domain pull the
 * same from the same slots, one of them is enough. So the work of a rank grows with the number of slots, and with its
 * square only between domains: for reduce-scatters and all-to-alls, where every slot pulls something else from every
 * other, and for the new weights of a bucket, of which each domain pulls the parts of all slots. */
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/plan/memory_plan.h"
#include "runtime/plan/plan_impl.h"
#include "runtime/spmd/collective.h"

/* Working memory. */
typedef struct workspace {
    iso_source *source; /* all of them [slots] */
    int *slots, *group;
    iso_hash_key *key;
    int *first;
    /* Of the weights that are gathered: owner[first_owner[lead]] to owner[first_owner[lead + 1] - 1] have new
     * elements of the box that the slots have whose first one is `lead`. [slots], [slots + 1] */
    int *owner, *first_owner;
} workspace;

/* Adds the regions of one slot's reshard to an exchange. */
typedef struct adder {
    iso_plan *plan;
    iso_exchange *exchange;
    const workspace *room;
    iso_source *source; /* of the room */
    const iso_move *move;
    int slot;
    iso_box target_box;
} adder;

/* The location at which a slot (of any domain) stores a value. */
static iso_source source_of(const iso_plan *plan, int value, int slot, const iso_box *box)
{
    const iso_location *location = &plan->location[value];
    if (location->kind == ISO_LOCATION_VARIABLE)
        return (iso_source){.slot = slot,
                            .space = ISO_SPACE_SHARED,
                            .offset = plan->site->variable_offset(plan->site->arg, location->variable, slot),
                            .box = *box};
    return (iso_source){.slot = slot, .space = ISO_SPACE_SLOT, .offset = location->offset, .box = *box};
}

static iso_status add_region(void *arg, const iso_region *region)
{
    adder *a = arg;
    const iso_program_value *from = &a->plan->program->values[a->move->from];
    for (int i = 0; i < region->sources; i++)
        a->source[i] = source_of(a->plan, a->move->from, region->slot[i], &region->source_box[i]);
    return iso_exchange_add(a->exchange, a->slot, a->move->to, &a->target_box, from->tensor->dtype,
                            from->layout.partial_max ? ISO_MAX : ISO_SUM, &region->box, a->source,
                            region->sources, NULL);
}

static iso_status add_boxes(adder *a)
{
    const iso_program *program = a->plan->program;
    iso_shape shape = iso_plan_shape(a->plan, a->move->from);
    a->target_box = iso_plan_box(a->plan, a->move->to, a->slot);
    return iso_reshard_visit(program->mesh, &program->values[a->move->from].layout,
                             &program->values[a->move->to].layout, &shape, a->slot, add_region, a);
}

/* ---- what exchanges do ---- */

/* Sets the kind of the pulls that are added next, and their groups: the slots along these axes. */
static iso_status set_kind(const iso_plan *plan, iso_exchange *exchange, iso_exchange_kind kind,
                           uint32_t axes, int *group)
{
    const iso_mesh *mesh = plan->program->mesh;
    if (!iso_exchange_wants_kind(exchange))
        return ISO_OK;
    for (int slot = 0; slot < mesh->n_slots; slot++)
        group[slot] = iso_group_slot(mesh, axes, slot, 0);
    return iso_exchange_set_kind(exchange, kind, kind == ISO_EXCHANGE_PULLS ? NULL : group);
}

static iso_exchange_kind kind_of(iso_collective_kind kind)
{
    switch (kind) {
    case ISO_COLLECTIVE_ALL_GATHER:
        return ISO_EXCHANGE_ALL_GATHER;
    case ISO_COLLECTIVE_ALL_TO_ALL:
        return ISO_EXCHANGE_ALL_TO_ALL;
    case ISO_COLLECTIVE_ALL_REDUCE:
        return ISO_EXCHANGE_ALL_REDUCE;
    case ISO_COLLECTIVE_REDUCE_SCATTER:
        return ISO_EXCHANGE_REDUCE_SCATTER;
    case ISO_COLLECTIVE_HALO:
        return ISO_EXCHANGE_SHIFT;
    default:
        return ISO_EXCHANGE_PULLS;
    }
}

static uint32_t summed_axes(const adder *a)
{
    return iso_move_summed_axes(a->plan->program, a->move);
}

static iso_status set_kind_of_move(const adder *a)
{
    const iso_program *program = a->plan->program;
    iso_shape shape = iso_plan_shape(a->plan, a->move->from);
    if (!iso_exchange_wants_kind(a->exchange))
        return ISO_OK;
    if (a->move->kind != ISO_MOVE_BOXES)
        return set_kind(a->plan, a->exchange,
                        a->move->kind == ISO_MOVE_SCATTER ? ISO_EXCHANGE_REDUCE_SCATTER
                                                          : ISO_EXCHANGE_ALL_GATHER,
                        summed_axes(a), a->room->group);
    iso_collective done = iso_collective_of(program->mesh, &program->values[a->move->from].layout,
                                            &program->values[a->move->to].layout, &shape, false);
    return set_kind(a->plan, a->exchange, kind_of(done.kind), done.axes, a->room->group);
}

/* Each slot adds its chunk of all partial sums into its own copy, or apart from it; in small groups also into those
 * in its domain. */
static iso_status add_scatter(adder *a, int *slots)
{
    const iso_program *program = a->plan->program;
    const iso_program_value *from = &program->values[a->move->from];
    iso_box box = iso_plan_box(a->plan, a->move->from, a->slot);
    int me, group = iso_group_count(program->mesh, summed_axes(a), a->slot, &me);
    int64_t begin, count;
    iso_box flat = iso_box_range(0, iso_box_count(&box));
    iso_part_range(flat.extent[0], group, me, &begin, &count);
    if (count == 0 || (group > ISO_PLAN_MANY && !iso_exchange_needs(a->exchange, a->slot)))
        return ISO_OK;
    iso_box chunk = iso_box_range(begin, count);
    iso_group_slots(program->mesh, summed_axes(a), a->slot, slots);
    for (int i = 0; i < group; i++)
        a->source[i] = source_of(a->plan, a->move->from, slots[i], &flat);
    iso_reduce reduce = from->layout.partial_max ? ISO_MAX : ISO_SUM;
    int target = a->move->own_sum ? a->move->to : a->move->from;
    if (group > ISO_PLAN_MANY)
        return iso_exchange_add(a->exchange, a->slot, target, &flat, from->tensor->dtype, reduce, &chunk,
                                a->source, group, NULL);
    return iso_exchange_add_in_place(a->exchange, a->slot, a->move->from, from->tensor->dtype, reduce,
                                     flat.extent[0], begin, count, a->source, group);
}

/* Each slot takes the chunks that others added and did not write into its copy. Chunks that are empty are the
 * last ones. */
static iso_status add_gather(adder *a)
{
    const iso_program *program = a->plan->program;
    const iso_program_value *from = &program->values[a->move->from];
    iso_box box = iso_plan_box(a->plan, a->move->from, a->slot);
    int me, group = iso_group_count(program->mesh, summed_axes(a), a->slot, &me);
    iso_box flat = iso_box_range(0, iso_box_count(&box));
    iso_status status = ISO_OK;
    for (int i = 0; i < group; i++) {
        int64_t begin, count;
        iso_part_range(flat.extent[0], group, i, &begin, &count);
        if (count == 0)
            break;
        iso_box chunk = iso_box_range(begin, count);
        int owner = iso_group_slot(program->mesh, summed_axes(a), a->slot, i);
        bool given = group <= ISO_PLAN_MANY &&
                     iso_plan_domain_of(a->plan, owner) == iso_plan_domain_of(a->plan, a->slot);
        if (given || owner == a->slot)
            continue;
        a->source[0] = source_of(a->plan, a->move->to, owner, &flat);
        ISO_TRY(iso_exchange_add(a->exchange, a->slot, a->move->to, &flat, from->tensor->dtype, ISO_SUM,
                                 &chunk, a->source, 1, NULL));
    }
done:
    return status;
}

static bool is_own(const iso_plan *plan, int slot)
{
    const iso_topology *topology = iso_fabric_topology(plan->site->fabric);
    return topology->rank_of_slot[slot] == topology->rank;
}

/* The key of a slot's pulls: slots of a domain with equal keys pull the same. */
static iso_hash_key key_of(const adder *a, int slot)
{
    const iso_program *program = a->plan->program;
    const iso_layout *from = &program->values[a->move->from].layout;
    const iso_shape shape = iso_plan_shape(a->plan, a->move->from);
    uint64_t domain = 1 + (uint64_t)iso_plan_domain_of(a->plan, slot);
    /* SCATTER: each takes another chunk. GATHER: all of a group take the same. */
    uint64_t taker =
        (uint64_t)(a->move->kind == ISO_MOVE_GATHER ? iso_group_slot(program->mesh, summed_axes(a), slot, 0)
                                                    : slot);
    iso_hash_key key = {{taker, ~taker}};
    if (a->move->kind == ISO_MOVE_BOXES)
        key = iso_reshard_key(program->mesh, from, &program->values[a->move->to].layout, &shape, slot);
    /* Mixed before the domain joins: the sums of two slots and two domains can be equal. */
    return (iso_hash_key){
        {iso_hash_mix(iso_hash_mix(key.word[0]) + domain), iso_hash_mix(iso_hash_mix(key.word[1]) ^ domain)}};
}

/* Sets room->first[slot] to the first slot of its domain that takes the same; in one domain to -1. */
static iso_status find_firsts(const adder *a)
{
    int slots = a->plan->program->mesh->n_slots;
    for (int slot = 0; slot < slots; slot++)
        a->room->first[slot] = -1;
    if (iso_plan_in_one_domain(a->plan))
        return ISO_OK;
    for (int slot = 0; slot < slots; slot++)
        a->room->key[slot] = key_of(a, slot);
    return iso_hash_firsts(a->room->key, slots, a->room->first)
               ? ISO_OK
               : iso_no_memory("the exchanges of %d slots", slots);
}

/* Whether this rank adds what a slot takes. Sums in place count what slots of other ranks write. */
static bool adds(const adder *a, int slot)
{
    return is_own(a->plan, slot) || a->room->first[slot] == slot || a->move->kind == ISO_MOVE_SCATTER;
}

static iso_status add_move(adder *a)
{
    iso_status status = ISO_OK;
    ISO_TRY(find_firsts(a));
    ISO_TRY(set_kind_of_move(a));
    for (a->slot = 0; a->slot < a->plan->program->mesh->n_slots; a->slot++)
        if (adds(a, a->slot))
            ISO_TRY(a->move->kind == ISO_MOVE_BOXES     ? add_boxes(a)
                    : a->move->kind == ISO_MOVE_SCATTER ? add_scatter(a, a->room->slots)
                                                        : add_gather(a));
done:
    return status;
}

static iso_status add_moves(iso_plan *plan, iso_exchange *exchange, int first, int count,
                            const workspace *room)
{
    adder a = {.plan = plan, .exchange = exchange, .room = room, .source = room->source};
    iso_status status = ISO_OK;
    for (int i = first; i < first + count; i++) {
        a.move = &plan->moves[i];
        ISO_TRY(add_move(&a));
    }
done:
    return status;
}

static iso_status add_fault_sum(iso_plan *plan, iso_exchange *exchange, int slot, const iso_source *source,
                                int count)
{
    iso_box box = iso_box_range(0, 1);
    return iso_exchange_add(exchange, slot, plan->fault_target, &box, ISO_F64, ISO_SUM, &box, source, count,
                            NULL);
}

/* Whether a slot may be the first of several domains' slots. */
static bool begins_domain(const iso_plan *plan, int slot)
{
    return !iso_plan_in_one_domain(plan) &&
           (slot == 0 || iso_plan_domain_of(plan, slot) != iso_plan_domain_of(plan, slot - 1));
}

/* Gives every slot the number of slots with a fault: each slot adds them up, or slot 0 did so before. */
static iso_status add_faults(iso_plan *plan, iso_source *source, int *group)
{
    uint32_t axes = (1u << plan->program->mesh->n_axes) - 1;
    int slots = plan->program->mesh->n_slots;
    bool many = slots > ISO_PLAN_MANY;
    iso_status status = ISO_OK;
    for (int i = 0; i < slots; i++)
        source[i] = (iso_source){
            .slot = i, .space = ISO_SPACE_SLOT, .offset = plan->fault_offset, .box = iso_box_range(0, 1)};
    if (many) {
        ISO_TRY(iso_exchange_create(plan->site->fabric, "the faults of the step", &plan->faults));
        ISO_TRY(add_fault_sum(plan, plan->faults, 0, source, slots));
        source[0].offset += sizeof(double);
    }
    ISO_TRY(set_kind(plan, plan->epilogue, many ? ISO_EXCHANGE_PULLS : ISO_EXCHANGE_ALL_REDUCE, axes, group));
    for (int slot = 0; slot < slots; slot++)
        if (is_own(plan, slot) || begins_domain(plan, slot))
            ISO_TRY(add_fault_sum(plan, plan->epilogue, slot, source, many ? 1 : slots));
done:
    return status;
}

/* One slot's part of the gradients: the optimizer combines them itself, so the target stays unbound. */
static iso_status add_bucket(iso_plan *plan, int b, int slot, iso_source *source, int *slots)
{
    const iso_mesh *mesh = plan->program->mesh;
    const iso_bucket *bucket = &plan->buckets->buckets[b];
    int64_t begin, count;
    iso_plan_stored_part(plan, b, slot, &begin, &count);
    if (count == 0)
        return ISO_OK;
    int group = iso_group_slots(mesh, bucket->axes, slot, slots);
    iso_box flat = iso_box_range(0, plan->bucket_stored[b]), part = iso_box_range(begin, count);
    for (int i = 0; i < group; i++)
        source[i] = (iso_source){
            .slot = slots[i], .space = ISO_SPACE_SLOT, .offset = plan->bucket_offset[b], .box = flat};
    return iso_exchange_add(plan->bucket_exchange[b], slot, plan->fault_target + 1 + b, &part, bucket->dtype,
                            ISO_SUM, &part, source, group, &plan->bucket_pull[b * mesh->n_slots + slot]);
}

/* what: "the gradients of" */
static iso_status create_for_bucket(const iso_plan *plan, int b, const char *what, iso_exchange **exchange)
{
    iso_text name = {0};
    iso_text_add(&name, "%s ", what);
    iso_bucket_add_name(&plan->buckets->buckets[b], &name);
    iso_status status = name.failed ? iso_no_memory("the name of an exchange")
                                    : iso_exchange_create(plan->site->fabric, iso_text_get(&name), exchange);
    iso_text_free(&name);
    return status;
}

static iso_status create_bucket_exchange(iso_plan *plan, int b)
{
    iso_status status = create_for_bucket(plan, b, "the gradients of", &plan->bucket_exchange[b]);
    plan->instructions[plan->bucket_begin[b]].exchange = plan->bucket_exchange[b];
    return status;
}

static iso_status add_buckets(iso_plan *plan, iso_source *source, const workspace *room)
{
    iso_status status = ISO_OK;
    for (int b = 0; b < plan->buckets->count; b++)
        if (!iso_plan_overlaps(plan, b))
            plan->bucket_exchange[b] = plan->epilogue;
        else
            ISO_TRY(create_bucket_exchange(plan, b));
    for (int b = 0; b < plan->buckets->count; b++) {
        ISO_TRY(set_kind(plan, plan->bucket_exchange[b], ISO_EXCHANGE_REDUCE_SCATTER,
                         plan->buckets->buckets[b].axes, room->group));
        for (int slot = 0; slot < plan->program->mesh->n_slots; slot++)
            if (iso_exchange_needs(plan->epilogue, slot))
                ISO_TRY(add_bucket(plan, b, slot, source, room->slots));
    }
done:
    return status;
}

static iso_status make_epilogue(iso_plan *plan, const workspace *room)
{
    iso_status status = ISO_OK;
    ISO_TRY(iso_exchange_create(plan->site->fabric, "the end of the step", &plan->epilogue));
    plan->fault_target = plan->program->n_values;
    ISO_TRY(add_moves(plan, plan->epilogue, plan->epilogue_first_move, plan->n_epilogue_moves, room));
    ISO_TRY(add_faults(plan, room->source, room->group));
    ISO_TRY(add_buckets(plan, room->source, room));
done:
    return status;
}

/* ---- new weights to other domains ---- */

/* fetches[slot]: the slot is the first of its domain that uses this copy of the variable; it fetches for the
 * others. */
static bool find_fetching(const iso_plan *plan, const iso_variable *variable, iso_hash_key *key, int *first,
                          bool *fetches)
{
    const iso_site *site = plan->site;
    int slots = plan->program->mesh->n_slots;
    for (int s = 0; s < slots; s++)
        key[s] = (iso_hash_key){
            {site->variable_offset(site->arg, variable, s), (uint64_t)iso_plan_domain_of(plan, s)}};
    if (!iso_hash_firsts(key, slots, first))
        return false;
    for (int s = 0; s < slots; s++)
        fetches[s] = first[s] == s;
    return true;
}

/* One slot's fetch of the part of a variable that another slot updated. Slots with the same box of the
 * variable have the same order of its elements. */
typedef struct fetch {
    iso_plan *plan;
    iso_exchange *exchange;
    const iso_variable *variable;
    iso_dtype dtype;
    int slot, owner;
    iso_box flat; /* of the variable's box */
} fetch;

static iso_status fetch_run(void *arg, const iso_bucket_run *run)
{
    const fetch *f = arg;
    const iso_site *site = f->plan->site;
    iso_box part = iso_box_range(run->at, run->count);
    iso_source source = {.slot = f->owner,
                         .space = ISO_SPACE_SHARED,
                         .offset = site->variable_offset(site->arg, f->variable, f->owner),
                         .box = f->flat};
    return iso_exchange_add(f->exchange, f->slot, f->variable->id, &f->flat, f->dtype, ISO_SUM, &part,
                            &source, 1, NULL);
}

static uint32_t replicated_axes(const iso_mesh *mesh, const iso_bucket_member *member)
{
    return ((1u << mesh->n_axes) - 1) & ~iso_layout_sharded_axes(&member->layout);
}

static int lead_of(const iso_mesh *mesh, const iso_bucket_member *member, int slot)
{
    return iso_group_slot(mesh, replicated_axes(mesh, member), slot, 0);
}

static iso_status note_run(void *arg, const iso_bucket_run *run)
{
    (void)run;
    *(bool *)arg = true;
    return ISO_OK;
}

/* Lists the slots that have new elements of a member's box: for each box, in increasing order. */
static void list_owners(iso_plan *plan, const iso_bucket *bucket, const iso_bucket_member *member,
                        const workspace *room)
{
    const iso_mesh *mesh = plan->program->mesh;
    int listed = 0;
    for (int lead = 0; lead < mesh->n_slots; lead++) {
        int group = lead_of(mesh, member, lead) == lead
                        ? iso_group_slots(mesh, replicated_axes(mesh, member), lead, room->slots)
                        : 0;
        room->first_owner[lead] = listed;
        for (int i = 0; i < group; i++) {
            bool owns = false;
            iso_bucket_visit_runs(bucket, member, mesh, room->slots[i], note_run, &owns);
            room->owner[listed] = room->slots[i];
            listed += owns;
        }
        plan->owners_visited += (uint64_t)group;
        room->first_owner[lead + 1] = listed;
    }
}

static iso_status gather_member(iso_plan *plan, iso_exchange *exchange, const iso_bucket *bucket,
                                const iso_bucket_member *member, int slot, const workspace *room)
{
    const iso_mesh *mesh = plan->program->mesh;
    int lead = lead_of(mesh, member, slot);
    iso_box box = iso_layout_box(mesh, &member->layout, &member->variable->shape, slot);
    fetch f = {.plan = plan,
               .exchange = exchange,
               .variable = member->variable,
               .dtype = bucket->dtype,
               .slot = slot,
               .flat = iso_box_range(0, iso_box_count(&box))};
    iso_status status = ISO_OK;
    for (int i = room->first_owner[lead]; i < room->first_owner[lead + 1]; i++) {
        f.owner = room->owner[i];
        plan->owners_visited++;
        if (iso_plan_domain_of(plan, f.owner) != iso_plan_domain_of(plan, slot))
            ISO_TRY(iso_bucket_visit_runs(bucket, member, mesh, f.owner, fetch_run, &f));
    }
done:
    return status;
}

static int count_members(const iso_plan *plan)
{
    int members = 0;
    for (int b = 0; b < plan->buckets->count; b++)
        members += plan->buckets->buckets[b].n_members;
    return members;
}

/* For each member of the buckets, the slots that fetch it: [slots]. NULL: no memory. */
static bool *all_fetching(const iso_plan *plan)
{
    size_t slots = (size_t)plan->program->mesh->n_slots;
    bool *fetches = iso_new((size_t)count_members(plan) * slots * sizeof *fetches), *at = fetches;
    iso_hash_key *key = iso_new(slots * sizeof *key);
    int *first = iso_new(slots * sizeof *first);
    bool found = fetches && key && first;
    for (int b = 0; b < plan->buckets->count; b++)
        for (int m = 0; m < plan->buckets->buckets[b].n_members && found; m++, at += slots)
            found = find_fetching(plan, plan->buckets->buckets[b].members[m].variable, key, first, at);
    iso_free(first);
    iso_free(key);
    if (!found)
        iso_free(fetches);
    return found ? fetches : NULL;
}

/* fetches: [slots] */
static iso_status gather_in(iso_plan *plan, iso_exchange *exchange, int b, int m, const bool *fetches,
                            const workspace *room)
{
    const iso_bucket *bucket = &plan->buckets->buckets[b];
    const iso_bucket_member *member = &bucket->members[m];
    iso_status status = set_kind(plan, exchange, ISO_EXCHANGE_ALL_GATHER,
                                 replicated_axes(plan->program->mesh, member), room->group);
    for (int slot = 0; slot < plan->program->mesh->n_slots && status == ISO_OK; slot++)
        if (fetches[slot])
            status = gather_member(plan, exchange, bucket, member, slot, room);
    return status;
}

static bool all_fetch(const bool *fetches, int slots)
{
    for (int slot = 0; slot < slots; slot++)
        if (!fetches[slot])
            return false;
    return true;
}

/* Bucket by bucket in the next step, or all in one exchange at the end of this one. */
static iso_status gather_in_both(iso_plan *plan, int b, int m, const bool *fetches, const workspace *room)
{
    const iso_bucket *bucket = &plan->buckets->buckets[b];
    list_owners(plan, bucket, &bucket->members[m], room);
    iso_status status = gather_in(plan, plan->weight_gather, b, m, fetches, room);
    if (status != ISO_OK || !plan->bucket_gather[b])
        return status;
    if (!all_fetch(fetches, plan->program->mesh->n_slots))
        iso_exchange_set_fetches(plan->bucket_gather[b]);
    return gather_in(plan, plan->bucket_gather[b], b, m, fetches, room);
}

/* The exchange of an instruction that moves the new weights of a bucket. */
static iso_status create_bucket_gather(iso_plan *plan, int b)
{
    if (plan->bucket_gather_end[b] < 0)
        return ISO_OK;
    iso_status status = create_for_bucket(plan, b, "the new", &plan->bucket_gather[b]);
    if (status != ISO_OK)
        return status;
    iso_instruction *end = &plan->instructions[plan->bucket_gather_end[b]];
    iso_exchange_set_constant(plan->bucket_gather[b]);
    end->exchange = plan->instructions[end->begin].exchange = plan->bucket_gather[b];
    return ISO_OK;
}

static iso_status make_weight_gather(iso_plan *plan, const workspace *room)
{
    iso_status status = ISO_OK;
    int count = plan->program->mesh->n_slots;
    if (!plan->buckets->count || iso_plan_in_one_domain(plan))
        return ISO_OK;
    bool *fetches = all_fetching(plan);
    if (!fetches)
        return iso_no_memory("the exchanges of %d slots", count);
    ISO_TRY(iso_exchange_create(plan->site->fabric, "new weights to other hosts", &plan->weight_gather));
    for (int b = 0; b < plan->buckets->count; b++)
        ISO_TRY(create_bucket_gather(plan, b));
    const bool *its = fetches;
    for (int b = 0; b < plan->buckets->count; b++)
        for (int m = 0; m < plan->buckets->buckets[b].n_members; m++, its += count)
            ISO_TRY(gather_in_both(plan, b, m, its, room));
done:
    iso_free(fetches);
    return status;
}

/* ---- buffers of messages ---- */

/* The exchanges of a plan, and when their messages are sent: exchanges that are never in progress together
 * share buffers. */
typedef struct message_buffers {
    int count;
    iso_exchange **exchange;
    iso_block *incoming, *outgoing, *device;
    bool devices; /* some exchange has messages in the memory of devices */
} message_buffers;

static void add_message_buffers(message_buffers *m, iso_exchange *exchange, int begin, int end)
{
    iso_block block = {.begin = begin, .end = end};
    if (!exchange)
        return;
    iso_message_bytes bytes = iso_exchange_message_bytes(exchange);
    m->incoming[m->count] = m->outgoing[m->count] = m->device[m->count] = block;
    m->incoming[m->count].bytes = bytes.incoming;
    m->outgoing[m->count].bytes = bytes.outgoing;
    m->device[m->count].bytes = bytes.device;
    m->devices |= bytes.device > 0;
    m->exchange[m->count++] = exchange;
}

static iso_status place_messages(iso_plan *plan, message_buffers *m)
{
    iso_message_bytes bytes = {0};
    iso_status status = ISO_OK;
    for (int i = 0; i < plan->n_instructions; i++)
        if (plan->instructions[i].kind == ISO_EXCHANGE)
            add_message_buffers(m, plan->instructions[i].exchange, plan->instructions[i].begin, i);
    for (int b = 0; b < plan->buckets->count; b++)
        if (iso_plan_overlaps(plan, b))
            add_message_buffers(m, plan->bucket_exchange[b], plan->bucket_begin[b], plan->n_instructions);
    add_message_buffers(m, plan->faults, plan->n_instructions, plan->n_instructions);
    add_message_buffers(m, plan->epilogue, plan->n_instructions, plan->n_instructions);
    add_message_buffers(m, plan->weight_gather, plan->n_instructions + 1, plan->n_instructions + 1);
    ISO_TRY(iso_memory_plan(m->incoming, m->count, &bytes.incoming));
    ISO_TRY(iso_memory_plan(m->outgoing, m->count, &bytes.outgoing));
    if (m->devices)
        ISO_TRY(iso_memory_plan(m->device, m->count, &bytes.device));
    for (int i = 0; i < m->count; i++)
        iso_exchange_share_buffers(
            m->exchange[i],
            (iso_message_bytes){m->incoming[i].offset, m->outgoing[i].offset, m->device[i].offset});
    ISO_TRY(iso_fabric_reserve_messages(plan->site->fabric, bytes));
    for (int i = 0; i < m->count; i++)
        ISO_TRY(iso_exchange_commit(m->exchange[i]));
done:
    return status;
}

static iso_status exchanges_commit(iso_plan *plan)
{
    size_t most = (size_t)plan->n_instructions + (size_t)plan->buckets->count + 3;
    message_buffers m = {.exchange = iso_new(most * sizeof(iso_exchange *)),
                         .incoming = iso_new(most * sizeof(iso_block)),
                         .outgoing = iso_new(most * sizeof(iso_block)),
                         .device = iso_new(most * sizeof(iso_block))};
    iso_status status = m.exchange && m.incoming && m.outgoing && m.device
                            ? place_messages(plan, &m)
                            : iso_no_memory("%zu exchanges", most);
    iso_free(m.exchange);
    iso_free(m.incoming);
    iso_free(m.outgoing);
    iso_free(m.device);
    return status;
}

/* ---- the whole ---- */

/* "the reshard of dense/output from [data, -] to [-, -] and 2 more" */
static void name_exchange(const iso_plan *plan, const iso_instruction *instruction, char *text, size_t size)
{
    const iso_program *program = plan->program;
    const iso_move *move = &plan->moves[instruction->first_move];
    const iso_program_value *from = &program->values[move->from], *to = &program->values[move->to];
    char before[64], after[64], more[32] = "";
    if (instruction->n_moves > 1)
        snprintf(more, sizeof more, " and %d more", instruction->n_moves - 1);
    iso_layout_text(program->mesh, &from->layout, before, sizeof before);
    iso_layout_text(program->mesh, &to->layout, after, sizeof after);
    snprintf(text, size, "the reshard of %s from [%s] to [%s]%s", iso_tensor_name(from->tensor), before,
             after, more);
}

static iso_status make_exchange(iso_plan *plan, int number, const workspace *room)
{
    iso_instruction *instruction = &plan->instructions[number];
    char what[320] = "a reshard";
    if (instruction->n_moves > 0)
        name_exchange(plan, instruction, what, sizeof what);
    iso_status status = iso_exchange_create(plan->site->fabric, what, &instruction->exchange);
    if (status != ISO_OK)
        return status;
    plan->instructions[instruction->begin].exchange = instruction->exchange;
    if (instruction->constant)
        iso_exchange_set_constant(instruction->exchange);
    return add_moves(plan, instruction->exchange, instruction->first_move, instruction->n_moves, room);
}

iso_status iso_plan_connect(iso_plan *plan)
{
    iso_status status = ISO_OK;
    size_t count = (size_t)plan->program->mesh->n_slots;
    workspace room = {.source = iso_new(count * sizeof *room.source),
                      .slots = iso_new(count * sizeof *room.slots),
                      .group = iso_new(count * sizeof *room.group),
                      .key = iso_new(count * sizeof *room.key),
                      .first = iso_new(count * sizeof *room.first),
                      .owner = iso_new((count + 1) * sizeof *room.owner),
                      .first_owner = iso_new((count + 1) * sizeof *room.first_owner)};
    plan->bucket_pull = iso_new(((size_t)plan->buckets->count * count + 1) * sizeof *plan->bucket_pull);
    if (!room.source || !room.slots || !room.group || !room.key || !room.first || !room.owner ||
        !room.first_owner || !plan->bucket_pull)
        ISO_TRY(iso_no_memory("the exchanges of %zu slots", count));
    for (int i = 0; i < plan->n_instructions; i++)
        if (plan->instructions[i].kind == ISO_EXCHANGE && plan->instructions[i].payload == ISO_PAYLOAD_MOVES)
            ISO_TRY(make_exchange(plan, i, &room));
    ISO_TRY(make_epilogue(plan, &room));
    ISO_TRY(make_weight_gather(plan, &room));
    ISO_TRY(exchanges_commit(plan));
done:
    iso_free(room.first_owner);
    iso_free(room.owner);
    iso_free(room.first);
    iso_free(room.key);
    iso_free(room.group);
    iso_free(room.slots);
    iso_free(room.source);
    return status;
}
