/* What an op is, for those who write ops, kernels, the partitioner and the planner. Not for users.
 *
 * Adding an op: one descriptor in ops/<family>.c, one line in ops/list.h, a kernel file in each backend and
 * one line in its list.
 * Functions are local unless their comment says otherwise; every rank makes the same calls. */
#ifndef ISO_GRAPH_OP_H
#define ISO_GRAPH_OP_H

#include "runtime/base/window.h"
#include "runtime/graph/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_op iso_op;
typedef struct iso_op_type iso_op_type;

/* One more name by which layouts find a tensor: that of a layer or block which passes it on. */
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
    int output; /* which output of its producer */
    const char *name;
    iso_tensor_path *paths;
    iso_tensor *gradient_of; /* made by autodiff as the gradient, or a part of it, of this tensor; or NULL */
};

struct iso_op {
    const iso_op_type *type;
    iso_graph *graph;
    int id; /* index among the graph's ops; every op comes after the producers of its inputs */
    int n_inputs, n_outputs;
    iso_tensor *inputs[ISO_MAX_INPUTS];
    iso_tensor *outputs[ISO_MAX_OUTPUTS];
    void *attrs;               /* type->attr_size bytes of plain data, owned by the graph */
    const iso_op *backward_of; /* the op of whose gradient this is a part; NULL: of none */
};

/* ---- the sharding rule ----
 * The op's index space: factors, and which of them each dimension of each input and output runs over. */
enum { ISO_WHOLE = -1 }; /* a dimension that every slot must hold whole (or that has extent 1) */

typedef struct iso_rule {
    int n_factors;
    /* factor of each dimension, or ISO_WHOLE */
    int8_t input[ISO_MAX_INPUTS][ISO_MAX_RANK];
    int8_t output[ISO_MAX_OUTPUTS][ISO_MAX_RANK];
    /* Dimensions that run over a factor through its window (bit d of an operand): the factor counts the
     * window's places, and a part of it reads (of an input) or adds to (of an output) what its places look
     * at. Such parts of the dimension may overlap. */
    iso_sliding_window window[ISO_MAX_FACTORS];
    uint8_t input_windows[ISO_MAX_INPUTS], output_windows[ISO_MAX_OUTPUTS];
    /* A factor that no output has is contracted: sharding it leaves the outputs partial. */
    bool contract_max; /* partial results combine by maximum instead of by sum */
    /* Bit i: with the other inputs fixed the outputs are linear in input i, so that a partial sum may pass
     * through. */
    uint32_t linear;
    /* The linear inputs must be partial together (add); otherwise one alone may be (multiply, matmul). */
    bool jointly;
} iso_rule;

/* Fills a rule from a string in the manner of einsum, one letter a dimension: "mk,kn->mn". A '.' stands for
 * ISO_WHOLE.
 * "...,...->..." gives elementwise rules with broadcasting for the op's own ranks. */
ISO_API void iso_rule_parse(const iso_op *op, const char *text, iso_rule *rule);
/* The rule of an op, from its type's function or string. */
ISO_API void iso_op_rule(const iso_op *op, iso_rule *rule);

