/* Variables. */
#include <stdio.h>
#include <string.h>

#include "runtime/base/printable.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/initializers.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/ops_impl.h"

/* Checks the shape for initializers that need a matrix. */
static bool check_initializer(iso_graph *graph, const char *path, iso_initializer_kind kind,
                              const iso_shape *shape)
{
    char text[160];
    const iso_initializer_type *type = iso_initializer_type_of(kind);
    bool fits =
        type && shape->rank >= type->least_rank && (!type->most_rank || shape->rank <= type->most_rank);
    if (!type)
        iso_graph_fail(graph, "variable '%s': unknown initializer number %d", path, (int)kind);
    else if (!fits)
        iso_graph_fail(graph, "variable '%s': shape %s cannot be filled with an %s matrix", path,
                       iso_shape_text(shape, text, sizeof text), type->row.name);
    return fits;
}

void iso_graph_check_name(iso_graph *graph, const char *what, const char *name)
{
    char text[160];
    if (!iso_text_is_printable(name))
        iso_graph_fail(graph, "%s '%s': the name is not UTF-8 without control characters", what,
                       iso_text_printable(name, text, sizeof text));
}

static bool check_variable(iso_graph *graph, const char *path, iso_dtype dtype, const iso_shape *shape)
{
    int64_t count;
    char text[160];
    size_t most = (iso_path_below_optimizer(path) ? ISO_MAX_SLOT_PATH : ISO_MAX_PATH) - 1;
    iso_graph_check_name(graph, "variable", path);
    if (strlen(path) > most)
        iso_graph_fail(graph, "a variable's path of %zu characters, at most %zu are possible: '%.60s...'",
                       strlen(path), most, path);
    else if (iso_graph_find_variable(graph, path))
        iso_graph_fail(graph, "two variables have the path '%s'", path);
    else if (!iso_dtype_size(dtype))
        iso_graph_fail(graph, "variable '%s': %d is not an element type", path, (int)dtype);
    else if (dtype == ISO_BF16)
        iso_graph_fail(
            graph, "variable '%s': bfloat16 is a type to compute in; variables are float32 or float64", path);
    else if (iso_shape_count(shape, &count) != ISO_OK)
        iso_graph_fail(graph, "variable '%s': %s", path, iso_error_message());
    else if (!iso_graph_takes_shape(shape))
        iso_graph_fail_shape(graph, "variable", path, shape);
    else if (count == 0)
        iso_graph_fail(graph, "variable '%s': shape %s has no elements", path,
                       iso_shape_text(shape, text, sizeof text));
    return graph->status == ISO_OK;
}

/* The existing variable of a shared layer. */
static iso_variable *had(iso_graph *graph, const char *path, iso_dtype dtype, const iso_shape *shape)
{
    char is[160], wanted[160];
    iso_variable *variable = iso_graph_find_variable(graph, path);
    if (!variable)
        iso_graph_fail(graph, "a layer that is used again has no variable '%s'", path);
    else if (variable->dtype != iso_graph_in_precision(graph, dtype) ||
             !iso_shape_equal(&variable->shape, shape))
        iso_graph_fail(graph, "a layer is used again: its variable '%s' is %s %s, here it would be %s %s",
                       path, iso_dtype_name(variable->dtype), iso_shape_text(&variable->shape, is, sizeof is),
                       iso_dtype_name(iso_graph_in_precision(graph, dtype)),
                       iso_shape_text(shape, wanted, sizeof wanted));
    return graph->status == ISO_OK ? variable : &graph->bad_variable;
}

iso_variable *iso_variable_create(iso_graph *graph, const char *path, iso_dtype dtype, iso_shape shape,
                                  iso_initializer initializer, bool trainable)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    if (ISO_NULL_IN(graph, path))
        return &graph->bad_variable;
    char within[ISO_MAX_PATH];
    path = iso_graph_path(graph, path, within);
    if (graph->status == ISO_OK && graph->sharing)
        return had(graph, path, dtype, &shape);
    if (graph->status != ISO_OK || !check_variable(graph, path, dtype, &shape) ||
        !check_initializer(graph, path, initializer.kind, &shape))
        return &graph->bad_variable;
    const bool frozen = graph->frozen > 0 || iso_graph_lora_freezes(graph, path);
    iso_variable *variable = iso_graph_keep(graph, sizeof *variable);
    if (!variable)
        return &graph->bad_variable;
    *variable = (iso_variable){.graph = graph,
                               .id = graph->n_variables,
                               .path = iso_graph_keep_text(graph, path),
                               .dtype = iso_graph_in_precision(graph, dtype),
                               .shape = shape,
                               .initializer = initializer,
                               .trainable = trainable,
                               .frozen = frozen,
                               .made_frozen = graph->frozen > 0};
    iso_variable_attrs attrs = {.variable = variable};
    variable->value = iso_op_create(graph, &iso_op_variable, NULL, 0, &attrs);
    iso_tensor_set_name(variable->value, path);
    iso_graph_append(graph, graph->variables, graph->n_variables, variable);
    if (graph->status == ISO_OK)
        iso_name_add(graph, &graph->variable_paths, variable->path, variable->id);
    return variable;
}

