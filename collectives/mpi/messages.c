/* Persistent requests, created once. A fragment that several slots of a host pull is sent once. While waiting
 * we poll, at growing intervals: MPI's own waiting loops would keep a core busy that the other rank may
 * need. */
#include "collectives/mpi/messages_impl.h"

#include <string.h>

#include "collectives/coll.h"
#include "collectives/mpi/call.h"
#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/wait.h"

enum { SLICE = 1 << 30 /* bytes of one request; MPI counts in int */ };

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

static iso_status find_message(iso_mailbox *box, int from, int to, int *number)
{
    int i = 0;
    while (i < box->n_messages && (box->messages[i].from != from || box->messages[i].to != to))
        i++;
    *number = i;
    if (i < box->n_messages)
        return ISO_OK;
    iso_message fresh = {.from = from, .to = to};
    return iso_list_add(box->messages, box->n_messages, fresh, MESSAGES);
}

iso_status iso_mailbox_fragment(iso_mailbox *box, int from, int to, iso_hash_key key, size_t bytes,
                                int *number, bool *fresh)
{
    wanted w = {box, &key};
    int message;
    iso_status status = ISO_OK;
    *number = iso_table_find(&box->index, key.word[0], is_wanted, &w);
    *fresh = *number < 0;
    if (!*fresh)
        return ISO_OK;
    ISO_TRY(find_message(box, from, to, &message));
    iso_message *in = &box->messages[message];
    *number = box->n_fragments;
    ISO_TRY(
        iso_list_add(box->fragments, box->n_fragments, ((iso_fragment){message, in->bytes, key}), MESSAGES));
    ISO_TRY(iso_table_add(&box->index, key.word[0], *number, MESSAGES));
    in->bytes += iso_exchange_operand_bytes(bytes);
done:
    return status;
}

/* ---- buffers and requests ---- */

static void number_requests(iso_message *message, int *requests)
{
    message->first_request = *requests;
    message->n_requests = (int)((message->bytes + SLICE - 1) / SLICE);
    *requests += message->n_requests;
}

void iso_messages_close(iso_messages *messages, int rank)
{
    iso_mailbox *in = &messages->in, *out = &messages->out;
    int requests = 0;
    messages->bytes_in = messages->bytes_out = 0;
    for (int i = 0; i < in->n_messages; i++) {
        messages->bytes_in += in->messages[i].bytes;
        if (in->messages[i].to == rank)
            number_requests(&in->messages[i], &requests);
    }
    messages->n_incoming_requests = requests;
    for (int i = 0; i < out->n_messages; i++)
        if (out->messages[i].from == rank) {
            messages->bytes_out += out->messages[i].bytes;
            number_requests(&out->messages[i], &requests);
        }
    messages->n_requests = requests;
}

iso_status iso_messages_allocate(iso_messages *messages, const iso_comm *host, int rank)
{
    iso_status status = ISO_OK;
    messages->bytes = messages->bytes_out;
    for (int i = 0; i < messages->in.n_messages; i++)
        messages->bytes += messages->in.messages[i].to == rank ? messages->in.messages[i].bytes : 0;
    if (messages->bytes_in > 0)
        status = iso_window_create(host, messages->bytes_in, "the receive buffer of an exchange",
                                   &messages->landing);
    if (status == ISO_OK)
        status =
            iso_alloc(messages->bytes_out, "the send buffer of an exchange", (void **)&messages->outgoing);
    return status;
}

static iso_status make_requests(const iso_messages *messages, const iso_mailbox *box,
                                const iso_comm *communicator, int tag)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < box->n_messages; i++) {
        const iso_message *message = &box->messages[i];
        for (int k = 0; k < message->n_requests; k++) {
            size_t at = (size_t)k * SLICE, left = message->bytes - at;
            int count = left < SLICE ? (int)left : SLICE;
            MPI_Request *request = &messages->requests[message->first_request + k];
            if (box == &messages->in)
                ISO_TRY(ISO_MPI(MPI_Recv_init(message->data + at, count, MPI_BYTE, message->from, tag,
                                              iso_mpi_of(communicator), request)));
            else
                ISO_TRY(ISO_MPI(MPI_Send_init(message->data + at, count, MPI_BYTE, message->to, tag,
                                              iso_mpi_of(communicator), request)));
        }
    }
