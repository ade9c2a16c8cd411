/* Construction of exchanges.
 *
 * Every rank adds the pulls of all slots and keeps the part that concerns it: the pulls of its own slots, the
 * messages to, from and within its host, the packs if it is the sender, and whether its host takes part at all
 * and so needs barriers. Sources are grouped into operands (tree.h). Sources in the slot's domain are read
 * in place. The others arrive combined, as far as one domain of the slot's host, or one other host, can combine them,
 * and each such node of the tree is sent to a host once. To combine a node for another host, a slot of the sending
 * host pulls it, perhaps from several domains. Any rank of a host can combine a node, and any can receive it; slot
 * numbers distribute this work over the ranks. */
#include <string.h>

#include "collectives/coll_impl.h"
#include "collectives/components_impl.h"
#include "collectives/tree.h"
#include "runtime/base/device.h"
#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"

enum { MOST_SOURCES = 1 << 20, TAGS = 32767 /* the least that MPI guarantees */ };

iso_status iso_exchange_create(iso_fabric *fabric, const char *what, iso_exchange **out)
{
    iso_exchange *exchange = iso_new(sizeof *exchange);
    if (!exchange)
        return iso_no_memory("the exchange '%s'", what);
    exchange->fabric = fabric;
    exchange->tag = fabric->exchanges_made++ % TAGS;
    exchange->what = iso_strdup(what);
    exchange->messages.endpoints = fabric->endpoints;
    iso_watchdog_name_set(&exchange->name, what, -1, NULL);
    exchange->slots = iso_new(((size_t)fabric->n_local_slots + 1) * sizeof *exchange->slots);
    exchange->next = fabric->exchanges;
    fabric->exchanges = exchange;
    if (!exchange->what || !exchange->slots) {
        iso_exchange_destroy(exchange);
        return iso_no_memory("the exchange '%s'", what);
    }
    *out = exchange;
    return ISO_OK;
}

static void free_slot(iso_slot_pulls *slot)
{
    for (int i = 0; i < slot->n_pulls; i++)
        iso_gather_free(&slot->pulls[i].gather);
    iso_free(slot->pulls);
}

static void destroy_work(const iso_exchange *exchange)
{
    int count;
    const iso_coll_component *const *components = iso_coll_components(&count);
    for (int c = 0; c < count; c++)
        if (exchange->schedules[c])
            components[c]->destroy(exchange->schedules[c]);
}

void iso_packs_free(iso_pack_list *list)
{
    for (int i = 0; i < list->count; i++)
        iso_gather_free(&list->packs[i].gather);
    iso_free(list->packs);
}

void iso_exchange_destroy(iso_exchange *exchange)
{
    if (!exchange)
        return;
    iso_exchange **link = &exchange->fabric->exchanges;
    while (*link != exchange)
        link = &(*link)->next;
    *link = exchange->next;
    if (exchange->fabric->abandoned) /* MPI may still use its memory */
        return;
    for (int i = 0; exchange->slots && i < exchange->fabric->n_local_slots; i++)
        free_slot(&exchange->slots[i]);
    destroy_work(exchange);
    iso_packs_free(&exchange->packs);
    iso_packs_free(&exchange->intra_host_packs);
    iso_packs_free(&exchange->link_packs);
    iso_link_messages_free(exchange->fabric, &exchange->link_messages);
    iso_fabric_free_link_areas(exchange->fabric, exchange->link_areas);
    iso_messages_free(&exchange->messages, exchange->fabric->topology.device);
    iso_free(exchange->slots);
    iso_free(exchange->what);
    iso_free(exchange);
}

/* ---- what the pulls do ---- */

bool iso_exchange_wants_kind(const iso_exchange *exchange)
{
    bool any = false;
    for (int c = 0; c < ISO_MOST_COMPONENTS; c++)
        any |= exchange->fabric->modules[c] != NULL;
    return any;
}