void iso_variable_begin_with_ones(iso_variable *variable, int64_t begin, int64_t end)
{
    if (ISO_ANY_NULL(variable))
        return;
    variable->ones_begin = begin;
    variable->ones_end = end;
}

void iso_variable_set_fans(iso_variable *variable, double in, double out)
{
    if (ISO_ANY_NULL(variable))
        return;
    variable->fan_in = in;
    variable->fan_out = out;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* The graph stays usable: the next collective call says that this one had no effect. */
static void refuse_layout(const iso_variable *variable, const char *layout)
{
    iso_graph *graph = variable->graph;
    if (!*graph->pending)
        snprintf(graph->pending, sizeof graph->pending,
                 "variable '%s': its layout cannot be set to '%s' after a function of the graph was made. "
                 "Set it before iso_compile, iso_predict or iso_function_create",
                 variable->path, layout ? layout : "NULL");
}

void iso_variable_set_layout(iso_variable *variable, const char *layout)
{
    if (ISO_ANY_NULL(variable))
        return;
    if (variable->allocated && !same_text(variable->layout, layout))
        refuse_layout(variable, layout);
    else if (variable->graph->status == ISO_OK)
        variable->layout = layout ? iso_graph_keep_text(variable->graph, layout) : NULL;
}

static bool may_be_constrained(const iso_variable *variable, const iso_tensor *value)
{
    char is[160], wanted[160];
    iso_graph *graph = variable->graph;
    if (variable->allocated)
        iso_graph_fail(graph,
                       "variable '%s': its constraint cannot be set after a function of the graph was made",
                       variable->path);
    else if (!iso_shape_equal(&variable->shape, &value->shape) || variable->dtype != value->dtype)
        iso_graph_fail(graph, "the variable '%s' is %s of %s, its constraint makes it %s of %s",
                       variable->path, iso_shape_text(&variable->shape, is, sizeof is),
                       iso_dtype_name(variable->dtype), iso_shape_text(&value->shape, wanted, sizeof wanted),
                       iso_dtype_name(value->dtype));
    return graph->status == ISO_OK;
}

void iso_variable_set_constraint(iso_variable *variable, iso_tensor *value)
{
    bool missing = ISO_ANY_NULL(variable, value);
    if (missing && (variable || value))
        iso_null_in(variable ? variable->graph : value->graph);
    if (missing)
        return;
    if (variable->graph->status == ISO_OK && iso_tensor_good(value) && may_be_constrained(variable, value))
        variable->constraint = value;
}

iso_tensor *iso_variable_value(iso_variable *variable)
{
    if (ISO_ANY_NULL(variable))
        return NULL;
    return variable->value;
}

const char *iso_variable_path(const iso_variable *variable)
{
    if (ISO_ANY_NULL(variable))
        return NULL;
    return variable->path;
}

const iso_shape *iso_variable_shape(const iso_variable *variable)
{
    if (ISO_ANY_NULL(variable))
        return NULL;
    return &variable->shape;
}

iso_dtype iso_variable_dtype(const iso_variable *variable)
{
    if (ISO_ANY_NULL(variable))
        return ISO_DTYPE_NONE;
    return variable->dtype;
}

bool iso_variable_trainable(const iso_variable *variable)
{
    if (ISO_ANY_NULL(variable))
        return false;
    return variable->trainable && !variable->frozen;
}

bool iso_variable_made_trainable(const iso_variable *variable)
{
    if (ISO_ANY_NULL(variable))
        return false;
    return variable->trainable;
}

bool iso_variable_trained(const iso_variable *variable)
{
    if (ISO_ANY_NULL(variable))
        return false;
    return variable->trained;
}

bool iso_variable_updated(const iso_variable *variable)
{
    if (ISO_ANY_NULL(variable))
        return false;
    return variable->updated;
}

bool iso_variable_within(const iso_graph *graph, const iso_variable *variable)
{
    return variable->id >= 0 && variable->id < graph->n_variables &&
           graph->variables[variable->id] == variable;
}

iso_variable *iso_graph_find_variable(const iso_graph *graph, const char *path)
{
    if (ISO_ANY_NULL(graph, path))
        return NULL;
    const iso_name *found = iso_name_find(&graph->variable_paths, path);
    return found ? graph->variables[found->value] : NULL;
}
