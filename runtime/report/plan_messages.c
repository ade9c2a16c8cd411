/* A plan's report: the buffers of messages. What a host and one of its memory domains send and receive is counted
 * as exchanges find it: each part of a pull that another host, or another domain of the slot's host, combines is one
 * operand (collectives/tree.h), and is sent once. If there are many pulls, the host is assumed to send as much as it
 * receives, which is so where all hosts have as many slots. */
#include <math.h>
#include <string.h>

#include "runtime/base/device.h"
#include "runtime/base/device_comms.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/table.h"
#include "runtime/plan/memory_plan.h"
#include "runtime/report/plan_report_impl.h"
#include "runtime/spmd/collective.h"

/* Number of slots of the domain that are examined, on meshes of up to MANY slots and on larger ones; the
 * others are assumed to be like the last of these. */
enum { LOOKED_AT = 16, MANY = 1024, LOOKED_AT_OF_MANY = 3, NO_BUCKETS = -1 };
/* Sources of pulls that are visited at most so that what a host sends is counted. */
static const double MOST_VISITS = 1 << 20;

/* Bytes of one exchange. */
typedef struct traffic {
    double intra_host;                    /* between domains of the host */
    double intra_host_in;                 /* of these, what comes to the domain */
    double inter_host_in, inter_host_out; /* from other hosts to the host, and back */
    double area;                          /* in the memory of the GPU of the host that has most */
} traffic;

/* Bytes of one exchange in the memory of a domain's GPU: messages between GPUs of the host, and of other hosts. */
typedef struct device_area {
    double linked, between_hosts;
} device_area;

/* Bytes of one exchange in each message between a domain of the host and another host, or a domain of it:
 * [n_domains of the host * all domains]; another host counts as its first domain. */
typedef struct routes {
    double *out, *in;
    size_t count;
} routes;

typedef struct messages {
    const iso_reporter *r;
    int domain, host;            /* whose bytes are counted */
    int first_domain, n_domains; /* of the host */
    int *slots, n_slots;         /* of the host, in the mesh's order */
    bool few;                    /* pulls: those of all domains are counted */
    bool gpus, into_gpus;        /* messages from other hosts are received in the memory of GPUs */
    iso_device_exchange exchange;
    int *source;                   /* [slots] room: of a pull */
    iso_memory_location *location; /* [slots] where they are */
    iso_tree_node *nodes;          /* [2 * slots] room: of a pull, and of what is combined for another host */
    int reader;                    /* the slot that pulls */
    int tensor;                    /* differs between the tensors of an exchange */
    bool adds, shares;             /* it is added up by an all-reduce or a reduce-scatter; by an all-reduce */
    iso_dtype dtype;
    iso_reduce reduce;
    iso_report_sums *sums;        /* NULL: NCCL adds nothing */
    size_t sum_bytes;             /* of its areas so far */
    iso_table known;              /* operands of the exchange */
    traffic found;                /* of the exchange, so far */
    device_area *area, *before;   /* [n_domains of the host] of the exchange, so far; room */
    routes routes, routes_before; /* of the exchange, so far; room. Counted if `few` */
    iso_status status;
    int *met, *met_host; /* [slots] the number of the exchange in which the domain, or host, was last met */
    int number, senders; /* the number of this exchange, and the domains that it is pulled from */
} messages;

/* ---- pulls ---- */

/* Slots reach each other where the domain is the same. */
static iso_memory_location location_of(const messages *m, int slot)
{
    const iso_site *site = m->r->plan->site;
    return (iso_memory_location){site->host_of_slot[slot],
                                 m->exchange == ISO_DEVICE_EXCHANGE_PEERS ? 0 : site->domain_of_slot[slot]};
}

static uint64_t hash_operand(const messages *m, const iso_box *region, const int *source, int count)
{
    uint64_t key = iso_hash_bytes((uint64_t)m->tensor, source, (size_t)count * sizeof *source);
    key = iso_hash_bytes(key, region->offset, (size_t)region->rank * sizeof *region->offset);
    return iso_hash_bytes(key, region->extent, (size_t)region->rank * sizeof *region->extent);
}

