/* The transport of messages of devices: persistent requests, one for each chunk. What is sent through pinned memory
 * is copied there chunk by chunk, and MPI sends a chunk when the event of its copy has passed; what is received is
 * copied from there. All chunks of a message have requests of their own, and use its buffers in pinned memory in
 * turn. */
#include "collectives/endpoints_impl.h"
#include "collectives/messages_impl.h"
#include "collectives/mpi/call.h"
#include "runtime/base/memory.h"

/* A message that this rank sends or receives. Chunks pass through its stages in order, so each stage has a count:
 *   sent: `queued`: the copy from the device is queued; `started`: MPI has it; `done`: it has been sent.
 *   received: `started`: MPI waits for it; `done`: it has come, and its copy to the device is queued. */
typedef struct transfer {
    const iso_message *message;
    bool received;
    int earlier; /* the previous transfer with this peer in this direction: MPI matches them in order; -1: none */
    int chunks, buffers;
    size_t chunk;
    MPI_Request *requests;    /* [chunks] */
    iso_device_event **event; /* [buffers] the last copy from or to each buffer; NULL: none are needed */
    bool packed;              /* sent: packed, or its packs are queued before its copies */
    int queued, started, done;
} transfer;

typedef struct transfers {
    const iso_messages *messages;
    transfer *transfers;
    int n_transfers;
    int *number;   /* [out.n_messages] the transfer of each message that is sent */
    bool reported; /* an error of the device was returned in this run */
} transfers;

static const char CHUNKS[] = "the messages of an exchange";

/* ---- making ---- */

static size_t bytes_of(const transfer *t, int chunk)
{
    size_t begin = (size_t)chunk * t->chunk, rest = t->message->bytes - begin;
    return rest < t->chunk ? rest : t->chunk;
}

static char *device_buffer(const transfer *t, int chunk)
{
    return t->message->data + (size_t)chunk * t->chunk;
}

static bool is_staged(const transfer *t)
{
    return t->message->staging != NULL;
}

/* The address from which MPI sends a chunk, or to which it receives it. */
static char *mpi_buffer(const transfer *t, int chunk)
{
    return is_staged(t) ? t->message->staging + (size_t)(chunk % t->buffers) * t->chunk
                        : device_buffer(t, chunk);
}

static iso_status make_request(transfer *t, int chunk, MPI_Comm ranks, int tag)
{
    const iso_route *route = &t->message->route;
    int count = (int)bytes_of(t, chunk);
    char *data = mpi_buffer(t, chunk);
    MPI_Request *request = &t->requests[chunk];
    return t->received ? ISO_MPI(MPI_Recv_init(data, count, MPI_BYTE, route->from, tag, ranks, request))
                       : ISO_MPI(MPI_Send_init(data, count, MPI_BYTE, route->to, tag, ranks, request));
}

static iso_status make_events(transfer *t)
{
    const iso_device *device = t->message->endpoint ? t->message->endpoint->out->device : NULL;
    iso_status status = ISO_OK;
    if (t->received && !is_staged(t))
        return ISO_OK;
    t->event = iso_new(((size_t)t->buffers + 1) * sizeof(iso_device_event *));
    if (!t->event)
        return iso_no_memory(CHUNKS);
    for (int i = 0; i < t->buffers && status == ISO_OK; i++)
        status = device->create_event(device, &t->event[i]);
    return status;
}

/* Fills in a transfer whose message is set. */
static iso_status make_transfer(transfer *t, MPI_Comm ranks, int tag)
{
    t->chunks = (int)((t->message->bytes + t->chunk - 1) / t->chunk);
    t->buffers = is_staged(t) && t->chunks > ISO_CHUNKS_AT_ONCE ? ISO_CHUNKS_AT_ONCE : t->chunks;
    t->requests = iso_new(((size_t)t->chunks + 1) * sizeof *t->requests);
    if (!t->requests)
        return iso_no_memory(CHUNKS);
    for (int c = 0; c < t->chunks; c++)
        t->requests[c] = MPI_REQUEST_NULL;
    iso_status status = make_events(t);
    for (int c = 0; c < t->chunks && status == ISO_OK; c++)
        status = make_request(t, c, ranks, tag);
    return status;
}

static int peer_of(const transfer *t)
{
    return t->received ? t->message->route.from : t->message->route.to;
}

