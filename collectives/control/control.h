/* Control: agreement on statuses, so that a rank that fails alone leaves nobody waiting. */
#ifndef ISO_COLL_CONTROL_H
#define ISO_COLL_CONTROL_H

#include "runtime/base/status.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All ranks of the context get the status of the lowest failing rank and its message, "rank 3: ..." in front
 * where there is more than one rank and the ranks do not all fail alike (ISO_OK where none fails).
 * Collective. Every collective public call ends with it. */
iso_status iso_agree(iso_context *ctx, iso_status status);
/* ISO_INVALID on every rank where `value` (of `what`: "the options", "the build") is not the same on all;
 * says which ranks differ and, by text (may be NULL), how. Collective. */
iso_status iso_agree_same(iso_context *ctx, const char *what, uint64_t value, const char *text);
/* The same of a text. Collective. */
iso_status iso_agree_same_text(iso_context *ctx, const char *what, const char *text);

#ifdef __cplusplus
}
#endif
#endif
