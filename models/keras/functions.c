/* Functions of keras.ops with settings, arrays and Python's slices among their arguments. A call is recorded as it is
 * in the file, so that files hold it again. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/keras/functions_impl.h"
#include "models/keras/writer_impl.h"
#include "runtime/base/memory.h"

enum { MOST_OPERANDS = 4096, MOST_NUMBERS = 1 << 22 };

/* ---- the tables ---- */

static const iso_keras_function_type *const families[] = {iso_keras_math_functions, iso_keras_shape_functions,
                                                          iso_keras_reduce_functions,
                                                          iso_keras_product_functions};

static const iso_keras_function_type *find(const char *type)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (const iso_keras_function_type *row = families[i]; row->type; row++)
            if (strcmp(row->type, type) == 0)
                return row;
    return NULL;
}

bool iso_keras_is_function(const iso_keras_layer *l)
{
    return find(l->type);
}

/* ---- errors and results ---- */

iso_tensor *iso_keras_refuse_call(iso_keras_function *f, const char *format, ...)
{
    char message[700];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (f->status == ISO_OK)
        f->status = iso_keras_refuse(f->net->reader, "%s", message);
    return iso_graph_bad_tensor(f->net->graph);
}

iso_tensor *iso_keras_refuse_batch(iso_keras_function *f, const char *what)
{
    return iso_keras_refuse_call(
        f, "%s: the rows of a batch stay apart, in their order, in the first dimension", what);
}

void iso_keras_give(iso_keras_function *f, iso_tensor *y)
{
    if (f->status == ISO_OK)
        f->status = iso_keras_list_add(f->out, y, NULL);
}

/* ---- operands ---- */

iso_tensor *iso_keras_operand_of(iso_keras_function *f, int i)
{
    iso_keras_operand *o = &f->operand[i];
    if (!o->tensor && o->number)
        o->tensor =
            iso_number(f->net->graph, o->real ? iso_graph_precision(f->net->graph) : ISO_I32, o->value);
    return o->tensor ? o->tensor : iso_keras_refuse_call(f, "argument %d is missing", i);
}

iso_tensor *iso_keras_real_operand(iso_keras_function *f, int i)
{
    iso_tensor *x = iso_keras_operand_of(f, i);
    return iso_dtype_is_float(iso_tensor_dtype(x)) ? x : iso_cast(x, iso_graph_precision(f->net->graph));
}

void iso_keras_promote(iso_keras_function *f, int first, int count, bool real)
{
    iso_dtype type = ISO_BOOL;
    for (int i = first; i < first + count; i++)
        if (f->operand[i].tensor)
            type = iso_dtype_promoted(type, iso_tensor_dtype(f->operand[i].tensor));
        else
            real = real || f->operand[i].real;
    for (int i = first; i < first + count; i++)
        if (!f->operand[i].tensor && type == ISO_BOOL)
            type = ISO_I32;
    if (real && !iso_dtype_is_float(type))
        type = iso_graph_precision(f->net->graph);
    for (int i = first; i < first + count; i++) {
        iso_keras_operand *o = &f->operand[i];
        if (o->tensor)
            o->tensor = iso_cast(o->tensor, type);
        else if (o->number)
            o->tensor = iso_number(f->net->graph, type, o->value);
        else
            iso_keras_refuse_call(f, "argument %d is missing", i);
    }
}

/* The numbers of nested lists. False: they are not an array. */
static bool add_numbers(const json_t *value, const iso_shape *shape, int dim, double **at)
{
    if (dim == shape->rank) {
        if (!json_is_number(value) && !json_is_boolean(value))
            return false;
        *(*at)++ = json_is_number(value) ? json_number_value(value) : json_is_true(value);
        return true;
    }
    bool good = json_is_array(value) && (int64_t)json_array_size(value) == shape->dim[dim];
    for (size_t i = 0; good && i < json_array_size(value); i++)
        good = add_numbers(json_array_get(value, i), shape, dim + 1, at);
    return good;
}