/* The fabric's copy of a grouping. */
static iso_status keep_group(iso_fabric *fabric, const int *group, const int **kept)
{
    size_t bytes = (size_t)fabric->topology.n_slots * sizeof *group;
    for (int i = 0; i < fabric->n_groups; i++)
        if (!memcmp(fabric->groups[i], group, bytes)) {
            *kept = fabric->groups[i];
            return ISO_OK;
        }
    int *fresh = iso_new(bytes);
    iso_status status = fresh ? iso_list_add(fabric->groups, fabric->n_groups, fresh, "groups of slots")
                              : iso_no_memory("groups of slots");
    if (status != ISO_OK) {
        iso_free(fresh);
        return status;
    }
    *kept = memcpy(fresh, group, bytes);
    return ISO_OK;
}

iso_status iso_exchange_set_kind(iso_exchange *exchange, iso_exchange_kind kind, const int *group)
{
    const int *kept = NULL;
    iso_status status = group ? keep_group(exchange->fabric, group, &kept) : ISO_OK;
    exchange->kind = kept ? kind : ISO_EXCHANGE_PULLS;
    exchange->group = kept;
    return status;
}

/* ---- one pull ---- */

static bool exchange_contains(const iso_box *box, const iso_box *region)
{
    if (box->rank != region->rank)
        return false;
    for (int d = 0; d < box->rank; d++)
        if (region->extent[d] < 0 || region->offset[d] < box->offset[d] ||
            region->offset[d] + region->extent[d] > box->offset[d] + box->extent[d])
            return false;
    return true;
}

static iso_status exchange_check_request(const iso_request *r, const iso_box *target_box)
{
    const iso_exchange *exchange = r->exchange;
    int slots = exchange->fabric->topology.n_slots;
    const char *what = exchange->what;
    if (exchange->committed)
        return iso_error(ISO_INVALID, "exchange '%s': a pull after the commit", what);
    if (r->slot < 0 || r->slot >= slots || r->count < 1 || r->count > MOST_SOURCES ||
        iso_dtype_size(r->dtype) == 0)
        return iso_error(ISO_INVALID, "exchange '%s': slot %d of %d pulls %d sources of %s", what, r->slot,
                         slots, r->count, iso_dtype_name(r->dtype));
    bool empty = iso_box_count(r->region) == 0;
    if (!empty && !exchange_contains(target_box, r->region))
        return iso_error(ISO_INVALID, "exchange '%s': slot %d pulls a region that its target does not hold",
                         what, r->slot);
    for (int i = 0; i < r->count; i++) {
        const iso_source *source = &r->sources[i];
        if (source->slot < 0 || source->slot >= slots || (i > 0 && source->slot < source[-1].slot))
            return iso_error(ISO_INVALID,
                             "exchange '%s': source %d of slot %d is slot %d, which is out of order or not "
                             "one of the %d slots",
                             what, i, r->slot, source->slot, slots);
        if (!empty && !exchange_contains(&source->box, r->region))
            return iso_error(ISO_INVALID, "exchange '%s': slot %d pulls a region that slot %d does not hold",
                             what, r->slot, source->slot);
    }
    return ISO_OK;
}

static void hash_box(iso_hash_key *key, const iso_box *box)
{
    for (int i = 0; i < 2; i++) {
        key->word[i] = iso_hash_bytes(key->word[i], box->offset, (size_t)box->rank * sizeof *box->offset);
        key->word[i] = iso_hash_bytes(key->word[i], box->extent, (size_t)box->rank * sizeof *box->extent);
    }
}

static void hash_number(iso_hash_key *key, uint64_t number)
{
    key->word[0] = iso_hash_mix(key->word[0] ^ number);
    key->word[1] = iso_hash_mix(key->word[1] + number);
}

