/* Exchanges at run time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/coll_impl.h"
#include "collectives/components_impl.h"
#include "runtime/base/clock.h"
#include "runtime/base/device.h"
#include "runtime/base/memory.h"
#include "runtime/base/wait.h"

enum { TRIES = 100 /* tests that fail in a row, after which waiting is given up */ };

/* ---- commit ---- */

static int by_message(const void *a, const void *b)
{
    const iso_pack *first = a, *second = b;
    if (first->message != second->message)
        return first->message < second->message ? -1 : 1;
    return (first->offset > second->offset) - (first->offset < second->offset);
}

static char *area_address(const iso_exchange *exchange, const iso_operand *operand)
{
    int count;
    const iso_device *device = exchange->fabric->topology.device;
    switch (operand->area) {
    case ISO_AREA_SLOT:
        return device->reach(iso_fabric_slot_area(exchange->fabric, operand->number));
    case ISO_AREA_SHARED:
        return device->reach(iso_fabric_shared_area(exchange->fabric, operand->number));
    case ISO_AREA_LINK:
        return iso_link_messages_received(exchange, operand->number);
    case ISO_AREA_RESULT:
        return iso_coll_components(&count)[operand->component]->result(
            exchange->schedules[operand->component], operand->number);
    default:
        return exchange->messages.in.messages[operand->number].data;
    }
}

static void resolve_operands(const iso_exchange *exchange, iso_operand *operands, int count)
{
    for (int i = 0; i < count; i++) {
        char *area = area_address(exchange, &operands[i]);
        operands[i].address = area ? area + operands[i].offset : NULL;
    }
}

void iso_exchange_resolve_gather(const iso_exchange *exchange, iso_gather *gather)
{
    resolve_operands(exchange, gather->operands, gather->n_operands);
    resolve_operands(exchange, gather->copies, gather->n_copies);
}

static void resolve_packs(const iso_exchange *exchange, iso_pack_list *list, const iso_mailbox *box)
{
    for (int i = 0; i < list->count; i++) {
        iso_pack *pack = &list->packs[i];
        iso_exchange_resolve_gather(exchange, &pack->gather);
        pack->gather.out = box->messages[pack->message].data + pack->offset;
    }
}

static void resolve_link_packs(const iso_exchange *exchange)
{
    for (int i = 0; i < exchange->link_packs.count; i++) {
        iso_pack *pack = &exchange->link_packs.packs[i];
        iso_exchange_resolve_gather(exchange, &pack->gather);
        pack->gather.out = iso_link_messages_sent(exchange, pack->message) + pack->offset;
    }
}

void iso_exchange_resolve(iso_exchange *exchange)
{
    int count;
    const iso_coll_component *const *components = iso_coll_components(&count);
    for (int s = 0; s < exchange->fabric->n_local_slots; s++)
        for (int i = 0; i < exchange->slots[s].n_pulls; i++)
            iso_exchange_resolve_gather(exchange, &exchange->slots[s].pulls[i].gather);
    resolve_packs(exchange, &exchange->packs, &exchange->messages.out);
    resolve_packs(exchange, &exchange->intra_host_packs, &exchange->messages.in);
    resolve_link_packs(exchange);
    for (int c = 0; c < count; c++)
        if (exchange->schedules[c])
            components[c]->resolve(exchange, exchange->schedules[c]);
}

/* The messages of exchanges that share buffers begin at an offset. */
char *iso_exchange_area(const iso_exchange *exchange, int domain)
{
    char *area = iso_fabric_link_area(exchange->fabric, domain,
                                      exchange->shared ? exchange->fabric->link_areas : exchange->link_areas);
    return area && exchange->shared ? area + exchange->offsets.device : area;
}

bool iso_exchange_is_active(const iso_exchange *exchange)
{
    return exchange->active;
}

void iso_exchange_set_constant(iso_exchange *exchange)
{
    exchange->constant = true;
}

void iso_exchange_set_fetches(iso_exchange *exchange)
{
    exchange->fetches = true;
}

