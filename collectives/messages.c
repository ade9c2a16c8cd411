/* A fragment that several slots of a host pull is sent once. While waiting we poll, at growing intervals: MPI's own
 * waiting loops would keep a core busy that the other rank may need. */
#include "collectives/messages_impl.h"

#include <string.h>

#include "collectives/coll.h"
#include "collectives/endpoints_impl.h"
#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/wait.h"

enum { TRIES = 100 /* tests that fail in a row, after which waiting is given up */ };

static const char MESSAGES[] = "the messages of an exchange";

/* ---- fragments ---- */

/* The key that is searched among the fragments of a mailbox. */
typedef struct wanted {
    const iso_mailbox *box;
    const iso_hash_key *key;
} wanted;

static bool is_wanted(const void *key, int number)
{
    const wanted *w = key;
    return w->box->fragments[number].key.word[1] == w->key->word[1];
}

size_t iso_exchange_operand_bytes(size_t bytes)
{
    return iso_round_to_lines(bytes);
}

/* The route that is searched among the messages of a mailbox. */
typedef struct wanted_route {
    const iso_mailbox *box;
    const iso_route *route;
} wanted_route;

static bool is_same(const void *key, int number)
{
    const wanted_route *w = key;
    const iso_route *a = &w->box->messages[number].route, *b = w->route;
    return a->from == b->from && a->to == b->to && a->transport == b->transport &&
           a->from_domain == b->from_domain && a->to_domain == b->to_domain;
}

static uint64_t hash_of(const iso_route *route)
{
    const int numbers[] = {route->from, route->to, route->transport, route->from_domain, route->to_domain};
    return iso_hash_bytes(0, numbers, sizeof numbers);
}

/* Finds the message on a route, or adds one. */
static iso_status find_message(iso_mailbox *box, const iso_route *route, int *number)
{
    uint64_t hash = hash_of(route);
    iso_status status = ISO_OK;
    *number = iso_table_find(&box->routes, hash, is_same, &(wanted_route){box, route});
    if (*number >= 0)
        return ISO_OK;
    *number = box->n_messages;
    ISO_TRY(iso_list_reserve(box->messages, box->n_messages, 1, MESSAGES));
    ISO_TRY(iso_table_add(&box->routes, hash, *number, MESSAGES));
    box->messages[box->n_messages++] = (iso_message){.route = *route};
done:
    return status;
}

iso_status iso_mailbox_fragment(iso_mailbox *box, const iso_route *route, iso_hash_key key, size_t bytes,
                                int *number, bool *fresh)
{
    wanted w = {box, &key};
    int message;
    iso_status status = ISO_OK;
    *number = iso_table_find(&box->index, key.word[0], is_wanted, &w);
    *fresh = *number < 0;
    if (!*fresh)
        return ISO_OK;
    ISO_TRY(find_message(box, route, &message));
    iso_message *in = &box->messages[message];
    *number = box->n_fragments;
    ISO_TRY(
        iso_list_add(box->fragments, box->n_fragments, ((iso_fragment){message, in->bytes, key}), MESSAGES));
    ISO_TRY(iso_table_add(&box->index, key.word[0], *number, MESSAGES));
    in->bytes += iso_exchange_operand_bytes(bytes);
done:
    return status;
}

/* ---- buffers and transfers ---- */

bool iso_message_is_received(const iso_messages *messages, int i, int number)
{
    const iso_message *message = &messages->in.messages[i];
    return message->route.to == messages->rank && message->route.transport == number;
}

bool iso_message_is_sent(const iso_messages *messages, int i, int number)
{
    const iso_message *message = &messages->out.messages[i];
    return message->route.from == messages->rank && message->route.transport == number;
}

static void use_transport(iso_messages *messages, const iso_message *message)
{
    int count;
    int transport = message->route.transport;
    if (message->bytes > 0 && !iso_transports(&count)[transport]->in_place)
        messages->uses[transport] = true;
}

/* The bytes of this rank's own memory that a message which it sends or receives needs. domain: the message's
 * domain, -1 in memory of the host. */
static size_t own_bytes(const iso_messages *messages, const iso_message *message, int domain, bool received)
{
    if (domain >= 0)
        return messages->endpoints->direct
                   ? 0
                   : iso_exchange_staged_bytes(message->bytes, messages->endpoints->chunk);
    return received ? 0 : message->bytes;
}

void iso_messages_close(iso_messages *messages, int rank)
{
    const iso_mailbox *in = &messages->in, *out = &messages->out;
    messages->rank = rank;
    messages->bytes_in = messages->bytes_out = 0;
    for (int i = 0; i < in->n_messages; i++) {
        const iso_message *message = &in->messages[i];
        messages->bytes_in += message->route.to_domain < 0 ? message->bytes : 0;
        if (message->route.to != rank)
            continue;
        messages->bytes_out += own_bytes(messages, message, message->route.to_domain, true);
        use_transport(messages, message);
    }
    for (int i = 0; i < out->n_messages; i++) {
        const iso_message *message = &out->messages[i];
        if (message->route.from != rank)
            continue;
        messages->bytes_out += own_bytes(messages, message, message->route.from_domain, false);
        use_transport(messages, message);
    }
}

bool iso_messages_need_progress(const iso_messages *messages)
{
    bool any = false;
    for (int t = 0; t < ISO_MOST_TRANSPORTS; t++)
        any |= messages->uses[t];
    return any;
}

