/* Graphs: tensors with global shapes and the ops between them, as users build them.
 *
 * Building never returns a status: the first error stays in the graph, later calls do nothing (they return a
 * tensor that belongs to the broken graph), and iso_graph_error(), iso_function_create() or iso_compile()
 * return it. Once the graph has a function, the next collective call returns the error once, and takes out what
 * was added since the last function was made or the model was compiled. Every tensor belongs to its graph and
 * is freed with it.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_GRAPH_GRAPH_H
#define ISO_GRAPH_GRAPH_H

#include "runtime/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_graph iso_graph;
typedef struct iso_tensor iso_tensor;
typedef struct iso_variable iso_variable;
typedef struct iso_update iso_update; /* variables and their new values; owned by the graph */

/* Creates an empty graph, which the caller frees with iso_graph_destroy() or gives to iso_model_create().
 * Never NULL: when out of memory, a graph with that error. */
ISO_API iso_graph *iso_graph_create(iso_context *ctx);
/* Frees the graph and everything that belongs to it, unless a model owns it (iso_model_create): then it
 * does nothing, and iso_model_destroy frees the graph. NULL is ignored. Collective (iso_mesh_destroy)
 * after a function of the graph has been made. */
ISO_API void iso_graph_destroy(iso_graph *graph);
/* The first error made while building, with its message recorded in this thread; ISO_OK: there is none. Errors
 * of what users build are ISO_INVALID. Local. */
ISO_API iso_status iso_graph_error(const iso_graph *graph);
ISO_API iso_context *iso_graph_context(const iso_graph *graph);
/* The element type of floating-point inputs, variables and constants: ISO_F32 (default) or ISO_F64. Must
 * be set before the first tensor. With ISO_F64, an iso_input of type ISO_F32 becomes ISO_F64, so that any
 * network can be run as its own oracle. ISO_BF16 is Keras's policy "mixed_bfloat16": inputs, variables, the
 * optimizer, losses and metrics are ISO_F32; layers cast their inputs and weights to ISO_BF16 and compute in
 * it. Normalisations compute in ISO_F32, and sums of products and reductions are ISO_F32 until they are whole. */
ISO_API void iso_graph_set_precision(iso_graph *graph, iso_dtype dtype);
/* The type of variables: ISO_F32 or ISO_F64. */
ISO_API iso_dtype iso_graph_precision(const iso_graph *graph);
/* The type in which layers compute, here in the open scopes: that of variables, or ISO_BF16. */
ISO_API iso_dtype iso_graph_compute_type(const iso_graph *graph);
#define ISO_PRECISION_OF_LAYERS "policies of layers"
/* "float32", "float64" or "mixed_bfloat16"; ISO_PRECISION_OF_LAYERS if some have their own; constant. */
ISO_API const char *iso_graph_precision_name(const iso_graph *graph);
/* The seed for initial weights and dropout: the context's (ISO_DEFAULT_SEED without one) unless it is set.
 * Set it before the first variable and random op; later it is an error of the graph. */
ISO_API void iso_graph_set_seed(iso_graph *graph, uint64_t seed);
ISO_API uint64_t iso_graph_seed(const iso_graph *graph);

/* The name of the whole network, which is stored in its files; NULL: none. */
ISO_API void iso_graph_set_name(iso_graph *graph, const char *name);
ISO_API const char *iso_graph_name(const iso_graph *graph);

/* ---- tensors ---- */
ISO_API iso_graph *iso_tensor_graph(const iso_tensor *tensor);
ISO_API iso_dtype iso_tensor_dtype(const iso_tensor *tensor);
/* The global shape, in which the batch dimension is ISO_BATCH. Lent. */
ISO_API const iso_shape *iso_tensor_shape(const iso_tensor *tensor);
ISO_API const char *iso_tensor_name(const iso_tensor *tensor);
/* Sets the tensor's name, which layouts ("d2/output") and messages use. */
ISO_API void iso_tensor_set_name(iso_tensor *tensor, const char *name);
/* The mask of the tensor: ISO_BOOL, [batch, steps] of [batch, steps, ...], false for the steps that do not count.
 * NULL: all count. iso_embedding(.mask_zero = true) and iso_masking make one. */
ISO_API iso_tensor *iso_tensor_mask(const iso_tensor *tensor);

/* An input [batch, shape...]: rows of a data set. */
ISO_API iso_tensor *iso_input(iso_graph *graph, const char *name, iso_dtype dtype, iso_shape shape);
/* An input of this global shape, without rows: for example a matrix that is passed to a function as a
 * value (iso_function_call). Replicated unless the distribution has a layout for "name/output". Not for
 * models, whose inputs are rows of a data set. A batch that contains it has the whole shape in its
 * `shape`, and its rows are the elements of the first dimension (of a scalar: one row). */
