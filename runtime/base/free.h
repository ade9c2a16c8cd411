/* Memory that the library allocates for its caller.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_BASE_FREE_H
#define ISO_BASE_FREE_H

#include "runtime/base/build.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Frees memory of functions whose comments say "freed with iso_free". The C library's free() must not be used
 * on it. NULL is ignored. */
ISO_API void iso_free(void *memory);

#ifdef __cplusplus
}
#endif
#endif
