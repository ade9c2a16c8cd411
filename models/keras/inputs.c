/* The inputs of networks. */
#include <string.h>

#include "models/keras/network_impl.h"
#include "runtime/graph/layer.h"

/* The element type with this name in Keras ("float32", "int32"); ISO_DTYPE_NONE: it is none of an input. nested: of a
 * model within another one, whose layers may give it bfloat16 (mixed_bfloat16). */
static iso_dtype dtype_of(const char *name, bool nested)
{
    iso_dtype dtype = name ? iso_dtype_named(name) : ISO_DTYPE_NONE;
    return dtype == ISO_BF16 && !nested ? ISO_DTYPE_NONE : dtype;
}

/* A row's shape from [null, 28, 28, 1]. */
static iso_status read_shape(const iso_keras_network *net, const json_t *shape, iso_shape *row)
{
    char text[120];
    size_t rank = json_array_size(shape);
    *row = (iso_shape){.rank = (int)rank - 1};
    if (rank < 1 || rank > ISO_MAX_RANK)
        return iso_keras_refuse(net->reader,
                                "the input's shape is %s; a batch and at most %d dimensions are supported",
                                iso_json_shown(shape, text, sizeof text), ISO_MAX_RANK - 1);
    for (size_t i = 1; i < rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) <= 0)
            return iso_keras_refuse(net->reader,
                                    "the input's shape is %s; only the batch may be of any length",
                                    iso_json_shown(shape, text, sizeof text));
        row->dim[i - 1] = json_integer_value(dim);
    }
    if (!json_is_null(json_array_get(shape, 0)))
        iso_keras_warn(net->reader, "the batch size %s is ignored: --batch-size sets it",
                       iso_json_shown(json_array_get(shape, 0), text, sizeof text));
    return ISO_OK;
}

iso_status iso_keras_make_input(iso_keras_network *net, const char *name, const json_t *shape,
                                iso_dtype dtype, iso_tensor **x)
{
    iso_shape row;
    iso_status status = read_shape(net, shape, &row);
    if (status != ISO_OK)
        return status;
    *x = iso_input(net->graph, name, dtype, row);
    status = iso_keras_graph_error(net);
    return status == ISO_OK ? iso_keras_list_add(net->made, *x, name) : status;
}

/* The InputLayer of a nested model, which returns the tensor that the model is called with. */
static void note_input(iso_graph *graph, const char *name, iso_tensor *x)
{
    iso_layer_record record = {.type = "InputLayer", .name = name, .output = x, .again = -1};
    for (int i = 0; record.again < 0 && iso_graph_shares(graph) && i < iso_graph_layer_count(graph); i++)
        if (strcmp(iso_graph_layer(graph, i)->name, name) == 0)
            record.again = i;
    iso_graph_add_layer(graph, &record);
}

/* A tensor that the model is called with, checked against its input in the file. */
iso_status iso_keras_take_input(iso_keras_network *net, const char *name, const json_t *shape, int number,
                                iso_tensor **x)
{
    char have[160], want[160];
    if (number < 0 || number >= net->given->count)
        return iso_keras_refuse(net->reader, "the model is called with %d tensors but has more inputs",
                                net->given->count);
    *x = net->given->tensor[number];
    if (iso_keras_shape_differs(shape, iso_tensor_shape(*x)))
        return iso_keras_refuse(net->reader, "its input has the shape %s, the model is called with %s",
                                iso_json_shown(shape, want, sizeof want),
                                iso_shape_text(iso_tensor_shape(*x), have, sizeof have));
    if (name)
        note_input(net->graph, iso_graph_take_name(net->graph, name), *x);
    return iso_keras_graph_error(net);
}

/* An InputLayer; number: among the inputs of a nested model. */
iso_status iso_keras_call_input(iso_keras_network *net, iso_keras_layer *l, int number)
{
    iso_keras_list out = {0};
    iso_tensor *x;
    iso_status status;
    char text[120];
    iso_keras_arguments arguments = {.reader = net->reader, .members = l->config, .config.type = l->type};
    const json_t *shape = json_object_get(l->config, "batch_shape"),
                 *dtype = json_object_get(l->config, "dtype");
    if (json_object_get(l->config, "batch_input_shape"))
        return iso_keras_refuse(net->reader,
                                "it has a batch_input_shape, as in files of Keras 2 (tf.keras); load "
                                "it in Keras 3 and save it again: those are read");
    if (!json_is_array(shape))
        return iso_keras_refuse(net->reader, "it has no batch_shape");
    iso_dtype type = dtype ? dtype_of(json_string_value(dtype), net->given != NULL) : ISO_F32;
    if (type == ISO_DTYPE_NONE)
        return iso_keras_refuse(net->reader,
                                "dtype is %s; supported: float32, float64, int32, int64, uint8, bool",
                                iso_json_shown(dtype, text, sizeof text));
    ISO_TRY(net->given ? iso_keras_take_input(net, l->name, shape, number, &x)
                       : iso_keras_make_input(net, l->name, shape, type, &x));
    ISO_TRY(iso_keras_arguments_begin(&arguments));
    iso_keras_arguments_take(&arguments, "batch_shape");
    iso_keras_arguments_take(&arguments, "dtype");
    iso_keras_arguments_take(&arguments, "trainable");
    ISO_TRY(iso_keras_arguments_end(&arguments, ISO_OK));
    ISO_TRY(iso_keras_list_add(&out, x, NULL));
    ISO_TRY(iso_keras_keep_outputs(l, 0, &out));
done:
    iso_keras_list_free(&out);
    return status;
}