iso_message_bytes iso_exchange_message_bytes(iso_exchange *exchange)
{
    iso_messages_close(&exchange->messages, exchange->fabric->topology.rank);
    iso_link_messages_close(exchange->fabric, &exchange->link_messages);
    exchange->area_bytes =
        iso_endpoints_measure(exchange->fabric, &exchange->messages, exchange->link_messages.bytes);
    return (iso_message_bytes){exchange->messages.bytes_in, exchange->messages.bytes_out,
                               exchange->area_bytes};
}

void iso_exchange_share_buffers(iso_exchange *exchange, iso_message_bytes offsets)
{
    exchange->shared = true;
    exchange->offsets = offsets;
}

iso_status iso_exchange_place_messages(iso_exchange *exchange)
{
    iso_fabric *fabric = exchange->fabric;
    iso_messages *messages = &exchange->messages;
    char *incoming = messages->incoming.base, *outgoing = messages->outgoing;
    if (exchange->shared && messages->bytes_in > 0)
        incoming = fabric->incoming.base + exchange->offsets.incoming;
    if (exchange->shared && messages->bytes_out > 0)
        outgoing = fabric->outgoing + exchange->offsets.outgoing;
    iso_endpoints_bind(exchange);
    iso_status status =
        iso_messages_bind(messages, incoming, outgoing, fabric->channel.communicator, exchange->tag);
    return status == ISO_OK ? iso_link_messages_bind(exchange) : status;
}

/* Whether component c has calls of this rank in a run. */
static bool component_runs(const iso_exchange *exchange, int c)
{
    int count;
    const void *schedule = exchange->schedules[c];
    return schedule && iso_coll_components(&count)[c]->communicates(exchange->fabric->modules[c], schedule);
}

/* Whether this rank sends or receives, or a component does. */
static bool finds_communication(const iso_exchange *exchange)
{
    bool any = iso_messages_need_progress(&exchange->messages) || exchange->link_messages.n_list > 0;
    for (int c = 0; c < ISO_MOST_COMPONENTS; c++)
        any = any || component_runs(exchange, c);
    return any;
}

/* Whether slots of this host, of all its ranks, neither send nor receive anything. */
static bool finds_pulls_only(const iso_exchange *exchange)
{
    return exchange->messages.in.n_messages == 0 && exchange->messages.out.n_messages == 0 &&
           exchange->link_messages.box.n_messages == 0 && !exchange->uses_components;
}

/* Whether what slots of this host read of other hosts is received in memory of devices: all of it or none. */
static bool finds_incoming(const iso_exchange *exchange)
{
    for (int i = 0; i < exchange->messages.in.n_messages; i++)
        if (exchange->messages.in.messages[i].route.to_domain >= 0)
            return true;
    return false;
}

/* Whether MPI writes arrivals where slots read them. Streams that write arrivals wait for the slots. */
static bool finds_overwrites(const iso_exchange *exchange)
{
    int count;
    const iso_coll_component *const *components = iso_coll_components(&count);
    const iso_mailbox *in = &exchange->messages.in;
    bool any = false;
    for (int c = 0; c < count; c++)
        any |= exchange->schedules[c] && !components[c]->await;
    for (int i = 0; i < in->n_messages; i++)
        any |= in->messages[i].route.to_domain < 0 || exchange->messages.endpoints->direct;
    return any && exchange->fabric->order;
}

static iso_status allocate_schedules(const iso_exchange *exchange)
{
    int count;
    const iso_coll_component *const *components = iso_coll_components(&count);
    iso_status status = ISO_OK;
    for (int c = 0; c < count; c++) {
        void *schedule = exchange->schedules[c];
        iso_status made =
            schedule ? components[c]->allocate(exchange->fabric, exchange->fabric->modules[c], schedule)
                     : ISO_OK;
        status = status == ISO_OK ? made : status;
    }
    return status;
}

/* Buffers of its own. Collective over the host. */
static iso_status allocate_messages(iso_exchange *exchange)
{
    const iso_fabric *fabric = exchange->fabric;
    iso_status status = iso_messages_allocate(&exchange->messages, fabric->host, fabric->topology.device),
               areas = ISO_OK;
    if (exchange->area_bytes > 0)
        areas = iso_fabric_reserve_link_areas(fabric, exchange->area_bytes, &exchange->link_areas);
    return status != ISO_OK ? status : areas;
}

