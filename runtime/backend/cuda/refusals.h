/* Refusals of NVIDIA's libraries while work was queued. The caller, which knows the work, reports them. Functions
 * are local; any thread may call them. */
#ifndef ISO_BACKEND_CUDA_REFUSALS_H
#define ISO_BACKEND_CUDA_REFUSALS_H

/* Keeps a text, unless this thread has kept one since it was last asked. */
__attribute__((format(printf, 1, 2))) void iso_cuda_refused(const char *format, ...);
/* The text that this thread has kept, and forgets; NULL: none. It is valid until the next call. */
const char *iso_cuda_refusal(void);

#endif
