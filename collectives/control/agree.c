/* Agreement over MPI. If no rank failed, the common case, it costs one all-reduce of eight bytes. Otherwise
 * the lowest failing rank broadcasts its status and message. */
#include "collectives/control/control.h"

#include <stdio.h>
#include <string.h>

#include "collectives/control/channel.h"
#include "runtime/base/hash.h"
#include "runtime/base/host.h"
#include "runtime/base/memory.h"
#include "runtime/base/remote_error.h"
#include "runtime/base/text.h"
#include "runtime/session/session.h"

enum { MESSAGE_BYTES = 4096, RANKS_NAMED = 8 };

static bool agree_is_alone(const iso_channel *channel)
{
    return !channel || !channel->communicator || channel->n_ranks == 1;
}

/* The lowest of the ranks with the largest weight, from 0 to 2; -1: all are 0. */
static iso_status heaviest_rank(const iso_channel *channel, int weight, int *rank)
{
    int64_t ranks = channel->n_ranks;
    int64_t most = weight == 0 ? 0 : weight * ranks - channel->rank;
    iso_status status = iso_comm_reduce(channel->communicator, ISO_COMM_MAX, ISO_COMM_I64, &most, 1);
    *rank = most == 0 ? -1 : (int)(ranks - 1 - (most - 1) % ranks);
    return status;
}

/* The lowest rank for which `mine` is true; -1 if there is none. */
static iso_status lowest_rank(const iso_channel *channel, bool mine, int *rank)
{
    return heaviest_rank(channel, mine, rank);
}

/* The lowest rank that has an error of its own, or else one because of another rank's. */
static iso_status failing_rank(const iso_channel *channel, iso_status mine, int *rank)
{
    return heaviest_rank(channel, mine == ISO_OK ? 0 : iso_error_is_remote() ? 1 : 2, rank);
}

/* Broadcasts the `text` of rank `from`. */
static iso_status agree_share_text(const iso_channel *channel, int from, const char *text,
                                   char out[MESSAGE_BYTES])
{
    memset(out, 0, MESSAGE_BYTES);
    if (channel->rank == from)
        snprintf(out, MESSAGE_BYTES, "%s", text);
    iso_status status = iso_comm_broadcast(channel->communicator, from, out, MESSAGE_BYTES);
    out[MESSAGE_BYTES - 1] = 0;
    return status;
}

/* Broadcasts the status and the message of rank `failing`. *agreed: the status that all ranks return. Fails
 * if MPI fails. */
static iso_status share_failure(const iso_channel *channel, int failing, iso_status mine, iso_status *agreed)
{
    int code = (int)mine, unlike = -1;
    char message[MESSAGE_BYTES];
    iso_status status = ISO_OK;
    ISO_TRY(iso_comm_broadcast(channel->communicator, failing, &code, sizeof code));
    ISO_TRY(agree_share_text(channel, failing, iso_error_message(), message));
    bool alike = (int)mine == code && !strncmp(message, iso_error_message(), MESSAGE_BYTES - 1);
    ISO_TRY(lowest_rank(channel, !alike, &unlike));
    *agreed = mine; /* if all ranks have the same error */
    if (unlike >= 0 && iso_error_names_rank(message))
        *agreed = iso_error((iso_status)code, "%s", message);
    else if (unlike >= 0)
        *agreed = iso_error((iso_status)code, "rank %d: %s", failing, message);
done:
    return status;
}

/* If the agreement fails too, a rank keeps its own error. */
iso_status iso_channel_agree_in(const iso_channel *channel, iso_status status, const char *where)
{
    char mine[MESSAGE_BYTES];
    int failing = -1;
    iso_status agreed = ISO_OK;
    if (agree_is_alone(channel))
        return status;
    if (status != ISO_OK)
        snprintf(mine, sizeof mine, "%s", iso_error_message());
    iso_status reported =
        iso_watchdog_enter_named(channel->watchdog, "the agreement at the end of", -1, where);
    if (reported == ISO_OK)
        reported = failing_rank(channel, status, &failing);
    if (reported == ISO_OK && failing >= 0)
        reported = share_failure(channel, failing, status, &agreed);
    iso_watchdog_leave(channel->watchdog);
    if (reported == ISO_OK)
        return agreed;
    return status == ISO_OK ? reported : iso_error(status, "%s", mine);
}

iso_status iso_agree_in(iso_context *ctx, iso_status status, const char *where)
{
    const iso_channel *channel = iso_context_channel(ctx);
    if (status == ISO_OK)
        status = iso_context_check(ctx);
    if (status == ISO_OK && channel)
        status = iso_first_error_get(&channel->failed);
    if (status == ISO_OK)
        status = iso_options_check();
    return iso_channel_agree_in(channel, status, where);
}

