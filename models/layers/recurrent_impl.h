/* Recurrent layers, as the layers that are made of them build them. For models/layers only. */
#ifndef ISO_MODELS_LAYERS_RECURRENT_IMPL_H
#define ISO_MODELS_LAYERS_RECURRENT_IMPL_H

#include "models/layers/convolution_impl.h"
#include "models/layers/recurrent.h"

/* A cell of Keras and its layer, or the cell as a part of an RNN. */
typedef struct iso_cell_kind {
    iso_cell cell;
    const char *type, *base; /* the class and the automatic name of its layer */
    const char *function;    /* that builds it, for messages */
    const char *kernel, *recurrent, *bias;
    int states; /* the tensors of its state */
    bool has_gates;
    bool is_part;   /* of an RNN, which has the arguments that are not the cell's */
    int image_dims; /* of convolutions in place of the products; 0: there are none */
} iso_cell_kind;

/* NULL: there is no such cell. */
const iso_cell_kind *iso_cell_kind_of(iso_cell cell);
/* The same as a part of an RNN. */
const iso_cell_kind *iso_cell_kind_of_part(iso_cell cell);
/* By the class in Keras: of its layer, or of the cell, which is a part. */
const iso_cell_kind *iso_cell_kind_named(const char *type);
const iso_cell_kind *iso_cell_kind_of_class(const char *type);
/* Builds a layer. in_order: all states are returned in the order of time, with go_backwards too. conv: of a kind of
 * images, whose filters are the units; else NULL. */
iso_tensor *iso_recurrent_build(const iso_cell_kind *kind, const iso_recurrent_options *options,
                                bool in_order, const iso_conv_windows *conv);
/* The arguments of a config that an RNN has beside those of its cell. */
void iso_recurrent_set_steps(iso_recurrent_options *options, const iso_layer_config *config);
/* The states of a layer from a file, and its mask: x are the sequence, the tensors of initial_state, and the mask;
 * `final` gets the last states if the file asks for them. */
void iso_recurrent_set_states(iso_recurrent_options *options, const iso_cell_kind *kind,
                              const iso_layer_config *config, iso_tensor *const *x, int count,
                              iso_tensor *final[2]);
/* Records the arguments that an RNN has beside those of its cell. */
void iso_recurrent_note_steps(iso_layer *layer, const iso_recurrent_options *options);
/* Whether the layer returns its last state too: Keras's return_state. */
bool iso_recurrent_returns_state(const iso_recurrent_options *options);
/* The options of a layer from its config, without the states. */
iso_recurrent_options iso_recurrent_options_of(const iso_cell_kind *kind, const iso_layer_config *config,
                                               iso_tensor *x);
/* Records the inputs after the first as the call's arguments initial_state and, if the options have one, mask. */
void iso_recurrent_note_state(iso_layer *layer, const iso_recurrent_options *options);

#endif
