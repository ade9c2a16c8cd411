/* Layers that are made of other layers: Bidirectional and TimeDistributed.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_MODELS_LAYERS_WRAPPERS_H
#define ISO_MODELS_LAYERS_WRAPPERS_H

#include "models/layers/recurrent.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a Bidirectional joins the result y of its layer and that of its backward layer, z. */
typedef enum iso_merge_mode {
    ISO_MERGE_CONCAT = 0, /* along the last dimension */
    ISO_MERGE_SUM,        /* y + z */
    ISO_MERGE_MUL,        /* y z */
    ISO_MERGE_AVE,        /* (y + z) / 2 */
    ISO_MERGE_NONE,       /* not: both are results */
} iso_merge_mode;

/* Keras's Bidirectional: x: [batch, t, features] is read from the first step to the last by one recurrent layer, and
 * from the last to the first by another: -> [batch, 2 units], or with .layer.return_sequences [batch, t, 2 units],
 * where both results of a step are at that step; units instead of 2 units, where the merge_mode does not concatenate.
 * Named b, it has the variables of its layers, as b/forward_lstm/lstm_cell/kernel and
 * b/backward_lstm/lstm_cell/kernel. */
typedef struct iso_bidirectional_options {
    char begin_;
    iso_tensor *x;
    iso_cell cell; /* LSTM */
    /* The layer; its x is the one above. Its name n (default "lstm", "gru", "simple_rnn") becomes forward_n. */
    iso_recurrent_options layer;
    /* The backward layer. Units 0: it is like the layer, but for its name, backward_n, and its own initial_h,
     * initial_c, final_h and final_c. Units as those of the layer: all options are its own but return_sequences and
     * go_backwards, which follow from the layer's. Initial states: of both layers, or of none. */
    iso_recurrent_options backward;
    iso_merge_mode merge_mode;
    iso_tensor **backward_result; /* with ISO_MERGE_NONE: where to put z; the function returns y */
    const char *name;
} iso_bidirectional_options;
ISO_API iso_tensor *iso_bidirectional_with(const iso_bidirectional_options *options, size_t size);
#define iso_bidirectional(...) iso_bidirectional_with(ISO_OPTIONS(iso_bidirectional_options, __VA_ARGS__))

/* Builds one layer on x and returns its result. */
typedef iso_tensor *(*iso_layer_function)(iso_tensor *x, void *user);

/* Keras's TimeDistributed: a layer for each step of x: [batch, t, ...] -> [batch, t, ...]. `layer` is called with
 * the step [batch, ...], once for each step, and makes one layer, whose variables all steps share: named d in a
 * TimeDistributed named n, it has n/d/kernel. As in Keras, batch normalisation updates its statistics at each step,
 * and dropout drops other elements at each. A layer that computes the same with further dimensions, such as Dense and
 * Activation, is called with all steps at once. */
typedef struct iso_time_distributed_options {
    char begin_;
    iso_tensor *x;
    iso_layer_function layer;
    void *user; /* for `layer` */
    const char *name;
} iso_time_distributed_options;
ISO_API iso_tensor *iso_time_distributed_with(const iso_time_distributed_options *options, size_t size);
#define iso_time_distributed(...)                                                                            \
    iso_time_distributed_with(ISO_OPTIONS(iso_time_distributed_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
