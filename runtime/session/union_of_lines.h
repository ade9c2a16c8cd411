/* Lists of lines that ranks join. */
#ifndef ISO_SESSION_UNION_OF_LINES_H
#define ISO_SESSION_UNION_OF_LINES_H

#include "runtime/base/text.h"
#include "runtime/session/session.h"

/* Appends to `all` the lines of all ranks, each once and ended by a newline, after an empty line: those of rank 0 in
 * their order, then what rank 1 has besides, and so on. The same text on all ranks. own: lines of this rank, each
 * ended by a newline. ISO_NO_MEMORY names `what`. Collective. */
iso_status iso_union_of_lines(iso_context *ctx, const char *what, const iso_text *own, iso_text *all);

#endif
