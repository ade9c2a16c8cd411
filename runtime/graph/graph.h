/* Graphs: tensors with global shapes and the ops between them, as users build them.
 *
 * Building never returns a status: the first error stays in the graph, later calls do nothing (they return a
 * tensor that belongs to the broken graph), and iso_graph_error(), iso_function_create() or iso_compile()
 * return it. Every tensor belongs to its graph and is freed with it. Building is not collective, but every
 * rank must build the same graph. */
#ifndef ISO_GRAPH_GRAPH_H
#define ISO_GRAPH_GRAPH_H

#include "runtime/base/text.h"
#include "runtime/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_graph iso_graph;
typedef struct iso_tensor iso_tensor;
typedef struct iso_variable iso_variable;
typedef struct iso_update iso_update; /* variables and their new values; owned by the graph */

/* An empty graph. Never NULL (where memory ends: a graph whose error says so). */
iso_graph *iso_graph_create(iso_context *ctx);
/* Frees the graph with all that belongs to it, unless a model owns it (iso_model_create): then it does
 * nothing and iso_model_destroy frees the graph. NULL is nothing. */
void iso_graph_destroy(iso_graph *graph);
/* The first error made while building, with its message recorded in this thread. */
iso_status iso_graph_error(const iso_graph *graph);
iso_context *iso_graph_context(const iso_graph *graph);
/* The element type that floating-point inputs, variables and constants take: ISO_F32 (default) or ISO_F64. To
 * be set before the first tensor. With ISO_F64 an iso_input of type ISO_F32 becomes ISO_F64: any network runs
 * as its own oracle. */
void iso_graph_set_precision(iso_graph *graph, iso_dtype dtype);
iso_dtype iso_graph_precision(const iso_graph *graph);
/* The seed from which initial weights and dropout come; the context's (1337 without one) unless set before
 * the first layer. */
void iso_graph_set_seed(iso_graph *graph, uint64_t seed);
uint64_t iso_graph_seed(const iso_graph *graph);

/* ---- tensors ---- */
iso_graph *iso_tensor_graph(const iso_tensor *tensor);
iso_dtype iso_tensor_dtype(const iso_tensor *tensor);
/* Global shape, the batch dimension being ISO_BATCH. Lent. */
const iso_shape *iso_tensor_shape(const iso_tensor *tensor);
const char *iso_tensor_name(const iso_tensor *tensor);
/* Gives the tensor a name that layouts ("d2/output") and messages use. */
void iso_tensor_set_name(iso_tensor *tensor, const char *name);

/* An input [batch, shape...]: rows of a data set. */
iso_tensor *iso_input(iso_graph *graph, const char *name, iso_dtype dtype, iso_shape shape);
/* An input of this global shape, which has no rows: a matrix, say, that a function is given as a value
 * (iso_function_call). Replicated unless the distribution has a layout for "name/output". Not for models,
 * whose inputs are rows of a data set. A batch that gives it has the whole shape in its `shape`, and reads
 * the first dimension's elements as rows (of a scalar: one row). */
iso_tensor *iso_input_unbatched(iso_graph *graph, const char *name, iso_dtype dtype, iso_shape shape);
/* Whether iso_input() or iso_input_unbatched() made it. */
bool iso_tensor_is_input(const iso_tensor *tensor);
/* A constant of a shape without batch; `values` are converted from double and copied. */
iso_tensor *iso_constant(iso_graph *graph, iso_dtype dtype, iso_shape shape, const double *values);
/* A scalar constant. */
iso_tensor *iso_number(iso_graph *graph, iso_dtype dtype, double value);