/* Identifies the value of a node: equal nodes of different requests are sent once. */
static iso_hash_key exchange_key_of(const iso_request *r, const iso_tree_node *node)
{
    iso_hash_key key = {{1, 2}};
    hash_number(&key, (uint64_t)r->dtype);
    hash_number(&key, (uint64_t)r->reduce);
    hash_box(&key, r->region);
    for (int i = node->begin; i < node->begin + node->count; i++) {
        hash_number(&key, (uint64_t)r->sources[i].slot);
        hash_number(&key, (uint64_t)r->sources[i].space);
        hash_number(&key, r->sources[i].offset);
        hash_box(&key, &r->sources[i].box);
    }
    return key;
}

iso_hash_key iso_request_key(const iso_request *r)
{
    return exchange_key_of(r, &(iso_tree_node){0, r->count, 0});
}

/* ---- fragments of messages ---- */

static size_t region_bytes(const iso_request *r)
{
    return (size_t)iso_box_count(r->region) * iso_dtype_size(r->dtype);
}

static iso_operand operand_in_window(const iso_request *r, const iso_source *source)
{
    return (iso_operand){
        .area = source->space == ISO_SPACE_SHARED ? ISO_AREA_SHARED : ISO_AREA_SLOT,
        .number = source->slot,
        .offset = source->offset + iso_box_offset(&source->box, r->region, iso_dtype_size(r->dtype)),
    };
}

/* A device takes a limited number of operands, or of places for the result, in one gather. */
static iso_status check_gathered(const iso_exchange *exchange, int slot, int count)
{
    const iso_device *device = exchange->fabric->topology.device;
    if (!device->gather || count <= ISO_MOST_GATHERED)
        return ISO_OK;
    return iso_error(ISO_INVALID,
                     "exchange '%s': slot %d reads or writes %d parts at once; on the device '%s' at most %d",
                     exchange->what, slot, count, device->name, ISO_MOST_GATHERED);
}

/* A gather of `operands` operands, not planned yet. */
static iso_status begin_gather(const iso_request *r, int operands, iso_gather *gather)
{
    *gather = (iso_gather){.dtype = r->dtype,
                           .combine = r->exchange->fabric->combine[r->reduce],
                           .maximum = r->reduce == ISO_MAX,
                           .n_operands = operands};
    gather->operands = iso_new((size_t)operands * sizeof *gather->operands);
    return gather->operands ? check_gathered(r->exchange, r->slot, operands)
                            : iso_no_memory("the exchange '%s'", r->exchange->what);
}

/* Allocates *boxes for the operands' boxes and, last, the target's. */
static iso_status new_boxes(const iso_request *r, int operands, const iso_box *target, const iso_box ***boxes)
{
    *boxes = iso_new(((size_t)operands + 1) * sizeof **boxes);
    if (!*boxes)
        return iso_no_memory("the exchange '%s'", r->exchange->what);
    (*boxes)[operands] = target;
    return ISO_OK;
}

static int slot_that_sends(const iso_request *r, const iso_tree_node *node)
{
    return r->sources[node->begin + r->slot % node->count].slot;
}

/* The rank of this slot receives. */
static int slot_that_receives(const iso_request *r, const iso_tree_node *node)
{
    const iso_fabric *fabric = r->exchange->fabric;
    int host = iso_fabric_host_of_slot(fabric, r->slot), first = fabric->host_begin[host];
    int turn = (r->slot + r->sources[node->begin].slot) % (fabric->host_begin[host + 1] - first);
    return fabric->by_host[first + turn];
}

static iso_route route_within_host(const iso_request *r, const iso_tree_node *node)
{
    int sender = r->exchange->fabric->rank_of_slot[slot_that_sends(r, node)];
    return (iso_route){sender, sender, iso_transport_between(false, false), -1, -1};
}

static iso_route route_between_hosts(const iso_request *r, const iso_tree_node *node)
{
    const iso_fabric *fabric = r->exchange->fabric;
    int from = slot_that_sends(r, node), to = slot_that_receives(r, node);
    bool devices = fabric->endpoints != NULL;
    return (iso_route){fabric->rank_of_slot[from], fabric->rank_of_slot[to],
                       iso_transport_between(true, devices), devices ? fabric->domain_of_slot[from] : -1,
                       devices ? iso_endpoints_incoming(fabric, to) : -1};
}