/* True if `to`, a host or a domain, has not requested this yet. */
static bool is_fresh(messages *m, uint64_t key, int to)
{
    key = iso_hash_mix(key + (uint64_t)to);
    if (iso_table_find(&m->known, key, NULL, NULL) >= 0)
        return false;
    m->status = iso_table_add(&m->known, key, 0, "the messages of a plan");
    return m->status == ISO_OK;
}

/* The other domains among those of the sources. */
static void meet(messages *m, int count)
{
    for (int i = 0; i < count; i++) {
        int domain = m->r->plan->site->domain_of_slot[m->source[i]];
        m->senders += domain != m->domain && m->met[domain] != m->number;
        m->met[domain] = m->number;
    }
}

static device_area *area_of(const messages *m, int domain)
{
    return &m->area[domain - m->first_domain];
}

/* An operand of a domain for a reader in another one of its host. */
static void pass_within(messages *m, uint64_t key, double bytes, iso_memory_location from,
                        iso_memory_location to)
{
    int reader = m->exchange == ISO_DEVICE_EXCHANGE_LINKS ? to.domain : to.host;
    if ((to.host != m->host && m->few) || !is_fresh(m, ~key, reader))
        return;
    m->found.intra_host += bytes;
    m->found.intra_host_in += to.domain == m->domain ? bytes : 0;
    if (m->exchange != ISO_DEVICE_EXCHANGE_LINKS)
        return;
    if (to.host == m->host) {
        area_of(m, from.domain)->linked += bytes;
        area_of(m, to.domain)->linked += bytes;
    } else { /* as much as this host combines for that one */
        for (int i = 0; i < m->n_domains; i++)
            m->area[i].linked += 2 * bytes / m->n_domains;
    }
}

/* Before a host sends an operand, one of its slots combines it, and takes parts from other domains of the host. */
static void combine(messages *m, const iso_box *region, const iso_tree_node *node, double bytes)
{
    const int *source = m->source + node->begin;
    iso_tree_node *nodes = m->nodes + m->r->mesh->n_slots;
    iso_memory_location here = m->location[node->begin + m->reader % node->count];
    int count = iso_tree_cut(m->location + node->begin, node->count, here, nodes);
    for (int i = 0; i < count; i++) {
        iso_memory_location from = m->location[node->begin + nodes[i].begin];
        if (from.domain != here.domain)
            pass_within(m, hash_operand(m, region, source + nodes[i].begin, nodes[i].count), bytes, from,
                        here);
    }
}

/* The slots of a host receive in turn. first: the first source's slot. */
static int slot_that_receives(const messages *m, int host, int reader, int first)
{
    const iso_site *site = m->r->plan->site;
    int slots = m->r->mesh->n_slots, on_host = 0, slot = 0;
    if (host == m->host)
        return m->slots[(reader + first) % m->n_slots];
    for (int s = 0; s < slots; s++)
        on_host += site->host_of_slot[s] == host;
    for (int turn = (reader + first) % on_host; slot < slots - 1; slot++)
        if (site->host_of_slot[slot] == host && turn-- == 0)
            break;
    return slot;
}

/* A message of this host to the slot that receives it on another one. */
static void leave(messages *m, int from, int to, double bytes)
{
    const iso_reporter *r = m->r;
    const int *domain = r->plan->site->domain_of_slot;
    int other = domain[to], first = other;
    if (!m->routes.count)
        return;
    while (first > 0 && r->domain_host[first - 1] == r->domain_host[other])
        first--;
    if (m->exchange != ISO_DEVICE_EXCHANGE_PEERS)
        other = first;
    m->routes.out[(size_t)(domain[from] - m->first_domain) * (size_t)r->n_domains + (size_t)other] += bytes;
}

/* A message from a slot of another host to one of this host. */
static void arrive(messages *m, int from, int to, double bytes)
{
    const int *domain = m->r->plan->site->domain_of_slot;
    if (m->routes.count)
        m->routes
            .in[(size_t)(domain[to] - m->first_domain) * (size_t)m->r->n_domains + (size_t)domain[from]] +=
            bytes;
}

/* The sources of an operand send in turn. */
static int slot_that_sends(const messages *m, const iso_tree_node *node)
{
    return m->source[node->begin + m->reader % node->count];
}