/* ---- variables ---- */
typedef enum iso_initializer_kind {
    ISO_INIT_DEFAULT = 0, /* Glorot uniform for kernels, zeros for biases: the layer says which */
    ISO_INIT_ZEROS,
    ISO_INIT_ONES,
    ISO_INIT_CONSTANT, /* .value */
    ISO_INIT_GLOROT_UNIFORM,
    ISO_INIT_GLOROT_NORMAL,
    ISO_INIT_HE_UNIFORM,
    ISO_INIT_HE_NORMAL,
    ISO_INIT_LECUN_UNIFORM,
    ISO_INIT_LECUN_NORMAL,
    ISO_INIT_RANDOM_UNIFORM, /* [.low, .high); Keras: -0.05, 0.05 where both are 0 */
    ISO_INIT_RANDOM_NORMAL,  /* .mean, .stddev; Keras: 0, 0.05 where stddev is 0 */
    ISO_INIT_TRUNCATED_NORMAL,
    ISO_INIT_VARIANCE_SCALING, /* .scale / (fan by .mode), .distribution */
    ISO_INIT_ORTHOGONAL, /* .scale times a matrix [all dimensions but the last, last] with orthonormal rows
                            or columns, whichever are fewer */
    ISO_INIT_IDENTITY,   /* .scale on the diagonal of a matrix */
} iso_initializer_kind;

typedef enum iso_fan_mode { ISO_FAN_IN = 0, ISO_FAN_OUT, ISO_FAN_AVERAGE } iso_fan_mode;
typedef enum iso_fan_distribution {
    ISO_FAN_TRUNCATED_NORMAL = 0,
    ISO_FAN_NORMAL, /* Keras: "untruncated_normal" */
    ISO_FAN_UNIFORM,
} iso_fan_distribution;

/* Keras's initializers. Fans as Keras computes them: a kernel's last two dimensions times its receptive
 * field. */
typedef struct iso_initializer {
    iso_initializer_kind kind;
    double value, low, high, mean, stddev;
    double scale; /* 1; Keras's gain of Orthogonal and Identity */
    iso_fan_mode mode;
    iso_fan_distribution distribution;
} iso_initializer;

/* A variable with a path such as "dense/kernel" (in a block its path begins with the block's). Its initial
 * value depends on the graph's seed, the path and the global index of each element. Two variables of one path
 * are an error. */
iso_variable *iso_variable_create(iso_graph *graph, const char *path, iso_dtype dtype, iso_shape shape,
                                  iso_initializer initializer, bool trainable);
/* A layout of its own ("-, model"), which comes before what a distribution says; NULL: none. Whether it fits
 * shows when a function is made. Once a function with this variable has been made, another layout is an
 * error: the layout stays as it is, the next collective call on the graph or its model returns the error on
 * every rank and does nothing else, and the calls after it work as before. */
void iso_variable_set_layout(iso_variable *variable, const char *layout);
/* Its value at the beginning of a step, as a tensor. */
iso_tensor *iso_variable_value(iso_variable *variable);
const char *iso_variable_path(const iso_variable *variable);
const iso_shape *iso_variable_shape(const iso_variable *variable);
iso_dtype iso_variable_dtype(const iso_variable *variable);
bool iso_variable_trainable(const iso_variable *variable);
/* Whether its layer made it to be trained, frozen or not. */
bool iso_variable_made_trainable(const iso_variable *variable);
/* Whether it was trainable when the graph's optimizer was made. */
bool iso_variable_trained(const iso_variable *variable);
/* Whether an optimizer updates it: trainable ones that its loss does not depend on are left as they are. */
bool iso_variable_updated(const iso_variable *variable);
int iso_graph_variable_count(const iso_graph *graph);
/* In order of creation; NULL outside [0, count). */
iso_variable *iso_graph_variable(const iso_graph *graph, int index);
iso_variable *iso_graph_find_variable(const iso_graph *graph, const char *path); /* or NULL */
/* "dense" is free: "dense"; else "dense_1", ...: Keras's automatic names, counted per graph. The text belongs
 * to the graph. */
const char *iso_graph_unique_name(iso_graph *graph, const char *base);
/* Takes a name that a user gave to a layer, and returns it behind the names of the blocks around; two layers
 * of one name in one block are an error, and so is a name with a '/'. */
const char *iso_graph_take_name(iso_graph *graph, const char *name);
/* A copy of a text, which lives as long as the graph; NULL, and an error in it, where memory ends. */
const char *iso_graph_keep_text(iso_graph *graph, const char *text);
/* Until the block ends, names of layers and paths of variables that are made begin with its name:
 * "encoder/dense/kernel". Automatic names are counted within it. Blocks nest; a name with a '/', or one that
 * is taken, is an error. */