iso_status iso_share_text(iso_context *ctx, iso_status status, const char *path, char **text, size_t *size)
{
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_broadcast(ctx, size, sizeof *size));
    if (iso_rank(ctx) != 0)
        *text = iso_new(*size + 1);
    ISO_TRY(iso_agree(ctx, *text ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory to read '%s'", path)));
    ISO_TRY(iso_broadcast(ctx, *text, *size));
done:
    return status;
}

/* Lists the ranks whose value is not that of rank 0: "rank 1 differs", "ranks 1, 2 and 5 more differ". Returns
 * the lowest one. */
static int list_different(const uint64_t *values, int ranks, iso_text *list)
{
    int first = -1, count = 0;
    for (int rank = 1; rank < ranks; rank++)
        count += values[rank] != values[0];
    iso_text_add(list, count == 1 ? "rank " : "ranks ");
    for (int rank = 1, named = 0; rank < ranks && named < RANKS_NAMED; rank++) {
        if (values[rank] == values[0])
            continue;
        if (first < 0)
            first = rank;
        iso_text_add(list, "%s%d", named++ ? ", " : "", rank);
    }
    if (count > RANKS_NAMED)
        iso_text_add(list, " and %d more", count - RANKS_NAMED);
    iso_text_add(list, count == 1 ? " differs" : " differ");
    return first;
}

/* Sets there[2] to ", on host h1" for rank 0 and for rank `other`; to "" if all ranks are on hosts of one name.
 * Collective. */
static iso_status find_hosts(const iso_channel *channel, int other, char there[2][ISO_HOST_NAME + 16])
{
    char mine[ISO_HOST_NAME], host[2][ISO_HOST_NAME];
    int elsewhere;
    iso_status status = ISO_OK;
    iso_host_name(mine);
    for (int i = 0; i < 2; i++) {
        memcpy(host[i], mine, sizeof mine);
        ISO_TRY(iso_comm_broadcast(channel->communicator, i ? other : 0, host[i], sizeof mine));
    }
    ISO_TRY(lowest_rank(channel, strcmp(mine, host[0]) != 0, &elsewhere));
    for (int i = 0; i < 2; i++) {
        there[i][0] = 0;
        if (elsewhere >= 0)
            snprintf(there[i], ISO_HOST_NAME + 16, ", on host %s,", host[i]);
    }
done:
    return status;
}

/* Reports on which ranks the values differ, and how. Collective. */
static iso_status report_difference(const iso_channel *channel, const char *what, uint64_t value,
                                    const char *text)
{
    uint64_t *values = iso_new((size_t)channel->n_ranks * sizeof *values);
    int lacking = -1;
    iso_text list = {0};
    char first[MESSAGE_BYTES], second[MESSAGE_BYTES], there[2][ISO_HOST_NAME + 16];
    iso_status status = ISO_OK;
    ISO_TRY(lowest_rank(channel, !values, &lacking));
    if (lacking >= 0)
        ISO_TRY(iso_error(ISO_INVALID, "the ranks differ in %s", what));
    ISO_TRY(iso_comm_gather_all(channel->communicator, &value, sizeof value, values));
    int other = list_different(values, channel->n_ranks, &list);
    ISO_TRY(agree_share_text(channel, 0, text ? text : "", first));
    ISO_TRY(agree_share_text(channel, other, text ? text : "", second));
    ISO_TRY(find_hosts(channel, other, there));
    const char *ranks = iso_text_get(&list);
    if (first[0] || second[0])
        status = iso_error(ISO_INVALID, "%s from rank 0 in %s: rank 0%s has '%s', rank %d%s has '%s'", ranks,
                           what, there[0], first, other, there[1], second);
    else
        status = iso_error(ISO_INVALID, "%s from rank 0 in %s", ranks, what);
done:
    iso_text_free(&list);
    iso_free(values);
    return status;
}

iso_status iso_agree_same(iso_context *ctx, const char *what, uint64_t value, const char *text)
{
    const iso_channel *channel = iso_context_channel(ctx);
    if (agree_is_alone(channel))
        return ISO_OK;
    uint64_t least[2] = {value, ~value};
    iso_status status = ISO_OK;
    ISO_TRY(iso_watchdog_enter_named(channel->watchdog, "the comparison of", -1, what));
    ISO_TRY(iso_comm_reduce(channel->communicator, ISO_COMM_MIN, ISO_COMM_U64, least, 2));
    if (least[0] != ~least[1])
        status = report_difference(channel, what, value, text);
done:
    iso_watchdog_leave(channel->watchdog);
    return status;
}

iso_status iso_agree_same_text(iso_context *ctx, const char *what, const char *text)
{
    return iso_agree_same(ctx, what, iso_hash_text(0, text), text);
}

iso_status iso_agree_same_composed(iso_context *ctx, const char *what, const iso_text *text)
{
    iso_status status = text->failed ? iso_no_memory("the text of %s", what) : ISO_OK;
    status = iso_agree(ctx, status);
    return status == ISO_OK ? iso_agree_same_text(ctx, what, iso_text_get(text)) : status;
}

static int64_t count_lines(const char *text)
{
    int64_t lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* Copies the line that begins at *at, truncated to a message's size, and advances *at to the next line. */
static void take_line(const char **at, char line[MESSAGE_BYTES])
{
    const char *end = strchr(*at, '\n');
    snprintf(line, MESSAGE_BYTES, "%.*s", end ? (int)(end - *at) : 12, end ? *at : "nothing more");
    *at = end ? end + 1 : *at;
}

iso_status iso_agree_same_lines(iso_context *ctx, const char *what, const char *lines)
{
    const iso_channel *channel = iso_context_channel(ctx);
    char line[MESSAGE_BYTES];
    iso_status status = iso_agree_same(ctx, what, iso_hash_text(0, lines), NULL);
    if (status != ISO_INVALID || agree_is_alone(channel))
        return status;
    int64_t most = count_lines(lines);
    status = iso_watchdog_enter_named(channel->watchdog, "the comparison of the lines of", -1, what);
    if (status == ISO_OK)
        status = iso_comm_reduce(channel->communicator, ISO_COMM_MAX, ISO_COMM_I64, &most, 1);
    iso_watchdog_leave(channel->watchdog);
    if (status != ISO_OK)
        return status;
    for (int64_t i = 0; i < most; i++) {
        take_line(&lines, line);
        status = iso_agree_same_text(ctx, what, line);
        if (status != ISO_OK)
            return status;
    }
    return iso_error(ISO_INVALID, "the ranks differ in %s", what);
}