static void receive(messages *m, const iso_tree_node *node, double bytes)
{
    int slot = slot_that_receives(m, m->host, m->reader, m->source[node->begin]);
    m->found.inter_host_in += bytes;
    arrive(m, slot_that_sends(m, node), slot, bytes);
    if (m->into_gpus)
        area_of(m, m->r->plan->site->domain_of_slot[slot])->between_hosts += bytes;
}

static void send(messages *m, const iso_tree_node *node, double bytes)
{
    int slot = slot_that_sends(m, node), host = m->r->plan->site->host_of_slot[m->reader];
    m->found.inter_host_out += bytes;
    leave(m, slot, slot_that_receives(m, host, m->reader, m->source[node->begin]), bytes);
    area_of(m, m->r->plan->site->domain_of_slot[slot])->between_hosts += bytes;
}

static void pass(messages *m, const iso_box *region, const iso_tree_node *node, double bytes)
{
    iso_memory_location from = m->location[node->begin], to = location_of(m, m->reader);
    uint64_t key = hash_operand(m, region, m->source + node->begin, node->count);
    if (from.host == to.host) {
        if (from.domain != to.domain)
            pass_within(m, key, bytes, from, to);
        return;
    }
    if ((to.host != m->host && from.host != m->host) || !is_fresh(m, key, to.host))
        return;
    if (to.host == m->host)
        receive(m, node, bytes);
    if (from.host == m->host)
        send(m, node, bytes);
    if (from.host == m->host || !m->few)
        combine(m, region, node, bytes);
}

/* Whether NCCL adds what the reader pulls. */
static bool is_added(messages *m, const iso_box *region, int count)
{
    bool taken = false;
    if (m->sums && m->adds && m->status == ISO_OK &&
        m->r->plan->site->backend->device(0)->comms->adds(m->dtype))
        m->status =
            iso_report_sums_add(m->sums,
                                &(iso_summed_region){.key = hash_operand(m, region, m->source, count),
                                                     .source = m->source,
                                                     .count = count,
                                                     .domain = m->r->plan->site->domain_of_slot[m->reader],
                                                     .shared = m->shares && !m->few,
                                                     .dtype = m->dtype,
                                                     .reduce = m->reduce,
                                                     .elements = iso_box_count(region)},
                                &taken);
    return taken;
}

/* The reader pulls a region: the sum of `count` sources, in m->source. */
static void pull(messages *m, const iso_box *region, int count)
{
    int64_t elements = iso_box_count(region);
    if (!elements)
        return;
    if (m->r->plan->site->domain_of_slot[m->reader] == m->domain)
        meet(m, count);
    if (is_added(m, region, count))
        return;
    for (int i = 0; i < count; i++)
        m->location[i] = location_of(m, m->source[i]);
    int nodes = iso_tree_cut(m->location, count, location_of(m, m->reader), m->nodes);
    double bytes = (double)iso_exchange_operand_bytes((size_t)elements * iso_dtype_size(m->dtype));
    for (int i = 0; i < nodes; i++)
        pass(m, region, &m->nodes[i], bytes);
}

static iso_status pull_region(void *arg, const iso_region *region)
{
    messages *m = arg;
    memcpy(m->source, region->slot, (size_t)region->sources * sizeof *m->source);
    pull(m, &region->box, region->sources);
    return m->status;
}

/* The chunk of an all-reduce that a slot adds, or those that it takes from the others. */
static void pull_chunks(messages *m, const iso_move *move, int slot)
{
    const iso_mesh *mesh = m->r->mesh;
    uint32_t axes = iso_move_summed_axes(m->r->program, move);
    iso_box box = iso_plan_box(m->r->plan, move->from, slot);
    int group = iso_group_slots(mesh, axes, slot, m->source);
    int64_t begin, count;
    for (int i = 0; i < group; i++) {
        int owner = iso_group_slot(mesh, axes, slot, i);
        m->adds = move->kind == ISO_MOVE_SCATTER;
        iso_part_range(iso_box_count(&box), group, i, &begin, &count);
        iso_box chunk = iso_box_range(begin, count);
        if (move->kind == ISO_MOVE_SCATTER && owner == slot) {
            pull(m, &chunk, group);
        } else if (move->kind == ISO_MOVE_GATHER) {
            m->source[0] = owner;
            pull(m, &chunk, 1);
        }
    }
}

