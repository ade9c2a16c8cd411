/* The descriptors of ops, for those who write ops, kernels, the partitioner and the planner. Not for users.
 *
 * To add an op: one descriptor in ops/<family>.c, one line in ops/list.h, a kernel file in each backend and
 * one line in its list.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_GRAPH_OP_H
#define ISO_GRAPH_OP_H

#include "runtime/base/window.h"
#include "runtime/graph/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_op iso_op;
typedef struct iso_op_type iso_op_type;

/* Another name by which layouts find a tensor: that of a layer or block which passes it on. */
typedef struct iso_tensor_path {
    const char *text; /* "block/output" */
    struct iso_tensor_path *next;
} iso_tensor_path;

struct iso_tensor {
    iso_graph *graph;
    int id; /* index among the graph's tensors, in order of creation */
    iso_dtype dtype;
    iso_shape shape; /* global; ISO_BATCH for the rows */
    iso_op *producer;
    int output; /* its index among the outputs of its producer */
    const char *name;
    iso_tensor_path *paths;
    iso_tensor *gradient_of; /* made by autodiff as the gradient, or a part of it, of this tensor; or NULL */
    iso_masks masks;
};

struct iso_op {
    const iso_op_type *type;
    iso_graph *graph;
    int id; /* index among the graph's ops; every op comes after the producers of its inputs */
    int n_inputs, n_outputs;
    iso_tensor *inputs[ISO_MAX_INPUTS];
    iso_tensor *outputs[ISO_MAX_OUTPUTS];
    void *attrs;      /* type->attr_size bytes of plain data, owned by the graph */
    uint32_t widened; /* bit i: output i is the float32 of a bfloat16 sum; what uses it takes a cast of it */
    const iso_op *backward_of; /* the op whose gradient this op is a part of; NULL: none */
    const iso_op
        *again; /* the op that this one computes again, for its gradient; NULL: none. It is backward_of too */
    int recomputation; /* the number of the outermost iso_recompute_begin() around it; 0: none */
};

/* ---- the sharding rule ----
 * The op's index space: factors, and the factor of each dimension of each input and output. */
enum { ISO_WHOLE = -1 }; /* a dimension that every slot must hold whole (or that has extent 1) */

typedef struct iso_rule {
    int n_factors;
    /* factor of each dimension, or ISO_WHOLE */
    int8_t input[ISO_MAX_INPUTS][ISO_MAX_RANK];
    int8_t output[ISO_MAX_OUTPUTS][ISO_MAX_RANK];
    /* Dimensions that use a factor through its window (bit d of an operand): the factor counts the
     * window's positions, and a part of the dimension is what its positions read (of an input) or add to
     * (of an output). Such parts may overlap. */
    iso_sliding_window window[ISO_MAX_FACTORS];
    uint8_t input_windows[ISO_MAX_INPUTS], output_windows[ISO_MAX_OUTPUTS];
    /* A factor that no output has is contracted: sharding it leaves the outputs partial. */
    bool contract_max; /* partial results combine by maximum instead of by sum */
    /* Bit i: with the other inputs fixed, the outputs are linear in input i, so that a partial sum may
     * pass through. */
    uint32_t linear;
    /* True: the linear inputs must be partial together (add). False: one of them alone may be (multiply,
     * matmul). */
    bool jointly;
} iso_rule;

/* Fills a rule from an einsum-like string with one letter per dimension: "mk,kn->mn". A '.' stands for
 * ISO_WHOLE.
 * "...,...->..." gives elementwise rules with broadcasting for the op's own ranks. */
ISO_API void iso_rule_parse(const iso_op *op, const char *text, iso_rule *rule);
/* The rule of an op, from its type's function or string. */
ISO_API void iso_op_rule(const iso_op *op, iso_rule *rule);

/* The words for an element of an input in messages, if it is not an index: "<what> 12 of row 512 is not one of the
 * 10 <of>". */
typedef struct iso_index_words {
    const char *what, *of;
} iso_index_words;