/* Finds or creates the fragment of a node that comes from another domain of this host, or is sent to this host or
 * from it. */
static iso_status find_fragment(const iso_request *r, int i)
{
    const iso_tree_node *node = &r->nodes[i];
    const iso_fabric *fabric = r->exchange->fabric;
    int to = iso_fabric_host_of_slot(fabric, r->slot);
    iso_mailbox *box = to == fabric->host_number ? &r->exchange->messages.in : &r->exchange->messages.out;
    iso_route route = r->intra_host[i] ? route_within_host(r, node) : route_between_hosts(r, node);
    iso_hash_key key = exchange_key_of(r, node);
    hash_number(&key, (uint64_t)to);
    r->exchange->active = true;
    return iso_mailbox_fragment(box, &route, key, region_bytes(r), &r->part[i], &r->fresh[i]);
}

/* Whether a part comes from another device of this host by its communicator. */
static bool is_by_link(const iso_request *r, int i)
{
    return r->intra_host[i] && r->exchange->fabric->links;
}

/* The same for a node that goes from one device of this host to another. */
static iso_status find_link(const iso_request *r, int i)
{
    const int *domain = r->exchange->fabric->domain_of_slot;
    iso_hash_key key = exchange_key_of(r, &r->nodes[i]);
    iso_route route = {.from = domain[r->sources[r->nodes[i].begin].slot],
                       .to = domain[r->slot],
                       .from_domain = -1,
                       .to_domain = -1};
    hash_number(&key, (uint64_t)route.to);
    r->exchange->active = true;
    return iso_mailbox_fragment(&r->exchange->link_messages.box, &route, key, region_bytes(r), &r->part[i],
                                &r->fresh[i]);
}

static iso_status add_link_pack(const iso_request *r, int i);
static iso_status add_intra_host_pack(const iso_request *r, int i);
static iso_status add_pack(const iso_request *r, int i);

/* Finds where the operand of a node comes from. */
static iso_status place_part(const iso_request *r, int i)
{
    const iso_fabric *fabric = r->exchange->fabric;
    iso_memory_location from = r->location[r->nodes[i].begin],
                        to = iso_fabric_location_of_slot(fabric, r->slot);
    int here = fabric->host_number;
    r->part[i] = -1;
    r->intra_host[i] = from.host == to.host;
    if (from.domain == to.domain || (from.host != here && to.host != here))
        return ISO_OK;
    iso_status status = is_by_link(r, i) ? find_link(r, i) : find_fragment(r, i);
    if (status != ISO_OK || !r->fresh[i])
        return status;
    return is_by_link(r, i)    ? add_link_pack(r, i)
           : r->intra_host[i]  ? add_intra_host_pack(r, i)
           : from.host == here ? add_pack(r, i)
                               : ISO_OK;
}

/* Divides the sources into operands and finds where they come from. */
static iso_status find_operands(iso_request *r)
{
    r->n_operands = iso_tree_cut(r->location, r->count,
                                 iso_fabric_location_of_slot(r->exchange->fabric, r->slot), r->nodes);
    iso_status status = ISO_OK;
    for (int i = 0; i < r->n_operands && status == ISO_OK; i++)
        status = place_part(r, i);
    return status;
}

static iso_status make_room(iso_request *r)
{
    size_t count = (size_t)r->count;
    r->location = iso_new(count * sizeof *r->location);
    r->nodes = iso_new(count * sizeof *r->nodes);
    r->part = iso_new(count * sizeof *r->part);
    r->fresh = iso_new(count * sizeof *r->fresh);
    r->intra_host = iso_new(count * sizeof *r->intra_host);
    return r->location && r->nodes && r->part && r->fresh && r->intra_host
               ? ISO_OK
               : iso_no_memory("the exchange '%s'", r->exchange->what);
}