/* An error of one rank keeps it from none of the calls that others make too. */
static iso_status allocate(iso_exchange *exchange)
{
    iso_status messages = exchange->shared ? ISO_OK : allocate_messages(exchange);
    iso_status schedules = allocate_schedules(exchange);
    return messages != ISO_OK ? messages : schedules;
}

iso_status iso_exchange_commit(iso_exchange *exchange)
{
    iso_fabric *fabric = exchange->fabric;
    iso_status status = ISO_OK;
    if (!fabric->reserved)
        status = iso_error(ISO_INVALID, "exchange '%s': committed before iso_fabric_reserve", exchange->what);
    iso_exchange_message_bytes(exchange);
    if (status == ISO_OK)
        status = allocate(exchange);
    if (status == ISO_OK)
        status = iso_exchange_place_messages(exchange);
    status = iso_channel_agree(&fabric->channel, status);
    if (status != ISO_OK)
        return status;
    if (exchange->packs.count > 1)
        qsort(exchange->packs.packs, (size_t)exchange->packs.count, sizeof(iso_pack), by_message);
    iso_exchange_resolve(exchange);
    exchange->communicates = finds_communication(exchange);
    exchange->pulls_only = finds_pulls_only(exchange);
    exchange->on_device = finds_incoming(exchange);
    exchange->overwrites = finds_overwrites(exchange);
    exchange->committed = true;
    return ISO_OK;
}

/* data NULL: without an address. */
static void bind_pull(const iso_exchange *exchange, iso_pull *pull, void *data)
{
    char *out = exchange->fabric->topology.device->reach(data);
    pull->gather.out = out ? out + pull->target_offset : NULL;
}

void iso_exchange_bind(iso_exchange *exchange, int slot, int target, void *data)
{
    iso_slot_pulls *pulls = &exchange->slots[exchange->fabric->local[slot]];
    exchange->fabric->bound += (uint64_t)pulls->n_pulls;
    for (int i = 0; i < pulls->n_pulls; i++)
        if (pulls->pulls[i].target == target)
            bind_pull(exchange, &pulls->pulls[i], data);
}

void iso_exchange_bind_all(iso_exchange *exchange, int slot, iso_target_address *address, void *arg)
{
    iso_slot_pulls *pulls = &exchange->slots[exchange->fabric->local[slot]];
    exchange->fabric->bound += (uint64_t)pulls->n_pulls;
    for (int i = 0; i < pulls->n_pulls; i++)
        bind_pull(exchange, &pulls->pulls[i], address(arg, pulls->pulls[i].target));
}

/* ---- a run ---- */

int iso_fabric_failures(const iso_fabric *fabric)
{
    return atomic_load_explicit(&fabric->failures, memory_order_relaxed);
}

iso_status iso_fabric_failure(const iso_fabric *fabric)
{
    return iso_fabric_failures(fabric) == 0 ? ISO_OK : iso_first_error_get(&fabric->failed);
}

/* Called by thread 0. */
static void note_failure(iso_fabric *fabric, iso_status status)
{
    iso_first_error_keep(&fabric->failed, status);
    atomic_fetch_add(&fabric->failures, 1);
}

/* Whether the watchdog has reported a loss: other ranks may be gone, and messages never arrive. */
static bool is_lost(const iso_fabric *fabric)
{
    const atomic_int *word = iso_watchdog_flag(fabric->channel.watchdog);
    return word && atomic_load_explicit(word, memory_order_acquire);
}

void iso_fabric_abandon(iso_fabric *fabric)
{
    fabric->abandoned = true;
    iso_links_abort(fabric);
}

static void run_check(iso_fabric *fabric, iso_status status)
{
    if (status != ISO_OK)
        note_failure(fabric, status);
}

static void run_pack(const iso_fabric *fabric, const iso_pack *pack)
{
    iso_stream *stream = fabric->pack_streams ? fabric->pack_streams[fabric->local[pack->reader]] : NULL;
    fabric->gather_kernels->run(&pack->gather, stream);
}