struct iso_op_type {
    const char *name;
    size_t attr_size;
    /* Checks the inputs and fills dtype and shape of the outputs (op->outputs is preset to `outputs`, and may
     * be changed). On an error: iso_graph_fail with both shapes, and false. */
    bool (*infer)(iso_op *op);
    int n_outputs; /* 0 means 1 */
    /* Given gradients of the outputs (dy[i] may be NULL: none), builds those of the inputs into dx (preset to
     * NULL). NULL: not differentiable, no gradient flows. */
    void (*gradient)(iso_op *op, iso_tensor *const *dy, iso_tensor **dx);
    const char *rule;                                  /* factor string, or */
    void (*rule_of)(const iso_op *op, iso_rule *rule); /* a function where no string says it */
    uint32_t linear;                                   /* with a string: the rule's */
    bool jointly;
    bool contract_max;
    /* Floating-point operations for boxes of these extents (local or global alike); NULL: one per element of
     * output 0. */
    double (*flops)(const iso_op *op, const iso_box *inputs, const iso_box *outputs);
    /* Bit i: a kernel may write output 0 over input i where they have one shape and type. */
    uint32_t in_place;
    /* NULL, or how to do without the whole of a dimension that the rule holds whole: builds the outputs from
     * ops whose rules let it be sharded, on tensors `in` that stand for op->inputs in a graph of their own.
     * The partitioner calls it where, and only where, such a dimension of an input is sharded; one slot keeps
     * the op. `shared` ones that several ops have in common are computed once. */
    void (*split)(const iso_op *op, iso_tensor *const *in, iso_tensor **out);
    bool shared;    /* a piece for split whose attrs have no padding: equal ones have equal bytes */
    bool random;    /* depends on the step's counter: two equal ops are not one */
    bool no_second; /* a gradient that has none of its own: a derivative through it is an error, not a zero */
    bool no_kernel; /* handled by the planner: input, variable, constant, by_mode, reshape (an alias),
                       optimizer updates */
};

/* Makes an op and returns its first output. attrs are copied (attr_size bytes; NULL: zeros). On an error in
 * the graph, its bad tensor. */
ISO_API iso_tensor *iso_op_create(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs,
                                  int count, const void *attrs);
/* True where this tensor belongs to a graph that has no error so far. */
ISO_API bool iso_tensor_good(const iso_tensor *tensor);
/* The tensor that calls on a broken graph return. */
ISO_API iso_tensor *iso_graph_bad_tensor(iso_graph *graph);

/* Ops and tensors of a graph, in order of creation: `id` is their number. index: in [0, count). */
ISO_API int iso_graph_op_count(const iso_graph *graph);
ISO_API const iso_op *iso_graph_op(const iso_graph *graph, int index);
ISO_API int iso_graph_tensor_count(const iso_graph *graph);

/* ---- what infer and builders are made of ---- */
/* Records "<op>: <message>" followed by names, types and shapes of the op's inputs in the graph; returns
 * false. */
ISO_API bool iso_op_refuse(iso_op *op, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
/* Output 0 gets this type and shape; returns true. */
ISO_API bool iso_op_gives(iso_op *op, iso_dtype dtype, const iso_shape *shape);

/* infer for elementwise ops of one input: the output is as the input. */
ISO_API bool iso_infer_same(iso_op *op);
/* As iso_infer_same, but refuses what is not of a floating-point type. */
ISO_API bool iso_infer_same_float(iso_op *op);
/* infer for ops over operands that are broadcast to one shape; all of one type. */
ISO_API bool iso_infer_broadcast(iso_op *op);

/* Builders for ops of one or two inputs. */
ISO_API iso_tensor *iso_op_1(const iso_op_type *type, iso_tensor *x, const void *attrs);
ISO_API iso_tensor *iso_op_2(const iso_op_type *type, iso_tensor *a, iso_tensor *b, const void *attrs);
ISO_API iso_tensor *iso_op_3(const iso_op_type *type, iso_tensor *a, iso_tensor *b, iso_tensor *c,
                             const void *attrs);
/* The shape to which two broadcast; false where they do not. */
ISO_API bool iso_shape_broadcast(const iso_shape *a, const iso_shape *b, iso_shape *both);
/* Sums x over the dimensions in which `shape` was broadcast, giving that shape: the gradient of broadcasting.
 */
ISO_API iso_tensor *iso_sum_to_shape(iso_tensor *x, const iso_shape *shape);
/* A negative axis counted from the end; fails in the graph and returns -1 where it is out of range. */
ISO_API int iso_axis(iso_tensor *x, int axis);

#ifdef __cplusplus
}
#endif
#endif
