/* The transport by messages of MPI: persistent requests, created once. */
#include "collectives/messages_impl.h"
#include "collectives/mpi/call.h"
#include "runtime/base/memory.h"

/* Bytes of one request: with MPI's header below the limit of messages that travel between hosts without a handshake
 * (runtime/session/launcher.c). The answer of a handshake would wait behind all that travels the other way. */
enum { SLICE = (1 << 20) - 4096 };

typedef struct transfers {
    MPI_Request *requests; /* receives first */
    int n_requests, n_incoming;
    int *first; /* [out.n_messages + 1] the requests of each message that is sent */
} transfers;

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
static iso_status make_requests(transfers *t, const iso_message *message, bool received, MPI_Comm ranks,
                                int tag)
{
    iso_status status = ISO_OK;
    for (size_t at = 0; at < message->bytes; at += SLICE) {
        int count = message->bytes - at < SLICE ? (int)(message->bytes - at) : SLICE;
        MPI_Request *request = &t->requests[t->n_requests];
        if (received)
            ISO_TRY(ISO_MPI(MPI_Recv_init(message->data + at, count, MPI_BYTE, message->route.from, tag,
                                          ranks, request)));
        else
            ISO_TRY(ISO_MPI(
                MPI_Send_init(message->data + at, count, MPI_BYTE, message->route.to, tag, ranks, request)));
        t->n_requests++;
    }
done:
    return status;
}

static iso_status make_all_requests(transfers *t, const iso_messages *messages, int number, MPI_Comm ranks,
                                    int tag)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < messages->in.n_messages; i++)
        if (iso_message_is_received(messages, i, number))
            ISO_TRY(make_requests(t, &messages->in.messages[i], true, ranks, tag));
    t->n_incoming = t->n_requests;
    for (int i = 0; i < messages->out.n_messages; i++) {
        t->first[i] = t->n_requests;
        if (iso_message_is_sent(messages, i, number))
            ISO_TRY(make_requests(t, &messages->out.messages[i], false, ranks, tag));
    }
    t->first[messages->out.n_messages] = t->n_requests;
done:
    return status;
}

static void free_transfers(void *of)
{
    transfers *t = of;
    for (int i = 0; i < t->n_requests; i++)
        if (!iso_mpi_ended())
            ISO_MPI_IGNORE(MPI_Request_free(&t->requests[i]));
    iso_free(t->first);
    iso_free(t->requests);
    iso_free(t);
}

static iso_status create_transfers(const iso_messages *messages, int number, const iso_comm *ranks, int tag,
                                   void **out)
{
    transfers *t = iso_new(sizeof *t);
    if (!t)
        return iso_no_memory("the messages of an exchange");
    t->requests = iso_new((size_t)count_slices(messages, number) * sizeof *t->requests);
    t->first = iso_new(((size_t)messages->out.n_messages + 1) * sizeof *t->first);
    iso_status status = t->requests && t->first
                            ? make_all_requests(t, messages, number, iso_mpi_of(ranks), tag)
                            : iso_no_memory("the messages of an exchange");
    if (status == ISO_OK)
        *out = t;
    else
        free_transfers(t);
    return status;
}

static iso_status start(transfers *t, int begin, int end)
{
    return begin == end ? ISO_OK : ISO_MPI(MPI_Startall(end - begin, t->requests + begin));
}

static iso_status receive(void *of)
{
    transfers *t = of;
    return start(t, 0, t->n_incoming);
}

static iso_status send(void *of, int message)
{
    transfers *t = of;
    return start(t, t->first[message], t->first[message + 1]);
}

static iso_status test(void *of, int *done)
{
    transfers *t = of;
    *done = 0;
    return ISO_MPI(MPI_Testall(t->n_requests, t->requests, done, MPI_STATUSES_IGNORE));
}

const iso_transport iso_transport_mpi = {
    .name = "mpi",
    .within_host = true,
    .between_hosts = true,
    .open = create_transfers,
    .close = free_transfers,
    .receive = receive,
    .send = send,
    .test = test,
};
