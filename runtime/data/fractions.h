/* Targets that must be from 0 to 1. For the library and `launch`; no public header includes it. */
#ifndef ISO_DATA_FRACTIONS_H
#define ISO_DATA_FRACTIONS_H

#include "runtime/data/data.h"

/* Makes it an error of a step, which names row and value, if a component that is set is read as a float and is below
 * 0 or above 1. NULL dataset: nothing. Local. */
void iso_dataset_need_fractions(iso_dataset *dataset, const bool fraction[ISO_MAX_COMPONENTS]);

#endif
