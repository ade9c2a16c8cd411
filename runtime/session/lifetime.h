/* The lifetime of a context's memory, for the objects that keep a pointer to it. For the library only. */
#ifndef ISO_SESSION_LIFETIME_H
#define ISO_SESSION_LIFETIME_H

#include "runtime/session/session.h"

/* Keeps the memory of a context until as many calls of iso_context_release: an object that outlives
 * iso_finish then says so when it is used (iso_agree, iso_context_check). Both return or take NULL too. Local. */
iso_context *iso_context_hold(iso_context *ctx);
void iso_context_release(iso_context *ctx);

#endif
