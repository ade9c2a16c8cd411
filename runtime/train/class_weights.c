/* Weights of classes: a weight for each row, or each position, by its class, that counts in training. */
#include <math.h>

#include "runtime/graph/layer.h"
#include "runtime/train/losses_impl.h"
#include "runtime/train/model_impl.h"

/* The last dimension of targets that have a number for each class; 0: they are classes. */
static int64_t width_of(const iso_tensor *target, bool labels)
{
    const iso_shape *shape = iso_tensor_shape(target);
    int64_t last = shape->rank > 1 ? shape->dim[shape->rank - 1] : 1;
    return labels || last == 1 ? 0 : last;
}

/* Rounds to the nearest whole number; all below 0 may become -1. */
static iso_tensor *rounded(iso_tensor *x)
{
    iso_tensor *next = iso_cast(iso_affine(x, 1, 1.5), ISO_I32);
    return iso_subtract(next, iso_metric_number(next, 1));
}

/* The class of each row or position, as Keras finds it: the largest of several numbers, or the number. */
static iso_tensor *classes_of(iso_tensor *target, bool labels)
{
    iso_shape shape = *iso_tensor_shape(target);
    if (width_of(target, labels))
        return iso_argmax(target, -1);
    if (shape.rank > 1 && shape.dim[shape.rank - 1] == 1) {
        shape.rank--;
        target = iso_reshape_to(target, shape);
    }
    return iso_dtype_is_float(iso_tensor_dtype(target)) ? rounded(target) : target;
}

/* Their weights in training, 1 for classes that have none, and 1 otherwise. */
static iso_tensor *weights_of(iso_tensor *classes, const double *weights, int count)
{
    iso_graph *graph = iso_tensor_graph(classes);
    iso_dtype dtype = iso_graph_precision(graph);
    iso_tensor *hot = iso_one_hot(classes, count, dtype);
    iso_tensor *known =
        iso_loss_sum(iso_multiply(hot, iso_constant(graph, dtype, ISO_SHAPE(count), weights)));
    iso_tensor *others = iso_affine(iso_loss_sum(hot), -1, 1);
    iso_tensor *ones = iso_broadcast_to(iso_number(graph, dtype, 1), *iso_tensor_shape(classes));
    return iso_by_mode(iso_add(known, others), ones);
}

/* The number of classes that the targets can have; 0: any. A fraction by itself is of class 0 or 1. */
static int64_t possible_classes(iso_tensor *target, iso_tensor *output, iso_loss_targets targets)
{
    const iso_shape *y = iso_tensor_shape(output);
    const int64_t width = width_of(target, false);
    if (targets == ISO_LOSS_OF_CLASSES)
        return y->dim[y->rank - 1];
    return width == 0 && targets == ISO_LOSS_OF_FRACTIONS ? 2 : width;
}

iso_tensor *iso_class_weights_apply(iso_tensor *weights, iso_tensor *target, iso_tensor *output,
                                    iso_loss_targets targets, const double *of_classes, int count)
{
    const bool labels = targets == ISO_LOSS_OF_CLASSES;
    const int64_t classes = possible_classes(target, output, targets);
    if (classes && count > classes) {
        iso_graph_fail(iso_tensor_graph(target),
                       "class weights: class %d has one, there are classes 0 to %lld", count - 1,
                       (long long)classes - 1);
        return weights;
    }
    iso_tensor *own = weights_of(classes_of(target, labels), of_classes, count);
    if (!weights || iso_graph_error(iso_tensor_graph(target)) != ISO_OK)
        return own;
    bool more = iso_tensor_shape(weights)->rank > iso_tensor_shape(own)->rank;
    return more ? iso_multiply(weights, iso_loss_fit_weights(own, weights))
                : iso_multiply(iso_loss_fit_weights(weights, own), own);
}

iso_status iso_class_weights_check(const double *of_classes, int count, int n_outputs)
{
    if (!of_classes != (count == 0) || count < 0)
        return iso_error(ISO_INVALID, "compile: .class_weights and .n_class_weights (%d) belong together",
                         count);
    if (count && n_outputs > 1)
        return iso_error(ISO_INVALID, "class weights need a model with one output; this one has %d",
                         n_outputs);
    for (int i = 0; i < count; i++)
        if (!(of_classes[i] >= 0 && isfinite(of_classes[i])))
            return iso_error(ISO_INVALID,
                             "compile: the weight of class %d is %g, it must be finite and not negative", i,
                             of_classes[i]);
    return ISO_OK;
}
