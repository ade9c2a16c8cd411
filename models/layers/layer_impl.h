/* Shared by the layers: names, variables, options. For models/layers only. */
#ifndef ISO_MODELS_LAYERS_LAYER_IMPL_H
#define ISO_MODELS_LAYERS_LAYER_IMPL_H

#include "models/layers/arguments.h"
#include "runtime/base/text.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/op.h"

enum {
    ISO_MOST_OTHERS = 5
}; /* results after the first: of a Bidirectional of LSTM one more and four states */

/* A layer while it is being built. */
typedef struct iso_layer {
    iso_graph *graph;
    const char *type; /* Keras's class */
    const char *name;
    iso_tensor *const *inputs; /* of the call */
    int n_inputs;
    iso_tensor *single;                  /* the input of a layer of one input; `inputs` points here */
    iso_tensor *others[ISO_MOST_OTHERS]; /* its results after the first; iso_layer_end casts them as it */
    int n_others;
    iso_masks masks; /* of its result, for ISO_MASKS_MADE */
    bool uncast;     /* it computes in the type of its variables: Keras's autocast=False */
    int n_parts;     /* the layers of which it is made */
    iso_layer_part parts[2];
    iso_attribute *config, *call; /* objects, filled by iso_layer_note_*(); call NULL: empty */
} iso_layer;

/* A trainable weight, as a layer's options describe it. */
typedef struct iso_weight_form {
    const char
        *what; /* "kernel": the variable "<layer>/kernel", Keras's arguments "kernel_initializer", ... */
    iso_initializer initializer;
    iso_initializer_kind default_value; /* if none is chosen */
    double l1, l2;                      /* l1 * sum(|w|) + l2 * sum(w^2) is added to the graph's losses */
    iso_weight_constraint constraint;
    const char *layout;   /* NULL: that of the layout map */
    const char *argument; /* "depthwise" if Keras's arguments have another name than the variable; or NULL */
} iso_weight_form;
/* The form of a weight from the members of a layer's options: kernel_initializer, kernel_l1, kernel_l2,
 * kernel_constraint, kernel_layout. */
#define ISO_WEIGHT_FORM(options, name, default_kind)                                                         \
    {                                                                                                        \
        .what = #name, .initializer = (options).name##_initializer, .default_value = default_kind,           \
        .l1 = (options).name##_l1, .l2 = (options).name##_l2, .constraint = (options).name##_constraint,     \
        .layout = (options).name##_layout                                                                    \
    }

/* Declares `options` as a copy of the caller's; members that the caller's version did not have are zero. */
#define ISO_LAYER_OPTIONS(type, options, given, size)                                                        \
    type options;                                                                                            \
    iso_options_copy(&options, sizeof options, given, size)

/* Begins a layer on *x with its name, or with an automatic one made from `base`, and casts *x to the type in
 * which the graph's layers compute. False if the graph has an error or *x is NULL: the layer then returns
 * iso_layer_broken(*x). */
bool iso_layer_begin(iso_layer *layer, iso_tensor **x, const char *type, const char *base, const char *name);
/* The same for a layer that moves elements and computes nothing: integers stay integers. */
bool iso_layer_begin_any(iso_layer *layer, iso_tensor **x, const char *type, const char *base,
                         const char *name);
/* The same for a layer that computes in the type of its variables, and so casts neither x nor its weights. */
bool iso_layer_begin_uncast(iso_layer *layer, iso_tensor *x, const char *type, const char *base,
                            const char *name);
#define iso_layer_broken(x) iso_layer_broken_in(__func__, x)
/* The same with the name of the public function, for the message if x is NULL. */
iso_tensor *iso_layer_broken_in(const char *function, iso_tensor *x);
/* The same for a layer of several inputs, which calls iso_layer_cast for those that it computes with. */
bool iso_layer_begin_several(iso_layer *layer, iso_tensor *const *x, int count, const char *type,
                             const char *base, const char *name);
/* x in the type in which the layer computes: the graph's, or with `uncast` that of variables. Integers and bool
 * too, as Keras's layers have it. */
iso_tensor *iso_layer_cast(const iso_layer *layer, iso_tensor *x);
/* The result of a layer that does not cast its input (Keras's autocast=False) rounded to bfloat16 if its input is
 * bfloat16: Keras's normalisations give the type of their input, which is cast to that of the layer. */
