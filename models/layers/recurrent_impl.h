/* Recurrent layers, as the layers that are made of them build them. For models/layers only. */
#ifndef ISO_MODELS_LAYERS_RECURRENT_IMPL_H
#define ISO_MODELS_LAYERS_RECURRENT_IMPL_H

#include "models/layers/layer_impl.h"
#include "models/layers/recurrent.h"

/* A cell of Keras and its layer. */
typedef struct iso_cell_kind {
    iso_cell cell;
    const char *type, *base; /* the class and the automatic name of its layer */
    const char *function;    /* that builds it, for messages */
    const char *kernel, *recurrent, *bias;
    int states; /* the tensors of its state */
    bool has_gates;
} iso_cell_kind;

/* NULL: there is no such cell. */
const iso_cell_kind *iso_cell_kind_of(iso_cell cell);
/* By the class of its layer in Keras. */
const iso_cell_kind *iso_cell_kind_named(const char *type);
/* Builds a layer. in_order: all states are returned in the order of time, with go_backwards too. */
iso_tensor *iso_recurrent_build(const iso_cell_kind *kind, const iso_recurrent_options *options,
                                bool in_order);
/* The options of a layer from its config, without the states. */
iso_recurrent_options iso_recurrent_options_of(const iso_cell_kind *kind, const iso_layer_config *config,
                                               iso_tensor *x);
/* Records the inputs after the first as the call's argument initial_state. */
void iso_recurrent_note_state(iso_layer *layer);

#endif
