/* Keras's progress lines, for iso_fit() and for custom training loops. Functions are local unless their
 * comment says otherwise. */
#ifndef ISO_TRAIN_PROGRESS_H
#define ISO_TRAIN_PROGRESS_H

#include "runtime/base/options.h"
#include "runtime/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_progress iso_progress;

typedef struct iso_progress_options {
    char begin_;
    int64_t steps; /* in an epoch; 0: unknown */
    const char
        *names[ISO_MAX_PROGRESS]; /* of the values, in the order of iso_progress_update; ends at NULL */
    int verbose; /* 1 (default, see iso_verbose): a bar on a terminal, otherwise as 2: a line at the end;
                    ISO_ZERO: nothing */
    bool latest; /* shows the last values instead of their means over the updates */
} iso_progress_options;

/* Only the chief prints, to stdout. Freed with iso_progress_destroy(). ISO_NO_MEMORY. Not collective. */
ISO_API iso_status iso_progress_create_with(iso_context *ctx, iso_progress **progress,
                                            const iso_progress_options *options, size_t size);
#define iso_progress_create(ctx, progress, ...)                                                              \
    iso_progress_create_with(ctx, progress, ISO_OPTIONS(iso_progress_options, __VA_ARGS__))
ISO_API void iso_progress_destroy(iso_progress *progress);
/* Counts a step; values: one for each name. Redraws a terminal at most ten times a second, and takes
 * nanoseconds otherwise. */
ISO_API void iso_progress_update(iso_progress *progress, const double *values);
/* Ends the line; the next update begins a new one. */
ISO_API void iso_progress_finish(iso_progress *progress);

#ifdef __cplusplus
}
#endif
#endif