static int find_earlier(const transfers *all)
{
    const transfer *last = &all->transfers[all->n_transfers - 1];
    int i = all->n_transfers - 2;
    while (i >= 0 &&
           (all->transfers[i].received != last->received || peer_of(&all->transfers[i]) != peer_of(last)))
        i--;
    return i;
}

static iso_status add_transfer(transfers *all, const iso_message *message, bool received,
                               const iso_endpoints *endpoints, MPI_Comm ranks, int tag)
{
    transfer *t = &all->transfers[all->n_transfers++];
    *t = (transfer){.message = message, .received = received, .chunk = endpoints->chunk};
    t->earlier = find_earlier(all);
    return make_transfer(t, ranks, tag);
}

static iso_status add_transfers(transfers *all, const iso_messages *messages, int number, MPI_Comm ranks,
                                int tag)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < messages->in.n_messages; i++)
        if (iso_message_is_received(messages, i, number))
            ISO_TRY(add_transfer(all, &messages->in.messages[i], true, messages->endpoints, ranks, tag));
    for (int i = 0; i < messages->out.n_messages; i++) {
        all->number[i] = all->n_transfers;
        if (iso_message_is_sent(messages, i, number))
            ISO_TRY(add_transfer(all, &messages->out.messages[i], false, messages->endpoints, ranks, tag));
    }
done:
    return status;
}

static void free_transfer(transfer *t)
{
    for (int c = 0; t->requests && c < t->chunks; c++)
        if (t->requests[c] != MPI_REQUEST_NULL && !iso_mpi_ended())
            ISO_MPI_IGNORE(MPI_Request_free(&t->requests[c]));
    for (int i = 0; t->event && i < t->buffers; i++)
        if (t->event[i])
            t->event[i]->device->destroy_event(t->event[i]);
    iso_free(t->event);
    iso_free(t->requests);
}

static void free_transfers(void *of)
{
    transfers *all = of;
    for (int i = 0; all->transfers && i < all->n_transfers; i++)
        free_transfer(&all->transfers[i]);
    iso_free(all->number);
    iso_free(all->transfers);
    iso_free(all);
}

static iso_status create_transfers(const iso_messages *messages, int number, const iso_comm *ranks, int tag,
                                   void **out)
{
    transfers *all = iso_new(sizeof *all);
    if (!all)
        return iso_no_memory(CHUNKS);
    size_t most = (size_t)messages->in.n_messages + (size_t)messages->out.n_messages;
    all->messages = messages;
    all->transfers = iso_new((most + 1) * sizeof *all->transfers);
    all->number = iso_new(((size_t)messages->out.n_messages + 1) * sizeof *all->number);
    iso_status status = all->transfers && all->number
                            ? add_transfers(all, messages, number, iso_mpi_of(ranks), tag)
                            : iso_no_memory(CHUNKS);
    if (status == ISO_OK)
        *out = all;
    else
        free_transfers(all);
    return status;
}

/* ---- a run ---- */

/* An error of the device is returned once in a run. Messages are sent all the same: other ranks wait for them. */
static iso_status report(transfers *all, iso_status status)
{
    if (status == ISO_OK || all->reported)
        return ISO_OK;
    all->reported = true;
    return status;
}

/* *first becomes this status if it is ISO_OK. */
static void keep_first(iso_status *first, iso_status status)
{
    *first = *first == ISO_OK ? status : *first;
}

/* Whether what was queued before the event is done, or has failed. */
static bool has_passed(transfers *all, const iso_device_event *event, iso_status *status)
{
    bool passed = event->device->passed(event);
    if (passed)
        keep_first(status, report(all, event->device->wait_event(event)));
    return passed;
}

/* False: MPI has failed. */
static bool start_next(transfer *t, iso_status *status)
{
    iso_status started = ISO_MPI(MPI_Start(&t->requests[t->started]));
    t->started += started == ISO_OK;
    keep_first(status, started);
    return started == ISO_OK;
}

/* Whether all chunks of the transfer before it were started. */
static bool has_turn(const transfers *all, const transfer *t)
{
    return t->earlier < 0 || all->transfers[t->earlier].started == all->transfers[t->earlier].chunks;
}

/* Whether MPI has finished the next chunk that it has. */
static bool is_finished(transfer *t, iso_status *status)
{
    int done = 0;
    if (t->done == t->started)
        return false;
    keep_first(status, ISO_MPI(MPI_Test(&t->requests[t->done], &done, MPI_STATUS_IGNORE)));
    return done;
}

/* ---- sending ---- */

