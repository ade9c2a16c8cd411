/* Building: the graph's storage, its sticky error, tensors and variables. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/base/random.h"
#include "runtime/graph/graph_impl.h"

enum { DEFAULT_SEED = 1337 };

static void set_up(iso_graph *graph, iso_context *ctx)
{
    graph->ctx = ctx;
    graph->precision = ISO_F32;
    graph->seed = ctx ? iso_seed(ctx) : DEFAULT_SEED;
    graph->bad = (iso_tensor){.graph = graph, .id = -1, .dtype = ISO_F32, .name = "(broken graph)"};
    graph->bad_variable =
        (iso_variable){.graph = graph, .id = -1, .path = "(broken graph)", .value = &graph->bad};
    graph->bad_update = (iso_update){.graph = graph};
}

iso_graph *iso_graph_create(iso_context *ctx)
{
    static iso_graph no_memory;
    iso_graph *graph = iso_new(sizeof *graph);
    if (graph) {
        set_up(graph, ctx);
        return graph;
    }
    set_up(&no_memory, ctx);
    no_memory.status = ISO_NO_MEMORY;
    snprintf(no_memory.message, sizeof no_memory.message, "no memory for a graph");
    return &no_memory;
}

void iso_graph_destroy(iso_graph *graph)
{
    if (!graph || graph->status == ISO_NO_MEMORY)
        return;
    if (graph->destroy_runtime)
        graph->destroy_runtime(graph->runtime);
    while (graph->sharing)
        iso_share_end(graph);
    for (int i = 0; i < graph->kept; i++)
        iso_free(graph->keep[i]);
    iso_free(graph->keep);
    iso_free(graph->tensor);
    iso_free(graph->op);
    iso_free(graph->variable);
    iso_free(graph->layer_names.entry);
    iso_free(graph->variable_paths.entry);
    iso_free(graph->layer);
    iso_free(graph->block);
    iso_free(graph);
}

static void fail(iso_graph *graph, iso_status status, const char *format, va_list args)
{
    if (graph->status != ISO_OK)
        return;
    graph->status = status;
    vsnprintf(graph->message, sizeof graph->message, format, args);
}

void iso_graph_fail(iso_graph *graph, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(graph, ISO_INVALID, format, args);
    va_end(args);
}

iso_status iso_graph_error(const iso_graph *graph)
{
    return graph->status == ISO_OK ? ISO_OK : iso_error(graph->status, "%s", graph->message);
}

bool iso_graph_append(iso_graph *graph, void *list, int *count, int *capacity, const void *item)
{
    void ***array = list;
    if (*count == *capacity) {
        int wanted = *capacity ? *capacity * 2 : 64;
        void **grown = iso_grow(*array, (size_t)*count, (size_t)wanted, sizeof(void *));
        if (!grown) {
            if (graph->status == ISO_OK)
                snprintf(graph->message, sizeof graph->message, "no memory for a graph of %d items", wanted);
            graph->status = graph->status == ISO_OK ? ISO_FAILED : graph->status;
            return false;
        }
        *array = grown;
        *capacity = wanted;
    }
    memcpy(&(*array)[(*count)++], &item, sizeof item);
    return true;
}

void *iso_graph_keep(iso_graph *graph, size_t bytes)
{
    void *memory = iso_new(bytes);
    if (!memory) {
        iso_graph_fail(graph, "no memory for %zu bytes of a graph", bytes);
        return NULL;
    }
    if (!iso_graph_append(graph, &graph->keep, &graph->kept, &graph->kept_capacity, memory)) {
        iso_free(memory);
        return NULL;
    }
    return memory;
}

const char *iso_graph_keep_text(iso_graph *graph, const char *text)
{
    char *copy = iso_graph_keep(graph, strlen(text) + 1);
    return copy ? strcpy(copy, text) : "";
}

iso_context *iso_graph_context(const iso_graph *graph)
{
    return graph->ctx;
}

void iso_graph_set_precision(iso_graph *graph, iso_dtype dtype)
{
    if (!iso_dtype_is_float(dtype))
        iso_graph_fail(graph, "precision %s: float32 or float64 is possible", iso_dtype_name(dtype));
    else if (graph->tensors)
        iso_graph_fail(graph, "the precision must be set before the graph's first tensor");
    else
        graph->precision = dtype;
}

iso_dtype iso_graph_precision(const iso_graph *graph)
{
    return graph->precision;
}

void iso_graph_set_seed(iso_graph *graph, uint64_t seed)
{
    graph->seed = seed;
}

uint64_t iso_graph_seed(const iso_graph *graph)
{
    return graph->seed;
}

/* ---- ops ---- */

