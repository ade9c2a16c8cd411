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
typedef struct flow {
    const iso_message *message;
    bool received;
    int earlier; /* the flow before it with the same peer, in the same direction: MPI matches them in this order; -1 */
    int chunks, buffers;
    size_t chunk;
    MPI_Request *requests;    /* [chunks] */
    iso_device_event **event; /* [buffers] the last copy from or to each buffer; NULL: none are needed */
    bool open;                /* sent: it is packed, or will be before its copies */
    int queued, started, done;
} flow;

typedef struct lines {
    flow *flows;
    int n_flows;
    int *number;   /* [out.n_messages] the flow of each message that is sent */
    bool reported; /* an error of the device was returned in this run */
} lines;

static const char CHUNKS[] = "the messages of an exchange";

/* ---- making ---- */

static size_t bytes_of(const flow *f, int chunk)
{
    size_t begin = (size_t)chunk * f->chunk, rest = f->message->bytes - begin;
    return rest < f->chunk ? rest : f->chunk;
}

static char *on_device(const flow *f, int chunk)
{
    return f->message->data + (size_t)chunk * f->chunk;
}

static bool is_staged(const flow *f)
{
    return f->message->staging != NULL;
}

/* The address from which MPI sends a chunk, or to which it receives it. */
static char *of_mpi(const flow *f, int chunk)
{
    return is_staged(f) ? f->message->staging + (size_t)(chunk % f->buffers) * f->chunk : on_device(f, chunk);
}

static iso_status make_request(flow *f, int chunk, MPI_Comm ranks, int tag)
{
    const iso_route *route = &f->message->route;
    int count = (int)bytes_of(f, chunk);
    char *data = of_mpi(f, chunk);
    MPI_Request *request = &f->requests[chunk];
    return f->received ? ISO_MPI(MPI_Recv_init(data, count, MPI_BYTE, route->from, tag, ranks, request))
                       : ISO_MPI(MPI_Send_init(data, count, MPI_BYTE, route->to, tag, ranks, request));
}

static iso_status make_events(flow *f)
{
    const iso_device *device = f->message->endpoint ? f->message->endpoint->out->device : NULL;
    iso_status status = ISO_OK;
    if (f->received && !is_staged(f))
        return ISO_OK;
    f->event = iso_new(((size_t)f->buffers + 1) * sizeof(iso_device_event *));
    if (!f->event)
        return iso_no_memory(CHUNKS);
    for (int i = 0; i < f->buffers && status == ISO_OK; i++)
        status = device->create_event(device, &f->event[i]);
    return status;
}

/* Fills in a flow whose message is set. */
static iso_status make_flow(flow *f, MPI_Comm ranks, int tag)
{
    f->chunks = (int)((f->message->bytes + f->chunk - 1) / f->chunk);
    f->buffers = is_staged(f) && f->chunks > ISO_CHUNKS_AT_ONCE ? ISO_CHUNKS_AT_ONCE : f->chunks;
    f->requests = iso_new(((size_t)f->chunks + 1) * sizeof *f->requests);
    if (!f->requests)
        return iso_no_memory(CHUNKS);
    for (int c = 0; c < f->chunks; c++)
        f->requests[c] = MPI_REQUEST_NULL;
    iso_status status = make_events(f);
    for (int c = 0; c < f->chunks && status == ISO_OK; c++)
        status = make_request(f, c, ranks, tag);
    return status;
}

static int peer_of(const flow *f)
{
    return f->received ? f->message->route.from : f->message->route.to;
}

static int find_earlier(const lines *l)
{
    const flow *last = &l->flows[l->n_flows - 1];
    int i = l->n_flows - 2;
    while (i >= 0 && (l->flows[i].received != last->received || peer_of(&l->flows[i]) != peer_of(last)))
        i--;
    return i;
}

static iso_status add_flow(lines *l, const iso_message *message, bool received,
                           const iso_endpoints *endpoints, MPI_Comm ranks, int tag)
{
    flow *f = &l->flows[l->n_flows++];
    *f = (flow){.message = message, .received = received, .chunk = endpoints->chunk};
    f->earlier = find_earlier(l);
    return make_flow(f, ranks, tag);
}

static iso_status add_flows(lines *l, const iso_messages *messages, int number, MPI_Comm ranks, int tag)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < messages->in.n_messages; i++)
        if (iso_message_is_received(messages, i, number))
            ISO_TRY(add_flow(l, &messages->in.messages[i], true, messages->endpoints, ranks, tag));
    for (int i = 0; i < messages->out.n_messages; i++) {
        l->number[i] = l->n_flows;
        if (iso_message_is_sent(messages, i, number))
            ISO_TRY(add_flow(l, &messages->out.messages[i], false, messages->endpoints, ranks, tag));
    }
done:
    return status;
}

static void free_flow(flow *f)
{
    for (int c = 0; f->requests && c < f->chunks; c++)
        if (f->requests[c] != MPI_REQUEST_NULL && !iso_mpi_ended())
            ISO_MPI_IGNORE(MPI_Request_free(&f->requests[c]));
    for (int i = 0; f->event && i < f->buffers; i++)
        if (f->event[i])
            f->event[i]->device->destroy_event(f->event[i]);
    iso_free(f->event);
    iso_free(f->requests);
}

static void close_lines(void *of)
{
    lines *l = of;
    for (int i = 0; l->flows && i < l->n_flows; i++)
        free_flow(&l->flows[i]);
    iso_free(l->number);
    iso_free(l->flows);
    iso_free(l);
}

