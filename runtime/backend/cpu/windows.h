/* Some windows along a dimension of a sample, for kernels that need no more of them at a time. */
#ifndef ISO_CPU_WINDOWS_H
#define ISO_CPU_WINDOWS_H

#include "runtime/backend/unfold.h"

/* Windows [first, first + count) of x [d, inner, c], elements of so many bytes -> y [count, inner, size, c]. */
void iso_cpu_unfold_windows(const iso_unfolding *u, size_t bytes, int64_t first, int64_t count, const void *x,
                            void *y);
/* Adds the elements of windows [first, first + count), dy [count, inner, size, c], to dx [d, inner, c]. */
void iso_cpu_fold_windows(const iso_unfolding *u, int64_t first, int64_t count, const float *dy, float *dx);

#endif