struct iso_op_type {
    const char *name;
    size_t attr_size;
    /* Checks the inputs and fills in dtype and shape of the outputs (op->outputs is preset to `outputs`,
     * and may be changed). On an error: calls iso_graph_fail with both shapes and returns false. */
    bool (*infer)(iso_op *op);
    int n_outputs; /* 0 means 1 */
    uint32_t
        kept; /* bit i: output i is kept for the gradient alone: nothing else takes it, and it has no gradient */
    /* Builds the gradients of the inputs into dx (preset to NULL) from those of the outputs (dy[i] may be
     * NULL: none). NULL: not differentiable, no gradient flows. */
    void (*gradient)(iso_op *op, iso_tensor *const *dy, iso_tensor **dx);
    const char *rule;                                  /* factor string, or */
    void (*rule_of)(const iso_op *op, iso_rule *rule); /* a function, if no string can express it */
    uint32_t linear;                                   /* with a string: the rule's */
    bool jointly;
    bool contract_max;
    /* Floating-point operations for boxes of these extents, local or global; NULL: one per element of
     * output 0. */
    double (*flops)(const iso_op *op, const iso_box *inputs, const iso_box *outputs);
    /* NULL, or the dimension of the height in an operand of this many dimensions: kernels see it as images [n, h, w,
     * c], of which n counts what comes before the height, and c what comes after the width. */
    int (*image_height)(const iso_op *op, int rank);
    /* NULL: never, or whether kernels see volumes instead: [n, d, h, w, c]. */
    bool (*has_depth)(const iso_op *op);
    bool repeats_work; /* slots that each compute a part of the outputs may do some work alike */
    /* Bit i: a kernel may write output 0 over input i if both have the same shape and type. */
    uint32_t in_place;
    /* NULL, or a decomposition that does not need a dimension whole that the rule holds whole: it builds
     * the outputs from ops whose rules let that dimension be sharded, on tensors `in` that stand for
     * op->inputs in a graph of their own. The partitioner calls it if, and only if, such a dimension of an
     * input is sharded (see divided_by_first); a single slot keeps the op. `shared` ops that several
     * decompositions have in common are computed once. */
    void (*decompose)(const iso_op *op, iso_tensor *const *in, iso_tensor **out);
    bool divided_by_first; /* axes that may shard dimensions of input 0, and do, divide its work as it is */
    bool shared;    /* used in decompositions, with attrs without padding: equal ops have equal bytes */
    bool random;    /* depends on the step's counter: two equal ops give different results */
    bool no_second; /* a gradient without a gradient: a derivative through it is an error, not a zero */
    /* The numbers among the attributes that must be equal on all ranks, compared when a function is made; ends
     * with a name of NULL. NULL, as for registered ops: none is compared. */
    const struct iso_setting *settings;
    iso_index_words index; /* of ops whose kernels check indices */
    bool no_kernel;        /* handled by the planner: input, variable, constant, by_mode, reshape (an alias),
                       optimizer updates */
};

/* Creates an op and returns its first output. attrs are copied (attr_size bytes; NULL: zeros). If the
 * graph has an error: its bad tensor. */
ISO_API iso_tensor *iso_op_create(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs,
                                  int count, const void *attrs);
/* True if the tensor belongs to a graph without an error so far. */
ISO_API bool iso_tensor_good(const iso_tensor *tensor);
/* The tensor that calls on a broken graph return. */
ISO_API iso_tensor *iso_graph_bad_tensor(iso_graph *graph);

/* Ops and tensors of a graph, in order of creation: `id` is their index. NULL for other indexes. */
ISO_API int iso_graph_op_count(const iso_graph *graph);
ISO_API const iso_op *iso_graph_op(const iso_graph *graph, int index);
ISO_API int iso_graph_tensor_count(const iso_graph *graph);

/* ---- helpers for infer and builders ---- */
/* Records "<op>: <message>", followed by names, types and shapes of the op's inputs, as an error of the
 * graph; returns false. */
ISO_API bool iso_op_refuse(iso_op *op, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
/* Sets the type and shape of output 0; returns true. */
ISO_API bool iso_op_set_output(iso_op *op, iso_dtype dtype, const iso_shape *shape);

/* infer for elementwise ops of one input: the output has the input's type and shape. */
ISO_API bool iso_infer_same(iso_op *op);
/* The same as iso_infer_same, but refuses types that are not floating-point. */
ISO_API bool iso_infer_same_float(iso_op *op);
/* Whether x is a scalar constant (iso_number); its value. Local. */
ISO_API bool iso_tensor_is_number(const iso_tensor *x, double *value);
/* infer for ops whose operands are broadcast to one shape and have one type. */
ISO_API bool iso_infer_broadcast(iso_op *op);

/* Builders for ops of one or two inputs. */
ISO_API iso_tensor *iso_op_1(const iso_op_type *type, iso_tensor *x, const void *attrs);
ISO_API iso_tensor *iso_op_2(const iso_op_type *type, iso_tensor *a, iso_tensor *b, const void *attrs);
ISO_API iso_tensor *iso_op_3(const iso_op_type *type, iso_tensor *a, iso_tensor *b, iso_tensor *c,
                             const void *attrs);
/* The shape that two shapes broadcast to; false if they do not broadcast. */
ISO_API bool iso_shape_broadcast(const iso_shape *a, const iso_shape *b, iso_shape *both);
/* Sums x over the dimensions in which `shape` was broadcast, so that the result has that shape: the
 * gradient of broadcasting. */
ISO_API iso_tensor *iso_sum_to_shape(iso_tensor *x, const iso_shape *shape);
/* The axis as a number from 0; a negative one counts from the end. Out of range: an error in the graph,
 * and -1. */
ISO_API int iso_axis(iso_tensor *x, int axis);

#ifdef __cplusplus
}
#endif
#endif
