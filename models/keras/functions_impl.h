/* Functions of keras.ops while they are called. For models/keras only. */
#ifndef ISO_MODELS_KERAS_FUNCTIONS_IMPL_H
#define ISO_MODELS_KERAS_FUNCTIONS_IMPL_H

#include "models/keras/network_impl.h"
#include "models/layers/arguments.h"

/* An argument that is a tensor, or stands for one. */
typedef struct iso_keras_operand {
    iso_tensor *tensor; /* an array of the file is a constant; NULL: a number, or missing */
    bool number,
        real; /* a number of Python, whose type follows those of the tensors; not written as an integer */
    double value;
    const json_t *array; /* the lists of a constant; NULL: it is none */
} iso_keras_operand;

/* A call of a function. Its settings are `arguments`, which iso_config_*() look up. */
typedef struct iso_keras_function {
    iso_keras_network *net;
    const iso_keras_layer *layer;
    const iso_keras_node *node;
    iso_keras_arguments arguments;
    const iso_layer_config *settings; /* of `arguments` */
    int count;                        /* of operands; those that are missing count too */
    iso_keras_operand *operand;
    iso_tensor **scratch; /* [count] */
    const json_t *plain;  /* the argument that is not a tensor, as the key of GetItem; NULL: none */
    iso_status status;
    iso_keras_list *out;
} iso_keras_function;

typedef struct iso_keras_function_type {
    const char *type; /* the class in keras.src.ops */
    /* The names of the arguments of the call, in order: tensors; "*xs": a list of tensors; "=key": plain; "?mask": a
     * tensor that may be missing. "": any number of tensors. */
    const char *parameters;
    void (*call)(iso_keras_function *f); /* gives results, or refuses */
} iso_keras_function_type;

/* operations.c: the op of an operation of two tensors, as iso_add of "Add"; NULL: it is none. */
typedef iso_tensor *(*iso_keras_binary)(iso_tensor *a, iso_tensor *b);
iso_keras_binary iso_keras_binary_of(const char *type);

/* The tables of the families, which end with a row of zeros. */
extern const iso_keras_function_type iso_keras_shape_functions[], iso_keras_reduce_functions[],
    iso_keras_math_functions[], iso_keras_product_functions[];

/* A result. */
void iso_keras_give(iso_keras_function *f, iso_tensor *y);
/* Refuses the call with the place in the file; returns a tensor that only ends the computation. The first refusal
 * counts. */
iso_tensor *iso_keras_refuse_call(iso_keras_function *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "it mixes the rows of a batch ...": what cannot be right for rows that lie on several slots. */
iso_tensor *iso_keras_refuse_batch(iso_keras_function *f, const char *what);
/* Operand i; a number is a constant of its own type. */
iso_tensor *iso_keras_operand_of(iso_keras_function *f, int i);
/* The same in a floating-point type. */
iso_tensor *iso_keras_real_operand(iso_keras_function *f, int i);
/* Casts operands [first, first + count) to the type that Keras gives their result, as tensors. real: of a division or
 * the like, whose result is never an integer. */
void iso_keras_promote(iso_keras_function *f, int first, int count, bool real);
/* Whether a setting is there and not null. */
bool iso_keras_has(const iso_keras_function *f, const char *key);
/* A setting that is one dimension of x, from 0; default_value may be negative, from the end. -1, and a refusal: it is
 * out of range. */
int iso_keras_axis(iso_keras_function *f, const char *key, const iso_tensor *x, int default_value);
/* The dimensions of x that a setting names, in order; null: all, which is *count 0. False, and a refusal: one is out
 * of range or given twice. extra: that many more dimensions are counted, as for ExpandDims. */
bool iso_keras_axes(iso_keras_function *f, const char *key, const iso_tensor *x, int extra, int *axes,
                    int *count);
/* Whether a dimension is the batch. */
bool iso_keras_is_batch(const iso_tensor *x, int axis);
/* Elements [begin, begin + size) along one axis, which is not the batch. */
iso_tensor *iso_keras_part(iso_tensor *x, int axis, int64_t begin, int64_t size);
/* The tensors in x one after another along an axis, any number of them; x is used as scratch memory. */
iso_tensor *iso_keras_join(iso_tensor *const *x, int count, int axis);
/* x without the dimensions in these bits, all of one element, and with another of one element at `axis`. */
iso_tensor *iso_keras_without(iso_tensor *x, uint32_t axes);
iso_tensor *iso_keras_with_axis(iso_tensor *x, int axis);

#endif
