/* Where variables and optimizer state lie in a file, so that real Keras's load_weights() opens it: the places
 * that save_weights of Keras 3.15 gives them (keras/src/saving/saving_lib.py). What Keras does not have lies
 * below /isogrid/variables. */
#ifndef ISO_TRAIN_KERAS_WEIGHT_PATHS_H
#define ISO_TRAIN_KERAS_WEIGHT_PATHS_H

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/train/model.h"

typedef struct iso_weight_paths {
    int n_tensors, n_groups;
    iso_saved_tensor
        *tensors;          /* every variable and slot once; no path: what Keras has and Isogrid does not */
    const void **constant; /* [n_tensors] of those without a path; else NULL */
    iso_saved_group *groups;
} iso_weight_paths;

/* The places of all of a model's variables, and where it is compiled of its optimizer's state:
 *   /layers/<class in snake case>[_k]/vars/<n>   k counts the class in Keras's order of the layers; models
 *                                                within the model have `layers` of their own
 *   /optimizer/vars/<n>                          iteration, learning rate (without a schedule), gradient
 *                                                accumulators, slots in the optimizer's order
 * Groups without weights are there as Keras has them. Fails where the model or its graph has an error. Not
 * collective, and the same on every rank. */
iso_status iso_weight_paths_create(iso_model *model, iso_weight_paths *places);
void iso_weight_paths_free(iso_weight_paths *places);
/* Takes out the tensors and groups whose places begin so. */
void iso_weight_paths_drop(iso_weight_paths *places, const char *begin);
/* The number of the tensor at a place, -1: none. So a file that Keras wrote is read. */
int iso_weight_paths_find(const iso_weight_paths *places, const char *place);

#endif