void iso_name_scope_begin(iso_graph *graph, const char *name);
/* Ends the block that was begun last. y (may be NULL) is its result, which layouts also find by
 * "encoder/output"; where they name the last layer's output as well, the block's layout is the one that
 * stays. Returns y. */
iso_tensor *iso_name_scope_end(iso_graph *graph, iso_tensor *y);
/* Until the end, layers and blocks are built again with the variables that they have: a name means the layer
 * or block that was given it before. Automatic names are counted from the beginning again, so what made a
 * block builds the block again just as it did. A layer that there is not yet, or whose variables would have
 * other shapes, is an error. Its regularisation is not counted again. Sharings nest.
 *     a = tower(left);
 *     iso_share_begin(g);
 *     b = tower(right);
 *     iso_share_end(g); */
void iso_share_begin(iso_graph *graph);
void iso_share_end(iso_graph *graph);
bool iso_graph_shares(const iso_graph *graph);
/* Until the end, variables that are made are not trainable: Keras's `trainable = False`. BatchNormalization
 * then uses its moving statistics in training as well and leaves them as they are; regularisation of weights
 * is not counted. Nests. */
void iso_freeze_begin(iso_graph *graph);
void iso_freeze_end(iso_graph *graph);
bool iso_graph_freezes(const iso_graph *graph);
/* The same of a layer, or of all layers of a block, that there is already: Keras's `layer.trainable = ...`.
 * name: as in paths of variables, "dense" or "encoder/dense"; NULL: all. Functions that are made from then on
 * train by it (of a model: the next iso_compile); those that there are go on as they were made. ISO_INVALID:
 * there is no such layer or block, the nearest names are offered. Local; every rank must do it alike. */
iso_status iso_graph_set_trainable(iso_graph *graph, const char *name, bool trainable);
/* Records an error in the graph unless it has one (printf's format); for layers and ops. */
void iso_graph_fail(iso_graph *graph, const char *format, ...);
/* The same where there is no memory for `what` of so many bytes: ISO_NO_MEMORY. */
void iso_graph_fail_memory(iso_graph *graph, const char *what, size_t bytes);

/* ---- attributes: typed values by name, which belong to a graph ---- */
typedef enum iso_attribute_kind {
    ISO_ATTRIBUTE_NONE = 0,
    ISO_ATTRIBUTE_FLAG,    /* .integer: 0 or 1 */
    ISO_ATTRIBUTE_INTEGER, /* .integer */
    ISO_ATTRIBUTE_REAL,    /* .real */
    ISO_ATTRIBUTE_TEXT,    /* .text */
    ISO_ATTRIBUTE_INPUT,   /* .integer: the number of a tensor among a layer's inputs */
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
    struct iso_attribute *next;         /* the one after it in its list or object */
} iso_attribute;

/* Copies a value into the graph, as the last of a list or object; to NULL: it is in none. Its name and text
 * must live as long as the graph. Returns the copy, to which items or members can be added; NULL, and an
 * error in the graph, where there is no memory. Local. */
iso_attribute *iso_attribute_add(iso_graph *graph, iso_attribute *to, const iso_attribute *value);
/* Adds the value to a text, without its name, in the form of JSON; reals have 17 digits. Local. */
void iso_attribute_print(const iso_attribute *attribute, iso_text *text);

/* ---- layers: what a model's summary lists ---- */
typedef struct iso_layer_record {
    const char *type; /* Keras's class: "Dense" */
    const char *name;
    const iso_attribute *config; /* its arguments under Keras's names, an object; NULL: none */
    const iso_attribute *call;   /* likewise what its call was given by name */
    int inputs;                  /* of its call */
    iso_tensor *const *input;
    iso_tensor *output;
    int again; /* the number of the record whose variables it uses again (a shared layer's later calls), or -1
                */
    int block; /* filled in by iso_graph_add_layer: the block that it was called in, or -1 */
    int ops;   /* and how many ops the graph had then, */
    bool frozen; /* and whether layers were frozen then */
} iso_layer_record;
/* Notes a call of a layer; type, name, config and call must live as long as the graph, the rest is copied. */
void iso_graph_add_layer(iso_graph *graph, const iso_layer_record *layer);
int iso_graph_layer_count(const iso_graph *graph);
/* In order of creation; NULL outside [0, count). Lent. */
const iso_layer_record *iso_graph_layer(const iso_graph *graph, int index);