done:
    return status;
}

static void free_requests(iso_messages *messages)
{
    for (int i = 0; messages->requests && i < messages->n_requests; i++)
        if (messages->requests[i] != MPI_REQUEST_NULL && !iso_mpi_ended())
            ISO_MPI_IGNORE(MPI_Request_free(&messages->requests[i]));
    iso_free(messages->requests);
    messages->requests = NULL;
}

/* Messages are stored in the order in which they were added, which is the same on all ranks of the host. */
iso_status iso_messages_bind(iso_messages *messages, char *landing, char *outgoing,
                             const iso_comm *communicator, int rank, int tag)
{
    iso_mailbox *in = &messages->in, *out = &messages->out;
    free_requests(messages);
    for (int i = 0; i < in->n_messages; i++) {
        in->messages[i].data = landing;
        landing += in->messages[i].bytes;
    }
    for (int i = 0; i < out->n_messages; i++)
        if (out->messages[i].from == rank) {
            out->messages[i].data = outgoing;
            outgoing += out->messages[i].bytes;
        }
    if (messages->n_requests == 0)
        return ISO_OK;
    messages->requests = iso_new((size_t)messages->n_requests * sizeof *messages->requests);
    if (!messages->requests)
        return iso_no_memory(MESSAGES);
    for (int i = 0; i < messages->n_requests; i++)
        messages->requests[i] = MPI_REQUEST_NULL;
    iso_status status = make_requests(messages, in, communicator, tag);
    return status != ISO_OK ? status : make_requests(messages, out, communicator, tag);
}

static void free_mailbox(iso_mailbox *box)
{
    iso_free(box->messages);
    iso_free(box->fragments);
    iso_table_free(&box->index);
}

void iso_messages_free(iso_messages *messages)
{
    free_requests(messages);
    iso_window_destroy(&messages->landing);
    iso_free(messages->outgoing);
    free_mailbox(&messages->in);
    free_mailbox(&messages->out);
}

iso_status iso_messages_start_receiving(iso_messages *messages)
{
    if (messages->n_incoming_requests == 0)
        return ISO_OK;
    return ISO_MPI(MPI_Startall(messages->n_incoming_requests, messages->requests));
}

iso_status iso_messages_start_sending(iso_messages *messages, int number)
{
    const iso_message *message = &messages->out.messages[number];
    return ISO_MPI(MPI_Startall(message->n_requests, messages->requests + message->first_request));
}

static iso_status messages_test(iso_messages *messages, int *done)
{
    return ISO_MPI(MPI_Testall(messages->n_requests, messages->requests, done, MPI_STATUSES_IGNORE));
}

iso_status iso_messages_progress(iso_messages *messages, int *done)
{
    *done = 0;
    return messages_test(messages, done);
}

/* Tests again after an error, because other ranks may wait for requests that are still in progress. Gives up
 * if MPI keeps failing, or after a loss. */
iso_status iso_messages_finish(iso_messages *messages, const iso_watch *watch, bool crowded)
{
    iso_patience patience = {0};
    iso_status status = ISO_OK;
    for (int failed = 0; failed < ISO_MPI_TRIES;) {
        int done = 0;
        iso_status tested = messages_test(messages, &done);
        failed = tested == ISO_OK ? 0 : failed + 1;
        status = status == ISO_OK ? tested : status;
        if (done && tested == ISO_OK)
            break;
        iso_status lost = iso_watch_check(watch);
        if (lost != ISO_OK)
            return lost;
        iso_patience_pass(&patience, crowded);
    }
    return status;
}