iso_tensor *iso_layer_as_input(const iso_layer *layer, iso_tensor *y);
/* Casts the result to the type in which the graph's layers compute, names it
 * "<layer>/output", records the layer in its graph and returns the result. */
iso_tensor *iso_layer_end(iso_layer *layer, iso_tensor *y);

/* The same for a layer that may have a bias and has recorded everything but its weights: records these first. */
iso_tensor *iso_layer_end_forms(iso_layer *layer, iso_tensor *y, bool no_bias,
                                const iso_weight_form *const *forms);
#define iso_layer_end_weights(layer, y, no_bias, ...)                                                        \
    iso_layer_end_forms(layer, y, no_bias, (const iso_weight_form *const[]){__VA_ARGS__, NULL})

/* ---- record the layer's config under Keras's names, which must live as long as the graph; called right
 * before iso_layer_end ---- */
void iso_layer_note_integer(iso_layer *layer, const char *key, int64_t value);
void iso_layer_note_integers(iso_layer *layer, const char *key, const int64_t *value, int count); /* a list */
void iso_layer_note_dimension(iso_layer *layer, const char *key, int64_t value, int from_end);    /* or 0 */
void iso_layer_note_real(iso_layer *layer, const char *key, double value);
void iso_layer_note_flag(iso_layer *layer, const char *key, bool value);
void iso_layer_note_text(iso_layer *layer, const char *key, const char *value);
void iso_layer_note_none(iso_layer *layer, const char *key);
/* A list: values recorded in the result, with the key NULL, are its items. */
iso_layer iso_layer_note_list(iso_layer *layer, const char *key);
/* A list in which null is ISO_BATCH. */
void iso_layer_note_shape(iso_layer *layer, const char *key, const iso_shape *shape);
void iso_layer_note_padding(iso_layer *layer, iso_padding padding); /* "padding" */
/* Dimensions of the first input given as bits: a list, or a number if there is only one. Files have a dimension as it
 * was given, from the beginning or from the end: `given`, `count` of them; 0: none, and the defaults count from the
 * end. */
void iso_layer_note_axes(iso_layer *layer, const char *key, uint32_t axes, const int *given, int count);
/* {"module": ..., "class_name": ..., "config": {...}}: values recorded in the result are members of its config.
 */
iso_layer iso_layer_note_object(iso_layer *layer, const char *key, const char *module,
                                const char *class_name);
/* Records a layer of which this one is made, as the object of an argument; its class and config are the values. */
void iso_layer_note_part(iso_layer *layer, const char *argument, const char *attribute,
                         const iso_layer_record *part);