bool iso_exchange_device_failed(const iso_exchange *exchange)
{
    return exchange->messages.device_failed;
}

/* Waits until what was packed can be sent, or read by other slots. False: it could not be packed. */
static bool finish_packs(iso_fabric *fabric)
{
    bool good = true;
    for (int i = 0; fabric->pack_streams && i < fabric->n_local_slots; i++) {
        iso_status status = fabric->topology.device->wait(fabric->pack_streams[i]);
        run_check(fabric, status);
        good &= status == ISO_OK;
    }
    return good;
}

/* Ends the packing of a message: it can be sent, or its endpoint waits for the packs. */
static void end_packs(iso_exchange *exchange, const iso_message *message)
{
    if (message->endpoint)
        run_check(exchange->fabric, iso_endpoints_packed(exchange->fabric, message));
    else
        iso_messages_replace(&exchange->messages, message->data, message->bytes,
                             finish_packs(exchange->fabric));
}

/* Packs and sends, message by message. */
static void send_messages(iso_exchange *exchange)
{
    const iso_pack_list *packs = &exchange->packs;
    iso_messages *messages = &exchange->messages;
    run_check(exchange->fabric, iso_messages_start_receiving(messages));
    int pack = 0;
    for (int i = 0; i < messages->out.n_messages; i++) {
        for (; pack < packs->count && packs->packs[pack].message == i; pack++)
            run_pack(exchange->fabric, &packs->packs[pack]);
        if (messages->out.messages[i].route.from != messages->rank)
            continue;
        end_packs(exchange, &messages->out.messages[i]);
        run_check(exchange->fabric, iso_messages_start_sending(messages, i));
    }
}

/* Whether slots of this host read what comes from other domains. */
static bool has_arrivals(const iso_exchange *exchange)
{
    return exchange->messages.in.n_messages > 0 || exchange->link_messages.box.n_messages > 0 ||
           exchange->uses_components;
}

bool iso_packs_run(const iso_exchange *exchange, const iso_pack_list *list)
{
    for (int i = 0; i < list->count; i++)
        run_pack(exchange->fabric, &list->packs[i]);
    return finish_packs(exchange->fabric);
}

static void start_components(iso_exchange *exchange)
{
    int count;
    const iso_coll_component *const *components = iso_coll_components(&count);
    for (int c = 0; c < count; c++)
        if (component_runs(exchange, c))
            run_check(exchange->fabric,
                      components[c]->start(exchange, exchange->fabric->modules[c], exchange->schedules[c]));
}

/* Whether the host, and not the streams of slots, waits for component c in a run. */
static bool component_is_waited(const iso_exchange *exchange, int c)
{
    int count;
    return component_runs(exchange, c) && !(exchange->fabric->order && iso_coll_components(&count)[c]->await);
}

/* *done: all have their results. waited: only those for which the host waits. */
static iso_status test_components(const iso_exchange *exchange, bool waited, int *done)
{
    int count, its;
    const iso_coll_component *const *components = iso_coll_components(&count);
    iso_status status = ISO_OK;
    *done = 1;
    for (int c = 0; c < count; c++) {
        if (!(waited ? component_is_waited(exchange, c) : component_runs(exchange, c)))
            continue;
        iso_status tested = components[c]->test(exchange->schedules[c], &its);
        status = status == ISO_OK ? tested : status;
        *done &= tested == ISO_OK && its;
    }
    return status;
}

/* Tests again after an error, and gives up, as iso_messages_finish. */
static void finish_components(iso_exchange *exchange)
{
    iso_backoff backoff = {0};
    for (int done = 0, failed = 0; !done && failed < TRIES;) {
        iso_status status = test_components(exchange, true, &done);
        run_check(exchange->fabric, status);
        failed = status == ISO_OK ? 0 : failed + 1;
        if (!done && is_lost(exchange->fabric))
            return;
        if (!done)
            iso_backoff_wait(&backoff, exchange->fabric->host_barrier.crowded);
    }
}

/* Whether this rank's devices send or receive messages of their own. */
static bool links(const iso_exchange *exchange)
{
    return exchange->link_messages.n_list > 0;
}