static void pull_move(messages *m, int number, int slot)
{
    const iso_program *program = m->r->program;
    const iso_move *move = &m->r->plan->moves[number];
    m->tensor = number;
    const iso_layout *from = &program->values[move->from].layout, *to = &program->values[move->to].layout;
    iso_shape shape = iso_plan_shape(m->r->plan, move->from);
    m->dtype = program->values[move->from].tensor->dtype;
    m->reduce = from->partial_max ? ISO_MAX : ISO_SUM;
    m->shares = false;
    if (move->kind != ISO_MOVE_BOXES) {
        pull_chunks(m, move, slot);
    } else if (m->status == ISO_OK) {
        iso_collective_kind kind = iso_collective_of(m->r->mesh, from, to, &shape, false).kind;
        m->shares = kind == ISO_COLLECTIVE_ALL_REDUCE;
        m->adds = m->shares || kind == ISO_COLLECTIVE_REDUCE_SCATTER;
        m->status = iso_reshard_visit(m->r->mesh, from, to, &shape, slot, pull_region, m);
    }
}

/* Pulls the slot's part of the gradients of a bucket. */
static void pull_bucket(messages *m, int number, int slot)
{
    const iso_bucket *bucket = &m->r->plan->buckets->buckets[number];
    int64_t begin, count;
    iso_bucket_part(bucket, m->r->mesh, slot, &begin, &count);
    iso_box part = iso_box_range(begin, count);
    m->tensor = -1 - number;
    m->dtype = bucket->dtype;
    m->reduce = ISO_SUM;
    m->adds = true;
    m->shares = false;
    pull(m, &part, iso_group_slots(m->r->mesh, bucket->axes, slot, m->source));
}

/* `count` slots pull what the last one has pulled since `before`. */
static void add_others(messages *m, const traffic *before, int count)
{
    traffic *found = &m->found;
    found->intra_host += count * (found->intra_host - before->intra_host);
    found->intra_host_in += count * (found->intra_host_in - before->intra_host_in);
    found->inter_host_in += count * (found->inter_host_in - before->inter_host_in);
    found->inter_host_out += count * (found->inter_host_out - before->inter_host_out);
    for (int i = 0; i < m->n_domains; i++) {
        m->area[i].linked += count * (m->area[i].linked - m->before[i].linked);
        m->area[i].between_hosts += count * (m->area[i].between_hosts - m->before[i].between_hosts);
    }
    for (size_t i = 0; count > 0 && i < m->routes.count; i++) {
        m->routes.out[i] += count * (m->routes.out[i] - m->routes_before.out[i]);
        m->routes.in[i] += count * (m->routes.in[i] - m->routes_before.in[i]);
    }
}

/* What the slots of one domain pull in an exchange: of these moves, and of the gradients of the buckets that begin
 * with instruction `begins` (NO_BUCKETS: none). */
static void pull_all(messages *m, int domain, int first, int count, int begins)
{
    const int *slot = m->r->by_domain + m->r->domain_begin[domain];
    int slots = m->r->domain_begin[domain + 1] - m->r->domain_begin[domain];
    int looked_at = m->r->mesh->n_slots > MANY ? LOOKED_AT_OF_MANY : LOOKED_AT;
    traffic before = m->found;
    looked_at = slots < looked_at || m->sums ? slots : looked_at;
    for (int s = 0; s < looked_at && m->status == ISO_OK; s++) {
        before = m->found;
        memcpy(m->before, m->area, (size_t)m->n_domains * sizeof *m->area);
        if (s == looked_at - 1 && looked_at < slots && m->routes.count)
            memcpy(m->routes_before.out, m->routes.out, 2 * m->routes.count * sizeof *m->routes.out);
        m->reader = slot[s];
        for (int i = first; i < first + count; i++)
            pull_move(m, i, slot[s]);
        for (int b = 0; begins != NO_BUCKETS && b < m->r->plan->buckets->count; b++)
            if (m->r->plan->bucket_begin[b] == begins)
                pull_bucket(m, b, slot[s]);
    }
    add_others(m, &before, slots - looked_at);
}