/* An initializer as the object that Keras writes. */
void iso_layer_note_initializer(iso_layer *layer, const char *key, const iso_initializer *initializer);
/* A regularizer as the object that Keras writes; null if both factors are 0. */
void iso_layer_note_penalty(iso_layer *layer, const char *key, double l1, double l2);
/* All of a weight: "<what>_initializer", "<what>_regularizer", and "<what>_constraint" if it has one. */
void iso_layer_note_weight(iso_layer *layer, const iso_weight_form *form);
/* An argument of the call, by name; returns it, so that items can be added to a list. */
iso_attribute *iso_layer_note_call(iso_layer *layer, iso_attribute value);
/* Records an error of the layer: "layer 'd1' (Dense): ...". Returns the graph's error tensor. */
iso_tensor *iso_layer_fail(const iso_layer *layer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* If x does not have `rank` dimensions: false, and an error that names the layer, x's shape and `form`
 * ("[batch, height, width, channels]"). */
bool iso_layer_check_rank(const iso_layer *layer, iso_tensor *x, int rank, const char *form);

/* The variable "<layer>/<what>" of the graph's precision; `default_value` is its initializer if none is chosen. */
iso_variable *iso_layer_variable(const iso_layer *layer, const char *what, iso_shape shape,
                                 iso_initializer chosen, iso_initializer_kind default_value, bool trainable);
/* Sets the fans of a variable's initializer (iso_variable_set_fans). */
void iso_layer_set_fans(const iso_layer *layer, const char *what, double in, double out);
/* The path for a layer's random numbers: each call of a shared layer has its own. */
void iso_layer_random_path(const iso_layer *layer, iso_text *path);
/* x with the layer's random numbers: parts of it are 0 with the probability `rate`, the others are divided by 1 -
 * rate. noise: the shape of the parts, of x's rank, with dimensions of x or 1. */
iso_tensor *iso_layer_drop(const iso_layer *layer, iso_tensor *x, double rate, const iso_shape *noise);
/* The contents of a text, owned by it. Out of memory: an error of the graph, and "" or a part of the text. */
const char *iso_layer_text(const iso_layer *layer, const iso_text *text);
/* Makes a weight and returns its value, in the type in which the layer computes.
 * Its penalty is added once, and only if it is trained. */
iso_tensor *iso_layer_weight(const iso_layer *layer, const iso_weight_form *form, iso_shape shape);
/* The same, and returns the variable. */
iso_variable *iso_layer_make_weight(const iso_layer *layer, const iso_weight_form *form, iso_shape shape);
/* The existing variable "<layer>/<what>"; NULL: there is none. */
iso_variable *iso_layer_find_variable(const iso_layer *layer, const char *what);
/* NULL if left_out; then a layout for it is an error. */
iso_tensor *iso_layer_weight_unless(const iso_layer *layer, bool left_out, const iso_weight_form *form,
                                    iso_shape shape);
/* The activation of y, which is recorded. */
iso_tensor *iso_layer_activate(iso_layer *layer, iso_tensor *y, iso_activation_kind kind,
                               const iso_activation_numbers *numbers);
/* y + the weight, or y if left_out. */
iso_tensor *iso_layer_bias(const iso_layer *layer, iso_tensor *y, bool left_out, const iso_weight_form *form,
                           iso_shape shape);
/* ---- low-rank adapters, in scopes of iso_lora_begin ---- */
/* The adapter of a kernel, in the type in which the layer computes; a NULL: it has none. */
typedef struct iso_layer_adapter {
    iso_tensor *a, *b; /* [in..., rank], [rank, out...] */
    double scale;
} iso_layer_adapter;
/* Makes the adapter of an existing kernel, of which the first `inputs` dimensions are summed over, if it has one. */
iso_layer_adapter iso_layer_adapt(const iso_layer *layer, const iso_weight_form *kernel, int inputs);
/* y + scale * change */
iso_tensor *iso_layer_adapted(iso_tensor *y, iso_tensor *change, double scale);
/* y, or with an adapter y + scale * (x a) b. x: [..., in], y: [..., out], where both are products of the kernel's
 * dimensions */
iso_tensor *iso_layer_adapt_product(const iso_layer *layer, const iso_weight_form *kernel, int inputs,
                                    iso_tensor *x, iso_tensor *y);

/* Rows of an existing table by index, [..., columns], with its adapter. */
iso_tensor *iso_layer_look_up(const iso_layer *layer, const iso_weight_form *form, iso_tensor *table,
                              iso_tensor *x);

/* Sets the layout of the existing variable "<layer>/<what>"; NULL: none. */
void iso_layer_set_layout(const iso_layer *layer, const char *what, const char *layout);
/* The dimensions of x that a list names (negative: from the end), as bits; 0, and an error, if one is the batch,
 * out of range or given twice. */
uint32_t iso_layer_axes(const iso_layer *layer, iso_tensor *x, const int *axis, int count);
/* x with these dimensions moved to the end, in the same order, and the permutation for iso_layer_axes_back. */
iso_tensor *iso_layer_axes_last(iso_tensor *x, uint32_t axes, int back[ISO_MAX_RANK]);
iso_tensor *iso_layer_axes_back(iso_tensor *x, const int back[ISO_MAX_RANK]);
/* The last `axes` dimensions of a shape, the shape with these merged into one, and the size of that one. */
iso_shape iso_layer_last_dims(const iso_shape *shape, int axes, iso_shape *joined, int64_t *features);
/* Sizes along `count` dimensions, the first of these that is set: `each` of them, `all`, `default_value`. */
void iso_layer_sizes(int count, const int64_t *each, int64_t all, int64_t default_value, int64_t *out);
/* Padding of a window over n elements, as in Keras. */
void iso_layer_pad(iso_padding padding, int64_t n, int64_t window, int64_t stride, int64_t *before,
                   int64_t *after);

#endif