static void free_room(iso_request *r)
{
    iso_free(r->intra_host);
    iso_free(r->fresh);
    iso_free(r->part);
    iso_free(r->nodes);
    iso_free(r->location);
}

/* ---- the slot's side ---- */

/* The operand for a node. */
static void take_operand(const iso_request *r, int i, iso_operand *operand, const iso_box **box)
{
    const iso_source *first = &r->sources[r->nodes[i].begin];
    *box = r->region; /* packed */
    if (r->result >= 0) {
        *operand = (iso_operand){.area = ISO_AREA_RESULT, .number = r->result, .component = r->component};
    } else if (r->part[i] < 0) {
        *operand = operand_in_window(r, first);
        *box = &first->box;
    } else {
        const iso_mailbox *from =
            is_by_link(r, i) ? &r->exchange->link_messages.box : &r->exchange->messages.in;
        const iso_fragment *part = &from->fragments[r->part[i]];
        *operand = (iso_operand){.area = is_by_link(r, i) ? ISO_AREA_LINK : ISO_AREA_MESSAGE,
                                 .number = part->message,
                                 .offset = part->offset};
    }
    operand->n_folds = r->nodes[i].n_folds;
}

/* The gather of all operands into a target. */
static iso_status make_gather(const iso_request *r, const iso_box *target_box, iso_gather *gather)
{
    const iso_box **boxes;
    iso_status status = begin_gather(r, r->n_operands, gather);
    if (status == ISO_OK)
        status = new_boxes(r, r->n_operands, target_box, &boxes);
    if (status != ISO_OK)
        return status;
    for (int i = 0; i < r->n_operands; i++)
        take_operand(r, i, &gather->operands[i], &boxes[i]);
    status = iso_gather_plan(gather, r->region, boxes);
    iso_free(boxes);
    return status;
}

static iso_status make_pull(const iso_request *r, const iso_box *target_box, iso_pull *pull)
{
    iso_status status = make_gather(r, target_box, &pull->gather);
    for (int i = 0; i < r->n_operands; i++)
        pull->crossed += (r->result >= 0 || (r->part[i] >= 0 && !r->intra_host[i])) && r->fresh[i];
    for (int i = 0; i < r->count; i++)
        pull->foreign += r->sources[i].slot != r->slot;
    if (pull->gather.count > 0)
        pull->target_offset = iso_box_offset(target_box, r->region, iso_dtype_size(r->dtype));
    return status;
}

static iso_status add_pull(const iso_request *r, int target, const iso_box *target_box, int *number)
{
    iso_slot_pulls *slot = &r->exchange->slots[r->exchange->fabric->local[r->slot]];
    iso_pull fresh = {.target = target};
    if (number)
        *number = slot->n_pulls;
    iso_status status = iso_list_add(slot->pulls, slot->n_pulls, fresh, "the pulls of an exchange");
    /* after an error, destroy frees the incomplete pull */
    return status == ISO_OK ? make_pull(r, target_box, &slot->pulls[slot->n_pulls - 1]) : status;
}

/* ---- the sender's side ---- */

/* Initializes the request of what slot `reader` of this host reads to combine `count` sources, all on this host.
 * *own gets memory of its own. */
static iso_status begin_part(const iso_request *r, int reader, const iso_source *sources, int count,
                             iso_request *own)
{
    *own = *r;
    own->slot = reader;
    own->sources = sources;
    own->count = count;
    own->result = -1;
    iso_status status = make_room(own);
    for (int i = 0; i < count && status == ISO_OK; i++)
        own->location[i] = iso_fabric_location_of_slot(r->exchange->fabric, sources[i].slot);
    return status == ISO_OK ? find_operands(own) : status;
}

static bool reads_messages(const iso_request *r)
{
    for (int i = 0; i < r->n_operands; i++)
        if (r->part[i] >= 0)
            return true;
    return false;
}