ISO_API iso_tensor *iso_input_unbatched(iso_graph *graph, const char *name, iso_dtype dtype, iso_shape shape);
/* Whether the tensor is from iso_input() or iso_input_unbatched(). */
ISO_API bool iso_tensor_is_input(const iso_tensor *tensor);
/* A constant of a shape without batch; `values` are converted from double and copied. */
ISO_API iso_tensor *iso_constant(iso_graph *graph, iso_dtype dtype, iso_shape shape, const double *values);
/* A scalar constant. */
ISO_API iso_tensor *iso_number(iso_graph *graph, iso_dtype dtype, double value);

/* ---- variables ---- */
typedef enum iso_initializer_kind {
    ISO_INIT_DEFAULT = 0, /* chosen by the layer: Glorot uniform for kernels, zeros for biases */
    ISO_INIT_ZEROS,
    ISO_INIT_ONES,
    ISO_INIT_CONSTANT, /* .value */
    ISO_INIT_GLOROT_UNIFORM,
    ISO_INIT_GLOROT_NORMAL,
    ISO_INIT_HE_UNIFORM,
    ISO_INIT_HE_NORMAL,
    ISO_INIT_LECUN_UNIFORM,
    ISO_INIT_LECUN_NORMAL,
    ISO_INIT_RANDOM_UNIFORM, /* [.low, .high); Keras: -0.05, 0.05 if both are 0 */
    ISO_INIT_RANDOM_NORMAL,  /* .mean, .stddev; Keras: 0, 0.05 if stddev is 0 */
    ISO_INIT_TRUNCATED_NORMAL,
    ISO_INIT_VARIANCE_SCALING, /* .scale / (fan by .mode), .distribution */
    ISO_INIT_ORTHOGONAL, /* .scale times a matrix [all dimensions but the last, last] with orthonormal rows
                            or columns, whichever are fewer */
    ISO_INIT_IDENTITY,   /* .scale on the diagonal of a matrix */
    ISO_INIT_STFT,       /* .stft: for the kernel [frame, 1, frequencies] of a Conv1D that makes a spectrum */
} iso_initializer_kind;

typedef enum iso_fan_mode { ISO_FAN_IN = 0, ISO_FAN_OUT, ISO_FAN_AVERAGE } iso_fan_mode;
typedef enum iso_fan_distribution {
    ISO_FAN_TRUNCATED_NORMAL = 0,
    ISO_FAN_NORMAL, /* Keras: "untruncated_normal" */
    ISO_FAN_UNIFORM,
} iso_fan_distribution;

/* The short-time Fourier transform (keras.initializers.STFT). */
typedef struct iso_stft {
    enum { ISO_STFT_REAL = 0, ISO_STFT_IMAGINARY } side;
    enum { ISO_STFT_HANN = 0, ISO_STFT_HAMMING, ISO_STFT_NO_WINDOW } window;
    enum {
        ISO_STFT_DENSITY = 0,
        ISO_STFT_SPECTRUM,
        ISO_STFT_NO_SCALING
    } scaling;     /* by the window's norm, L2 or L1 */
    bool periodic; /* the window */
} iso_stft;

/* Keras's initializers. Fans are computed as in Keras: a kernel's last two dimensions times its receptive
 * field. */
typedef struct iso_initializer {
    iso_initializer_kind kind;
    double value, low, high, mean, stddev;
    double scale; /* 1; Keras's gain of Orthogonal and Identity */
    iso_fan_mode mode;
    iso_fan_distribution distribution;
    iso_stft stft;
} iso_initializer;

/* Keras's constraints (keras/src/constraints), which a weight meets after each update of an optimizer. A norm is the
 * root of the sum of squares along `axis`: for a Dense kernel [in, out] and its first axis, that of the weights of
 * each unit. Zero means Keras's default. */
typedef enum iso_constraint_kind {
    ISO_CONSTRAINT_NONE = 0,
    ISO_CONSTRAINT_MAX_NORM,  /* norms are at most max_value (2) */
    ISO_CONSTRAINT_NON_NEG,   /* negative weights become 0 */
    ISO_CONSTRAINT_UNIT_NORM, /* norms become 1 */
    ISO_CONSTRAINT_MIN_MAX_NORM, /* norms go to [min_value (0), max_value (1)], by the share `rate` (1) of the way */
} iso_constraint_kind;

typedef struct iso_weight_constraint {
    iso_constraint_kind kind;
    double min_value, max_value, rate;
    int axis[ISO_MAX_RANK],
        axis_count; /* of the variable (negative: from the end); axis_count 0: its first one */
    bool all_axes;  /* one norm of all elements: Keras's axis=None */
} iso_weight_constraint;

/* Creates a variable with a path such as "dense/kernel" (in a block, the block's path is prepended). Its
 * initial value depends on the graph's seed, the path and the global index of each element. Two variables
 * of one path are an error. */
ISO_API iso_variable *iso_variable_create(iso_graph *graph, const char *path, iso_dtype dtype,
                                          iso_shape shape, iso_initializer initializer, bool trainable);
