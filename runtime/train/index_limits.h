/* Limits of the integers that rows of data may hold: of indices of tables, and of classes. For the library and
 * `launch`; no public header includes it. */
#ifndef ISO_TRAIN_INDEX_LIMITS_H
#define ISO_TRAIN_INDEX_LIMITS_H

#include "runtime/train/model.h"

/* The number below which the values of an input must be because a table (of an embedding) has so many rows: the
 * least one of several. The input reaches it as it is, or reshaped, transposed or cast. 0: no table. */
int64_t iso_model_input_limit(iso_model *model, int input);
/* The number of classes of an output, below which its targets must be for a loss of classes; 0: another loss. */
int64_t iso_model_target_limit(iso_model *model, int output, iso_loss loss);

#endif