/* Whether the host waits for them. */
static bool links_are_waited(const iso_exchange *exchange)
{
    return links(exchange) && !exchange->fabric->order;
}

static void finish_link_messages(iso_exchange *exchange)
{
    iso_backoff backoff = {0};
    for (int done = !links_are_waited(exchange); !done && !is_lost(exchange->fabric);) {
        run_check(exchange->fabric, iso_link_messages_test(exchange, &done));
        if (!done)
            iso_backoff_wait(&backoff, exchange->fabric->host_barrier.crowded);
    }
}

/* Whether the host waits for what this rank receives or for components. */
static bool host_waits(const iso_exchange *exchange)
{
    bool any = iso_messages_need_progress(&exchange->messages) || links_are_waited(exchange);
    for (int c = 0; c < ISO_MOST_COMPONENTS; c++)
        any |= component_is_waited(exchange, c);
    return any;
}

/* What is awaited meanwhile may wait for communicators of devices. */
static iso_status check_others(void *fabric)
{
    return iso_links_test(fabric);
}

/* A barrier of the host, whose time counts as a wait. */
static void timed_barrier(iso_fabric *fabric, int thread)
{
    int64_t begun = thread == 0 ? iso_watchdog_time(fabric->channel.watchdog) : 0;
    iso_fabric_barrier(fabric, thread);
    if (thread == 0)
        iso_watchdog_wait_done(fabric->channel.watchdog, begun);
}

/* Lets the streams for packing and receiving wait for the slots' streams, on a device that gathers. Packed and
 * received data may overwrite what an earlier exchange received and slots still read; and slots change
 * sources that are constant within a step after they have read. */
static void order_streams(const iso_exchange *exchange)
{
    const iso_fabric *fabric = exchange->fabric;
    for (int slot = 0; fabric->pack_streams && slot < fabric->topology.n_slots; slot++) {
        if (fabric->local[slot] < 0)
            continue;
        iso_order_await_slots(fabric, fabric->pack_streams[fabric->local[slot]], slot);
        if (fabric->endpoints)
            iso_order_await_slots(fabric,
                                  iso_endpoint_of(fabric->endpoints, fabric->domain_of_slot[slot])->in, slot);
    }
}

/* Makes what is packed for other hosts wait for the messages between the host's devices that it reads. */
static void await_relayed(const iso_exchange *exchange)
{
    const iso_fabric *fabric = exchange->fabric;
    for (int slot = 0; fabric->pack_streams && slot < fabric->topology.n_slots; slot++)
        if (fabric->local[slot] >= 0)
            iso_link_messages_await(exchange, slot, fabric->pack_streams[fabric->local[slot]]);
}

static void run_start(iso_exchange *exchange, int thread)
{
    iso_fabric *fabric = exchange->fabric;
    if (thread == 0) /* on every rank, so that all count alike */
        iso_watchdog_enter_exchange(fabric->channel.watchdog, &exchange->name);
    if (exchange->active && thread == 0 && exchange->overwrites)
        run_check(fabric, iso_order_wait_read(fabric));
    if (exchange->active && (!exchange->constant || exchange->overwrites))
        timed_barrier(fabric, thread);
    if (thread == 0)
        exchange->messages.device_failed = iso_fabric_device_failed(fabric);
    if (!exchange->active)
        return;
    if (thread == 0 && !exchange->pulls_only)
        order_streams(exchange);
    if (thread == 0 && exchange->intra_host_packs.count > 0)
        iso_packs_run(exchange, &exchange->intra_host_packs);
    if (thread == 0 && links(exchange) && !is_lost(fabric))
        run_check(fabric, iso_link_messages_start(exchange));
    if (thread == 0 && exchange->relays)
        finish_link_messages(exchange);
    if (exchange->relays)
        timed_barrier(fabric, thread);
    if (thread == 0 && exchange->relays)
        await_relayed(exchange);
    if (thread == 0 && exchange->communicates && !is_lost(fabric)) {
        start_components(exchange);
        send_messages(exchange);
        exchange->sent = iso_clock_ns();
        exchange->arrived = 0;
        exchange->next_under_way = fabric->under_way;
        fabric->under_way = exchange;
    }
}

