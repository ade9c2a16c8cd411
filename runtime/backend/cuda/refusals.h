/* Refusals of NVIDIA's libraries while kernels were looked for or work was queued. The caller, which knows the work,
 * reports them. Functions
 * are local; any thread may call them. */
#ifndef ISO_BACKEND_CUDA_REFUSALS_H
#define ISO_BACKEND_CUDA_REFUSALS_H

#include <stdbool.h>

/* Keeps a text, unless this thread has kept one since it was last asked. iso_cuda_has_refusal: whether it has. */
__attribute__((format(printf, 1, 2))) void iso_cuda_refused(const char *format, ...);
bool iso_cuda_has_refusal(void);
/* The text that this thread has kept, and forgets; NULL: none. It is valid until the next call. */
const char *iso_cuda_refusal(void);

#endif
