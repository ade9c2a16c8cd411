/* The transport by messages of MPI: persistent requests, created once. */
#include "collectives/messages_impl.h"
#include "collectives/mpi/call.h"
#include "runtime/base/memory.h"

/* Bytes of one request: with MPI's header below the limit of messages that travel between hosts without a handshake
 * (runtime/session/launcher.c). The answer of a handshake would wait behind all that travels the other way. */
enum { SLICE = (1 << 20) - 4096 };

typedef struct lines {
    MPI_Request *requests; /* receives first */
    int n_requests, n_incoming;
    int *first; /* [out.n_messages + 1] the requests of each message that is sent */
} lines;

static int slices_of(const iso_message *message)
{
    return (int)((message->bytes + SLICE - 1) / SLICE);
}

static int count_slices(const iso_messages *messages, int number)
{
    int count = 0;
    for (int i = 0; i < messages->in.n_messages; i++)
        if (iso_message_is_received(messages, i, number))
            count += slices_of(&messages->in.messages[i]);
    for (int i = 0; i < messages->out.n_messages; i++)
        if (iso_message_is_sent(messages, i, number))
            count += slices_of(&messages->out.messages[i]);
    return count;
}

/* Adds the requests of one message. */
static iso_status make_requests(lines *l, const iso_message *message, bool received, MPI_Comm ranks, int tag)
{
    iso_status status = ISO_OK;
    for (size_t at = 0; at < message->bytes; at += SLICE) {
        int count = message->bytes - at < SLICE ? (int)(message->bytes - at) : SLICE;
        MPI_Request *request = &l->requests[l->n_requests];
        if (received)
            ISO_TRY(ISO_MPI(MPI_Recv_init(message->data + at, count, MPI_BYTE, message->route.from, tag,
                                          ranks, request)));
        else
            ISO_TRY(ISO_MPI(
                MPI_Send_init(message->data + at, count, MPI_BYTE, message->route.to, tag, ranks, request)));
        l->n_requests++;
    }
done:
    return status;
}

static iso_status make_all_requests(lines *l, const iso_messages *messages, int number, MPI_Comm ranks,
                                    int tag)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < messages->in.n_messages; i++)
        if (iso_message_is_received(messages, i, number))
            ISO_TRY(make_requests(l, &messages->in.messages[i], true, ranks, tag));
    l->n_incoming = l->n_requests;
    for (int i = 0; i < messages->out.n_messages; i++) {
        l->first[i] = l->n_requests;
        if (iso_message_is_sent(messages, i, number))
            ISO_TRY(make_requests(l, &messages->out.messages[i], false, ranks, tag));
    }
    l->first[messages->out.n_messages] = l->n_requests;
done:
    return status;
}

static void close_lines(void *of)
{
    lines *l = of;
    for (int i = 0; i < l->n_requests; i++)
        if (!iso_mpi_ended())
            ISO_MPI_IGNORE(MPI_Request_free(&l->requests[i]));
    iso_free(l->first);
    iso_free(l->requests);
    iso_free(l);
}

static iso_status open_lines(const iso_messages *messages, int number, const iso_comm *ranks, int tag,
                             void **out)
{
    lines *l = iso_new(sizeof *l);
    if (!l)
        return iso_no_memory("the messages of an exchange");
    l->requests = iso_new((size_t)count_slices(messages, number) * sizeof *l->requests);
    l->first = iso_new(((size_t)messages->out.n_messages + 1) * sizeof *l->first);
    iso_status status = l->requests && l->first
                            ? make_all_requests(l, messages, number, iso_mpi_of(ranks), tag)
                            : iso_no_memory("the messages of an exchange");
    if (status == ISO_OK)
        *out = l;
    else
        close_lines(l);
    return status;
}

static iso_status start(lines *l, int begin, int end)
{
    return begin == end ? ISO_OK : ISO_MPI(MPI_Startall(end - begin, l->requests + begin));
}

static iso_status receive(void *of)
{
    lines *l = of;
    return start(l, 0, l->n_incoming);
}

static iso_status send(void *of, int message)
{
    lines *l = of;
    return start(l, l->first[message], l->first[message + 1]);
}

static iso_status test(void *of, int *done)
{
    lines *l = of;
    *done = 0;
    return ISO_MPI(MPI_Testall(l->n_requests, l->requests, done, MPI_STATUSES_IGNORE));
}

const iso_transport iso_transport_mpi = {
    .name = "mpi",
    .within_host = true,
    .between_hosts = true,
    .open = open_lines,
    .close = close_lines,
    .receive = receive,
    .send = send,
    .test = test,
};