/* ---- exchanges ---- */

/* The buffers of each exchange: in the memory of the domain's GPU, and in that of the host. */
typedef struct blocks {
    iso_block *gpu, *incoming, *outgoing;
} blocks;

/* Pinned memory of a host for the chunks of its messages to other hosts, and of those that are received in
 * memory of GPUs. Forgets the routes. */
static double staged_routes(const messages *m)
{
    double bytes = 0;
    for (size_t i = 0; i < m->routes.count; i++) {
        size_t chunk = m->r->plan->site->chunk_bytes;
        bytes += (double)iso_exchange_staged_bytes((size_t)m->routes.out[i], chunk);
        if (m->into_gpus)
            bytes += (double)iso_exchange_staged_bytes((size_t)m->routes.in[i], chunk);
        m->routes.out[i] = m->routes.in[i] = 0;
    }
    return bytes;
}

/* The same for so many bytes to, or from, other hosts, if routes are not counted: a message is from one GPU to one
 * host, or to one GPU of it. */
static double staged_bytes(const messages *m, double bytes)
{
    double count = (double)(m->r->report->n_hosts - 1) * m->n_domains * (m->into_gpus ? m->n_domains : 1);
    return count > 0 ? count * (double)iso_exchange_staged_bytes((size_t)(bytes / count) + 1,
                                                                 m->r->plan->site->chunk_bytes)
                     : 0;
}

static void add_to_blocks(const messages *m, const traffic *t, const blocks *b, int number)
{
    double incoming = t->inter_host_in + t->intra_host, outgoing = t->inter_host_out;
    if (m->gpus) {
        incoming = (m->into_gpus ? 0 : t->inter_host_in) +
                   (m->exchange == ISO_DEVICE_EXCHANGE_HOST ? t->intra_host : 0);
        outgoing = m->routes.count ? staged_routes(m)
                                   : staged_bytes(m, t->inter_host_out) +
                                         (m->into_gpus ? staged_bytes(m, t->inter_host_in) : 0);
        b->gpu[number].bytes += (size_t)t->area;
    }
    b->incoming[number].bytes += (size_t)incoming;
    b->outgoing[number].bytes += (size_t)outgoing;
}

/* What arrives from all others, at the domain that gets the most. */
static void note_arrivals(iso_report_op *op, double arrives, int senders)
{
    op->arrives = arrives > op->arrives ? arrives : op->arrives;
    op->senders = senders > op->senders ? senders : op->senders;
}

static void count_exchange(messages *m, int first, int count, int begins, const blocks *b, int number)
{
    const iso_reporter *r = m->r;
    iso_report_op *op = &r->report->ops[number < r->plan->n_instructions ? number : r->report->n_ops - 1];
    device_area most = {0, 0};
    iso_table_clear(&m->known);
    m->found = (traffic){0};
    memset(m->area, 0, (size_t)m->n_domains * sizeof *m->area);
    m->senders = 0;
    m->number++;
    for (int domain = 0; domain < r->n_domains && m->status == ISO_OK; domain++)
        if (m->few || r->domain_host[domain] == m->host)
            pull_all(m, domain, first, count, begins);
    if (m->sums)
        m->sum_bytes += iso_fabric_allocated_bytes(iso_report_sums_end(m->sums));
    if (!m->few) {
        m->found.inter_host_out = m->found.inter_host_in;
        m->found.area += m->found.inter_host_in / m->n_domains;
    }
    for (int i = 0; i < m->n_domains; i++)
        most = (device_area){fmax(most.linked, m->area[i].linked),
                             fmax(most.between_hosts, m->area[i].between_hosts)};
    m->found.area +=
        most.linked +
        most.between_hosts; /* the messages of other hosts lie behind the longest of the others */
    add_to_blocks(m, &m->found, b, number);
    note_arrivals(op, m->found.inter_host_in + m->found.intra_host_in, m->senders);
}

