/* A network with two inputs and two outputs, and its data: that of tests/keras/several.h5. */
#ifndef ISO_TESTS_SUPPORT_TWO_ENDS_H
#define ISO_TESTS_SUPPORT_TWO_ENDS_H

#include "runtime/data/data.h"
#include "runtime/train/train.h"
#include "tests/support/oracle.h"

enum { TWO_ENDS_ROWS = 37, TWO_ENDS_KINDS = 3, TWO_ENDS_PLACES = 2 };

/* a [5], b [3] -> kind [3], place [2] */
iso_model *two_ends_network(iso_context *ctx, double l2, iso_dtype precision);
/* An array of a case, as doubles. */
iso_data_array two_ends_array(oracle *file, const char *name, const char *dataset);
/* Inputs, targets and weights of a case. */
iso_dataset *two_ends_data(iso_context *ctx, oracle *file, const char *name, int64_t batch);
/* A mesh ("data=8", or "data=2,model=2" with layouts that shard weights and classes) and its distribution.
 * rank_of_slot: of four slots, or NULL. *map may stay NULL. */
iso_distribution *two_ends_distribute(iso_context *ctx, const char *spec, const int *rank_of_slot,
                                      iso_mesh **mesh, iso_layout_map **map);

#endif