/* An array of the file as a constant; type ISO_DTYPE_NONE: that of its numbers. */
static iso_tensor *array(iso_keras_function *f, const json_t *value, iso_dtype type)
{
    iso_shape shape = {.rank = 0};
    int64_t count = 1;
    const json_t *first = value;
    for (; json_is_array(first) && shape.rank < ISO_MAX_RANK; first = json_array_get(first, 0)) {
        shape.dim[shape.rank++] = (int64_t)json_array_size(first);
        if (count < MOST_NUMBERS)
            count *= (int64_t)json_array_size(first);
    }
    if (count < 1 || count > MOST_NUMBERS)
        return iso_keras_refuse_call(f, "an array has %lld elements; supported: 1 to %d", (long long)count,
                                     MOST_NUMBERS);
    double *values = iso_new((size_t)count * sizeof *values), *at = values;
    iso_tensor *x = iso_graph_bad_tensor(f->net->graph);
    if (!values)
        f->status = iso_no_memory("an array of %lld elements", (long long)count);
    else if (!add_numbers(value, &shape, 0, &at))
        iso_keras_refuse_call(f, "an array has an element that is no number, or lists of different lengths");
    else {
        if (type == ISO_DTYPE_NONE)
            type = json_is_real(first)      ? iso_graph_precision(f->net->graph)
                   : json_is_boolean(first) ? ISO_BOOL
                                            : ISO_I32;
        x = iso_constant(f->net->graph, type, shape, values);
    }
    iso_free(values);
    return x;
}

/* The type of an array in a file. float64 is a type of graphs of that precision alone, as in Keras. */
static iso_dtype type_of_array(const iso_keras_function *f, const json_t *config)
{
    const char *name = iso_keras_text(config, "dtype");
    iso_dtype type = name ? iso_dtype_named(name) : ISO_DTYPE_NONE;
    return type == ISO_F64 || type == ISO_F32 ? iso_graph_precision(f->net->graph) : type;
}

/* One argument: a tensor of the network, an array or a number. */
static void read_operand(iso_keras_function *f, const json_t *value, iso_keras_operand *o)
{
    const char *type = iso_keras_text(value, "class_name");
    const json_t *config = json_object_get(value, "config");
    char text[120];
    if (json_is_number(value) || json_is_boolean(value)) {
        o->number = true;
        o->real = json_is_real(value);
        o->value = json_is_number(value) ? json_number_value(value) : json_is_true(value);
    } else if (json_is_array(value))
        o->tensor = array(f, o->array = value, ISO_DTYPE_NONE);
    else if (type && strcmp(type, ISO_KERAS_TENSOR) == 0)
        o->tensor = f->node->inputs.tensor[json_integer_value(json_object_get(config, ISO_KERAS_INPUT))];
    else if (type && (strcmp(type, "__tensor__") == 0 || strcmp(type, "__numpy__") == 0)) {
        iso_dtype dtype = type_of_array(f, config);
        if (dtype == ISO_DTYPE_NONE)
            iso_keras_refuse_call(f,
                                  "an array has the dtype %s; supported: float32, int32, int64, uint8, bool",
                                  iso_json_shown(json_object_get(config, "dtype"), text, sizeof text));
        else
            o->tensor = array(f, o->array = json_object_get(config, "value"), dtype);
    } else if (!json_is_null(value) && value)
        iso_keras_refuse_call(f, "it is called with %s, which is no tensor, array or number",
                              iso_json_shown(value, text, sizeof text));
}

/* The value of parameter number `number`, whose name has `length` characters. */
static const json_t *value_of(const iso_keras_function *f, int number, const char *name, size_t length)
{
    char key[32];
    snprintf(key, sizeof key, "%.*s", (int)length, name);
    const json_t *args = json_object_get(f->node->call, "args"),
                 *value = json_array_get(args, (size_t)number);
    return value ? value : json_object_get(json_object_get(f->node->call, "kwargs"), key);
}

static iso_status reserve(iso_keras_function *f, size_t more)
{
    if (more > MOST_OPERANDS)
        iso_keras_refuse_call(f, "it is called with %zu tensors; supported: up to %d", more, MOST_OPERANDS);
    else if (!(f->operand = iso_new(more * sizeof *f->operand)) ||
             !(f->scratch = iso_new(more * sizeof *f->scratch)))
        f->status = iso_no_memory("the arguments of a function");
    return f->status;
}

static void read_parameter(iso_keras_function *f, const char *name, const json_t *value)
{
    if (*name == '=') {
        f->plain = value;
    } else if (*name == '*') {
        for (size_t i = 0; f->status == ISO_OK && i < json_array_size(value); i++)
            read_operand(f, json_array_get(value, i), &f->operand[f->count++]);
    } else {
        iso_keras_operand *o = &f->operand[f->count++];
        read_operand(f, value, o);
        if (f->status == ISO_OK && !o->tensor && !o->number && *name != '?')
            iso_keras_refuse_call(f, "its argument %.20s is missing", name);
    }
}