iso_status iso_request_pack(const iso_request *r, int reader, const iso_source *sources, int count,
                            iso_pack fresh, iso_pack_list *list)
{
    iso_exchange *exchange = r->exchange;
    iso_request part;
    bool mine = exchange->fabric->local[reader] >= 0;
    iso_status status = ISO_OK;
    if (!mine && exchange->fabric->n_host_domains == 1)
        return ISO_OK;
    ISO_TRY(begin_part(r, reader, sources, count, &part));
    exchange->relays |= reads_messages(&part);
    if (mine) {
        fresh.reader = reader;
        ISO_TRY(iso_list_add(list->packs, list->count, fresh, "the messages of an exchange"));
        ISO_TRY(make_gather(&part, part.region, &list->packs[list->count - 1].gather));
    }
done:
    free_room(&part);
    return status;
}

static iso_status pack_node(const iso_request *r, int i, int reader, const iso_mailbox *box,
                            iso_pack_list *list)
{
    const iso_tree_node *node = &r->nodes[i];
    const iso_fragment *part = &box->fragments[r->part[i]];
    return iso_request_pack(r, reader, r->sources + node->begin, node->count,
                            (iso_pack){.message = part->message, .offset = part->offset}, list);
}

/* Adds the pack of a node that another domain of this host reads. */
static iso_status add_intra_host_pack(const iso_request *r, int i)
{
    return pack_node(r, i, slot_that_sends(r, &r->nodes[i]), &r->exchange->messages.in,
                     &r->exchange->intra_host_packs);
}

/* The same by a link: the owner of the domain sends. */
static iso_status add_link_pack(const iso_request *r, int i)
{
    const iso_fabric *fabric = r->exchange->fabric;
    int first = fabric->links->first_slot[fabric->domain_of_slot[r->sources[r->nodes[i].begin].slot]];
    return pack_node(r, i, first, &r->exchange->link_messages.box, &r->exchange->link_packs);
}

/* Adds the pack of a node that is sent to another host. */
static iso_status add_pack(const iso_request *r, int i)
{
    return pack_node(r, i, slot_that_sends(r, &r->nodes[i]), &r->exchange->messages.out, &r->exchange->packs);
}

/* ---- pulls that a component executes ---- */

/* -1: none. */
static int component_for(const iso_request *r)
{
    int count;
    const iso_coll_component *const *components = iso_coll_components(&count);
    for (int c = 0; c < count; c++) {
        const void *module = r->exchange->fabric->modules[c];
        if (module && components[c]->supports(module, r))
            return c;
    }
    return -1;
}

/* The slot's pull reads the result. */
static iso_status add_by_component(iso_request *r, int target, const iso_box *target_box, int *number)
{
    int count;
    iso_exchange *exchange = r->exchange;
    const iso_coll_component *component = iso_coll_components(&count)[r->component];
    exchange->active = exchange->uses_components = true;
    r->n_operands = 1;
    r->nodes[0] = (iso_tree_node){0, r->count, 0};
    r->part[0] = -1;
    iso_status status = component->add(exchange->fabric->modules[r->component], r,
                                       &exchange->schedules[r->component], &r->result, &r->fresh[0]);
    if (status != ISO_OK || exchange->fabric->local[r->slot] < 0)
        return status;
    return add_pull(r, target, target_box, number);
}

/* ---- add ---- */

/* True if the slot only copies within its own area. */
static bool is_private(const iso_request *r)
{
    for (int i = 0; i < r->count; i++)
        if (r->sources[i].slot != r->slot || r->sources[i].space != ISO_SPACE_SLOT)
            return false;
    return true;
}

bool iso_exchange_needs(const iso_exchange *exchange, int slot)
{
    const iso_fabric *fabric = exchange->fabric;
    return fabric->local[slot] >= 0 || fabric->n_domains > 1;
}