/* Sets the variable's own layout ("-, model"), which takes precedence over the distribution's; NULL: none.
 * Whether it fits is checked when a function is made. After a function with this variable has been made,
 * setting another layout is an error: the layout stays as it is, the next collective call on the graph or
 * its model returns the error on every rank and does nothing else, and the calls after it work as before. */
ISO_API void iso_variable_set_layout(iso_variable *variable, const char *layout);
/* x under a constraint, for a norm x * (desired norm / (1e-7 + norm)). Norms are computed in float64. An error of the
 * graph: an axis that x does not have, or a value that is negative or not finite. */
ISO_API iso_tensor *iso_constrain(iso_tensor *x, const iso_weight_constraint *constraint);
/* Sets what becomes of a variable after each step of a function that updates it by an optimizer: `value`, a tensor of
 * the variable's type and shape that is computed from variables alone, which have their new values (iso_constrain of
 * iso_variable_value, or ops of your own). Before a function with the variable is made. */
ISO_API void iso_variable_set_constraint(iso_variable *variable, iso_tensor *value);
/* The variable's value at the beginning of a step, as a tensor. */
ISO_API iso_tensor *iso_variable_value(iso_variable *variable);
ISO_API const char *iso_variable_path(const iso_variable *variable);
ISO_API const iso_shape *iso_variable_shape(const iso_variable *variable);
ISO_API iso_dtype iso_variable_dtype(const iso_variable *variable);
ISO_API bool iso_variable_trainable(const iso_variable *variable);
ISO_API int iso_graph_variable_count(const iso_graph *graph);
/* The variable with this index, in order of creation; NULL outside [0, count). */
ISO_API iso_variable *iso_graph_variable(const iso_graph *graph, int index);
ISO_API iso_variable *iso_graph_find_variable(const iso_graph *graph, const char *path); /* or NULL */
/* Begins a block. Until it ends, names of new layers and paths of new variables begin with its name:
 * "encoder/dense/kernel". Automatic names are counted within the block. Blocks nest. A name that has a '/'
 * or is taken is an error. */
ISO_API void iso_name_scope_begin(iso_graph *graph, const char *name);
/* Ends the innermost open block. y (may be NULL) is its result, which layouts also find by
 * "encoder/output". If layouts name the last layer's output as well, the block's layout is the final one.
 * Returns y. */
ISO_API iso_tensor *iso_name_scope_end(iso_graph *graph, iso_tensor *y);
/* iso_name_scope_end for a block with several results. */
ISO_API void iso_name_scope_end_several(iso_graph *graph, iso_tensor *const *outputs, int count);
/* Until iso_share_end, layers and blocks are built again with their existing variables: a name refers to the
 * layer or block that has it already. Automatic names are counted from the beginning again, so that the code
 * that built a block builds the same block again. A layer that does not exist yet, or whose variables would
 * have other shapes, is an error. Its regularisation is not counted again. Sharings nest.
 *     a = tower(left);
 *     iso_share_begin(g);
 *     b = tower(right);
 *     iso_share_end(g); */
ISO_API void iso_share_begin(iso_graph *graph);
ISO_API void iso_share_end(iso_graph *graph);
/* Activation checkpointing, Keras's RematScope: the results of ops between these calls are not kept for the
 * backward pass, which computes them again from the inputs of the scope, just before it needs them. A step takes
 * less memory and more time; no number changes, and dropout drops the same elements. Keep the scopes small, one for
 * each block of a network: the backward pass holds the results of one scope at a time. Tensors that are used
 * outside of the scope are kept. A scope within a scope is a part of the outer one. */
ISO_API void iso_recompute_begin(iso_graph *graph);
ISO_API void iso_recompute_end(iso_graph *graph);
/* Until iso_policy_end, layers have a policy of their own, Keras's `dtype` of a layer: ISO_BF16 is
 * "mixed_bfloat16", ISO_F32 "float32". Each layer casts its inputs and weights to the type in which it computes;
 * variables stay as they are. In a graph of precision ISO_F64 everything computes in float64. Nests. */
ISO_API void iso_policy_begin(iso_graph *graph, iso_dtype dtype);
ISO_API void iso_policy_end(iso_graph *graph);
/* Until iso_freeze_end, new variables are not trainable: Keras's `trainable = False`. BatchNormalization
 * then uses its moving statistics in training as well and does not update them; regularisation of weights
 * is not counted. Nests. */
ISO_API void iso_freeze_begin(iso_graph *graph);
ISO_API void iso_freeze_end(iso_graph *graph);
/* The same for an existing layer, or for all layers of a block: Keras's `layer.trainable = ...`. name: as
 * in paths of variables, "dense" or "encoder/dense"; NULL: all. It applies to functions that are made from
 * then on (of a model: from the next iso_compile); existing functions stay as they were made. ISO_INVALID:
 * there is no such layer or block; the message offers the nearest names. Local; every rank must call it
 * alike. */