/* ---- blocks: in files of Keras they are models within the model ---- */
typedef struct iso_block_record {
    const char *type; /* Keras's class: "Functional", "Sequential" */
    const char *name; /* its path: "encoder", "encoder/attention" */
    int around;       /* the block that it is in, or -1 */
    int again;        /* the block whose layers it calls again (a shared model's later calls), or -1 */
    int inputs;       /* that were noted; 0: its inputs are what its layers take from outside */
    iso_tensor *const *input;
    int outputs; /* that were noted; besides them, what others take from it are its outputs */
    iso_tensor *const *output;
    int first_op, last_op;       /* it made the ops [first_op, last_op) of the graph, */
    int first_layer, last_layer; /* and called these layers */
} iso_block_record;
/* Notes of the block that was begun last, or where none is open of the whole network, what it is in Keras and
 * what it is called with. type: "Functional" (default) or "Sequential", must live as long as the graph; again:
 * the block whose variables it uses again, or -1 (within a sharing it is found). */
void iso_name_scope_note(iso_graph *graph, const char *type, iso_tensor *const *inputs, int count, int again);
/* iso_name_scope_end for a block with several results. */
void iso_name_scope_end_several(iso_graph *graph, iso_tensor *const *outputs, int count);
int iso_graph_block_count(const iso_graph *graph);
/* In order of beginning; NULL outside [0, count). Lent. */
const iso_block_record *iso_graph_block(const iso_graph *graph, int index);
/* The whole network's class in Keras ("Functional" unless noted) and its name (NULL: it has none). */
const char *iso_graph_type(const iso_graph *graph);
void iso_graph_set_name(iso_graph *graph, const char *name);
const char *iso_graph_name(const iso_graph *graph);

/* ---- updates and gradients ---- */
/* At the end of a step, `variable` becomes `value` (same shape and type). */
iso_update *iso_assign(iso_variable *variable, iso_tensor *value);
/* Both updates together. Either may be NULL. */
iso_update *iso_update_join(iso_update *a, iso_update *b);
/* Registers an update that every training function performs (moving statistics). Within a sharing it takes
 * the place of what has been registered for its variables. */
void iso_graph_add_training_update(iso_graph *graph, iso_update *update);
/* The update, but functions that are made while a variable is frozen leave that one as it is. */
iso_update *iso_update_unless_frozen(iso_update *update);
/* What a variable becomes by the updates registered so far: its value where there is none. */
iso_tensor *iso_graph_training_value(iso_graph *graph, iso_variable *variable);
/* gradients[i] = d loss / d of[i], NULL where loss does not depend on it. loss: a scalar of float type. */
void iso_gradients(iso_tensor *loss, iso_tensor *const *of, int count, iso_tensor **gradients);
/* Adds a term to the model's loss (regularisation, activity): iso_graph_losses() gives their sum or NULL. */
void iso_graph_add_loss(iso_graph *graph, iso_tensor *term);
iso_tensor *iso_graph_losses(iso_graph *graph);
/* The same of a variable's own term, which counts unless the variable is frozen when the sum is asked for. */
void iso_graph_add_penalty(iso_graph *graph, const iso_variable *variable, iso_tensor *term);

