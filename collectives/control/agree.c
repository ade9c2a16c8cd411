/* Agreement over MPI. The common case, nobody failed, costs one all-reduce of eight bytes; all else is told
 * by the lowest failing rank, which then broadcasts its status and message. */
#include "collectives/control/control.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/channel.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"

enum { MESSAGE_BYTES = 4096, RANKS_NAMED = 8 };

static bool is_alone(const iso_channel *channel)
{
    return !channel || channel->communicator == MPI_COMM_NULL || channel->ranks == 1;
}

/* The lowest rank for which `mine` is true; -1 where it is on none. */
static int lowest_rank(const iso_channel *channel, bool mine)
{
    int64_t key = mine ? channel->ranks - channel->rank : 0, most;
    MPI_Allreduce(&key, &most, 1, MPI_INT64_T, MPI_MAX, channel->communicator);
    return most == 0 ? -1 : (int)(channel->ranks - most);
}

/* `text` of rank `from` (each rank gives its own), on every rank. */
static void share_text(const iso_channel *channel, int from, const char *text, char out[MESSAGE_BYTES])
{
    if (channel->rank == from)
        snprintf(out, MESSAGE_BYTES, "%s", text);
    MPI_Bcast(out, MESSAGE_BYTES, MPI_CHAR, from, channel->communicator);
    out[MESSAGE_BYTES - 1] = 0;
}

iso_status iso_channel_agree(const iso_channel *channel, iso_status status)
{
    if (is_alone(channel))
        return status;
    int failing = lowest_rank(channel, status != ISO_OK);
    if (failing < 0)
        return ISO_OK;
    int code = (int)status;
    char message[MESSAGE_BYTES];
    MPI_Bcast(&code, 1, MPI_INT, failing, channel->communicator);
    share_text(channel, failing, iso_error_message(), message);
    bool alike = (int)status == code && !strncmp(message, iso_error_message(), MESSAGE_BYTES - 1);
    if (lowest_rank(channel, !alike) < 0)
        return status; /* every rank has said the same */
    return iso_error((iso_status)code, "rank %d: %s", failing, message);
}

/* A channel is the first member of a context. */
iso_status iso_agree(iso_context *ctx, iso_status status)
{
    return iso_channel_agree((const iso_channel *)ctx, status);
}

/* "1, 2 and 5 more": the ranks whose value is not that of rank 0. Returns the lowest of them. */
static int list_different(const uint64_t *values, int ranks, iso_text *list)
{
    int first = -1, count = 0;
    for (int rank = 1; rank < ranks; rank++) {
        if (values[rank] == values[0])
            continue;
        if (first < 0)
            first = rank;
        if (count < RANKS_NAMED)
            iso_text_add(list, "%s%d", count ? ", " : "", rank);
        count++;
    }
    if (count > RANKS_NAMED)
        iso_text_add(list, " and %d more", count - RANKS_NAMED);
    return first;
}

/* The values differ: says where, and how. Collective. */
static iso_status report_difference(const iso_channel *channel, const char *what, uint64_t value,
                                    const char *text)
{
    uint64_t *values = iso_new((size_t)channel->ranks * sizeof *values);
    if (lowest_rank(channel, !values) >= 0) {
        iso_free(values);
        return iso_error(ISO_INVALID, "%s of the ranks differ", what);
    }
    MPI_Allgather(&value, 1, MPI_UINT64_T, values, 1, MPI_UINT64_T, channel->communicator);
    iso_text list = {0};
    int other = list_different(values, channel->ranks, &list);
    char first[MESSAGE_BYTES], second[MESSAGE_BYTES];
    share_text(channel, 0, text ? text : "", first);
    share_text(channel, other, text ? text : "", second);
    const char *ranks = iso_text_get(&list);
    if (first[0] || second[0])
        iso_error(ISO_INVALID,
                  "%s of rank %s differ from those of rank 0, which has '%s' where rank %d has '%s'", what,
                  ranks, first, other, second);
    else
        iso_error(ISO_INVALID, "%s of rank %s differ from those of rank 0", what, ranks);
    iso_text_free(&list);
    iso_free(values);
    return ISO_INVALID;
}

iso_status iso_agree_same(iso_context *ctx, const char *what, uint64_t value, const char *text)
{
    const iso_channel *channel = (const iso_channel *)ctx;
    if (is_alone(channel))
        return ISO_OK;
    uint64_t range[2] = {value, ~value}, least[2];
    MPI_Allreduce(range, least, 2, MPI_UINT64_T, MPI_MIN, channel->communicator);
    if (least[0] == ~least[1])
        return ISO_OK;
    return report_difference(channel, what, value, text);
}

iso_status iso_agree_same_text(iso_context *ctx, const char *what, const char *text)
{
    return iso_agree_same(ctx, what, iso_hash_text(0, text), text);
}