ISO_API iso_status iso_graph_set_trainable(iso_graph *graph, const char *name, bool trainable);

typedef struct iso_lora_options {
    char begin_;
    int64_t rank; /* of the adapters, positive */
    double alpha; /* they count alpha / rank; 0: as rank */
    /* A regular expression, as in keys of layouts: layers with this path, or whose path ends with it after a '/',
     * have adapters. "query|value" are queries and values of all blocks. NULL: all layers that can. */
    const char *target;
    /* Likewise: of all other variables, those of these layers are trained ("classifier"; "": none; "classifier|": if
     * there is one). NULL: all but the kernels that have adapters, as in Keras. */
    const char *trained;
} iso_lora_options;
/* Low-rank adaptation (Hu et al. 2021, arXiv 2106.09685), Keras's enable_lora and PEFT's LoraConfig. Until
 * iso_lora_end, kernels of Dense and EinsumDense, tables of Embedding and ReversibleEmbedding, and the kernels of
 * queries, keys, values, gates and outputs of attention have adapters where `target` says so: y = x kernel becomes y
 * = x kernel + alpha / rank (x a) b. The kernel is frozen. Variables, beside "dense/kernel" of [in..., out...]:
 * "dense/lora_kernel_a", [in..., rank], He uniform; and "dense/lora_kernel_b", [rank, out...], zeros. Of a table
 * they are lora_embeddings_a [rows, rank] and lora_embeddings_b. As in Keras, those of an EinsumDense have all
 * dimensions of the kernel but the last in `a`, and the last in `b`. Regularisation of a kernel is that of a and b.
 * An error of the graph: numbers that are not as said, an expression that is none, a kernel with a constraint, a
 * target, or `trained`, that no layer matches (at iso_lora_end). Nests: the innermost scope counts. */
ISO_API void iso_lora_begin_with(iso_graph *graph, const iso_lora_options *options, size_t size);
#define iso_lora_begin(graph, ...) iso_lora_begin_with(graph, ISO_OPTIONS(iso_lora_options, __VA_ARGS__))
ISO_API void iso_lora_end(iso_graph *graph);

/* ---- updates and gradients ---- */
/* Sets `variable` to `value` (of the same shape and type) at the end of a step. */
ISO_API iso_update *iso_assign(iso_variable *variable, iso_tensor *value);
/* Joins two updates. Either may be NULL. */
ISO_API iso_update *iso_update_join(iso_update *a, iso_update *b);
/* gradients[i] = d loss / d of[i], NULL if loss does not depend on it. loss: a scalar of float type. */
ISO_API void iso_gradients(iso_tensor *loss, iso_tensor *const *of, int count, iso_tensor **gradients);
/* Adds a term to the model's loss (regularisation, activity): iso_graph_losses() returns their sum or
 * NULL. */
ISO_API void iso_graph_add_loss(iso_graph *graph, iso_tensor *term);
ISO_API iso_tensor *iso_graph_losses(iso_graph *graph);

