/* Networks while they are built. For models/keras only. */
#ifndef ISO_MODELS_KERAS_NETWORK_IMPL_H
#define ISO_MODELS_KERAS_NETWORK_IMPL_H

#include "models/keras/keras_impl.h"

/* A call of a layer: its outputs; NULL: it has not been made yet. */
typedef struct iso_keras_call {
    int count;
    iso_tensor **output;
} iso_keras_call;

typedef struct iso_keras_layer {
    const json_t *entry, *config; /* {"class_name", "config", "inbound_nodes"}; its "config" */
    const char *type, *name;
    int made, n_nodes;     /* how many calls have been made, and all calls in the file */
    iso_keras_call *calls; /* [n_nodes]; one for a layer of a Sequential */
} iso_keras_layer;

typedef struct iso_keras_network {
    iso_keras_reader *reader;
    iso_graph *graph;
    const json_t *config;
    const iso_keras_list *given; /* the tensors that a nested model is called with; NULL: the whole model */
    iso_keras_list *made;        /* the whole model: its inputs are added here as they are made */
    int n_layers;
    iso_keras_layer *layers;
    json_t *index; /* name -> number of the layer */
} iso_keras_network;

/* Appends a tensor. */
iso_status iso_keras_list_add(iso_keras_list *list, iso_tensor *tensor, const char *name);
/* Whether a type is Functional, by either of its names. */
bool iso_keras_is_model(const char *type);
/* The graph's error, with the position in the file. */
iso_status iso_keras_graph_error(const iso_keras_network *net);
/* Whether the shape in the file differs from the tensor's. */
bool iso_keras_shape_differs(const json_t *shape, const iso_shape *have);
/* Records call number `node` with its outputs. */
iso_status iso_keras_keep_outputs(iso_keras_layer *l, int node, const iso_keras_list *outputs);

/* ---- call_order.c ---- */
/* Call number `node` of a layer. */
typedef struct iso_keras_ordered_call {
    int layer, node;
} iso_keras_ordered_call;
/* Whether the order of calls changes what a model computes. */
bool iso_keras_order_counts(const json_t *config);
/* The calls of a Functional network in the order in which Keras runs them; the caller frees *order, also after an
 * error. *count 0: the file is wrong, so that there is no such order. */
iso_status iso_keras_order_calls(const iso_keras_network *net, iso_keras_ordered_call **order, int *count);

/* Numbers among the arguments of a call. */
typedef struct iso_keras_numbers {
    int count;
    bool first; /* before all tensors */
    bool real;  /* one is not written as an integer */
    double value;
} iso_keras_numbers;

/* ---- references.c ---- */
/* The arguments of a call in the file: inputs, numbers, and the others by name (owned by the caller). */
typedef struct iso_keras_node {
    iso_keras_list inputs;
    iso_keras_numbers numbers;
    json_t *others;
    json_t
        *call; /* of a function: "args" and "kwargs", in which a tensor is ISO_KERAS_TENSOR with its number */
    bool plain; /* of a function: its arguments are tensors and numbers alone */
    bool ready; /* false: some inputs have not been made yet */
} iso_keras_node;
/* node must be zero; after an error it holds what has been read. operation: of keras.ops, not of a layer. */
iso_status iso_keras_read_node(iso_keras_network *net, const json_t *json, const iso_keras_layer *l,
                               iso_keras_node *node);
void iso_keras_node_free(iso_keras_node *node);
/* The tensors of input_layers or output_layers, which may be lists or dictionaries. */
iso_status iso_keras_add_end(iso_keras_network *net, const json_t *value, const char *key,
                             iso_keras_list *list, bool *ready);
/* The key that follows `last` (NULL: the first) in alphabetical order, as Keras flattens dictionaries. */
const char *iso_keras_next_key(const json_t *object, const char *last);
/* The names of input_layers, with their numbers. */
iso_status iso_keras_number_inputs(const iso_keras_network *net, const json_t *value, json_t *numbers);

/* ---- operations.c ---- */
/* Whether it is an operation of keras.ops instead of a layer. */
bool iso_keras_is_operation(const iso_keras_layer *l);
/* ISO_INVALID: the operation is not one of those that are supported. */
iso_status iso_keras_check_operation(const iso_keras_network *net, const iso_keras_layer *l);
iso_status iso_keras_call_operation(iso_keras_network *net, const iso_keras_layer *l,
                                    const iso_keras_node *node, iso_keras_list *out);

/* ---- functions.c ---- */
/* Whether it is one of the functions of keras.ops that are supported with all their arguments. */
bool iso_keras_is_function(const iso_keras_layer *l);
iso_status iso_keras_call_function(iso_keras_network *net, const iso_keras_layer *l,
                                   const iso_keras_node *node, iso_keras_list *out);

/* Records the call of a function with these results, as it is in the file; they lose the masks of inputs. */
iso_status iso_keras_record_function(iso_keras_network *net, const iso_keras_layer *l,
                                     const iso_keras_node *node, iso_keras_list *out);

/* ---- mask_operations.c ---- */
/* *out stays empty if it does something else. */
iso_status iso_keras_call_mask_operation(iso_keras_network *net, const iso_keras_layer *l,
                                         const iso_keras_node *node, iso_keras_list *out);

/* ---- policies.c ---- */
/* Whether some layer of a model has the policy mixed_bfloat16. */
bool iso_keras_names_mixed(const json_t *config);
/* Opens a scope of the policy that a layer's config has, for the caller to close with iso_policy_end. ISO_INVALID,
 * and no scope: the policy is not supported; the message names the layer. */
iso_status iso_keras_policy_begin(const iso_keras_network *net, const json_t *config, const char *name);
/* ISO_INVALID if the policy of the network itself is not supported. */
iso_status iso_keras_policy_check(const iso_keras_network *net);

/* ---- inputs.c ---- */
/* Makes an input of the whole model. */
iso_status iso_keras_make_input(iso_keras_network *net, const char *name, const json_t *shape,
                                iso_dtype dtype, iso_tensor **x);
/* Tensor `number` of those that a nested model is called with, checked against the shape of its input in the
 * file; name: of its InputLayer, NULL: it has none. */
iso_status iso_keras_take_input(iso_keras_network *net, const char *name, const json_t *shape, int number,
                                iso_tensor **x);
/* An InputLayer; number: among the inputs of a nested model. */
iso_status iso_keras_call_input(iso_keras_network *net, iso_keras_layer *l, int number);

#endif
