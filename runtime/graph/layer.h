/* What layers need besides the functions of graph.h: names, records for the summary and for Keras's files,
 * errors, and updates and losses that depend on frozen variables.
 *
 * For those who write layers. As in graph.h nothing returns a status: the first error stays in the graph.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_GRAPH_LAYER_H
#define ISO_GRAPH_LAYER_H

#include "runtime/base/text.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- names and errors ---- */
/* "dense" if it is free, else "dense_1", ...: Keras's automatic names, counted per graph. The text belongs
 * to the graph. */
ISO_API const char *iso_graph_unique_name(iso_graph *graph, const char *base);
/* Takes a name that a user gave to a layer, and returns it after the names of the open blocks. Two layers
 * of one name in one block are an error, and so is a name with a '/'. */
ISO_API const char *iso_graph_take_name(iso_graph *graph, const char *name);
/* A copy of a text that lives as long as the graph; NULL, and an error in the graph, when out of memory. */
ISO_API const char *iso_graph_keep_text(iso_graph *graph, const char *text);
/* Records an error in the graph, unless it has one already (printf's format); for layers and ops. */
ISO_API void iso_graph_fail(iso_graph *graph, const char *format, ...);
/* The same with the message as it is, for languages without variable arguments. */
ISO_API void iso_graph_fail_text(iso_graph *graph, const char *text);
/* The same for ISO_NO_MEMORY: no memory for `what`, of this many bytes. */
ISO_API void iso_graph_fail_memory(iso_graph *graph, const char *what, size_t bytes);

/* ---- variables ---- */
/* Lets elements begin .. end - 1, in C order, be 1 at first, whatever the initializer says. Before a function with
 * the variable is made; not for ISO_INIT_ORTHOGONAL, whose matrix is made as a whole. */
ISO_API void iso_variable_begin_with_ones(iso_variable *variable, int64_t begin, int64_t end);
/* The fans of its initializer, instead of those that follow from its shape. Before a function with the variable is
 * made. */
ISO_API void iso_variable_set_fans(iso_variable *variable, double in, double out);
/* Whether its layer declared it trainable, frozen or not. */
ISO_API bool iso_variable_made_trainable(const iso_variable *variable);
/* Whether it was trainable when the graph's optimizer was made. */
ISO_API bool iso_variable_trained(const iso_variable *variable);
/* Whether an optimizer updates it: trainable ones that its loss does not depend on are left as they are. */
ISO_API bool iso_variable_updated(const iso_variable *variable);

/* ---- open scopes ---- */
/* Whether an iso_share_begin() is open. */
ISO_API bool iso_graph_shares(const iso_graph *graph);
/* Whether an iso_freeze_begin() is open. */
ISO_API bool iso_graph_freezes(const iso_graph *graph);
/* For a complete network: a scope that is open is an error of the graph, which names the function that ends it. */
ISO_API void iso_graph_check_scopes(iso_graph *graph);

/* ---- updates, losses and modes ---- */
/* Registers an update that every training function performs (moving statistics). Within a sharing it
 * replaces the registered updates of the same variables. */
ISO_API void iso_graph_add_training_update(iso_graph *graph, iso_update *update);
/* The same update, left out for variables that are frozen when a function is made. */
ISO_API iso_update *iso_update_unless_frozen(iso_update *update);
/* The value of a variable after the updates registered so far: its own value if there are none. */
ISO_API iso_tensor *iso_graph_training_value(iso_graph *graph, iso_variable *variable);
/* Adds a variable's own term to the loss (iso_graph_add_loss), which counts unless the variable is frozen
 * when the sum is requested. */
ISO_API void iso_graph_add_penalty(iso_graph *graph, const iso_variable *variable, iso_tensor *term);
/* The same as iso_by_mode, but inference in all functions that are made while the variable is frozen. */
ISO_API iso_tensor *iso_by_mode_unless_frozen(const iso_variable *variable, iso_tensor *training,
                                              iso_tensor *inference);

/* ---- masks ---- */
/* The mask of a tensor [batch, steps, ...]: ISO_BOOL [batch, steps] (or [batch], or with more dimensions), false for
 * what does not count; NULL: none. Keras has it twice. The two differ where a MultiHeadAttention takes the second one
 * off its inputs, and behind a model within the model, whose results have only the second. */
typedef struct iso_masks {
    iso_tensor *built; /* the argument of later layers, which is set when the model is built */
    iso_tensor
        *run; /* the tensor's own, which goes with it while the model runs: losses and metrics use it */
} iso_masks;
/* Local. */
ISO_API iso_masks iso_tensor_masks(const iso_tensor *tensor);
ISO_API void iso_tensor_set_masks(iso_tensor *tensor, iso_masks masks);

/* ---- attributes: named, typed values that belong to a graph ---- */
typedef enum iso_attribute_kind {
    ISO_ATTRIBUTE_NONE = 0,
    ISO_ATTRIBUTE_FLAG,    /* .integer: 0 or 1 */
    ISO_ATTRIBUTE_INTEGER, /* .integer */
    ISO_ATTRIBUTE_REAL,    /* .real */
    ISO_ATTRIBUTE_TEXT,    /* .text */
    ISO_ATTRIBUTE_INPUT,   /* .integer: the index of a tensor among a layer's inputs */
    ISO_ATTRIBUTE_LIST,    /* .first to .last */
    ISO_ATTRIBUTE_OBJECT,  /* .first to .last, each with a name */
} iso_attribute_kind;

