/* Declarations that the parts of the fusion of steps share. */
#ifndef ISO_SPMD_FUSE_IMPL_H
#define ISO_SPMD_FUSE_IMPL_H

#include "runtime/spmd/program.h"

enum { X, DY }; /* inputs of the gradients of normalisations */

typedef struct iso_fusion {
    iso_program *program;
    const iso_fusion_kernels *kernels;
    int *uses;       /* [values] */
    int *first_read; /* [values + 1] index in `reader` at which a value's readers begin */
    int *reader;     /* steps, in order, before any was fused; one that reads a value twice is listed twice */
    bool *dead;      /* [steps] */
} iso_fusion;

bool iso_fusion_one_layout(const iso_fusion *f, int a, int b);
/* Replaces a step's op by a copy that has a copy of these attributes. */
iso_status iso_fusion_replace(iso_fusion *f, iso_program_step *step, const void *attrs, size_t size);
/* Makes a value input k of a step, whose op is such a copy. */
void iso_fusion_set_input(const iso_fusion *f, iso_program_step *step, int k, int value);
/* Fuses the windows along the depth before or after step `number` (fuse_unfold.c). */
iso_status iso_fusion_unfold(iso_fusion *f, int number);
/* Fuses the casts around step `number`, or the step itself if it is one (fuse_casts.c). */
iso_status iso_fusion_cast(iso_fusion *f, int number);

#endif
