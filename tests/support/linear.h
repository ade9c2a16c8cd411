/* A minimal training: a linear function of three features, and a layer that learns it. */
#ifndef ISO_TESTS_SUPPORT_LINEAR_H
#define ISO_TESTS_SUPPORT_LINEAR_H

#include "runtime/isogrid.h"

enum { LINEAR_ROWS = 50, LINEAR_FEATURES = 3 };

const double *linear_inputs(void);  /* [LINEAR_ROWS, LINEAR_FEATURES] */
const double *linear_targets(void); /* [LINEAR_ROWS]: 2 x0 - x1 + 0.5 */

/* The first rows of the inputs, with y ([rows]; NULL: the targets) and sample weights (NULL: none), both lent
 * as long as the data set lives; in batches, unless batch is 0. */
iso_dataset *linear_data(iso_context *ctx, int64_t rows, const double *y, const double *weights,
                         int64_t batch);
/* Dense layer "d" in float64. */
iso_model *linear_model(iso_context *ctx, int64_t units);
/* The same with one unit, compiled: squared error, the metric "mean_absolute_error". */
iso_model *linear_model_compiled(iso_context *ctx, iso_optimizer optimizer, iso_distribution *distribution);

#endif