/* ---- elementwise arithmetic: NumPy's broadcasting; both of one type ---- */
iso_tensor *iso_add(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_subtract(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_multiply(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_divide(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_power(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_maximum(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_minimum(iso_tensor *a, iso_tensor *b);
/* y = scale * x + shift */
iso_tensor *iso_affine(iso_tensor *x, double scale, double shift);
/* comparisons give ISO_BOOL; operands of different types are compared in the wider one */
iso_tensor *iso_equal(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_not_equal(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_less(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_less_equal(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_greater(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_greater_equal(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_logical_and(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_logical_or(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_logical_not(iso_tensor *a);
/* condition ? a : b, elementwise, with broadcasting */
iso_tensor *iso_where(iso_tensor *condition, iso_tensor *a, iso_tensor *b);
iso_tensor *iso_cast(iso_tensor *x, iso_dtype dtype);
/* unary, floating point */
iso_tensor *iso_negate(iso_tensor *x);
iso_tensor *iso_abs(iso_tensor *x);
iso_tensor *iso_sign(iso_tensor *x);
iso_tensor *iso_exp(iso_tensor *x);
iso_tensor *iso_log(iso_tensor *x);
iso_tensor *iso_sqrt(iso_tensor *x);
iso_tensor *iso_rsqrt(iso_tensor *x);
iso_tensor *iso_square(iso_tensor *x);
iso_tensor *iso_relu(iso_tensor *x);
iso_tensor *iso_leaky_relu(iso_tensor *x, double negative_slope);
iso_tensor *iso_elu(iso_tensor *x, double alpha);
iso_tensor *iso_sigmoid(iso_tensor *x);
iso_tensor *iso_tanh(iso_tensor *x);
iso_tensor *iso_gelu(iso_tensor *x, bool approximate);
iso_tensor *iso_silu(iso_tensor *x);
iso_tensor *iso_softplus(iso_tensor *x);
iso_tensor *iso_stop_gradient(iso_tensor *x);

/* ---- reductions over axes (negative: from the end; count 0: all); keep: leaves dimensions of 1. Sums of
 * ISO_BOOL are ISO_I32. A mean over the batch divides by the global number of rows. ---- */
iso_tensor *iso_reduce_sum(iso_tensor *x, const int *axes, int count, bool keep);
iso_tensor *iso_reduce_mean(iso_tensor *x, const int *axes, int count, bool keep);
iso_tensor *iso_reduce_max(iso_tensor *x, const int *axes, int count, bool keep);
iso_tensor *iso_reduce_min(iso_tensor *x, const int *axes, int count, bool keep);
/* over all axes, to a scalar; accumulated in float64 */
iso_tensor *iso_sum(iso_tensor *x);
iso_tensor *iso_mean(iso_tensor *x);
/* index of the largest along an axis (the first of equals), ISO_I32 */
iso_tensor *iso_argmax(iso_tensor *x, int axis);
/* 1 where a row's target is among the k largest of its predictions, as tf.math.in_top_k: [rows..., classes],
 * [rows...] -> [rows...] ISO_BOOL */
iso_tensor *iso_in_top_k(iso_tensor *predictions, iso_tensor *targets, int k);

/* ---- shapes ---- */
/* dim -1 (at most one, beside ISO_BATCH in front): what is left. The batch dimension stays in front. */
iso_tensor *iso_reshape_to(iso_tensor *x, iso_shape shape);
iso_tensor *iso_transpose(iso_tensor *x, const int *permutation);
/* the elements [begin, begin + size) of each dimension but the batch; size -1: to the end */
iso_tensor *iso_slice(iso_tensor *x, const int64_t *begin, const int64_t *size);
/* zeros in front of and behind the elements of each dimension but the batch */
iso_tensor *iso_pad(iso_tensor *x, const int64_t *before, const int64_t *after);
iso_tensor *iso_concat(iso_tensor *const *x, int count, int axis);
iso_tensor *iso_broadcast_to(iso_tensor *x, iso_shape shape);

/* ---- products ---- */
/* x: [..., k], w: [k, n] -> [..., n]; or both [..., m, k], [..., k, n] with equal leading dimensions. The
 * flags transpose the last two dimensions. */
iso_tensor *iso_matmul(iso_tensor *a, iso_tensor *b);
iso_tensor *iso_matmul_with(iso_tensor *a, iso_tensor *b, bool transpose_a, bool transpose_b);

/* ---- networks (the layers in models/ build on these) ---- */
typedef struct iso_conv_geometry {
    int64_t stride[2], dilation[2]; /* height, width; at least 1 */
    int64_t pad_before[2], pad_after[2];
    int64_t groups;
} iso_conv_geometry;
/* x: [n, h, w, c], kernel: [r, s, c / groups, f] -> [n, h', w', f] */
iso_tensor *iso_conv2d_op(iso_tensor *x, iso_tensor *kernel, const iso_conv_geometry *geometry);
typedef struct iso_pool_geometry {
    int64_t size[2], stride[2], pad_before[2], pad_after[2];
} iso_pool_geometry;
iso_tensor *iso_max_pool2d_op(iso_tensor *x, const iso_pool_geometry *geometry);
/* the mean over those elements of each window that lie inside x, as Keras and TensorFlow have it */
iso_tensor *iso_average_pool2d_op(iso_tensor *x, const iso_pool_geometry *geometry);
/* x: [n, h, w, c] -> [n, h times[0], w times[1], c], linearly between the centres of x's elements, at the
 * edges as these */
iso_tensor *iso_upsample_linear_op(iso_tensor *x, const int64_t times[2]);
/* x: [..., t, s] where s is at most t's number (causal) and less than `window` from it (0: any distance),
 * else `fill` */
iso_tensor *iso_band_op(iso_tensor *x, bool causal, int64_t window, double fill);
iso_tensor *iso_softmax(iso_tensor *x, int axis);
iso_tensor *iso_log_softmax(iso_tensor *x, int axis);
/* labels: [rows...] integers (or integral floats), logits: [rows..., classes] -> the loss of each row. A
 * label outside the classes is an error of the step that names row and value. */
iso_tensor *iso_sparse_crossentropy_op(iso_tensor *labels, iso_tensor *logits);
/* labels: [rows..., classes] (a distribution) */
iso_tensor *iso_crossentropy_op(iso_tensor *labels, iso_tensor *logits);
/* x: [rows, features...], normalised over the last dimension; gamma, beta: [c] or NULL */
iso_tensor *iso_layer_norm_op(iso_tensor *x, iso_tensor *gamma, iso_tensor *beta, double epsilon);
/* The statistics of the global batch over all but the last dimension: mean and variance (biased), ISO_F64
 * [c]. */
void iso_batch_moments(iso_tensor *x, iso_tensor **mean, iso_tensor **variance);
/* (x - mean) / sqrt(variance + epsilon) * gamma + beta over the last dimension; mean, variance: [c], any
 * float type; gamma, beta: [c] or NULL. Where mean and variance come from iso_batch_moments(x) the gradient
 * runs through them. */
iso_tensor *iso_batch_norm_op(iso_tensor *x, iso_tensor *mean, iso_tensor *variance, iso_tensor *gamma,
                              iso_tensor *beta, double epsilon);
/* table: [v, d], index: integers [...] -> [..., d]. An index outside 0..v-1 is an error of the step. */
iso_tensor *iso_embedding_op(iso_tensor *table, iso_tensor *index);
/* index -> [..., classes], 1 at the index, of float type dtype */
iso_tensor *iso_one_hot(iso_tensor *index, int64_t classes, iso_dtype dtype);
/* Each element is kept with probability 1 - rate and divided by it; which ones depends on seed, `path`, step
 * and global index. */
iso_tensor *iso_dropout_op(iso_tensor *x, double rate, const char *path);
/* x + stddev * z, z standard normal and for each element another, which depends on seed, `path`, step and
 * global index. */
iso_tensor *iso_gaussian_noise_op(iso_tensor *x, double stddev, const char *path);
/* training in functions made with .training = true, inference elsewhere; both of one shape and type */
iso_tensor *iso_by_mode(iso_tensor *training, iso_tensor *inference);
/* The same, but inference everywhere in functions that are made while the variable is frozen. */
iso_tensor *iso_by_mode_unless_frozen(const iso_variable *variable, iso_tensor *training,
                                      iso_tensor *inference);

#ifdef __cplusplus
}
#endif
#endif