static iso_status exchange_add(iso_request *r, int target, const iso_box *target_box, int *number)
{
    const iso_fabric *fabric = r->exchange->fabric;
    iso_memory_location here = iso_fabric_location_of_slot(fabric, r->slot);
    bool empty = iso_box_count(r->region) == 0;
    for (int i = 0; i < r->count; i++)
        r->location[i] = empty ? here : iso_fabric_location_of_slot(fabric, r->sources[i].slot);
    r->component = empty ? -1 : component_for(r);
    if (r->component >= 0)
        return add_by_component(r, target, target_box, number);
    iso_status status = find_operands(r);
    if (status != ISO_OK || here.host != fabric->host_number)
        return status;
    if (!empty && !is_private(r))
        r->exchange->active = true;
    return fabric->local[r->slot] >= 0 ? add_pull(r, target, target_box, number) : ISO_OK;
}

iso_status iso_exchange_add(iso_exchange *exchange, int slot, int target, const iso_box *target_box,
                            iso_dtype dtype, iso_reduce reduce, const iso_box *region,
                            const iso_source *sources, int count, int *pull)
{
    iso_request r = {.exchange = exchange,
                     .slot = slot,
                     .dtype = dtype,
                     .reduce = reduce,
                     .region = region,
                     .sources = sources,
                     .count = count,
                     .kind = exchange->kind,
                     .group = exchange->group,
                     .result = -1};
    iso_status status = exchange_check_request(&r, target_box);
    if (status != ISO_OK)
        return status;
    exchange->fabric->sources += (uint64_t)count;
    status = make_room(&r);
    if (status == ISO_OK)
        status = exchange_add(&r, target, target_box, pull);
    free_room(&r);
    return status;
}

/* ---- sums in place ---- */

/* The pull also writes to the other sources in the slot's domain. */
static iso_status add_copies(iso_exchange *exchange, iso_gather *gather, int slot, const iso_source *sources,
                             int count, size_t skip)
{
    const int *domain = exchange->fabric->domain_of_slot;
    gather->copies = iso_new((size_t)count * sizeof *gather->copies);
    if (!gather->copies)
        return iso_no_memory("the exchange '%s'", exchange->what);
    for (int i = 0; i < count; i++)
        if (sources[i].slot != slot && domain[sources[i].slot] == domain[slot])
            gather->copies[gather->n_copies++] = (iso_operand){
                .area = ISO_AREA_SLOT, .number = sources[i].slot, .offset = sources[i].offset + skip};
    return check_gathered(exchange, slot, gather->n_copies);
}

iso_status iso_exchange_add_in_place(iso_exchange *exchange, int slot, int target, iso_dtype dtype,
                                     iso_reduce reduce, int64_t total, int64_t begin, int64_t n,
                                     const iso_source *sources, int count)
{
    const iso_fabric *fabric = exchange->fabric;
    iso_box flat = iso_box_range(0, total), chunk = iso_box_range(begin, n);
    size_t size = iso_dtype_size(dtype);
    int number = -1;
    iso_status status = ISO_OK;
    if (iso_exchange_needs(exchange, slot))
        status =
            iso_exchange_add(exchange, slot, target, &flat, dtype, reduce, &chunk, sources, count, &number);
    else
        exchange->active |= count > 1 && n > 0;
    if (status != ISO_OK || fabric->area[slot] < 0)
        return status;
    for (int i = 0; i < count; i++)
        if (sources[i].slot != slot && fabric->local[sources[i].slot] >= 0 &&
            fabric->domain_of_slot[sources[i].slot] == fabric->domain_of_slot[slot])
            exchange->slots[fabric->local[sources[i].slot]].given += (uint64_t)n * size;
    if (fabric->local[slot] < 0)
        return ISO_OK;
    return add_copies(exchange, &exchange->slots[fabric->local[slot]].pulls[number].gather, slot, sources,
                      count, (size_t)begin * size);
}