typedef struct iso_attribute {
    iso_attribute_kind kind;
    const char *name; /* within an object; else NULL */
    int64_t integer;
    double real;
    const char *text;
    struct iso_attribute *first, *last; /* of a list or object; NULL: it is empty */
    struct iso_attribute *next;         /* the next one in its list or object */
    int from_end; /* of a dimension's number: -1, -2, ... if it was given so, as files have it; else 0 */
} iso_attribute;

/* Copies a value into the graph, as the last of a list or object; `to` NULL: of none. Its name and text
 * must live as long as the graph. Returns the copy, to which items or members can be added; NULL, and an
 * error in the graph, when out of memory. Local. */
ISO_API iso_attribute *iso_attribute_add(iso_graph *graph, iso_attribute *to, const iso_attribute *value);
/* Appends the value to a text, without its name, as JSON; reals have 17 digits. Local. */
ISO_API void iso_attribute_print(const iso_attribute *attribute, iso_text *text);

/* ---- layers, as a model's summary lists them ---- */
struct iso_layer_record;
/* A layer of which another one is made. */
typedef struct iso_layer_part {
    const char *argument;  /* of the layer that is made of it, as Keras names it: "backward_layer"; */
    const char *attribute; /* and the attribute of its object in Keras, by which weight files name it */
    const struct iso_layer_record *record;
} iso_layer_part;

typedef struct iso_layer_record {
    const char *type; /* Keras's class: "Dense" */
    /* A function of keras.ops instead of a layer: the module of its class, and `config` and `call` are objects of one
     * text, "json", as files have them. NULL: a layer. */
    const char *function_of;
    const char *name;
    const iso_attribute *config; /* its arguments under Keras's names, an object; NULL: none */
    const iso_attribute *call;   /* likewise the named arguments of its call */
    int n_parts;                 /* the layers of which it is made, as those of a Bidirectional */
    const iso_layer_part *parts;
    int n_inputs; /* of its call */
    iso_tensor *const *inputs;
    iso_tensor *output;
    int n_others; /* results after the first, as the states of a recurrent layer: tensors that the layer made */
    iso_tensor *const *others;
    int again; /* for a shared layer's later calls: the number of the record whose variables it uses again; else -1 */
    int block;         /* filled in by iso_graph_add_layer: the block of the call, or -1; */
    int depth;         /* 0, or of a part of another layer 1, of a part of a part 2; */
    int n_ops;         /* the number of ops in the graph then; */
    bool frozen;       /* whether layers were frozen then; */
    iso_dtype compute; /* and the type in which they computed: of a function this says nothing */
} iso_layer_record;
/* Records a call of a layer; type, name, config, call, and the texts of its parts must live as long as the graph, the
 * rest is copied. */
ISO_API void iso_graph_add_layer(iso_graph *graph, const iso_layer_record *layer);
ISO_API int iso_graph_layer_count(const iso_graph *graph);
/* In order of creation; NULL outside [0, count). Lent. */
ISO_API const iso_layer_record *iso_graph_layer(const iso_graph *graph, int index);

/* Until iso_layer_parts_end, layers are parts of the layer `name`, whose name has been taken: their names begin with
 * its name ("bidirectional/forward_lstm"), and their records are not in the list of the graph's layers. Nests. */
ISO_API void iso_layer_parts_begin(iso_graph *graph, const char *name);
/* Ends it, and writes at most `capacity` records of its parts, one for each call, in order. Returns how many there
 * are. The records are lent. */
ISO_API int iso_layer_parts_end(iso_graph *graph, const iso_layer_record **parts, int capacity);
/* Whether layers are parts of another one now. */
ISO_API bool iso_graph_makes_parts(const iso_graph *graph);
/* The number of calls so far of the layer of this name, which may be a part of another. */
ISO_API int iso_graph_count_calls(const iso_graph *graph, const char *name);

/* ---- blocks: models within the model ---- */
typedef struct iso_block_record {
    bool sequential;  /* it was made as a chain of layers */
    const char *name; /* its path: "encoder", "encoder/attention" */
    int around;       /* the enclosing block, or -1 */
    int again;        /* for a shared model's later calls: the block whose layers it calls again; else -1 */
    int n_inputs;     /* recorded ones; 0: its inputs are what its layers take from outside */
    iso_tensor *const *inputs;
    int n_outputs; /* recorded ones; tensors that are used outside are outputs too */
    iso_tensor *const *outputs;
    int first_op, last_op;       /* it made the ops [first_op, last_op) of the graph, */
    int first_layer, last_layer; /* and called these layers */
} iso_block_record;
/* Records, for the innermost open block or, if none is open, for the whole network, whether it is a chain
 * of layers (default: it is not) and its inputs. sequential: files and summaries show it as Keras's
 * Sequential, others as a functional model; again: the block whose variables it uses again, or -1 (within
 * a sharing it is found). */
ISO_API void iso_name_scope_note(iso_graph *graph, bool sequential, iso_tensor *const *inputs, int count,
                                 int again);
ISO_API int iso_graph_block_count(const iso_graph *graph);
/* In order of beginning; NULL outside [0, count). Lent. */
ISO_API const iso_block_record *iso_graph_block(const iso_graph *graph, int index);
/* Whether the whole network was recorded as a chain of layers. */
ISO_API bool iso_graph_is_sequential(const iso_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
