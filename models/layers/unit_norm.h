/* Vectors of length 1. For models alone. */
#ifndef ISO_MODELS_LAYERS_UNIT_NORM_H
#define ISO_MODELS_LAYERS_UNIT_NORM_H

#include "runtime/graph/graph.h"

/* x divided by its norm over some dimensions, or by epsilon where the norm is less. Of zeros the gradient is finite
 * (Keras's is NaN). epsilon: from 1e-18 on, whose square each type holds. */
iso_tensor *iso_unit_vectors(iso_tensor *x, const int *axes, int count, double epsilon);

#endif