/* ---- elementwise arithmetic: NumPy's broadcasting; both of one type ---- */
ISO_API iso_tensor *iso_add(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_subtract(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_multiply(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_divide(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_power(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_maximum(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_minimum(iso_tensor *a, iso_tensor *b);
/* y = scale * x + shift. If x is ISO_BF16, both numbers are rounded to it first, as JAX has it. */
ISO_API iso_tensor *iso_affine(iso_tensor *x, double scale, double shift);
/* comparisons give ISO_BOOL; operands of different types are compared in the wider one */
ISO_API iso_tensor *iso_equal(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_not_equal(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_less(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_less_equal(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_greater(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_greater_equal(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_logical_and(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_logical_or(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_logical_not(iso_tensor *a);
/* condition ? a : b, elementwise, with broadcasting */
ISO_API iso_tensor *iso_where(iso_tensor *condition, iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_cast(iso_tensor *x, iso_dtype dtype);
/* unary, floating point */
ISO_API iso_tensor *iso_negate(iso_tensor *x);
ISO_API iso_tensor *iso_abs(iso_tensor *x);
ISO_API iso_tensor *iso_sign(iso_tensor *x);
ISO_API iso_tensor *iso_exp(iso_tensor *x);
ISO_API iso_tensor *iso_log(iso_tensor *x);
ISO_API iso_tensor *iso_sqrt(iso_tensor *x);
ISO_API iso_tensor *iso_rsqrt(iso_tensor *x);
ISO_API iso_tensor *iso_square(iso_tensor *x);
ISO_API iso_tensor *iso_relu(iso_tensor *x);
ISO_API iso_tensor *iso_clipped_relu(iso_tensor *x,
                                     double largest); /* min(max(x, 0), largest); largest > 0 */
ISO_API iso_tensor *iso_leaky_relu(iso_tensor *x, double negative_slope);
ISO_API iso_tensor *iso_elu(iso_tensor *x, double alpha);
ISO_API iso_tensor *iso_sigmoid(iso_tensor *x);
ISO_API iso_tensor *iso_tanh(iso_tensor *x);
ISO_API iso_tensor *iso_gelu(iso_tensor *x, bool approximate);
ISO_API iso_tensor *iso_silu(iso_tensor *x);
ISO_API iso_tensor *iso_softplus(iso_tensor *x);
ISO_API iso_tensor *iso_stop_gradient(iso_tensor *x);

/* ---- reductions over axes (negative: from the end; count 0: all); keep: reduced dimensions stay as 1.
 * Sums of ISO_BOOL are ISO_I32. A mean over the batch divides by the global number of rows. ---- */
ISO_API iso_tensor *iso_reduce_sum(iso_tensor *x, const int *axes, int count, bool keep);
ISO_API iso_tensor *iso_reduce_mean(iso_tensor *x, const int *axes, int count, bool keep);
ISO_API iso_tensor *iso_reduce_max(iso_tensor *x, const int *axes, int count, bool keep);
ISO_API iso_tensor *iso_reduce_min(iso_tensor *x, const int *axes, int count, bool keep);
/* over all axes, to a scalar; accumulated in float64 */
ISO_API iso_tensor *iso_sum(iso_tensor *x);
ISO_API iso_tensor *iso_mean(iso_tensor *x);
/* the sums of values [..., d] by index [...]: [count, d], row i of all values whose index is i. An index that is not
 * an integer in 0 .. count - 1 is an error of the step */
ISO_API iso_tensor *iso_segment_sum(iso_tensor *values, iso_tensor *index, int64_t count);
/* index of the largest along an axis (the first of equals), ISO_I32 */
ISO_API iso_tensor *iso_argmax(iso_tensor *x, int axis);
/* true if a row's target is among the k largest of its predictions, as tf.math.in_top_k: [rows...,
 * classes], [rows...] -> [rows...] ISO_BOOL */
ISO_API iso_tensor *iso_in_top_k(iso_tensor *predictions, iso_tensor *targets, int k);
/* x: [batch, ..., classes] -> the k largest elements of each row, largest first: [batch, ..., k]; *index (may be
 * NULL) becomes their indices, ISO_I32 of this shape. Of equals the first one comes first; NaN is larger than any
 * number. */
ISO_API iso_tensor *iso_top_k(iso_tensor *x, int k, iso_tensor **index);

/* ---- shapes ---- */
/* dim -1 (at most one, in addition to ISO_BATCH): the remaining elements. The batch dimension stays first. */
ISO_API iso_tensor *iso_reshape_to(iso_tensor *x, iso_shape shape);
ISO_API iso_tensor *iso_transpose(iso_tensor *x, const int *permutation);
/* x with the elements along an axis, which is not the batch, in the opposite order */
ISO_API iso_tensor *iso_flip(iso_tensor *x, int axis);
/* the elements [begin, begin + size) of each dimension but the batch; size -1: to the end. Of a tensor with a batch,
 * begin[0] and size[0] are those of dimension 1 */
ISO_API iso_tensor *iso_slice(iso_tensor *x, const int64_t *begin, const int64_t *size);
/* zeros before and after the elements of each dimension but the batch */
ISO_API iso_tensor *iso_pad(iso_tensor *x, const int64_t *before, const int64_t *after);
/* x[0] to x[count - 1], one behind the other along an axis, which is not the batch */
ISO_API iso_tensor *iso_concat(iso_tensor *const *x, int count, int axis);
ISO_API iso_tensor *iso_broadcast_to(iso_tensor *x, iso_shape shape);

/* ---- products ---- */
/* x: [..., k], w: [k, n] -> [..., n]; or both [..., m, k], [..., k, n] with equal leading dimensions. The
 * flags transpose the last two dimensions. */
ISO_API iso_tensor *iso_matmul(iso_tensor *a, iso_tensor *b);
ISO_API iso_tensor *iso_matmul_with(iso_tensor *a, iso_tensor *b, bool transpose_a, bool transpose_b);

/* ---- networks (the layers in models/ build on these) ---- */
typedef struct iso_conv_geometry {
    int64_t stride[2], dilation[2]; /* height, width; at least 1 */
    int64_t pad_before[2], pad_after[2];
    int64_t groups;
} iso_conv_geometry;
/* x: [n, h, w, c], kernel: [r, s, c / groups, f] -> [n, h', w', f]. x may have more dimensions between n and h, which
 * the result has too: each [h, w, c] is an image. */
ISO_API iso_tensor *iso_conv2d_op(iso_tensor *x, iso_tensor *kernel, const iso_conv_geometry *geometry);
/* Its transpose: y: [n, h', w', f], kernel: [r, s, c / groups, f] -> [n, height, width, c], perhaps with more
 * dimensions after n. An image of that size must have h' x w' window positions. */
ISO_API iso_tensor *iso_conv2d_transpose_op(iso_tensor *y, iso_tensor *kernel,
                                            const iso_conv_geometry *geometry, int64_t height, int64_t width);
typedef struct iso_pool_geometry {
    int64_t size[2], stride[2], pad_before[2], pad_after[2];
} iso_pool_geometry;
/* x: [n, h, w, c], perhaps with more dimensions after n */
ISO_API iso_tensor *iso_max_pool2d_op(iso_tensor *x, const iso_pool_geometry *geometry);
/* the mean over those elements of each window that are inside x, as in Keras and TensorFlow */
ISO_API iso_tensor *iso_average_pool2d_op(iso_tensor *x, const iso_pool_geometry *geometry);
/* The same over dimensions axis and axis + 1, between the batch and the channels, in place of h and w. */
ISO_API iso_tensor *iso_max_pool2d_along(iso_tensor *x, int axis, const iso_pool_geometry *geometry);
ISO_API iso_tensor *iso_average_pool2d_along(iso_tensor *x, int axis, const iso_pool_geometry *geometry);
/* Windows along one dimension: element i of window p is at p * stride - pad_before + i * dilation. */
typedef struct iso_unfold_geometry {
    int64_t size, stride, dilation, pad_before, pad_after;
} iso_unfold_geometry;
/* x: [batch, ..., d, ..., c], d at `axis`, between the batch and the last dimension ->
 * [batch, ..., d', ..., size, c]: of each of the d' windows its elements, zeros in the padding. */
ISO_API iso_tensor *iso_unfold_op(iso_tensor *x, int axis, const iso_unfold_geometry *geometry);
/* Its transpose: y: [batch, ..., d', ..., size, c] -> [batch, ..., extent, ..., c], the sums of the elements of
 * windows that lie at one place. `extent` elements must have d' windows. */
ISO_API iso_tensor *iso_fold_op(iso_tensor *y, int axis, const iso_unfold_geometry *geometry, int64_t extent);
/* x: [n, h, w, c] -> [n, h times[0], w times[1], c], interpolated linearly between the centres of x's
 * elements; beyond the outermost centres constant */
ISO_API iso_tensor *iso_upsample_linear_op(iso_tensor *x, const int64_t times[2]);
/* x: [..., t, s] for s up to t's number (causal) and less than `window` from it (0: any distance), `fill`
 * elsewhere */
ISO_API iso_tensor *iso_band_op(iso_tensor *x, bool causal, int64_t window, double fill);
/* Rotary positions (Su et al. 2021, arXiv 2104.09864). x: [batch, ..., positions, ..., features], positions along
 * `axis`, an even number of features. At position p, from 0, features i and i + features / 2 are turned in their
 * plane by the angle p / scaling * wavelength^(-2 i / features). */
ISO_API iso_tensor *iso_rotary_op(iso_tensor *x, int axis, double wavelength, double scaling);
/* How rotary positions are stretched for rows longer than those of a first training, of `context` positions. In
 * Llama 3.1 waves (2 pi wavelength^(2 i / features) positions long) longer than context / low are `factor` times as
 * long, those shorter than context / high are as they were, and between them the angles are interpolated linearly in
 * context / wave. In YaRN (Peng et al. 2023, arXiv 2309.00071) they are interpolated linearly in i, between the two i
 * that have waves of these lengths, rounded away from each other, as transformers does; the attention factor is an
 * option of the attention. */
typedef struct iso_rotary_stretch {
    double factor; /* 0: nothing is stretched */
    double low, high;
    double context;
    int64_t yarn; /* 0: Llama 3.1's; 1: YaRN's */
} iso_rotary_stretch;
/* The same with stretched positions. ISO_INVALID (in the graph): a number is not positive, low is not below high, or
 * a wavelength up to 1 with yarn. */
ISO_API iso_tensor *iso_rotary_stretched_op(iso_tensor *x, int axis, double wavelength, double scaling,
                                            const iso_rotary_stretch *stretch);
typedef struct iso_attention_form {
    double scale;     /* of the products of queries and keys, as 1 / sqrt(k) */
    double masked;    /* the score of what is not attended to, as -1e9; with .adds, what is added to it */
    bool causal;      /* a query attends to keys up to its own position */
    int64_t window;   /* to those less than this many positions away; 0: to all */
    bool zero_masked; /* what the mask leaves out weighs 0 even in a row that is masked whole */
    double dropout;   /* rate for the weights */
    const char *path; /* of dropout's random numbers; may be NULL without dropout */
    double cap;       /* scores become cap tanh(score / cap), before masks, as in Gemma 2; 0: they do not */
    /* NULL or ISO_BOOL [batch or 1, heads or 1, t or 1, 1]: queries where it is false attend to no key */
    iso_tensor *query_mask;
    bool adds; /* .masked is added to scores, as in Keras's Attention; not together with cap */
} iso_attention_form;
/* query: [..., t, heads, k], key: [..., s, heads, k], value: [..., s, heads, v], mask: NULL or ISO_BOOL [batch or 1,
 * heads or 1, t or 1, s or 1], with 4 dimensions each -> [..., t, heads, v]: in each head, the sums of the values by
 * weights softmax(scale query key'). A dimension of 1 of a mask stands for all: [batch, 1, 1, s] masks keys. A query
 * that attends to no key weighs all keys alike, unless zero_masked or adds. */
ISO_API iso_tensor *iso_attention_op(iso_tensor *query, iso_tensor *key, iso_tensor *value, iso_tensor *mask,
                                     const iso_attention_form *form);
typedef enum iso_experts_activation {
    ISO_EXPERTS_SILU = 0,
    ISO_EXPERTS_GELU,
    ISO_EXPERTS_GELU_TANH, /* gelu by tanh */
    ISO_EXPERTS_RELU,
} iso_experts_activation;
typedef struct iso_experts_form {
    iso_tensor *gate; /* [experts, d, hidden]; NULL: none */
    iso_tensor *up;   /* [experts, d, hidden] */
    iso_tensor *down; /* [experts, hidden, d] */
    iso_experts_activation activation;
} iso_experts_form;
/* Experts: perceptrons of which each row takes k. x: [batch, ..., d], choice: indices of experts [batch, ..., k],
 * share: [batch, ..., k] -> [batch, ..., d], the sum over the k choices of share * (activation(x gate) * (x up))
 * down, with the kernels of the chosen expert; without a gate, of share * activation(x up) down. No choice is
 * dropped. A choice that is not an integer in 0 .. experts - 1 is an error of the step. All but choice have one
 * type. */
ISO_API iso_tensor *iso_experts_op(iso_tensor *x, iso_tensor *choice, iso_tensor *share,
                                   const iso_experts_form *form);
/* A recurrence over time: the state of a step depends on that of the step before. */
typedef enum iso_cell {
    ISO_CELL_LSTM, /* Hochreiter and Schmidhuber 1997, with Gers, Schmidhuber and Cummins's forget gate: 4 gates */
    ISO_CELL_GRU, /* Cho et al. 2014, arXiv 1406.1078, with the reset after the product, as in cuDNN: 3 gates */
    ISO_CELL_SIMPLE, /* h = activation(x + h' kernel): 1 gate */
} iso_cell;
/* The activations of cells: functions whose slope follows from their value. */
typedef enum iso_cell_activation {
    ISO_CELL_DEFAULT = 0, /* tanh, and of gates sigmoid */
    ISO_CELL_TANH,
    ISO_CELL_SIGMOID,
    ISO_CELL_HARD_SIGMOID, /* min(max(x / 6 + 1 / 2, 0), 1) */
    ISO_CELL_RELU,
    ISO_CELL_LINEAR,
} iso_cell_activation;
typedef struct iso_recurrence_form {
    iso_cell cell;
    iso_cell_activation activation; /* of the candidate state; of LSTM also of what h shows of c */
    iso_cell_activation recurrent;  /* of the gates; ISO_CELL_SIMPLE has none */
    bool backwards;                 /* from the last step to the first */
} iso_recurrence_form;
/* x: [batch, t, g u], what the inputs contribute to the g gates of u units, bias included; kernel: [u, g u]; or, with
 * a convolution in place of the product h' kernel (Shi et al. 2015, arXiv 1506.04214), x: [batch, t, h, w, g u] and
 * kernel: [r, s, u, g u], whose windows have zeros around the image; h, c and the states then have the dimensions h,
 * w before u. bias:
 * NULL or [g u], added to h' kernel; h0, c0: [batch, u], the state before the first step, or NULL: zeros; c0 of LSTM
 * alone, and both or neither; mask: NULL or ISO_BOOL [batch, t]: a step where it is false leaves the state as it was.
 * h: [batch, t, u], the state after each step; *c, of LSTM, may be NULL: the same of its cells. With r = h' kernel
 * + bias, from the state h', c' before a step, and s, a the two activations:
 *   LSTM    parts i, f, g, o of x + r: c = s(f) c' + s(i) a(g), h = s(o) a(c)
 *   GRU     parts z, q, n: h = z h' + (1 - z) n, z = s(xz + rz), q = s(xq + rq), n = a(xn + q rn)
 *   SIMPLE  h = a(x + r) */
ISO_API iso_tensor *iso_recurrence_op(iso_tensor *x, iso_tensor *kernel, iso_tensor *bias, iso_tensor *h0,
                                      iso_tensor *c0, iso_tensor *mask, const iso_recurrence_form *form,
                                      iso_tensor **c);
ISO_API iso_tensor *iso_softmax(iso_tensor *x, int axis);
ISO_API iso_tensor *iso_log_softmax(iso_tensor *x, int axis);
/* labels: [rows...] integers (or integral floats), logits: [rows..., classes] -> the loss of each row. A
 * label outside the classes is an error of the step, which names row and value. */
ISO_API iso_tensor *iso_sparse_crossentropy_op(iso_tensor *labels, iso_tensor *logits);
/* labels: [rows..., classes] (a distribution) */
ISO_API iso_tensor *iso_crossentropy_op(iso_tensor *labels, iso_tensor *logits);
/* x: [rows, features...], normalised over the last dimension; gamma, beta: [c] or NULL */
ISO_API iso_tensor *iso_layer_norm_op(iso_tensor *x, iso_tensor *gamma, iso_tensor *beta, double epsilon);
/* x / sqrt(mean(x^2) + epsilon) * gamma over the last dimension (Zhang and Sennrich 2019, arXiv 1910.07467);
 * x: [rows, features...], gamma: [c] or NULL */
ISO_API iso_tensor *iso_rms_norm_op(iso_tensor *x, iso_tensor *gamma, double epsilon);
/* The mean and the (biased) variance of the global batch over all dimensions but the last, ISO_F64 [c]. */
ISO_API void iso_batch_moments(iso_tensor *x, iso_tensor **mean, iso_tensor **variance);
/* (x - mean) / sqrt(variance + epsilon) * gamma + beta over the last dimension; mean, variance: [c], any
 * float type; gamma, beta: [c] or NULL. If mean and variance come from iso_batch_moments(x), the gradient
 * includes their dependence on x. */
ISO_API iso_tensor *iso_batch_norm_op(iso_tensor *x, iso_tensor *mean, iso_tensor *variance,
                                      iso_tensor *gamma, iso_tensor *beta, double epsilon);
/* table: [v, d], index: integers [...] -> [..., d]. An index outside 0..v-1 is an error of the step. */
ISO_API iso_tensor *iso_embedding_op(iso_tensor *table, iso_tensor *index);
/* index -> [..., classes], 1 at the index, of float type dtype */
ISO_API iso_tensor *iso_one_hot(iso_tensor *index, int64_t classes, iso_dtype dtype);
/* Each element is kept with probability 1 - rate and divided by it; which ones depends on seed, `path`, step
 * and global index. */
ISO_API iso_tensor *iso_dropout_op(iso_tensor *x, double rate, const char *path);
/* x + stddev * z, with a standard normal z for each element, which depends on seed, `path`, step and
 * global index. */
ISO_API iso_tensor *iso_gaussian_noise_op(iso_tensor *x, double stddev, const char *path);
/* What a uniform number u becomes. */
typedef enum iso_uniform_function {
    ISO_UNIFORM_VALUE = 0, /* u */
    ISO_UNIFORM_COSINE,    /* cos(2 pi u) */
    ISO_UNIFORM_SINE,      /* sin(2 pi u) */
} iso_uniform_function;
/* For each element of x, whose values have no effect, a function of a number that is uniform from low to high; it
 * depends on seed, `path`, step and global index, not on the function. ISO_INVALID (in the graph): a limit that is
 * not finite. */
ISO_API iso_tensor *iso_uniform_op(iso_tensor *x, double low, double high, iso_uniform_function function,
                                   const char *path);
/* What lies outside of an image a b c d. */
typedef enum iso_fill_mode {
    ISO_FILL_REFLECT = 0, /* d c b a | a b c d | d c b a */
    ISO_FILL_WRAP,        /* a b c d | a b c d | a b c d */
    ISO_FILL_CONSTANT,    /* v v v v | a b c d | v v v v */
    ISO_FILL_NEAREST,     /* a a a a | a b c d | d d d d */
} iso_fill_mode;
typedef struct iso_warp_form {
    int64_t height, width;   /* of the result; 0: that of x */
    iso_fill_mode fill_mode; /* default: ISO_FILL_REFLECT */
    double fill_value;       /* of ISO_FILL_CONSTANT; finite */
    bool nearest;            /* the nearest pixel; default: linear between the four pixels around a place */
} iso_warp_form;
/* Images moved by affine maps, as keras.ops.image.affine_transform on JAX. x: [n, h, w, c]; maps: [n, 6], of x's
 * type, float32 for bfloat16: for each image a0, a1, a2, b0, b1, b2 -> [n, height, width, c]: the pixel in row p and
 * column q is that of x in row b0 q + b1 p + b2 and column a0 q + a1 p + a2. If these are not below 2^31 in amount,
 * it is fill_value in every mode. No gradient flows to the maps. */
ISO_API iso_tensor *iso_warp_op(iso_tensor *x, iso_tensor *maps, const iso_warp_form *form);
/* `training` in functions made with .training = true, `inference` in others; both of one shape and type */
ISO_API iso_tensor *iso_by_mode(iso_tensor *training, iso_tensor *inference);

#ifdef __cplusplus
}
#endif
#endif
