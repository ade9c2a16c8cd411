/* The messages of an exchange between devices of a host. */
#include "collectives/coll_impl.h"
#include "runtime/base/device.h"
#include "runtime/base/memory.h"

/* ---- positions ---- */

/* Computes the positions: in a domain's area, received messages lie before sent ones. */
void iso_link_messages_close(const iso_fabric *fabric, iso_link_messages *messages)
{
    messages->bytes = 0;
    for (int domain = 0; fabric->links && domain < fabric->n_domains; domain++) {
        size_t bytes = 0;
        for (int i = 0; i < messages->box.n_messages; i++)
            bytes += messages->box.messages[i].route.to == domain ? messages->box.messages[i].bytes : 0;
        for (int i = 0; i < messages->box.n_messages; i++)
            bytes += messages->box.messages[i].route.from == domain ? messages->box.messages[i].bytes : 0;
        messages->bytes = bytes > messages->bytes ? bytes : messages->bytes;
    }
}

static void find_positions(const iso_fabric *fabric, iso_link_messages *messages)
{
    for (int domain = 0; domain < fabric->n_domains; domain++) {
        size_t at = 0;
        for (int i = 0; i < messages->box.n_messages; i++)
            if (messages->box.messages[i].route.to == domain) {
                messages->position[i].received = at;
                at += messages->box.messages[i].bytes;
            }
        for (int i = 0; i < messages->box.n_messages; i++)
            if (messages->box.messages[i].route.from == domain) {
                messages->position[i].sent = at;
                at += messages->box.messages[i].bytes;
            }
    }
}

char *iso_link_messages_received(const iso_exchange *exchange, int message)
{
    char *area = iso_exchange_area(exchange, exchange->link_messages.box.messages[message].route.to);
    return area ? area + exchange->link_messages.position[message].received : NULL;
}

char *iso_link_messages_sent(const iso_exchange *exchange, int message)
{
    char *area = iso_exchange_area(exchange, exchange->link_messages.box.messages[message].route.from);
    return area ? area + exchange->link_messages.position[message].sent : NULL;
}

/* ---- operations ---- */

static void add_operations(const iso_exchange *exchange, iso_link_messages *messages,
                           const iso_link_member *own)
{
    const iso_links *links = exchange->fabric->links;
    for (int i = 0; i < messages->box.n_messages; i++) {
        const iso_message *message = &messages->box.messages[i];
        if (message->bytes == 0)
            continue;
        iso_device_operation o = {
            .comm = own->comm, .stream = own->stream, .count = message->bytes, .dtype = ISO_U8};
        if (message->route.from == own->domain) {
            o.kind = ISO_DEVICE_SEND;
            o.from = iso_link_messages_sent(exchange, i);
            o.peer = links->member[message->route.to];
            messages->list[messages->n_list++] = o;
        }
        if (message->route.to == own->domain) {
            o.kind = ISO_DEVICE_RECEIVE;
            o.to = iso_link_messages_received(exchange, i);
            o.peer = links->member[message->route.from];
            messages->list[messages->n_list++] = o;
        }
    }
}

/* Messages between two domains are sent and received in the order in which they were added, which is the same on all
 * ranks of the host. */
static iso_status make_operations(const iso_exchange *exchange, iso_link_messages *messages)
{
    const iso_links *links = exchange->fabric->links;
    iso_status status = ISO_OK;
    if (!messages->position) {
        messages->position = iso_new(((size_t)messages->box.n_messages + 1) * sizeof *messages->position);
        messages->list = iso_new((2 * (size_t)messages->box.n_messages + 1) * sizeof *messages->list);
        if (!messages->position || !messages->list)
            return iso_no_memory("the exchange '%s'", exchange->what);
        ISO_TRY(iso_link_run_create(links, &messages->run));
        find_positions(exchange->fabric, messages);
    }
    messages->n_list = 0;
    for (int i = 0; i < links->n_own; i++)
        add_operations(exchange, messages, &links->own[i]);
done:
    return status;
}

iso_status iso_link_messages_bind(iso_exchange *exchange)
{
    return exchange->fabric->links && exchange->link_messages.box.n_messages > 0
               ? make_operations(exchange, &exchange->link_messages)
               : ISO_OK;
}

void iso_link_messages_free(const iso_fabric *fabric, iso_link_messages *messages)
{
    iso_link_run_free(fabric->links, &messages->run);
    iso_free(messages->list);
    iso_free(messages->position);
    iso_mailbox_free(&messages->box);
}

/* ---- a run ---- */

/* Queues what the domains of this rank send and receive. */
static iso_status queue(const iso_fabric *fabric, const iso_link_messages *messages)
{
    const iso_links *links = fabric->links;
    iso_status status = links->comms->run(messages->list, messages->n_list);
    for (int i = 0; i < links->n_own && status == ISO_OK; i++)
        status = iso_links_await(fabric, links->own[i].comm);
    return status;
}

iso_status iso_link_messages_start(iso_exchange *exchange)
{
    iso_fabric *fabric = exchange->fabric;
    iso_link_messages *messages = &exchange->link_messages;
    iso_status status = iso_link_run_pack(fabric, fabric->links, &exchange->link_packs, &messages->run);
    if (status != ISO_OK)
        return status;
    status = queue(fabric, messages);
    if (status == ISO_OK)
        status = iso_link_run_record(fabric, fabric->links, &messages->run);
    return status == ISO_OK ? ISO_OK : iso_links_fail(fabric, status);
}

void iso_link_messages_await(const iso_exchange *exchange, int slot, iso_stream *stream)
{
    const iso_fabric *fabric = exchange->fabric;
    if (fabric->order && fabric->links && exchange->link_messages.box.n_messages > 0)
        iso_link_run_await(fabric, fabric->links, &exchange->link_messages.run, slot, stream);
}

static iso_status check(const void *arg, int own)
{
    const iso_links *links = arg;
    bool begun;
    return links->comms->test(links->own[own].comm, &begun);
}

iso_status iso_link_messages_test(iso_exchange *exchange, int *done)
{
    const iso_links *links = exchange->fabric->links;
    return iso_link_run_test(exchange->fabric, links, &exchange->link_messages.run, check, links, done);
}