static void count_exchanges(messages *m, const blocks *b)
{
    const iso_plan *plan = m->r->plan;
    for (int i = 0; i < plan->n_instructions; i++) {
        const iso_instruction *instruction = &plan->instructions[i];
        if (instruction->kind == ISO_EXCHANGE && instruction->payload == ISO_PAYLOAD_MOVES)
            count_exchange(m, instruction->first_move, instruction->n_moves, NO_BUCKETS, b, i);
        else if (instruction->kind == ISO_BEGIN && instruction->payload == ISO_PAYLOAD_GRADIENTS)
            count_exchange(m, 0, 0, i, b, i);
    }
    count_exchange(m, plan->epilogue_first_move, plan->n_epilogue_moves, plan->n_instructions, b,
                   plan->n_instructions);
}

/* One block for each instruction, for the end of the step and for the new weights: the time during which
 * its messages are in progress. */
static void set_times(const iso_plan *plan, iso_block *block)
{
    for (int i = 0; i < plan->n_instructions + 2; i++) {
        block[i] = (iso_block){.begin = i, .end = i};
        if (i < plan->n_instructions && plan->instructions[i].kind == ISO_EXCHANGE)
            block[i].begin = plan->instructions[i].begin;
        else if (i < plan->n_instructions && plan->instructions[i].payload == ISO_PAYLOAD_GRADIENTS)
            block[i].end = plan->n_instructions;
    }
}

/* ---- new weights ---- */

/* Of the host's domains. */
static int most_slots(const messages *m)
{
    const int *begin = m->r->domain_begin;
    int most = 0;
    for (int d = m->first_domain; d < m->first_domain + m->n_domains; d++)
        most = begin[d + 1] - begin[d] > most ? begin[d + 1] - begin[d] : most;
    return most;
}

/* The slots that share an update, and so receive its new weights from each other, as one of them sees it. */
typedef struct sharers {
    int all, on_host, in_domain; /* slots */
    int domains, host_domains;   /* other domains: all, and those of the host */
    int hosts;                   /* other hosts */
} sharers;

static sharers find_sharers(messages *m, uint32_t axes, int slot)
{
    const iso_site *site = m->r->plan->site;
    int met = ++m->number;
    sharers found = {.all = iso_group_slots(m->r->mesh, axes, slot, m->source)};
    m->met[m->domain] = m->met_host[m->host] = met;
    for (int i = 0; i < found.all; i++) {
        int domain = site->domain_of_slot[m->source[i]], host = site->host_of_slot[m->source[i]];
        bool fresh = m->met[domain] != met;
        found.on_host += host == m->host;
        found.in_domain += domain == m->domain;
        found.domains += fresh;
        found.host_domains += fresh && host == m->host;
        found.hosts += m->met_host[host] != met;
        m->met[domain] = m->met_host[host] = met;
    }
    return found;
}

/* The new values of a copy that the domain holds, of so many bytes. Each slot that shares the update has an equal
 * part, which goes to the other domains of its host, and once to each other host. Other domains of the host are taken
 * to hold the same copies, or as many. */
static void add_copy(messages *m, const sharers *s, double bytes, traffic *t)
{
    double part = bytes / s->all;
    double on_host =
        part * m->n_domains / (s->host_domains + 1); /* a slot's part of each such copy of the host */
    double inter_host_in = on_host * (s->all - s->on_host);
    if (m->exchange != ISO_DEVICE_EXCHANGE_PEERS && s->host_domains > 0) {
        t->intra_host_in += part * (s->on_host - s->in_domain);
        t->intra_host += on_host * s->on_host;
    }
    if (m->exchange == ISO_DEVICE_EXCHANGE_LINKS)
        t->area += part * (s->on_host - s->in_domain + s->in_domain * s->host_domains);
    t->inter_host_in += inter_host_in;
    t->inter_host_out += on_host * s->on_host * s->hosts;
    t->area +=
        part * s->in_domain * s->hosts + (m->into_gpus ? inter_host_in * most_slots(m) / m->n_slots : 0);
}

/* The messages between hosts with a slot's part of new values, of so many bytes. The first slot of a host that shares
 * the update reads for the host. */
