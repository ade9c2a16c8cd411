/* Internals of graphs, for runtime/graph, runtime/spmd, runtime/plan and runtime/exec only. */
#ifndef ISO_GRAPH_GRAPH_IMPL_H
#define ISO_GRAPH_GRAPH_IMPL_H

#include "runtime/base/table.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/optimizers/rule.h"

struct iso_variable {
    iso_graph *graph;
    int id; /* index among the graph's variables */
    const char *path;
    iso_dtype dtype;
    iso_shape shape;
    iso_initializer initializer;
    double fan_in, fan_out;       /* of its initializer; 0: those of its shape */
    int64_t ones_begin, ones_end; /* elements that are 1 at first, whatever the initializer says */
    bool trainable;               /* its layer declared it trainable, frozen or not */
    bool frozen, made_frozen;     /* frozen now, and when it was made */
    bool trained, updated;        /* iso_minimize was given it; the loss depends on it */
    bool inherits;                /* compiled again: takes over its old value (exec/state/recompile.h) */
    bool allocated;               /* a function has given it memory on the slots */
    const char *layout;           /* its own, as text; NULL: given by the distribution */
    iso_tensor *value;            /* output of its variable op */
    iso_tensor *constraint;       /* its value after an optimizer's update; NULL: what the update made */
    const iso_variable
        *state_of; /* the optimizer's state of this variable, or its accumulated gradient; or NULL */
    int without;   /* state_of: the dimension that the state does not have, from 1; 0: it has all */
    const struct iso_adapter *adapter; /* lora.h; NULL: it has none */
    bool of_adapter;                   /* it is the a or b of one */
};

/* One change of state at the end of a step: an assignment, or an optimizer's update. */
typedef struct iso_change {
    iso_variable *variable;
    iso_tensor *value;  /* of an assignment; for an optimizer's update, the output of `apply` */
    iso_op *apply;      /* the apply_optimizer op, NULL for an assignment */
    bool unless_frozen; /* left out of functions that are made while the variable is frozen */
} iso_change;

/* A term of the loss; counted unless the variable (may be NULL) is frozen. */
typedef struct iso_loss_term {
    iso_tensor *tensor;
    const iso_variable *variable;
} iso_loss_term;

/* Memory for changes; the first `used` of them belong to some update. */
typedef struct iso_change_room {
    int used, capacity;
    iso_change *change;
} iso_change_room;

struct iso_update {
    iso_graph *graph;
    int count;
    iso_change *change; /* [count] never modified: an update that joins this one may share it and have more */
    iso_change_room *room; /* the memory that they are in; NULL: none */
};

/* Names with a number each, in a hash table: graphs may have tens of thousands. */
typedef struct iso_name {
    const char *text;
    int value;
} iso_name;
typedef struct iso_name_table {
    int count;
    iso_name *name;
    iso_table index; /* by the hash of the text */
} iso_name_table;

/* Layers that are built again with their existing variables: iso_share_begin(). */
typedef struct iso_sharing {
    iso_name_table names; /* names used since it began */
    struct iso_sharing *outer;
} iso_sharing;

struct iso_distribution;
struct iso_runtime;

enum { ISO_MAX_POLICIES = 32 }; /* scopes within scopes */

struct iso_graph {
    iso_context *ctx;
    bool owned;        /* by a model: iso_graph_destroy does nothing */
    bool of_thread;    /* a thread's graph for calls that ran out of memory: never freed */
    int holders;       /* the program or a model, and functions: the last one frees the graph */
    iso_status status; /* the first error made while building */
    char message[1024];
    struct iso_savepoint *committed; /* what an error goes back to (pending.h); NULL: none, errors stay */
    char pending[512];   /* an error that the next collective call reports, once (pending.h); "": none */
    iso_dtype precision; /* of variables */
    iso_dtype compute;   /* of layers, at present */
    int n_policies;      /* open scopes of iso_policy_begin */
    iso_dtype outside[ISO_MAX_POLICIES]; /* the type in which layers compute outside of each of them */
    bool several_policies;               /* a scope has had another type than the graph */
    uint64_t seed;
    int n_tensors;
    iso_tensor **tensors;
    int n_ops;
    iso_op **ops;
    int n_variables;
    iso_variable **variables;
    iso_name_table layer_names;    /* of layers and blocks; value: the next number to try for a free name */
    iso_name_table variable_paths; /* value: the variable's id */
    int n_scopes;
    const char *scopes[ISO_MAX_SCOPES]; /* the paths of the blocks that are open, each with its '/' */
    int scope_block[ISO_MAX_SCOPES];    /* and their numbers */
    int scope_parts
        [ISO_MAX_SCOPES]; /* of a layer that is made of parts: the value of n_parts when it began */
    int n_blocks;
    iso_block_record **blocks;
    bool sequential;  /* the whole network */
    const char *name; /* of the whole network; NULL: it has none */
    struct {
        const char *name; /* NULL: it is not known */
        const iso_tensor *x, *y;
        const void *options;
    } origin;              /* origin.h */
    iso_sharing *sharing;  /* the innermost open one; NULL: none */
    int frozen;            /* number of iso_freeze_begin() that are open */
    struct iso_lora *lora; /* the innermost open iso_lora_begin(); NULL: none */
    int recomputing;       /* number of iso_recompute_begin() that are open */
    int recomputations;    /* the number of the last one that was not within another */
    int kept;
    void **keep; /* everything to free with the graph */
    int n_layers;
    iso_layer_record **layers;
    int n_parts; /* calls of layers that are parts of others */
    iso_layer_record **parts;
    int making; /* number of iso_layer_parts_begin() that are open */
    iso_update *training_update;
    int n_loss_terms;
    iso_loss_term **loss_terms;
    iso_tensor bad; /* returned by calls on a graph with an error */
    iso_variable bad_variable;
    iso_update bad_update;
    /* Extension slots: an object of a higher folder, which alone knows its type, and the function that
     * destroys it with the graph. */
    struct iso_distribution *distribution; /* runtime/spmd, held; NULL: data parallel over all slots */
    void (*destroy_distribution)(struct iso_distribution *distribution);
    struct iso_runtime *runtime; /* runtime/exec, made with the first function: executes the functions */
    void (*destroy_runtime)(struct iso_runtime *runtime);
    /* Called after each creation of a function until it has succeeded once: sets the first values of
     * variables, instead of their initializers. Collective. NULL: none. */
    iso_status (*restore)(void *user);
    void *restore_user;
};