static iso_status open_lines(const iso_messages *messages, int number, const iso_comm *ranks, int tag,
                             void **out)
{
    lines *l = iso_new(sizeof *l);
    if (!l)
        return iso_no_memory(CHUNKS);
    size_t most = (size_t)messages->in.n_messages + (size_t)messages->out.n_messages;
    l->flows = iso_new((most + 1) * sizeof *l->flows);
    l->number = iso_new(((size_t)messages->out.n_messages + 1) * sizeof *l->number);
    iso_status status = l->flows && l->number ? add_flows(l, messages, number, iso_mpi_of(ranks), tag)
                                              : iso_no_memory(CHUNKS);
    if (status == ISO_OK)
        *out = l;
    else
        close_lines(l);
    return status;
}

/* ---- a run ---- */

/* An error of the device is returned once in a run. Messages are sent all the same: other ranks wait for them. */
static iso_status report(lines *l, iso_status status)
{
    if (status == ISO_OK || l->reported)
        return ISO_OK;
    l->reported = true;
    return status;
}

/* *first becomes this status if it is ISO_OK. */
static void keep_first(iso_status *first, iso_status status)
{
    *first = *first == ISO_OK ? status : *first;
}

/* Whether what was queued before the event is done, or has failed. */
static bool has_passed(lines *l, const iso_device_event *event, iso_status *status)
{
    bool passed = event->device->passed(event);
    if (passed)
        keep_first(status, report(l, event->device->wait_event(event)));
    return passed;
}

/* False: MPI has failed. */
static bool start_next(flow *f, iso_status *status)
{
    iso_status started = ISO_MPI(MPI_Start(&f->requests[f->started]));
    f->started += started == ISO_OK;
    keep_first(status, started);
    return started == ISO_OK;
}

/* Whether all chunks of the flow before it were started. */
static bool has_turn(const lines *l, const flow *f)
{
    return f->earlier < 0 || l->flows[f->earlier].started == l->flows[f->earlier].chunks;
}

/* Whether MPI has finished the next chunk that it has. */
static bool is_finished(flow *f, iso_status *status)
{
    int done = 0;
    if (f->done == f->started)
        return false;
    keep_first(status, ISO_MPI(MPI_Test(&f->requests[f->done], &done, MPI_STATUS_IGNORE)));
    return done;
}

/* ---- sending ---- */

static iso_status queue_copies(flow *f)
{
    iso_stream *stream = f->message->endpoint->out;
    for (; f->queued < f->chunks && f->queued - f->done < f->buffers; f->queued++) {
        if (is_staged(f))
            stream->device->copy(stream, of_mpi(f, f->queued), on_device(f, f->queued),
                                 bytes_of(f, f->queued));
        stream->device->record(f->event[f->queued % f->buffers], stream);
    }
    return stream->device->check(stream);
}

static iso_status send_on(lines *l, flow *f)
{
    iso_status status = ISO_OK;
    if (!f->open)
        return ISO_OK;
    while (f->started < f->queued && has_turn(l, f) &&
           has_passed(l, f->event[f->started % f->buffers], &status) && start_next(f, &status))
        ;
    while (is_finished(f, &status))
        f->done++;
    keep_first(&status, report(l, queue_copies(f)));
    return status;
}

/* ---- receiving ---- */

/* Whether the next chunk's buffer may be written. */
static bool is_free(lines *l, const flow *f, iso_status *status)
{
    const iso_endpoint *endpoint = f->message->endpoint;
    if (f->started - f->done == f->buffers)
        return false;
    if (!is_staged(f))
        return true;
    const iso_device_event *before =
        f->started < f->buffers ? endpoint->received : f->event[f->started % f->buffers];
    return !before || has_passed(l, before, status);
}

static iso_status queue_incoming(flow *f)
{
    iso_stream *stream = f->message->endpoint->in;
    stream->device->copy(stream, on_device(f, f->done), of_mpi(f, f->done), bytes_of(f, f->done));
    stream->device->record(f->event[f->done % f->buffers], stream);
    return stream->device->check(stream);
}

static iso_status receive_on(lines *l, flow *f)
{
    iso_status status = ISO_OK;
    for (; is_finished(f, &status); f->done++)
        if (is_staged(f))
            keep_first(&status, report(l, queue_incoming(f)));
    while (f->started < f->chunks && has_turn(l, f) && is_free(l, f, &status) && start_next(f, &status))
        ;
    return status;
}

/* ---- both ---- */

static iso_status go_on(lines *l)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < l->n_flows; i++) {
        flow *f = &l->flows[i];
        keep_first(&status, f->received ? receive_on(l, f) : send_on(l, f));
    }
    return status;
}

static iso_status receive(void *of)
{
    lines *l = of;
    l->reported = false;
    for (int i = 0; i < l->n_flows; i++) {
        l->flows[i].queued = l->flows[i].started = l->flows[i].done = 0;
        l->flows[i].open = false;
    }
    return go_on(l);
}

static iso_status send(void *of, int message)
{
    lines *l = of;
    flow *f = &l->flows[l->number[message]];
    f->open = true;
    return report(l, queue_copies(f));
}

static iso_status test(void *of, int *done)
{
    lines *l = of;
    iso_status status = go_on(l);
    *done = 1;
    for (int i = 0; i < l->n_flows; i++)
        *done &= l->flows[i].done == l->flows[i].chunks;
    return status;
}

const iso_transport iso_transport_device = {
    .name = "mpi, of devices",
    .between_hosts = true,
    .of_devices = true,
    .open = open_lines,
    .close = close_lines,
    .receive = receive,
    .send = send,
    .test = test,
};
