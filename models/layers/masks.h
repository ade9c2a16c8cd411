/* Masks: which steps of a sequence count (layer.h). For models only. */
#ifndef ISO_MODELS_LAYERS_MASKS_H
#define ISO_MODELS_LAYERS_MASKS_H

#include "models/layers/layer_impl.h"

/* ---- parts of masks, with the operations that Keras records in files ---- */
/* true where an element of x is not the value */
iso_tensor *iso_mask_of_values(iso_tensor *x, double value);
/* [..., n] -> [...]: whether any of the last dimension is true */
iso_tensor *iso_mask_any(iso_tensor *mask);
/* Of two equal masks, the first one: residual networks join a mask with itself in each block. */
iso_tensor *iso_mask_or(iso_tensor *a, iso_tensor *b);
/* [...] -> [..., 1] */
iso_tensor *iso_mask_column(iso_tensor *mask);
/* One value in the shape of x. */
iso_tensor *iso_mask_filled(iso_tensor *x, bool value);
/* Whether both are computed in the same way from the same tensors; either may be NULL. */
bool iso_mask_equal(const iso_tensor *a, const iso_tensor *b);

/* ---- the masks of layers ---- */
/* The mask of an input for a layer that has a mask as an argument; NULL: none. Keras keeps the one that was set when
 * the model was built only if the layer does not cast the input. */
iso_tensor *iso_layer_mask(const iso_layer *layer, const iso_tensor *x);
/* The masks of the result of such a layer that passes the mask on. */
iso_masks iso_layer_masks_used(const iso_layer *layer, const iso_tensor *x);
/* Whether this mask (NULL: there is none) has the first dimensions of x, `rank` of them. If not: an error of the
 * layer. */
bool iso_layer_check_mask(const iso_layer *layer, const iso_tensor *x, int rank);
/* A mask that a caller gives in place of an input's own, as ISO_BOOL; it has the first dimensions of x, `rank` of
 * them. If not: NULL, and an error of the layer. */
iso_tensor *iso_layer_given_mask(const iso_layer *layer, iso_tensor *mask, const iso_tensor *x, int rank);
/* Records that the layer's input of this number is the argument `mask` of its call. */
void iso_layer_note_mask(iso_layer *layer, int input);
/* The `mask` of a call, which is the last of *count inputs and is then not counted; NULL: it has none. */
iso_tensor *iso_config_mask(const iso_layer_config *config, iso_tensor *const *x, int *count);
/* Says on the chief, once, what a layer does not do with the mask of its input. what: "does not pass it on". */
void iso_layer_warn_mask(const iso_layer *layer, const char *what);
/* Sets the masks of a layer's results, by the rule of its type. */
void iso_layer_end_masks(iso_layer *layer, iso_tensor *y);

#endif