iso_status iso_messages_allocate(iso_messages *messages, const iso_comm *host, const iso_device *device)
{
    iso_status status = ISO_OK;
    if (messages->bytes_in > 0)
        status = iso_buffer_create(host, device, messages->bytes_in, "the receive buffer of an exchange",
                                   &messages->incoming);
    if (status == ISO_OK)
        status = device->allocate_pinned(device, messages->bytes_out, "the send buffer of an exchange",
                                         (void **)&messages->outgoing);
    return status;
}

static void close_transfers(iso_messages *messages)
{
    int count;
    const iso_transport *const *transports = iso_transports(&count);
    for (int t = 0; t < count; t++) {
        if (messages->transfers[t])
            transports[t]->close(messages->transfers[t]);
        messages->transfers[t] = NULL;
    }
}

/* Places a message in this rank's own memory at `at`. Returns the address of the next one. */
static char *bind_own(const iso_messages *messages, iso_message *message, int domain, char *at)
{
    size_t bytes = own_bytes(messages, message, domain, false);
    if (domain < 0)
        message->data = at;
    else
        message->staging = bytes > 0 ? at : NULL;
    return at + bytes;
}

/* Messages are stored in the order in which they were added, which is the same on all ranks of the host. */
static void place_in(iso_messages *messages, char *incoming, char *outgoing)
{
    iso_mailbox *in = &messages->in, *out = &messages->out;
    for (int i = 0; i < in->n_messages; i++) {
        iso_message *message = &in->messages[i];
        if (message->route.to_domain < 0) {
            message->data = incoming;
            incoming += message->bytes;
        } else if (message->route.to == messages->rank) {
            outgoing = bind_own(messages, message, message->route.to_domain, outgoing);
        }
    }
    for (int i = 0; i < out->n_messages; i++)
        if (out->messages[i].route.from == messages->rank)
            outgoing = bind_own(messages, &out->messages[i], out->messages[i].route.from_domain, outgoing);
}

iso_status iso_messages_bind(iso_messages *messages, char *incoming, char *outgoing, const iso_comm *ranks,
                             int tag)
{
    int count;
    const iso_transport *const *transports = iso_transports(&count);
    iso_status status = ISO_OK;
    close_transfers(messages);
    place_in(messages, incoming, outgoing);
    for (int t = 0; t < count && status == ISO_OK; t++)
        if (messages->uses[t])
            status = transports[t]->open(messages, t, ranks, tag, &messages->transfers[t]);
    return status;
}

void iso_mailbox_free(iso_mailbox *box)
{
    iso_free(box->messages);
    iso_free(box->fragments);
    iso_table_free(&box->index);
    iso_table_free(&box->routes);
}

void iso_messages_free(iso_messages *messages, const iso_device *device)
{
    close_transfers(messages);
    iso_buffer_destroy(device, &messages->incoming);
    device->release_pinned(device, messages->outgoing);
    iso_mailbox_free(&messages->in);
    iso_mailbox_free(&messages->out);
}

/* ---- a run ---- */

/* As float64 32.5: not 0, and small enough for a sum of counts. */
enum { DEVICE_FAILED = 0x40 };

void iso_messages_replace(const iso_messages *messages, char *data, size_t bytes, bool copied)
{
    if (messages->device_failed)
        memset(data, DEVICE_FAILED, bytes);
    else if (!copied)
        memset(data, 0, bytes);
}

iso_status iso_messages_start_receiving(iso_messages *messages)
{
    int count;
    const iso_transport *const *transports = iso_transports(&count);
    iso_status status = ISO_OK;
    for (int t = 0; t < count; t++) {
        iso_status started = messages->transfers[t] ? transports[t]->receive(messages->transfers[t]) : ISO_OK;
        status = status == ISO_OK ? started : status;
    }
    return status;
}

iso_status iso_messages_start_sending(iso_messages *messages, int number)
{
    int count, t = messages->out.messages[number].route.transport;
    return messages->transfers[t] ? iso_transports(&count)[t]->send(messages->transfers[t], number) : ISO_OK;
}

iso_status iso_messages_progress(iso_messages *messages, int *done)
{
    int count, arrived;
    const iso_transport *const *transports = iso_transports(&count);
    iso_status status = ISO_OK;
    *done = 1;
    for (int t = 0; t < count; t++) {
        if (!messages->transfers[t])
            continue;
        iso_status tested = transports[t]->test(messages->transfers[t], &arrived);
        status = status == ISO_OK ? tested : status;
        *done &= tested == ISO_OK && arrived;
    }
    return status;
}

/* Tests again after an error, because other ranks may wait for requests that are still in progress. Gives up
 * if the transport keeps failing, or after an error of `check`. */
iso_status iso_messages_finish(iso_messages *messages, iso_status (*check)(void *arg), void *arg,
                               bool crowded)
{
    iso_backoff backoff = {0};
    iso_status status = ISO_OK;
    for (int failed = 0; failed < TRIES;) {
        int done = 0;
        iso_status tested = iso_messages_progress(messages, &done);
        failed = tested == ISO_OK ? 0 : failed + 1;
        status = status == ISO_OK ? tested : status;
        if (done)
            break;
        iso_status lost = check(arg);
        if (lost != ISO_OK)
            return lost;
        iso_backoff_wait(&backoff, crowded);
    }
    return status;
}