void iso_exchange_start(iso_exchange *exchange, int thread)
{
    run_start(exchange, thread);
    if (thread == 0)
        iso_watchdog_leave(exchange->fabric->channel.watchdog);
}

static void take_from_under_way(iso_exchange *exchange)
{
    iso_exchange **link = &exchange->fabric->under_way;
    while (*link != exchange)
        link = &(*link)->next_under_way;
    *link = exchange->next_under_way;
}

/* All slots of the host may read what any of its ranks receives, so the host needs another barrier. */
static void run_wait(iso_exchange *exchange, int thread)
{
    if (!exchange->active)
        return;
    if (thread == 0 && exchange->communicates) {
        int64_t begun = iso_watchdog_time(exchange->fabric->channel.watchdog);
        finish_link_messages(exchange);
        finish_components(exchange);
        run_check(exchange->fabric, iso_messages_finish(&exchange->messages, check_others, exchange->fabric,
                                                        exchange->fabric->host_barrier.crowded));
        if (exchange->on_device)
            run_check(exchange->fabric, iso_endpoints_received(exchange->fabric));
        iso_watchdog_wait_done(exchange->fabric->channel.watchdog, begun);
        if (!exchange->arrived && host_waits(exchange))
            exchange->arrived = iso_clock_ns();
        if (is_lost(exchange->fabric)) /* messages may be under way for ever */
            iso_fabric_abandon(exchange->fabric);
        else
            take_from_under_way(exchange);
    }
    if (has_arrivals(exchange))
        timed_barrier(exchange->fabric, thread);
}

void iso_exchange_wait(iso_exchange *exchange, int thread)
{
    if (thread == 0)
        iso_watchdog_wait(exchange->fabric->channel.watchdog, &exchange->name);
    run_wait(exchange, thread);
}

void iso_exchange_begin(iso_exchange *exchange, int thread)
{
    run_start(exchange, thread);
    run_wait(exchange, thread);
}

void iso_fabric_progress(iso_fabric *fabric)
{
    for (iso_exchange *exchange = fabric->under_way; exchange; exchange = exchange->next_under_way) {
        int received, executed;
        if (exchange->arrived)
            continue;
        run_check(fabric, iso_messages_progress(&exchange->messages, &received));
        run_check(fabric, test_components(exchange, false, &executed));
        if (received && executed)
            exchange->arrived = iso_clock_ns();
    }
}

bool iso_exchange_message_times(const iso_exchange *exchange, int64_t *sent, int64_t *arrived)
{
    *sent = exchange->sent;
    *arrived = exchange->arrived;
    return exchange->arrived > 0;
}

/* Message buffers are reused, so all slots must have read them, even if sources are constant; and slots read what
 * others have pulled for them. */
void iso_exchange_end(iso_exchange *exchange, int thread)
{
    if (exchange->active && (iso_exchange_is_awaited(exchange) || has_arrivals(exchange)))
        timed_barrier(exchange->fabric, thread);
    if (thread == 0)
        iso_watchdog_leave(exchange->fabric->channel.watchdog);
}

static void run_count(const iso_exchange *exchange, int local, const iso_pull *pull, int64_t elements)
{
    iso_traffic *traffic = &exchange->fabric->counters[local].traffic;
    uint64_t bytes = (uint64_t)elements * pull->gather.size;
    traffic->pulled += bytes * (uint64_t)pull->foreign;
    traffic->crossed += bytes * (uint64_t)pull->crossed;
}

/* NULL: pulls are done at once. */
static iso_stream *stream_of_slot(const iso_fabric *fabric, int slot)
{
    return fabric->topology.device->gather ? fabric->topology.stream_of_slot[slot] : NULL;
}

void iso_exchange_pull(iso_exchange *exchange, int slot)
{
    int local = exchange->fabric->local[slot];
    const iso_slot_pulls *pulls = &exchange->slots[local];
    const iso_gather_kernels *kernels = exchange->fabric->gather_kernels;
    iso_stream *stream = stream_of_slot(exchange->fabric, slot);
    exchange->fabric->counters[local].traffic.pulled += pulls->given;
    if (iso_exchange_is_ordered(exchange))
        iso_order_await_ready(exchange, slot);
    for (int i = 0; i < pulls->n_pulls; i++) {
        const iso_pull *pull = &pulls->pulls[i];
        if (!pull->gather.out)
            continue;
        kernels->run(&pull->gather, stream);
        run_count(exchange, local, pull, pull->gather.count);
    }
}