/* Zeroed memory that lives as long as the graph; NULL (and an error in the graph) when out of memory. */
void *iso_graph_keep(iso_graph *graph, size_t bytes);

/* A copy of an op on these inputs (op->n_inputs), which computes it again; NULL: the graph has an error. */
iso_op *iso_op_again(const iso_op *op, iso_tensor *const *inputs);
/* The name of the layer to which an op, or the op of which it is a gradient, belongs; "": none, as ops of a loss. */
const char *iso_op_layer(const iso_graph *graph, const iso_op *op);

/* The type in which a graph has floating-point tensors that are declared as ISO_F32: that of its variables. */
iso_dtype iso_graph_in_precision(const iso_graph *graph, iso_dtype dtype);
/* Whether a tensor, or a row of one with a batch, may have so many elements: ISO_MAX_ELEMENTS at most. */
bool iso_graph_takes_shape(const iso_shape *shape);
/* Fails the graph with a shape that it does not take. what: "input". */
void iso_graph_fail_shape(iso_graph *graph, const char *what, const char *name, const iso_shape *shape);
/* Fails the graph if the name could not be shown, nor read from a file of weights. what: "layer". */
void iso_graph_check_name(iso_graph *graph, const char *what, const char *name);

/* Elements of a box, for counting operations. A whole tensor, of which many slots hold parts, may have more than 64
 * bits count. */
double iso_box_elements(const iso_box *box);

/* Whether the tensor, or the variable, is one of the graph's now. */
bool iso_tensor_within(const iso_graph *graph, const iso_tensor *tensor);
bool iso_variable_within(const iso_graph *graph, const iso_variable *variable);

typedef struct iso_lora iso_lora;
/* Whether the innermost scope of iso_lora_begin freezes a new variable with this path. */
bool iso_graph_lora_freezes(iso_graph *graph, const char *path);
/* Frees the open scopes. */
void iso_lora_end_all(iso_graph *graph);

/* Adds a pointer to one of the graph's lists; false (and an error in the graph) when out of memory. */
bool iso_graph_append_item(iso_graph *graph, void *list, int *count, const void *item);
#define iso_graph_append(graph, list, count, item)                                                           \
    iso_graph_append_item(graph, &(list), &(count), 1 ? (item) : *(list))

/* ---- names.c ---- */
/* NULL if the table has no such name; valid until the next one is added. */
iso_name *iso_name_find(const iso_name_table *table, const char *text);
/* Adds a name, which must live as long as the graph and not be in the table. Out of memory: an error in
 * the graph. */
void iso_name_add(iso_graph *graph, iso_name_table *table, const char *text, int value);
/* Copies a table; `to` must be empty. */
iso_status iso_names_copy(const iso_name_table *from, iso_name_table *to);
void iso_names_free(iso_name_table *table);
/* A variable's path within the open block: the path itself if it begins with the block's, else written
 * into `room` [ISO_MAX_PATH]. */
const char *iso_graph_path(iso_graph *graph, const char *path, char *room);
/* Lets layouts find the tensor by "<name>/output" too; name: `length` characters. */
void iso_tensor_add_path(iso_tensor *tensor, const char *name, int length);

typedef struct iso_variable_attrs {
    iso_variable *variable;
} iso_variable_attrs;
typedef struct iso_constant_attrs {
    iso_dtype dtype;
    iso_shape shape;
    double *values; /* one for each element */
} iso_constant_attrs;
typedef struct iso_input_attrs {
    const char *name;
    iso_dtype dtype;
    iso_shape shape; /* including the batch, if it has one */
} iso_input_attrs;
/* Whether the first dimension of an input is the rows of the batch. */
static inline bool iso_input_has_batch(const iso_tensor *input)
{
    return input->shape.rank > 0 && input->shape.dim[0] == ISO_BATCH;
}
/* While the variable (may be NULL) is frozen, the mode is inference in every function. */
typedef struct iso_mode_attrs {
    const iso_variable *variable;
} iso_mode_attrs;
/* Passes its input in one mode. In the other mode its output is absent, as if it were a zero that is never
 * computed. */
typedef struct iso_gate_attrs {
    bool training;
    const iso_variable *variable; /* as in iso_mode_attrs */
} iso_gate_attrs;
/* The mode in which such an op runs in a function. */
static inline bool iso_mode_of(const iso_variable *variable, bool training)
{
    return training && !(variable && variable->frozen);
}
/* inputs: variable's value, gradient, iteration, learning rate */
typedef struct iso_apply_attrs {
    iso_optimizer optimizer;
    iso_variable *variable;
} iso_apply_attrs;

/* The training update without the changes that frozen variables leave out; NULL: none. Owned by the graph. */
iso_update *iso_graph_active_update(iso_graph *graph);
/* The update of one variable by an optimizer. iteration: ISO_I64 scalar; rate: ISO_F64 scalar. */
iso_update *iso_update_apply(iso_variable *variable, iso_tensor *gradient, iso_variable *iteration,
                             iso_variable *rate, const iso_optimizer *optimizer);

#endif
