/* The messages of an exchange between devices of a host. */
#include <string.h>

#include "collectives/coll_impl.h"
#include "runtime/base/device.h"
#include "runtime/base/memory.h"

/* ---- positions ---- */

/* What a domain receives lies before what it sends. */
void iso_linked_close(const iso_fabric *fabric, iso_linked *linked)
{
    linked->bytes = 0;
    for (int domain = 0; fabric->links && domain < fabric->n_domains; domain++) {
        size_t bytes = 0;
        for (int i = 0; i < linked->box.n_messages; i++)
            bytes += linked->box.messages[i].to == domain ? linked->box.messages[i].bytes : 0;
        for (int i = 0; i < linked->box.n_messages; i++)
            bytes += linked->box.messages[i].from == domain ? linked->box.messages[i].bytes : 0;
        linked->bytes = bytes > linked->bytes ? bytes : linked->bytes;
    }
}

static void find_positions(const iso_fabric *fabric, iso_linked *linked)
{
    for (int domain = 0; domain < fabric->n_domains; domain++) {
        size_t at = 0;
        for (int i = 0; i < linked->box.n_messages; i++)
            if (linked->box.messages[i].to == domain) {
                linked->position[i].received = at;
                at += linked->box.messages[i].bytes;
            }
        for (int i = 0; i < linked->box.n_messages; i++)
            if (linked->box.messages[i].from == domain) {
                linked->position[i].sent = at;
                at += linked->box.messages[i].bytes;
            }
    }
}

/* NULL: this rank has no part in the domain. */
static char *area_of(const iso_exchange *exchange, int domain)
{
    char *area = iso_fabric_link_area(exchange->fabric, domain,
                                      exchange->shared ? exchange->fabric->link_areas : exchange->link_areas);
    return area && exchange->shared ? area + exchange->offsets.linked : area;
}

char *iso_linked_received(const iso_exchange *exchange, int message)
{
    char *area = area_of(exchange, exchange->linked.box.messages[message].to);
    return area ? area + exchange->linked.position[message].received : NULL;
}

char *iso_linked_sent(const iso_exchange *exchange, int message)
{
    char *area = area_of(exchange, exchange->linked.box.messages[message].from);
    return area ? area + exchange->linked.position[message].sent : NULL;
}

/* ---- operations ---- */

static void add_operations(const iso_exchange *exchange, iso_linked *linked, const iso_link_member *own)
{
    const iso_links *links = exchange->fabric->links;
    for (int i = 0; i < linked->box.n_messages; i++) {
        const iso_message *message = &linked->box.messages[i];
        if (message->bytes == 0)
            continue;
        iso_device_operation o = {
            .comm = own->comm, .stream = own->stream, .count = message->bytes, .dtype = ISO_U8};
        if (message->from == own->domain) {
            o.kind = ISO_DEVICE_SEND;
            o.from = iso_linked_sent(exchange, i);
            o.peer = links->member[message->to];
            linked->list[linked->n_list++] = o;
        }
        if (message->to == own->domain) {
            o.kind = ISO_DEVICE_RECEIVE;
            o.to = iso_linked_received(exchange, i);
            o.peer = links->member[message->from];
            linked->list[linked->n_list++] = o;
        }
    }
}

/* Messages between two domains are sent and received in the order in which they were added, which is the same on all
 * ranks of the host. */
static iso_status make_operations(const iso_exchange *exchange, iso_linked *linked)
{
    const iso_links *links = exchange->fabric->links;
    iso_status status = ISO_OK;
    if (!linked->position) {
        linked->position = iso_new(((size_t)linked->box.n_messages + 1) * sizeof *linked->position);
        linked->list = iso_new((2 * (size_t)linked->box.n_messages + 1) * sizeof *linked->list);
        linked->arrived = iso_new(((size_t)links->n_own + 1) * sizeof(iso_device_event *));
        if (!linked->position || !linked->list || !linked->arrived)
            return iso_no_memory("the exchange '%s'", exchange->what);
        for (int i = 0; i < links->n_own; i++)
            ISO_TRY(links->own[i].stream->device->create_event(links->own[i].stream->device,
                                                               &linked->arrived[i]));
        find_positions(exchange->fabric, linked);
    }
    linked->n_list = 0;
    for (int i = 0; i < links->n_own; i++)
        add_operations(exchange, linked, &links->own[i]);
done:
    return status;
}

iso_status iso_linked_bind(iso_exchange *exchange)
{
    return exchange->fabric->links && exchange->linked.box.n_messages > 0
               ? make_operations(exchange, &exchange->linked)
               : ISO_OK;
}

void iso_linked_free(const iso_fabric *fabric, iso_linked *linked)
{
    for (int i = 0; linked->arrived && i < fabric->links->n_own; i++)
        if (linked->arrived[i])
            linked->arrived[i]->device->destroy_event(linked->arrived[i]);
    iso_free(linked->arrived);
    iso_free(linked->list);
    iso_free(linked->position);
    iso_mailbox_free(&linked->box);
}

/* ---- a run ---- */

static void run_packs(const iso_exchange *exchange, const iso_links *links)
{
    for (int i = 0; i < exchange->link_packs.count; i++) {
        const iso_pack *pack = &exchange->link_packs.packs[i];
        const iso_link_member *own = iso_links_own(links, exchange->fabric->domain_of_slot[pack->reader]);
        exchange->fabric->puller->run(&pack->gather, own->stream);
    }
}

iso_status iso_linked_start(iso_exchange *exchange)
{
    iso_links *links = exchange->fabric->links;
    iso_linked *linked = &exchange->linked;
    iso_status status = ISO_OK;
    linked->under_way = false;
    if (links->failed)
        return iso_error(ISO_FAILED, "%s: its communicator has failed before", links->comms->description());
    run_packs(exchange, links);
    ISO_TRY(links->comms->run(linked->list, linked->n_list));
    for (int i = 0; i < links->n_own; i++) {
        ISO_TRY(iso_links_await(exchange->fabric, links->own[i].comm));
        links->own[i].stream->device->record(linked->arrived[i], links->own[i].stream);
    }
    linked->under_way = true;
done:
    return status == ISO_OK ? ISO_OK : iso_links_fail(exchange->fabric, status);
}

iso_status iso_linked_test(iso_exchange *exchange, int *done)
{
    const iso_links *links = exchange->fabric->links;
    iso_linked *linked = &exchange->linked;
    iso_status status = ISO_OK;
    *done = 1;
    if (!linked->under_way || links->failed)
        return ISO_OK;
    for (int i = 0; i < links->n_own && status == ISO_OK; i++) {
        bool begun, passed = linked->arrived[i]->device->passed(linked->arrived[i]);
        *done &= passed;
        status = passed ? linked->arrived[i]->device->wait_event(linked->arrived[i])
                        : links->comms->test(links->own[i].comm, &begun);
    }
    linked->under_way = status == ISO_OK && !*done;
    *done |= status != ISO_OK;
    return status == ISO_OK ? ISO_OK : iso_links_fail(exchange->fabric, status);
}