/* Whether a keyword is a parameter; null has no effect. */
static bool is_parameter(const char *parameters, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = parameters; (at = strstr(at, key)); at++)
        if ((at == parameters || strchr(" *?=", at[-1])) && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

static void check_arguments(iso_keras_function *f, const char *parameters, int count)
{
    const json_t *args = json_object_get(f->node->call, "args");
    const char *key;
    json_t *value;
    char text[120];
    if (json_array_size(args) > (size_t)count)
        iso_keras_refuse_call(f, "it is called with %zu arguments; supported: %d", json_array_size(args),
                              count);
    json_object_foreach(json_object_get(f->node->call, "kwargs"), key,
                        value) if (!json_is_null(value) && !is_parameter(parameters, key))
        iso_keras_refuse_call(f, "%.60s is %s: this argument is not supported (null has no effect)", key,
                              iso_json_shown(value, text, sizeof text));
}

/* All arguments are tensors. */
static iso_status read_all_operands(iso_keras_function *f)
{
    const json_t *args = json_object_get(f->node->call, "args");
    check_arguments(f, "", (int)json_array_size(args));
    if (f->status != ISO_OK || reserve(f, json_array_size(args)) != ISO_OK)
        return f->status;
    for (size_t i = 0; i < json_array_size(args) && f->status == ISO_OK; i++)
        read_parameter(f, "", json_array_get(args, i));
    return f->status;
}

static iso_status read_operands(iso_keras_function *f, const char *parameters)
{
    int number = 0;
    size_t most = 1;
    if (!*parameters)
        return read_all_operands(f);
    for (const char *at = parameters; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        most += *at == '*' ? json_array_size(value_of(f, number, at + 1, length - 1)) : 1;
        number++;
        at += length;
    }
    check_arguments(f, parameters, number);
    number = 0;
    if (f->status != ISO_OK || reserve(f, most) != ISO_OK)
        return f->status;
    for (const char *at = parameters; *at && f->status == ISO_OK; at += strspn(at, " ")) {
        size_t length = strcspn(at, " "), mark = strchr("*=?", *at) != NULL;
        read_parameter(f, at, value_of(f, number++, at + mark, length - mark));
        at += length;
    }
    return f->status;
}

/* ---- settings ---- */

bool iso_keras_has(const iso_keras_function *f, const char *key)
{
    const json_t *value = json_object_get(f->layer->config, key);
    return value && !json_is_null(value);
}

bool iso_keras_is_batch(const iso_tensor *x, int axis)
{
    return axis < iso_tensor_shape(x)->rank && iso_tensor_shape(x)->dim[axis] == ISO_BATCH;
}

int iso_keras_axis(iso_keras_function *f, const char *key, const iso_tensor *x, int default_value)
{
    char text[160];
    const int rank = iso_tensor_shape(x)->rank;
    int64_t axis = iso_config_count(f->settings, key, default_value);
    if (axis >= -rank && axis < rank)
        return (int)(axis < 0 ? axis + rank : axis);
    iso_keras_refuse_call(f, "%s is %lld; its input has the shape %s", key, (long long)axis,
                          iso_shape_text(iso_tensor_shape(x), text, sizeof text));
    return -1;
}

bool iso_keras_axes(iso_keras_function *f, const char *key, const iso_tensor *x, int extra, int *axes,
                    int *count)
{
    int64_t given[ISO_MAX_RANK];
    uint32_t seen = 0;
    *count = iso_config_counts(f->settings, key, given, ISO_MAX_RANK);
    const int rank = iso_tensor_shape(x)->rank + (extra ? *count : 0);
    for (int i = 0; i < *count; i++) {
        int64_t axis = given[i] < 0 ? given[i] + rank : given[i];
        if (axis < 0 || axis >= rank || axis >= 31 || seen >> axis & 1) {
            iso_keras_refuse_call(f, "%s names dimension %lld, twice or out of %d dimensions", key,
                                  (long long)given[i], rank);
            return false;
        }
        axes[i] = (int)axis;
        seen |= 1u << axis;
    }
    return true;
}

/* ---- parts that several families use ---- */

iso_tensor *iso_keras_part(iso_tensor *x, int axis, int64_t begin, int64_t size)
{
    const iso_shape *shape = iso_tensor_shape(x);
    int64_t from[ISO_MAX_RANK] = {0}, count[ISO_MAX_RANK];
    int entry = 0;
    if (begin == 0 && size == shape->dim[axis])
        return x;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] == ISO_BATCH)
            continue;
        from[entry] = i == axis ? begin : 0;
        count[entry++] = i == axis ? size : shape->dim[i];
    }
    return iso_slice(x, from, count);
}

iso_tensor *iso_keras_join(iso_tensor *const *x, int count, int axis)
{
    return count > 1 ? iso_concat(x, count, axis) : x[0];
}

iso_tensor *iso_keras_without(iso_tensor *x, uint32_t axes)
{
    const iso_shape *shape = iso_tensor_shape(x);
    iso_shape to = {.rank = 0};
    for (int i = 0; i < shape->rank; i++)
        if (!(axes >> i & 1))
            to.dim[to.rank++] = shape->dim[i];
    return iso_reshape_to(x, to);
}

