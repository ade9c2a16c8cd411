/* What objects that keep a pointer to a context share: its memory, and what they count in it. For the library. */
#ifndef ISO_SESSION_LIFETIME_H
#define ISO_SESSION_LIFETIME_H

#include "runtime/session/session.h"

/* Keeps the memory of a context until as many calls of iso_context_release: an object that outlives
 * iso_finish then says so when it is used (iso_agree, iso_context_check). Both return or take NULL too. Local. */
iso_context *iso_context_hold(iso_context *ctx);
void iso_context_release(iso_context *ctx);
/* The bytes of batches that the data sets of a context keep in this process, as far as they have been counted.
 * Lent, as long as the memory of the context; NULL for NULL. Local. */
size_t *iso_context_kept(iso_context *ctx);

#endif