iso_tensor *iso_graph_bad_tensor(iso_graph *graph)
{
    return &graph->bad;
}

bool iso_tensor_good(const iso_tensor *tensor)
{
    return tensor && tensor->graph->status == ISO_OK;
}

static bool check_inputs(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs, int count)
{
    if (count > ISO_MAX_INPUTS) {
        iso_graph_fail(graph, "%s: %d inputs, at most %d are possible", type->name, count, ISO_MAX_INPUTS);
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (!inputs[i])
            iso_graph_fail(graph, "%s: input %d is NULL", type->name, i);
        else if (inputs[i]->graph != graph)
            iso_graph_fail(graph, "%s: input %d belongs to another graph", type->name, i);
    }
    return graph->status == ISO_OK;
}

static bool add_outputs(iso_op *op)
{
    iso_graph *graph = op->graph;
    for (int i = 0; i < op->outputs; i++) {
        iso_tensor *tensor = op->output[i];
        tensor->id = graph->tensors;
        if (!iso_graph_append(graph, &graph->tensor, &graph->tensors, &graph->tensor_capacity, tensor))
            return false;
    }
    return true;
}

static iso_op *new_op(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs, int count,
                      const void *attrs)
{
    iso_op *op = iso_graph_keep(graph, sizeof *op);
    if (!op || !(op->attrs = iso_graph_keep(graph, type->attr_size + 1)))
        return NULL;
    if (attrs)
        memcpy(op->attrs, attrs, type->attr_size);
    op->type = type;
    op->graph = graph;
    op->inputs = count;
    op->outputs = type->outputs ? type->outputs : 1;
    if (count)
        memcpy(op->input, inputs, (size_t)count * sizeof *inputs);
    for (int i = 0; i < op->outputs; i++) {
        iso_tensor *tensor = iso_graph_keep(graph, sizeof *tensor);
        if (!tensor)
            return NULL;
        *tensor = (iso_tensor){.graph = graph, .producer = op, .output = i};
        op->output[i] = tensor;
    }
    return op;
}

iso_tensor *iso_op_create(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs, int count,
                          const void *attrs)
{
    if (graph->status != ISO_OK || !check_inputs(graph, type, inputs, count))
        return &graph->bad;
    iso_op *op = new_op(graph, type, inputs, count, attrs);
    if (!op || !type->infer(op)) {
        iso_graph_fail(graph, "%s: the inputs do not fit", type->name);
        return &graph->bad;
    }
    op->id = graph->ops;
    if (!iso_graph_append(graph, &graph->op, &graph->ops, &graph->op_capacity, op) || !add_outputs(op))
        return &graph->bad;
    return op->output[0];
}

/* ---- tensors ---- */

iso_graph *iso_tensor_graph(const iso_tensor *tensor)
{
    return tensor->graph;
}

iso_dtype iso_tensor_dtype(const iso_tensor *tensor)
{
    return tensor->dtype;
}

const iso_shape *iso_tensor_shape(const iso_tensor *tensor)
{
    return &tensor->shape;
}

const char *iso_tensor_name(const iso_tensor *tensor)
{
    return tensor->name ? tensor->name : tensor->producer ? tensor->producer->type->name : "(none)";
}

void iso_tensor_set_name(iso_tensor *tensor, const char *name)
{
    if (iso_tensor_good(tensor))
        tensor->name = iso_graph_keep_text(tensor->graph, name);
}

/* Floating-point tensors take the graph's precision. */
static iso_dtype in_precision(const iso_graph *graph, iso_dtype dtype)
{
    return dtype == ISO_F32 ? graph->precision : dtype;
}