static void route_part(messages *m, uint32_t axes, int owner, double bytes, traffic *t)
{
    const iso_site *site = m->r->plan->site;
    int met = ++m->number, home = site->host_of_slot[owner];
    int count = iso_group_slots(m->r->mesh, axes, owner, m->source);
    m->met_host[home] = met;
    for (int i = 0; i < count; i++) {
        int host = site->host_of_slot[m->source[i]];
        if (m->met_host[host] == met || (host != m->host && home != m->host))
            continue;
        m->met_host[host] = met;
        int to = slot_that_receives(m, host, m->source[i], owner);
        if (host == m->host) {
            t->inter_host_in += bytes;
            arrive(m, owner, to, bytes);
        } else {
            t->inter_host_out += bytes;
            leave(m, owner, to, bytes);
        }
    }
}

/* What hosts send each other of the new weights of a bucket. */
static void route_weights(messages *m, int number, traffic *t)
{
    const iso_bucket *bucket = &m->r->plan->buckets->buckets[number];
    uint32_t axes = iso_report_update_axes(m->r, number);
    int64_t begin, part;
    t->inter_host_in = t->inter_host_out = 0;
    for (int slot = 0; slot < m->r->mesh->n_slots; slot++) {
        iso_bucket_part(bucket, m->r->mesh, slot, &begin, &part);
        if (part > 0)
            route_part(m, axes, slot, (double)part * (double)iso_dtype_size(bucket->dtype), t);
    }
}

/* The new weights of a bucket. */
static traffic weights_traffic(messages *m, int number, int *senders)
{
    const iso_bucket *bucket = &m->r->plan->buckets->buckets[number];
    uint32_t axes = iso_report_update_axes(m->r, number);
    traffic t = {0};
    *senders = 0;
    for (int i = 0; i < bucket->n_members; i++) {
        const iso_variable *variable = bucket->members[i].variable;
        const iso_layout *layout = &m->r->program->variable_layout[variable->id];
        const iso_copies *copies = &m->r->copies[iso_layout_sharded_axes(layout)];
        for (int k = copies->first[m->domain]; k < copies->first[m->domain + 1]; k++) {
            sharers s = find_sharers(m, axes, copies->holders[k]);
            iso_box box = iso_layout_box(m->r->mesh, layout, &variable->shape, copies->holders[k]);
            add_copy(m, &s, (double)iso_box_count(&box) * (double)iso_dtype_size(bucket->dtype), &t);
            *senders = s.domains > *senders ? s.domains : *senders;
        }
    }
    if (m->routes.count)
        route_weights(m, number, &t);
    return t;
}

/* Bucket by bucket in the next step, or all at the end of this one. */
static void count_weights(messages *m, const blocks *b)
{
    const iso_plan *plan = m->r->plan;
    traffic all = {0};
    int senders;
    for (int i = 0; i < plan->buckets->count; i++) {
        traffic t = weights_traffic(m, i, &senders);
        all.intra_host += t.intra_host;
        all.inter_host_in += t.inter_host_in;
        all.inter_host_out += t.inter_host_out;
        all.area += t.area;
    }
    add_to_blocks(m, &all, b, plan->n_instructions + 1);
    for (int i = 0; i < plan->buckets->count; i++) {
        int end = plan->bucket_gather_end[i];
        if (end < 0)
            continue;
        traffic t = weights_traffic(m, i, &senders);
        add_to_blocks(m, &t, b, end);
        note_arrivals(&m->r->report->ops[end], t.inter_host_in + t.intra_host_in, senders);
    }
}

/* ---- the whole ---- */

static bool has_few_pulls(const iso_reporter *r)
{
    double slots = r->mesh->n_slots, exchanged = r->plan->n_moves + r->plan->buckets->count;
    return r->n_domains <= ISO_REPORT_FEW_DOMAINS || slots * slots * exchanged <= MOST_VISITS;
}

static bool has_bytes(const iso_block *block, int count)
{
    bool any = false;
    for (int i = 0; i < count; i++)
        any |= block[i].bytes > 0;
    return any;
}