iso_tensor *iso_keras_with_axis(iso_tensor *x, int axis)
{
    iso_shape shape = *iso_tensor_shape(x);
    if (shape.rank >= ISO_MAX_RANK) {
        iso_graph_fail(iso_tensor_graph(x), "a tensor would have %d dimensions, at most %d are possible",
                       shape.rank + 1, ISO_MAX_RANK);
        return iso_graph_bad_tensor(iso_tensor_graph(x));
    }
    for (int i = shape.rank++; i > axis; i--)
        shape.dim[i] = shape.dim[i - 1];
    shape.dim[axis] = 1;
    return iso_reshape_to(x, shape);
}

/* ---- records ---- */

static const iso_attribute *keep_json(iso_graph *graph, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    iso_attribute *object = iso_attribute_add(graph, NULL, &(iso_attribute){.kind = ISO_ATTRIBUTE_OBJECT});
    if (text && object)
        iso_attribute_add(graph, object,
                          &(iso_attribute){.kind = ISO_ATTRIBUTE_TEXT,
                                           .name = ISO_KERAS_JSON,
                                           .text = iso_graph_keep_text(graph, text)});
    else if (!text)
        iso_graph_fail_memory(graph, "the arguments of a function", 0);
    free(text);
    return object;
}

/* The record of the first call; -1: this is it. */
static int first_call(const iso_graph *graph, const char *name)
{
    for (int i = 0; iso_graph_shares(graph) && i < iso_graph_layer_count(graph); i++)
        if (strcmp(iso_graph_layer(graph, i)->name, name) == 0)
            return i;
    return -1;
}

/* A result that is an input has a mask perhaps, which no function passes on. */
static iso_tensor *without_mask(iso_tensor *y)
{
    int same[ISO_MAX_RANK];
    for (int i = 0; i < ISO_MAX_RANK; i++)
        same[i] = i;
    return iso_tensor_mask(y) ? iso_transpose(y, same) : y;
}

iso_status iso_keras_record_function(iso_keras_network *net, const iso_keras_layer *l,
                                     const iso_keras_node *node, iso_keras_list *out)
{
    iso_graph *graph = net->graph;
    iso_tensor **y = out->tensor;
    iso_text text = {0};
    iso_status status = iso_keras_graph_error(net);
    if (status != ISO_OK)
        return status;
    const char *name = iso_graph_take_name(graph, l->name);
    for (int i = 0; i < out->count; i++)
        y[i] = without_mask(y[i]);
    iso_text_add(&text, "%s/output", name);
    if (out->count == 1 && iso_tensor_good(y[0]) && !y[0]->name && !text.failed)
        iso_tensor_set_name(y[0], iso_text_get(&text));
    iso_text_free(&text);
    json_t *config = json_copy((json_t *)l->config);
    json_object_del(config, "name");
    iso_graph_add_layer(graph, &(iso_layer_record){.type = iso_graph_keep_text(graph, l->type),
                                                   .function_of = iso_graph_keep_text(
                                                       graph, iso_keras_text(l->entry, "module")),
                                                   .name = name,
                                                   .config = keep_json(graph, config),
                                                   .call = keep_json(graph, node->call),
                                                   .n_inputs = node->inputs.count,
                                                   .inputs = node->inputs.tensor,
                                                   .output = y[0],
                                                   .n_others = out->count - 1,
                                                   .others = y + 1,
                                                   .again = first_call(graph, name)});
    json_decref(config);
    return iso_keras_graph_error(net);
}

/* ---- calls ---- */

iso_status iso_keras_call_function(iso_keras_network *net, const iso_keras_layer *l,
                                   const iso_keras_node *node, iso_keras_list *out)
{
    const iso_keras_function_type *type = find(l->type);
    iso_keras_function f = {.net = net, .layer = l, .node = node, .out = out};
    f.arguments = (iso_keras_arguments){.reader = net->reader, .members = l->config, .config.type = l->type};
    f.settings = &f.arguments.config;
    iso_status status = iso_keras_arguments_begin(&f.arguments);
    if (status != ISO_OK)
        return status;
    iso_keras_arguments_take(&f.arguments, "name");
    if (node->inputs.count == 0)
        iso_keras_refuse_call(&f, "it is called without a tensor of the network");
    if (f.status == ISO_OK && read_operands(&f, type->parameters) == ISO_OK)
        type->call(&f);
    iso_free(f.operand);
    iso_free(f.scratch);
    status = iso_keras_arguments_end(&f.arguments, f.status);
    if (status == ISO_OK)
        status = iso_keras_graph_error(net);
    if (status == ISO_OK && out->count == 0)
        status = iso_keras_refuse(net->reader, "it has no results");
    return status;
}
