/* Control: agreement on statuses, so that no rank waits for a rank that failed alone. */
#ifndef ISO_COLL_CONTROL_H
#define ISO_COLL_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/arguments.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives all ranks of the context the status and message of the lowest failing rank, or ISO_OK if no rank
 * fails. The message is preceded by "rank 3: " unless all ranks have the same error. Every collective public
 * call ends with it. where: the function that calls, for the watchdog's report. Collective. */
iso_status iso_agree_in(iso_context *ctx, iso_status status, const char *where);
#define iso_agree(ctx, status) iso_agree_in(ctx, status, __func__)
/* ISO_INVALID if iso_finish has ended the context, which an object was made with. iso_agree returns it too. ctx may
 * be NULL. Local. */
iso_status iso_context_check(const iso_context *ctx);
/* Keeps an error that this rank found where the ranks do not agree (in the messages at the end of a step).
 * From now on, iso_agree uses it whenever this rank passes ISO_OK. Only the first such error counts; its
 * message is the last one recorded. Local. */
void iso_agree_later(iso_context *ctx, iso_status status);
/* ISO_INVALID on every rank unless `value` (of `what`: "the options", "the build") is the same on all: "ranks
 * 1, 2 differ from rank 0 in the options", followed, unless text is NULL, by ": rank 0 has '...', rank 1 has
 * '...'"; where the ranks are on several hosts, these are named too: "rank 1, on host h2, has". Collective. */
iso_status iso_agree_same(iso_context *ctx, const char *what, uint64_t value, const char *text);
/* The same for a text. Collective. */
iso_status iso_agree_same_text(iso_context *ctx, const char *what, const char *text);
/* The same for a composed text. ISO_NO_MEMORY on all ranks if one had no memory for it. */
iso_status iso_agree_same_composed(iso_context *ctx, const char *what, const iso_text *text);

/* The same for a text of lines, each ended by a newline: the error names the first line that is not the same
 * on all ranks. Collective. */
iso_status iso_agree_same_lines(iso_context *ctx, const char *what, const char *lines);

/* iso_broadcast_from (session.h) without its checks of root and data, for steps. Collective. */
iso_status iso_broadcast_unchecked(const iso_context *ctx, int root, void *data, size_t bytes);

/* Gives all ranks the text that rank 0 has read from the file `path`, of `size` bytes; `status`: of its reading. Each
 * rank frees *text with iso_free, also after an error. ISO_NO_MEMORY, or the status of rank 0. Collective. */
iso_status iso_share_text(iso_context *ctx, iso_status status, const char *path, char **text, size_t *size);

/* Requests to stop (session.h). A step carries them: a rank that has one adds it to the faults that the slots
 * exchange, and then every rank knows. */

/* Whether something has asked this rank to stop, such as a signal. Call it once a step. ctx may be NULL.
 * Local. */
bool iso_stop_wanted(iso_context *ctx);
/* This rank asks all to stop after a step: it knows of an error on which the ranks are to agree then. Local. */
void iso_stop_want(iso_context *ctx);
/* They have agreed on the error. Requests that came from outside stay. Collective. */
void iso_stop_withdraw(iso_context *ctx);
/* All ranks know now that one of them was asked to stop. Local. */
void iso_stop_acknowledge(iso_context *ctx);
/* Whether a request to stop (iso_stop_wanted) has reached any rank, agreed without a step; ISO_OK at once if no
 * rank accepts such requests. Collective. */
iso_status iso_stop_agree(iso_context *ctx);
/* On an evaluator in the workers' job, which goes on until they end: the name of a signal that one of its ranks has
 * got, unless the launcher is known to have sent it to the whole job. NULL: none. The same on all its ranks after
 * iso_stop_agree. Local. */
const char *iso_stop_refused(const iso_context *ctx);

/* The number of slots that an axis `*` of a mesh is computed from, as ISOGRID_SLOTS states it; 0 if it is not
 * set. launch/mpirun sets it, so that a job that is restarted on fewer ranks keeps its mesh. Local. */
int iso_slots_stated(void);

/* The backend that --backend or ISOGRID_BACKEND names, the same on all ranks, at the lowest level of its kernels
 * among them, so that they compute the same bits. iso_init calls it, and so does the first function of each
 * graph, because another context may have lowered the level of some ranks. ISO_INVALID names an unknown or
 * unavailable backend, or the ranks that differ. Collective. */
struct iso_backend;
iso_status iso_agree_backend(iso_context *ctx, const struct iso_backend **backend);
/* The backend that a context has. Never NULL. Local. */
const struct iso_backend *iso_context_backend(const iso_context *ctx);

/* ISO_NEED in a collective function: returns ISO_INVALID on every rank if one rank passes NULL. ctx may be
 * NULL. It costs one agreement: for set-up, not for steps. */
#define ISO_NEED_AGREED(ctx, ...) ISO_NEED_AGREED_AS(ctx, #__VA_ARGS__, __VA_ARGS__)
#define ISO_NEED_AGREED_AS(ctx, names, ...)                                                                  \
    do {                                                                                                     \
        iso_status needed_ = iso_agree(ctx, ISO_ANY_NULL_AS(names, __VA_ARGS__) ? ISO_INVALID : ISO_OK);     \
        if (needed_ != ISO_OK)                                                                               \
            return needed_;                                                                                  \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
