/* The paths of variables and optimizer state in a weights file, as Keras 3.15's save_weights chooses them
 * (keras/src/saving/saving_lib.py), so that Keras's load_weights() opens it. State that Keras does not have
 * is stored below /isogrid/variables. */
#ifndef ISO_TRAIN_KERAS_WEIGHT_PATHS_H
#define ISO_TRAIN_KERAS_WEIGHT_PATHS_H

#include "runtime/base/table.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/train/model.h"

typedef struct iso_weight_paths {
    int n_tensors, n_groups;
    iso_saved_tensor
        *tensors;          /* every variable and slot once; without a path: state that Keras has and Isogrid
                              does not */
    const void **constant; /* [n_tensors] the values of those without a path; NULL for the others */
    iso_saved_group *groups;
    int *layer; /* [n_groups] the graph's record of the layer whose group it is; -1: it is no layer's */
    iso_table by_h5_path, by_path; /* the numbers of the tensors */
} iso_weight_paths;

/* The paths of all of a model's variables and, if it is compiled, of its optimizer's state:
 *
 *   /layers/<class in snake case>[_k]/vars/<n>   k counts the class in Keras's order of the layers; models
 *                                                within the model have `layers` of their own
 *   /optimizer/vars/<n>                          iteration, learning rate (without a schedule), gradient
 *                                                accumulators, slots in the optimizer's order
 *
 * Includes groups without weights, as in Keras. Returns the error of the model or its graph if there is one.
 * Not collective, and the same on every rank. */
iso_status iso_weight_paths_create(iso_model *model, iso_weight_paths *paths);
void iso_weight_paths_free(iso_weight_paths *paths);
/* Removes the tensors and groups whose paths begin with `begin`. */
void iso_weight_paths_drop(iso_weight_paths *paths, const char *begin);
/* The number of the tensor with this path in Keras's file; -1: there is none. Used to read files that Keras
 * wrote. */
int iso_weight_paths_find(const iso_weight_paths *paths, const char *h5_path);
/* The number of the tensor with this path of Isogrid's; -1: there is none. */
int iso_weight_paths_of(const iso_weight_paths *paths, const char *path);

#endif
