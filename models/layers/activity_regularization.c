/* Penalties for what layers put out: ActivityRegularization, and the activity_regularizer of any layer. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

/* (l1 * sum(|x|) + l2 * sum(x^2)) / rows is a mean times the elements of a row. In the type of variables: a sum in
 * bfloat16 would be worth little. */
static void penalize(const iso_layer *layer, iso_tensor *x, double l1, double l2)
{
    const iso_shape *shape = iso_tensor_shape(x);
    double elements = 1;
    for (int d = 1; d < shape->rank; d++)
        elements *= (double)shape->dim[d];
    x = iso_cast(x, iso_graph_precision(layer->graph));
    if (l1 > 0)
        iso_graph_add_loss(layer->graph, iso_affine(iso_mean(iso_abs(x)), l1 * elements, 0));
    if (l2 > 0)
        iso_graph_add_loss(layer->graph, iso_affine(iso_mean(iso_square(x)), l2 * elements, 0));
}

static bool check_numbers(const iso_layer *layer, double l1, double l2)
{
    const bool good = l1 >= 0 && l2 >= 0;
    if (!good)
        iso_layer_fail(layer, "the l1 of its activity is %g, the l2 %g: they must not be negative", l1, l2);
    return good;
}

iso_tensor *iso_activity_regularization_with(const iso_activity_regularization_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_activity_regularization_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, &options.x, "ActivityRegularization", "activity_regularization",
                         options.name))
        return iso_layer_broken(options.x);
    if (!check_numbers(&layer, options.l1, options.l2))
        return iso_layer_broken(options.x);
    if (!iso_graph_makes_parts(layer.graph))
        penalize(&layer, options.x, options.l1, options.l2);
    iso_layer_note_real(&layer, "l1", options.l1);
    iso_layer_note_real(&layer, "l2", options.l2);
    return iso_layer_end(&layer, options.x);
}

/* The last call of a layer that returned y; NULL: there is none. */
static const iso_layer_record *call_of(iso_graph *graph, const iso_tensor *y)
{
    for (int i = iso_graph_layer_count(graph) - 1; i >= 0; i--)
        if (iso_graph_layer(graph, i)->output == y)
            return iso_graph_layer(graph, i);
    return NULL;
}

iso_tensor *iso_regularize_activity_with(const iso_regularize_activity_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_regularize_activity_options, options, given, size);
    if (!options.y || !iso_tensor_good(options.y))
        return iso_layer_broken(options.y);
    iso_graph *graph = iso_tensor_graph(options.y);
    const iso_layer_record *call = call_of(graph, options.y);
    if (!call || !call->config) {
        iso_graph_fail(graph, "iso_regularize_activity: '%s' is not the result of a layer",
                       iso_tensor_name(options.y));
        return iso_graph_bad_tensor(graph);
    }
    iso_layer layer = {.graph = graph,
                       .type = call->type,
                       .name = call->name,
                       .config = (iso_attribute *)(uintptr_t)call->config};
    if (!check_numbers(&layer, options.l1, options.l2))
        return iso_graph_bad_tensor(graph);
    penalize(&layer, options.y, options.l1, options.l2);
    for (int i = 0; i < call->n_others; i++)
        penalize(&layer, call->others[i], options.l1, options.l2);
    if (options.l1 > 0 || options.l2 > 0)
        iso_layer_note_penalty(&layer, "activity_regularizer", options.l1, options.l2);
    return options.y;
}

iso_tensor *iso_layer_type_build(const iso_layer_type *type, const iso_layer_config *config,
                                 iso_tensor *const *x, int count)
{
    double l1, l2;
    iso_tensor *y = type->build(config, x, count);
    iso_config_penalty(config, "activity_regularizer", &l1, &l2);
    return l1 != 0 || l2 != 0 ? iso_regularize_activity(y, l1, l2) : y;
}

static iso_tensor *activity_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_activity_regularization(x[0], iso_config_number(config, "l1", 0),
                                       iso_config_number(config, "l2", 0), .name = config->name);
}

const iso_layer_type iso_layer_activity_regularization = {
    .keras = "ActivityRegularization", .build = activity_build, .masks = ISO_MASKS_PASSED};
