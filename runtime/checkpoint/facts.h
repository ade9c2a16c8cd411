/* Facts about HDF5, for `isogrid doctor`. For `launch`; no public header includes it. */
#ifndef ISO_CHECKPOINT_FACTS_H
#define ISO_CHECKPOINT_FACTS_H

#include <stdbool.h>

typedef struct iso_hdf5_facts {
    char compiled[32], loaded[32]; /* versions of the headers and of the library: "1.10.8" */
    bool same;                     /* the versions are the same; otherwise HDF5 ends the program */
    bool parallel;                 /* the driver for MPI-IO is there and, if MPI runs, works */
} iso_hdf5_facts;

/* Local. */
void iso_hdf5_facts_find(iso_hdf5_facts *facts);

#endif
