/* A network as Keras sees it: inputs, layers, blocks (models within the model) and bare ops, each with one or
 * more calls, in Keras 3's order. The writers of Keras's files walk this structure. */
#ifndef ISO_TRAIN_KERAS_TOPOLOGY_H
#define ISO_TRAIN_KERAS_TOPOLOGY_H

#include "runtime/graph/graph.h"

typedef enum iso_operation_kind {
    ISO_OPERATION_INPUT, /* Keras's InputLayer */
    ISO_OPERATION_LAYER,
    ISO_OPERATION_FUNCTION, /* of keras.ops, which a record holds as a layer */
    ISO_OPERATION_BLOCK,
    ISO_OPERATION_OP, /* a bare op of the graph, which no layer made */
} iso_operation_kind;

/* An operation, in Keras's sense. Texts are the graph's. */
typedef struct iso_operation {
    iso_operation_kind kind;
    const char *type; /* "Dense", "Functional", "InputLayer"; for a bare op its Isogrid name */
    /* The path of a layer or block. For a bare op: the tensor's name. For an input: its InputLayer's path or
     * the tensor's name, or "input_layer" within a block that has neither. */
    const char *name;
    int record; /* the number in the graph of the layer, function or block of the first call; -1: an input or op */
    int n_calls;
    int *calls; /* their numbers, in the order in which they were made */
} iso_operation;

/* Output number `output` of a call. call -1: no call made the tensor (a variable's value, a constant). */
typedef struct iso_layer_call_output {
    int call, output;
} iso_layer_call_output;

typedef struct iso_layer_call {
    int operation;
    int record; /* as above, of this call; -1: of an input or op */
    int n_inputs, n_outputs;
    iso_tensor **inputs, **outputs;
    iso_layer_call_output *from; /* [n_inputs] */
} iso_layer_call;

/* The order of `call` has no meaning. */
typedef struct iso_keras_topology {
    bool sequential; /* it was recorded as a chain of layers */
    int n_operations, n_calls, n_inputs, n_outputs;
    iso_operation *operations; /* in Keras's order */
    iso_layer_call *calls;
    iso_layer_call_output *inputs, *outputs; /* of the network; includes unused inputs */
} iso_keras_topology;

/* Keras's class of a network: "Sequential" or "Functional". */
const char *iso_topology_class(bool sequential);
/* The network between inputs and outputs. ISO_NO_MEMORY; ISO_INVALID if an output does not follow from the
 * inputs. */
iso_status iso_keras_topology_create(const iso_graph *graph, iso_tensor *const *inputs, int input_count,
                                     iso_tensor *const *outputs, int output_count,
                                     iso_keras_topology *network);
/* The network inside the block of a call. */
iso_status iso_keras_topology_create_block(const iso_graph *graph, const iso_layer_call *call,
                                           iso_keras_topology *network);
void iso_keras_topology_free(iso_keras_topology *network);

#endif