iso_tensor *iso_input(iso_graph *graph, const char *name, iso_dtype dtype, iso_shape shape)
{
    if (graph->status != ISO_OK)
        return &graph->bad;
    if (shape.rank < 0 || shape.rank >= ISO_MAX_RANK || !iso_dtype_size(dtype)) {
        iso_graph_fail(graph, "input '%s': rank %d (0 to %d are possible) of type %d", name, shape.rank,
                       ISO_MAX_RANK - 1, dtype);
        return &graph->bad;
    }
    iso_input_attrs attrs = {.dtype = in_precision(graph, dtype),
                             .shape = {.rank = shape.rank + 1, .dim = {ISO_BATCH}}};
    for (int i = 0; i < shape.rank; i++) {
        if (shape.dim[i] <= 0)
            iso_graph_fail(graph, "input '%s': dimension %d is %lld, it must be positive", name, i,
                           (long long)shape.dim[i]);
        attrs.shape.dim[i + 1] = shape.dim[i];
    }
    attrs.name = iso_graph_keep_text(graph, name ? name : "input");
    iso_tensor *tensor = iso_op_create(graph, &iso_op_input, NULL, 0, &attrs);
    iso_tensor_set_name(tensor, attrs.name);
    return tensor;
}

bool iso_tensor_is_input(const iso_tensor *tensor)
{
    return tensor->producer && tensor->producer->type == &iso_op_input;
}

iso_tensor *iso_constant(iso_graph *graph, iso_dtype dtype, iso_shape shape, const double *values)
{
    int64_t count;
    if (graph->status != ISO_OK)
        return &graph->bad;
    if (iso_shape_count(&shape, &count) != ISO_OK) {
        iso_graph_fail(graph, "constant: %s", iso_error_message());
        return &graph->bad;
    }
    if (!iso_dtype_size(dtype) || (count && !values)) {
        iso_graph_fail(graph, "constant: %s",
                       values ? "there is no such element type" : "no values are given");
        return &graph->bad;
    }
    iso_constant_attrs attrs = {.dtype = in_precision(graph, dtype), .shape = shape};
    attrs.values = iso_graph_keep(graph, (size_t)count * sizeof(double));
    if (attrs.values)
        memcpy(attrs.values, values, (size_t)count * sizeof(double));
    return iso_op_create(graph, &iso_op_constant, NULL, 0, &attrs);
}

iso_tensor *iso_number(iso_graph *graph, iso_dtype dtype, double value)
{
    return iso_constant(graph, dtype, ISO_SCALAR, &value);
}

/* ---- variables ---- */

/* Initializers that make a matrix. */
static bool check_initializer(iso_graph *graph, const char *path, iso_initializer_kind kind,
                              const iso_shape *shape)
{
    char text[160];
    bool fits =
        kind == ISO_INIT_ORTHOGONAL ? shape->rank >= 2 : kind != ISO_INIT_IDENTITY || shape->rank == 2;
    if (!fits)
        iso_graph_fail(graph, "variable '%s': shape %s cannot begin as an %s matrix", path,
                       iso_shape_text(shape, text, sizeof text),
                       kind == ISO_INIT_IDENTITY ? "identity" : "orthogonal");
    return fits;
}

static bool check_variable(iso_graph *graph, const char *path, iso_dtype dtype, const iso_shape *shape)
{
    int64_t count;
    char text[160];
    if (iso_graph_find_variable(graph, path))
        iso_graph_fail(graph, "two variables have the path '%s'", path);
    else if (!iso_dtype_size(dtype))
        iso_graph_fail(graph, "variable '%s': %d is no element type", path, (int)dtype);
    else if (iso_shape_count(shape, &count) != ISO_OK)
        iso_graph_fail(graph, "variable '%s': %s", path, iso_error_message());
    else if (count == 0)
        iso_graph_fail(graph, "variable '%s': shape %s has no elements", path,
                       iso_shape_text(shape, text, sizeof text));
    return graph->status == ISO_OK;
}