static iso_status queue_copies(transfer *t)
{
    iso_stream *stream = t->message->endpoint->out;
    for (; t->queued < t->chunks && t->queued - t->done < t->buffers; t->queued++) {
        if (is_staged(t))
            stream->device->copy(stream, mpi_buffer(t, t->queued), device_buffer(t, t->queued),
                                 bytes_of(t, t->queued));
        stream->device->record(t->event[t->queued % t->buffers], stream);
    }
    return stream->device->check(stream);
}

/* Whether the copy of the next chunk is done; one that failed is replaced, and so is one of a message whose packs
 * were refused. An event may not have been recorded after a failure, so the stream is asked too. */
static bool is_copied(transfers *all, const transfer *t, iso_status *status)
{
    const iso_device_event *event = t->event[t->started % t->buffers];
    iso_stream *stream = t->message->endpoint->out;
    if (!event->device->passed(event))
        return false;
    iso_status copied = event->device->wait_event(event);
    if (copied == ISO_OK)
        copied = stream->device->check(stream);
    keep_first(status, report(all, copied));
    if (is_staged(t))
        iso_messages_replace(all->messages, mpi_buffer(t, t->started), bytes_of(t, t->started),
                             copied == ISO_OK && !t->message->endpoint->unpacked);
    return true;
}

static iso_status progress_send(transfers *all, transfer *t)
{
    iso_status status = ISO_OK;
    if (!t->packed)
        return ISO_OK;
    while (t->started < t->queued && has_turn(all, t) && is_copied(all, t, &status) && start_next(t, &status))
        ;
    while (is_finished(t, &status))
        t->done++;
    keep_first(&status, report(all, queue_copies(t)));
    return status;
}

/* ---- receiving ---- */

/* Whether all copies from pinned memory of earlier exchanges are done. Their buffers may have been where those of
 * this one are, for other devices of this rank. */
static bool have_earlier_left(transfers *all, iso_status *status)
{
    for (int i = 0; i < all->messages->endpoints->count; i++) {
        const iso_device_event *received = all->messages->endpoints->endpoint[i].received;
        if (received && !has_passed(all, received, status))
            return false;
    }
    return true;
}

/* Whether the next chunk's buffer may be written. */
static bool is_free(transfers *all, const transfer *t, iso_status *status)
{
    if (t->started - t->done == t->buffers)
        return false;
    if (!is_staged(t))
        return true;
    return t->started < t->buffers ? have_earlier_left(all, status)
                                   : has_passed(all, t->event[t->started % t->buffers], status);
}

static iso_status queue_incoming(transfer *t)
{
    iso_stream *stream = t->message->endpoint->in;
    stream->device->copy(stream, device_buffer(t, t->done), mpi_buffer(t, t->done), bytes_of(t, t->done));
    stream->device->record(t->event[t->done % t->buffers], stream);
    return stream->device->check(stream);
}

static iso_status progress_receive(transfers *all, transfer *t)
{
    iso_status status = ISO_OK;
    for (; is_finished(t, &status); t->done++)
        if (is_staged(t))
            keep_first(&status, report(all, queue_incoming(t)));
    while (t->started < t->chunks && has_turn(all, t) && is_free(all, t, &status) && start_next(t, &status))
        ;
    return status;
}

/* ---- both ---- */

static iso_status progress(transfers *all)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < all->n_transfers; i++) {
        transfer *t = &all->transfers[i];
        keep_first(&status, t->received ? progress_receive(all, t) : progress_send(all, t));
    }
    return status;
}

static iso_status receive(void *of)
{
    transfers *all = of;
    all->reported = false;
    for (int i = 0; i < all->n_transfers; i++) {
        all->transfers[i].queued = all->transfers[i].started = all->transfers[i].done = 0;
        all->transfers[i].packed = false;
    }
    return progress(all);
}

static iso_status send(void *of, int message)
{
    transfers *all = of;
    transfer *t = &all->transfers[all->number[message]];
    t->packed = true;
    return report(all, queue_copies(t));
}

static iso_status test(void *of, int *done)
{
    transfers *all = of;
    iso_status status = progress(all);
    *done = 1;
    for (int i = 0; i < all->n_transfers; i++)
        *done &= all->transfers[i].done == all->transfers[i].chunks;
    return status;
}

const iso_transport iso_transport_device = {
    .name = "mpi, of devices",
    .between_hosts = true,
    .of_devices = true,
    .open = create_transfers,
    .close = free_transfers,
    .receive = receive,
    .send = send,
    .test = test,
};
