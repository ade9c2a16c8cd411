/* The messages of an exchange between devices of a host. */
#include "collectives/coll_impl.h"
#include "runtime/base/device.h"
#include "runtime/base/memory.h"

/* ---- positions ---- */

/* Computes the positions: in a domain's area, received messages lie before sent ones. */
void iso_linked_close(const iso_fabric *fabric, iso_linked *linked)
{
    linked->bytes = 0;
    for (int domain = 0; fabric->links && domain < fabric->n_domains; domain++) {
        size_t bytes = 0;
        for (int i = 0; i < linked->box.n_messages; i++)
            bytes += linked->box.messages[i].route.to == domain ? linked->box.messages[i].bytes : 0;
        for (int i = 0; i < linked->box.n_messages; i++)
            bytes += linked->box.messages[i].route.from == domain ? linked->box.messages[i].bytes : 0;
        linked->bytes = bytes > linked->bytes ? bytes : linked->bytes;
    }
}

static void find_positions(const iso_fabric *fabric, iso_linked *linked)
{
    for (int domain = 0; domain < fabric->n_domains; domain++) {
        size_t at = 0;
        for (int i = 0; i < linked->box.n_messages; i++)
            if (linked->box.messages[i].route.to == domain) {
                linked->position[i].received = at;
                at += linked->box.messages[i].bytes;
            }
        for (int i = 0; i < linked->box.n_messages; i++)
            if (linked->box.messages[i].route.from == domain) {
                linked->position[i].sent = at;
                at += linked->box.messages[i].bytes;
            }
    }
}

char *iso_linked_received(const iso_exchange *exchange, int message)
{
    char *area = iso_exchange_area(exchange, exchange->linked.box.messages[message].route.to);
    return area ? area + exchange->linked.position[message].received : NULL;
}

char *iso_linked_sent(const iso_exchange *exchange, int message)
{
    char *area = iso_exchange_area(exchange, exchange->linked.box.messages[message].route.from);
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
        if (message->route.from == own->domain) {
            o.kind = ISO_DEVICE_SEND;
            o.from = iso_linked_sent(exchange, i);
            o.peer = links->member[message->route.to];
            linked->list[linked->n_list++] = o;
        }
        if (message->route.to == own->domain) {
            o.kind = ISO_DEVICE_RECEIVE;
            o.to = iso_linked_received(exchange, i);
            o.peer = links->member[message->route.from];
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
        if (!linked->position || !linked->list)
            return iso_no_memory("the exchange '%s'", exchange->what);
        ISO_TRY(iso_link_run_create(links, &linked->run));
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
    iso_link_run_free(fabric->links, &linked->run);
    iso_free(linked->list);
    iso_free(linked->position);
    iso_mailbox_free(&linked->box);
}

/* ---- a run ---- */

/* Queues what the domains of this rank send and receive. */
static iso_status queue(const iso_fabric *fabric, const iso_linked *linked)
{
    const iso_links *links = fabric->links;
    iso_status status = links->comms->run(linked->list, linked->n_list);
    for (int i = 0; i < links->n_own && status == ISO_OK; i++)
        status = iso_links_await(fabric, links->own[i].comm);
    return status;
}

iso_status iso_linked_start(iso_exchange *exchange)
{
    iso_fabric *fabric = exchange->fabric;
    iso_linked *linked = &exchange->linked;
    iso_status status = iso_link_run_pack(fabric, fabric->links, &exchange->link_packs, &linked->run);
    if (status != ISO_OK)
        return status;
    status = queue(fabric, linked);
    if (status != ISO_OK)
        return iso_links_fail(fabric, status);
    iso_link_run_record(fabric->links, &linked->run);
    return ISO_OK;
}

static iso_status check(const void *arg, int own)
{
    const iso_links *links = arg;
    bool begun;
    return links->comms->test(links->own[own].comm, &begun);
}

iso_status iso_linked_test(iso_exchange *exchange, int *done)
{
    const iso_links *links = exchange->fabric->links;
    return iso_link_run_test(exchange->fabric, links, &exchange->linked.run, check, links, done);
}
