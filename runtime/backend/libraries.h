/* The libraries that the CPU backend uses, for `isogrid doctor`. */
#ifndef ISO_BACKEND_LIBRARIES_H
#define ISO_BACKEND_LIBRARIES_H

#include <stdbool.h>

typedef struct iso_libraries {
    const char *isa;        /* the instruction set that the ranks agreed to use: "AVX-512" */
    char openblas[32];      /* its version; "": it was not found */
    char openblas_core[32]; /* the processor whose kernels it uses: "SkylakeX" */
    char suitable_core[32]; /* the one that suits `isa`; "": OpenBLAS chooses */
    char onednn[32];        /* its version; "": this build does not use it */
    char onednn_isa[32];    /* the highest instruction set that it uses: "AVX-512" */
    bool onednn_is_lower;   /* that is lower than `isa` */
} iso_libraries;

/* Local. */
void iso_libraries_find(iso_libraries *libraries);

#endif