/* The variable that a shared layer has already. */
static iso_variable *had(iso_graph *graph, const char *path, iso_dtype dtype, const iso_shape *shape)
{
    char is[160], wanted[160];
    iso_variable *variable = iso_graph_find_variable(graph, path);
    if (!variable)
        iso_graph_fail(graph, "a layer that is used again has no variable '%s'", path);
    else if (variable->dtype != in_precision(graph, dtype) || !iso_shape_equal(&variable->shape, shape))
        iso_graph_fail(graph, "a layer is used again: its variable '%s' is %s %s, here it would be %s %s",
                       path, iso_dtype_name(variable->dtype), iso_shape_text(&variable->shape, is, sizeof is),
                       iso_dtype_name(in_precision(graph, dtype)),
                       iso_shape_text(shape, wanted, sizeof wanted));
    return graph->status == ISO_OK ? variable : &graph->bad_variable;
}

void iso_freeze_begin(iso_graph *graph)
{
    graph->frozen++;
}

void iso_freeze_end(iso_graph *graph)
{
    if (graph->frozen == 0)
        iso_graph_fail(graph, "a freezing ends that was not begun");
    else
        graph->frozen--;
}

bool iso_graph_freezes(const iso_graph *graph)
{
    return graph->frozen > 0;
}

iso_variable *iso_variable_create(iso_graph *graph, const char *path, iso_dtype dtype, iso_shape shape,
                                  iso_initializer initializer, bool trainable)
{
    char within[ISO_MAX_PATH];
    path = iso_graph_path(graph, path, within);
    if (graph->status == ISO_OK && graph->sharing)
        return had(graph, path, dtype, &shape);
    if (graph->status != ISO_OK || !check_variable(graph, path, dtype, &shape) ||
        !check_initializer(graph, path, initializer.kind, &shape))
        return &graph->bad_variable;
    iso_variable *variable = iso_graph_keep(graph, sizeof *variable);
    if (!variable)
        return &graph->bad_variable;
    *variable = (iso_variable){.graph = graph,
                               .id = graph->variables,
                               .path = iso_graph_keep_text(graph, path),
                               .dtype = in_precision(graph, dtype),
                               .shape = shape,
                               .initializer = initializer,
                               .trainable = trainable && !graph->frozen};
    iso_variable_attrs attrs = {.variable = variable};
    variable->value = iso_op_create(graph, &iso_op_variable, NULL, 0, &attrs);
    iso_tensor_set_name(variable->value, path);
    iso_graph_append(graph, &graph->variable, &graph->variables, &graph->variable_capacity, variable);
    if (graph->status == ISO_OK)
        iso_name_add(graph, &graph->variable_paths, variable->path, variable->id);
    return variable;
}

void iso_variable_set_layout(iso_variable *variable, const char *layout)
{
    if (variable->graph->status == ISO_OK)
        variable->layout = layout ? iso_graph_keep_text(variable->graph, layout) : NULL;
}

void iso_variable_set_place(iso_variable *variable, const char *place)
{
    if (variable->graph->status == ISO_OK)
        variable->place = iso_graph_keep_text(variable->graph, place);
}

const char *iso_variable_place(const iso_variable *variable)
{
    return variable->place;
}

iso_tensor *iso_variable_value(iso_variable *variable)
{
    return variable->value;
}

const char *iso_variable_path(const iso_variable *variable)
{
    return variable->path;
}

const iso_shape *iso_variable_shape(const iso_variable *variable)
{
    return &variable->shape;
}

iso_dtype iso_variable_dtype(const iso_variable *variable)
{
    return variable->dtype;
}

bool iso_variable_trainable(const iso_variable *variable)
{
    return variable->trainable;
}

bool iso_variable_updated(const iso_variable *variable)
{
    return variable->updated;
}

int iso_graph_variable_count(const iso_graph *graph)
{
    return graph->variables;
}

iso_variable *iso_graph_variable(const iso_graph *graph, int index)
{
    return graph->variable[index];
}

iso_variable *iso_graph_find_variable(const iso_graph *graph, const char *path)
{
    const iso_name *found = iso_name_find(&graph->variable_paths, path);
    return found ? graph->variable[found->value] : NULL;
}