static iso_status plan_buffers(messages *m, const blocks *b, iso_report_buffers *found)
{
    int count = m->r->plan->n_instructions + 2;
    size_t incoming = 0, outgoing = 0, gpu = 0;
    iso_status status = ISO_OK;
    set_times(m->r->plan, b->gpu);
    set_times(m->r->plan, b->incoming);
    set_times(m->r->plan, b->outgoing);
    count_exchanges(m, b);
    count_weights(m, b);
    ISO_TRY(m->status);
    ISO_TRY(iso_memory_plan(b->gpu, count, &gpu));
    ISO_TRY(iso_memory_plan(b->incoming, count, &incoming));
    ISO_TRY(iso_memory_plan(b->outgoing, count, &outgoing));
    /* Blocks of no bytes have gaps too. */
    gpu = has_bytes(b->gpu, count) ? iso_fabric_allocated_bytes(gpu) : 0;
    *found = (iso_report_buffers){.gpu = (double)gpu + (double)m->sum_bytes,
                                  .host = (double)incoming + (double)outgoing,
                                  .sums = (double)m->sum_bytes,
                                  .sets = iso_report_sums_sets(m->sums)};
done:
    return status;
}

/* Which domains and slots the host has: its domains have numbers that follow each other. */
static iso_status look_at_host(messages *m)
{
    const iso_reporter *r = m->r;
    m->gpus = iso_report_is_on_gpus(r);
    m->exchange = m->gpus ? r->plan->site->device_exchange : ISO_DEVICE_EXCHANGE_HOST;
    m->first_domain = r->n_domains;
    for (int d = r->n_domains - 1; d >= 0; d--)
        if (r->domain_host[d] == m->host) {
            m->first_domain = d;
            m->n_domains++;
        }
    for (int s = 0; s < r->mesh->n_slots; s++)
        if (r->plan->site->host_of_slot[s] == m->host)
            m->slots[m->n_slots++] = s;
    m->into_gpus = m->n_domains == 1 || m->exchange == ISO_DEVICE_EXCHANGE_PEERS;
    if (m->gpus && m->few && r->report->n_hosts > 1) {
        size_t count = (size_t)m->n_domains * (size_t)r->n_domains;
        m->routes.out = iso_new(4 * count * sizeof *m->routes.out);
        if (!m->routes.out)
            return iso_no_memory("the messages of %d slots", r->mesh->n_slots);
        m->routes = (routes){m->routes.out, m->routes.out + count, count};
        m->routes_before = (routes){m->routes.in + count, m->routes.in + 2 * count, count};
    }
    if (!r->plan->site->nccl_adds)
        return ISO_OK;
    return iso_report_sums_create(r->plan->site->domain_of_slot, r->n_domains, m->few ? -1 : m->domain,
                                  &m->sums);
}

iso_status iso_report_messages(const iso_reporter *r, int domain, iso_report_buffers *found)
{
    size_t slots = (size_t)r->mesh->n_slots, count = (size_t)r->plan->n_instructions + 2;
    messages m = {.r = r, .domain = domain, .host = r->domain_host[domain], .few = has_few_pulls(r)};
    iso_status status = ISO_OK;
    *found = (iso_report_buffers){0};
    if (r->plan->site->one_domain)
        return ISO_OK;
    iso_block *block = iso_new(3 * count * sizeof *block);
    m.slots = iso_new(4 * slots * sizeof *m.slots);
    m.location = iso_new(slots * sizeof *m.location);
    m.nodes = iso_new(2 * slots * sizeof *m.nodes);
    m.area = iso_new(2 * slots * sizeof *m.area);
    if (!block || !m.slots || !m.location || !m.nodes || !m.area) {
        status = iso_no_memory("the messages of %zu slots", slots);
    } else {
        m.source = m.slots + slots;
        m.met = m.source + slots;
        m.met_host = m.met + slots;
        m.before = m.area + slots;
        status = look_at_host(&m);
        if (status == ISO_OK)
            status = plan_buffers(&m, &(blocks){block, block + count, block + 2 * count}, found);
    }
    iso_free(block);
    iso_free(m.slots);
    iso_free(m.location);
    iso_free(m.nodes);
    iso_free(m.area);
    iso_table_free(&m.known);
    iso_report_sums_free(m.sums);
    iso_free(m.routes.out);
    return status;
}
