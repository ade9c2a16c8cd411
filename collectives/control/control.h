/* Control: agreement on statuses, so that a rank that fails alone leaves nobody waiting. */
#ifndef ISO_COLL_CONTROL_H
#define ISO_COLL_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/arguments.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All ranks of the context get the status of the lowest failing rank and its message, "rank 3: ..." in front
 * where there is more than one rank and the ranks do not all fail alike (ISO_OK where none fails).
 * Collective. Every collective public call ends with it. */
iso_status iso_agree(iso_context *ctx, iso_status status);
/* An error of this rank that it found where the ranks do not agree (in the messages at the end of a step):
 * iso_agree gives it from now on wherever this rank would have given ISO_OK. The first counts; its
 * message is the one recorded last. Local. */
void iso_agree_later(iso_context *ctx, iso_status status);
/* ISO_INVALID on every rank where `value` (of `what`: "the options", "the build") is not the same on all:
 * "ranks 1, 2 differ from rank 0 in the options", and by text (may be NULL) ": rank 0 has '...', rank 1 has
 * '...'". Collective. */
iso_status iso_agree_same(iso_context *ctx, const char *what, uint64_t value, const char *text);
/* The same of a text. Collective. */
iso_status iso_agree_same_text(iso_context *ctx, const char *what, const char *text);
/* The same of a text that was composed; ISO_NO_MEMORY on all ranks where one had no memory for it. */
iso_status iso_agree_same_composed(iso_context *ctx, const char *what, const iso_text *text);

/* The same of a text of lines, each ended by a newline: the first line that is not the same on all ranks is
 * named. Collective. */
iso_status iso_agree_same_lines(iso_context *ctx, const char *what, const char *lines);

/* ISO_NEED in a collective function: returns ISO_INVALID on every rank where one rank gives NULL. ctx may be
 * NULL. One agreement: for set-up, not for steps. */
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