/* ---- pulls that the caller combines ---- */

int iso_exchange_pull_sources(const iso_exchange *exchange, int slot, int pull, const void **address,
                              int capacity)
{
    const iso_gather *gather = &exchange->slots[exchange->fabric->local[slot]].pulls[pull].gather;
    for (int i = 0; i < gather->n_operands && i < capacity; i++)
        address[i] = gather->operands[i].address;
    return gather->n_operands;
}

void iso_exchange_combine(const iso_exchange *exchange, int slot, int pull, int64_t begin, int64_t n,
                          void *out)
{
    const iso_pull *p = &exchange->slots[exchange->fabric->local[slot]].pulls[pull];
    exchange->fabric->gather_kernels->part(&p->gather, begin, n, out, NULL);
}

void iso_exchange_queue_combine(const iso_exchange *exchange, int slot, int pull, int64_t begin, int64_t n,
                                void *out)
{
    const iso_fabric *fabric = exchange->fabric;
    const iso_pull *p = &exchange->slots[fabric->local[slot]].pulls[pull];
    fabric->gather_kernels->part(&p->gather, begin, n, out, stream_of_slot(fabric, slot));
}

const void *iso_exchange_view(const iso_exchange *exchange, int slot, int pull, int64_t begin)
{
    const iso_pull *p = &exchange->slots[exchange->fabric->local[slot]].pulls[pull];
    return p->gather.n_operands == 1 ? p->gather.operands[0].address + (size_t)begin * p->gather.size : NULL;
}

void iso_exchange_count_combined(const iso_exchange *exchange, int slot, int pull, int64_t n)
{
    int local = exchange->fabric->local[slot];
    run_count(exchange, local, &exchange->slots[local].pulls[pull], n);
}

bool iso_exchange_is_run(const iso_exchange *exchange, int slot, int pull)
{
    return iso_gather_is_run(&exchange->slots[exchange->fabric->local[slot]].pulls[pull].gather);
}

/* ---- the end of what streams wait for ---- */

iso_status iso_fabric_wait_event(iso_fabric *fabric, const iso_device_event *event)
{
    iso_backoff backoff = {0};
    bool communicates = fabric->order && (fabric->links || fabric->all_links);
    iso_status status = ISO_OK;
    while (communicates && status == ISO_OK && !event->device->passed(event)) {
        status = iso_links_test(fabric);
        iso_backoff_wait(&backoff, fabric->host_barrier.crowded);
    }
    if (status != ISO_OK && is_lost(fabric))
        iso_fabric_abandon(fabric); /* what is queued ends */
    iso_status waited = event->device->wait_event(event);
    return status == ISO_OK ? waited : status;
}

iso_status iso_fabric_settle(iso_fabric *fabric)
{
    iso_status status = ISO_OK;
    for (int slot = 0; fabric->order && slot < fabric->topology.n_slots; slot++) {
        if (fabric->local[slot] < 0)
            continue;
        iso_status one = iso_fabric_wait_event(fabric, fabric->order->arrived[slot]);
        status = status == ISO_OK ? one : status;
    }
    return status;
}

/* ---- planned traffic ---- */

iso_traffic iso_exchange_planned(const iso_exchange *exchange, int slot)
{
    iso_traffic planned = {0, 0};
    int local = exchange->fabric->local[slot];
    if (local < 0)
        return planned;
    const iso_slot_pulls *pulls = &exchange->slots[local];
    planned.pulled = pulls->given;
    for (int i = 0; i < pulls->n_pulls; i++) {
        uint64_t bytes = (uint64_t)pulls->pulls[i].gather.count * pulls->pulls[i].gather.size;
        planned.pulled += bytes * (uint64_t)pulls->pulls[i].foreign;
        planned.crossed += bytes * (uint64_t)pulls->pulls[i].crossed;
    }
    return planned;
}
