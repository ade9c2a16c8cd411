/* A network as Keras sees it: inputs, layers, blocks (models within the model) and bare ops, each called once
 * or more often, in the order in which Keras 3 lists them. What writes Keras's files walks this. */
#ifndef ISO_TRAIN_KERAS_TOPOLOGY_H
#define ISO_TRAIN_KERAS_TOPOLOGY_H

#include "runtime/graph/graph.h"

typedef enum iso_operation_kind {
    ISO_OPERATION_INPUT, /* Keras's InputLayer */
    ISO_OPERATION_LAYER,
    ISO_OPERATION_BLOCK,
    ISO_OPERATION_OP, /* a bare op of the graph, which no layer made */
} iso_operation_kind;

/* What Keras calls an operation. Texts are the graph's. */
typedef struct iso_operation {
    iso_operation_kind kind;
    const char *type; /* "Dense", "Functional", "InputLayer"; of a bare op its name in Isogrid */
    /* The path of a layer or block; of a bare op the tensor's name; of an input its InputLayer's path or the
     * tensor's name, within a block that has neither "input_layer". */
    const char *name;
    int record; /* the layer's or block's number in the graph, of its first call; -1: an input or op */
    int n_calls;
    int *calls; /* their numbers, in the order in which they were made */
} iso_operation;

/* Output number `output` of a call; call -1: no call made the tensor (a variable's value, a constant). */
typedef struct iso_layer_call_output {
    int call, output;
} iso_layer_call_output;

typedef struct iso_layer_call {
    int operation;
    int record; /* of this call; -1: of an input or op */
    int n_inputs, n_outputs;
    iso_tensor **inputs, **outputs;
    iso_layer_call_output *from; /* [n_inputs] */
} iso_layer_call;

/* `call` is in no order that means anything. */
typedef struct iso_keras_topology {
    bool sequential; /* it was noted as a chain of layers */
    int n_operations, n_calls, n_inputs, n_outputs;
    iso_operation *operations; /* in Keras's order */
    iso_layer_call *calls;
    iso_layer_call_output *inputs, *outputs; /* of the network; an input that is not used is there too */
} iso_keras_topology;

/* Keras's class of a network: "Sequential" or "Functional". */
const char *iso_topology_class(bool sequential);
/* The network between inputs and outputs. ISO_NO_MEMORY; ISO_INVALID where an output does not follow from the
 * inputs. */
iso_status iso_keras_topology_create(const iso_graph *graph, iso_tensor *const *inputs, int input_count,
                                     iso_tensor *const *outputs, int output_count,
                                     iso_keras_topology *network);
/* The network within the block that a call of a network has called. */
iso_status iso_keras_topology_create_block(const iso_graph *graph, const iso_layer_call *call,
                                           iso_keras_topology *network);
void iso_keras_topology_free(iso_keras_topology *network);

#endif
