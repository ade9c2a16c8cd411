/* Building a graph: its storage, its sticky error, tensors and variables. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/printable.h"
#include "runtime/base/text.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/initializers.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/ops_impl.h"
#include "runtime/graph/owner.h"
#include "runtime/graph/pending.h"
#include "runtime/graph/registered.h"
#include "runtime/graph/savepoint.h"
#include "runtime/session/session.h"

static void graph_set_up(iso_graph *graph, iso_context *ctx)
{
    graph->holders = 1;
    graph->ctx = ctx;
    graph->precision = graph->compute = ISO_F32;
    graph->seed = iso_seed(ctx);
    graph->bad = (iso_tensor){.graph = graph, .id = -1, .dtype = ISO_F32, .name = "(broken graph)"};
    graph->bad_variable =
        (iso_variable){.graph = graph, .id = -1, .path = "(broken graph)", .value = &graph->bad};
    graph->bad_update = (iso_update){.graph = graph};
}

/* The graph that iso_graph_create returns when it is out of memory: one per thread, with the context of
 * the call. */
static _Thread_local iso_graph no_memory;

iso_graph *iso_graph_create(iso_context *ctx)
{
    iso_graph *graph = iso_new(sizeof *graph);
    if (graph) {
        graph_set_up(graph, ctx);
        return graph;
    }
    graph_set_up(&no_memory, ctx);
    no_memory.status = ISO_NO_MEMORY;
    no_memory.of_thread = true;
    snprintf(no_memory.message, sizeof no_memory.message, "no memory for a graph (%zu bytes)", sizeof *graph);
    return &no_memory;
}

void iso_graph_destroy(iso_graph *graph)
{
    if (graph && !graph->owned)
        iso_graph_release(graph);
}

void iso_graph_hold(iso_graph *graph)
{
    graph->holders++;
}

void iso_graph_own(iso_graph *graph)
{
    graph->owned = !graph->of_thread;
}

bool iso_graph_owned(const iso_graph *graph)
{
    return graph->owned;
}

void iso_graph_release(iso_graph *graph)
{
    if (!graph || graph->of_thread || --graph->holders > 0)
        return;
    if (graph->destroy_runtime)
        graph->destroy_runtime(graph->runtime);
    if (graph->destroy_distribution)
        graph->destroy_distribution(graph->distribution);
    iso_savepoint_destroy(graph->committed);
    while (graph->sharing)
        iso_share_end(graph);
    for (int i = 0; i < graph->kept; i++)
        iso_free(graph->keep[i]);
    iso_free(graph->keep);
    iso_free(graph->tensors);
    iso_free(graph->ops);
    iso_free(graph->variables);
    iso_names_free(&graph->layer_names);
    iso_names_free(&graph->variable_paths);
    iso_free(graph->layers);
    iso_free(graph->loss_terms);
    iso_free(graph->blocks);
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
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, format))
        return;
    va_start(args, format);
    fail(graph, ISO_INVALID, format, args);
    va_end(args);
}

void iso_graph_fail_memory(iso_graph *graph, const char *what, size_t bytes)
{
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, what) || graph->status != ISO_OK)
        return;
    graph->status = ISO_NO_MEMORY;
    snprintf(graph->message, sizeof graph->message, "no memory for %s (%zu bytes)", what, bytes);
}

iso_status iso_graph_error(const iso_graph *graph)
{
    ISO_NEED(graph);
    return graph->status == ISO_OK ? ISO_OK : iso_error(graph->status, "%s", graph->message);
}

iso_status iso_graph_take_error(iso_graph *graph)
{
    iso_status status = iso_graph_error(graph);
    if (status != ISO_OK && graph->committed) {
        iso_savepoint_revert(graph->committed);
        graph->committed = NULL;
        iso_graph_commit(graph);
        return iso_error(status, "%s", graph->message);
    }
    if (status != ISO_OK || !*graph->pending)
        return status;
    status = iso_error(ISO_INVALID, "%s", graph->pending);
    *graph->pending = 0;
    return status;
}

iso_status iso_graph_commit(iso_graph *graph)
{
    if (!graph || !graph->runtime || graph->status != ISO_OK)
        return ISO_OK;
    iso_savepoint_destroy(graph->committed);
    graph->committed = NULL;
    return iso_savepoint_create(graph, &graph->committed);
}

bool iso_graph_append_item(iso_graph *graph, void *list, int *count, const void *item)
{
    iso_status status = iso_list_add_bytes(list, count, sizeof item, &item, "the lists of a graph");
    if (status != ISO_OK)
        iso_graph_fail_memory(graph, "the lists of a graph", (size_t)*count * sizeof item);
    return status == ISO_OK;
}

void *iso_graph_keep(iso_graph *graph, size_t bytes)
{
    void *memory = iso_new(bytes);
    if (!memory) {
        iso_graph_fail_memory(graph, "a part of a graph", bytes);
        return NULL;
    }
    if (!iso_graph_append(graph, graph->keep, graph->kept, memory)) {
        iso_free(memory);
        return NULL;
    }
    return memory;
}

const char *iso_graph_keep_text(iso_graph *graph, const char *text)
{
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, text))
        return "";
    char *copy = iso_graph_keep(graph, strlen(text) + 1);
    return copy ? strcpy(copy, text) : "";
}

iso_context *iso_graph_context(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return graph->ctx;
}

void iso_graph_set_precision(iso_graph *graph, iso_dtype dtype)
{
    if (ISO_ANY_NULL(graph))
        return;
    if (!iso_dtype_is_float(dtype))
        iso_graph_fail(graph, "precision %s: float32, float64 or bfloat16 (mixed_bfloat16) is possible",
                       iso_dtype_name(dtype));
    else if (graph->n_tensors)
        iso_graph_fail(graph, "the precision must be set before the graph's first tensor");
    else {
        graph->precision = dtype == ISO_BF16 ? ISO_F32 : dtype;
        graph->compute = dtype;
    }
}

iso_dtype iso_graph_precision(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return ISO_DTYPE_NONE;
    return graph->precision;
}

iso_dtype iso_graph_compute_type(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return ISO_DTYPE_NONE;
    return graph->compute;
}

const char *iso_graph_precision_name(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return "none";
    if (graph->several_policies)
        return ISO_PRECISION_OF_LAYERS;
    return graph->compute == ISO_BF16 ? "mixed_bfloat16" : iso_dtype_name(graph->precision);
}

void iso_graph_set_seed(iso_graph *graph, uint64_t seed)
{
    if (ISO_ANY_NULL(graph))
        return;
    graph->seed = seed;
}

uint64_t iso_graph_seed(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return 0;
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

bool iso_tensor_within(const iso_graph *graph, const iso_tensor *tensor)
{
    return tensor->id >= 0 && tensor->id < graph->n_tensors && graph->tensors[tensor->id] == tensor;
}

bool iso_variable_within(const iso_graph *graph, const iso_variable *variable)
{
    return variable->id >= 0 && variable->id < graph->n_variables &&
           graph->variables[variable->id] == variable;
}

static bool check_inputs(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs, int count)
{
    if (count < 0 || count > ISO_MAX_INPUTS) {
        iso_graph_fail(graph, "%s: %d inputs, at most %d are possible", type->name, count, ISO_MAX_INPUTS);
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (!inputs[i])
            iso_graph_fail(graph, "%s: input %d is NULL", type->name, i);
        else if (inputs[i]->graph != graph)
            iso_graph_fail(graph, "%s: input %d belongs to another graph", type->name, i);
        else if (!iso_tensor_within(graph, inputs[i]))
            iso_graph_fail(graph, "%s: input %d, '%s', was taken out of the graph with an earlier error",
                           type->name, i, iso_tensor_name(inputs[i]));
    }
    return graph->status == ISO_OK;
}

static bool add_outputs(iso_op *op)
{
    iso_graph *graph = op->graph;
    for (int i = 0; i < op->n_outputs; i++) {
        iso_tensor *tensor = op->outputs[i];
        tensor->id = graph->n_tensors;
        if (!iso_graph_append(graph, graph->tensors, graph->n_tensors, tensor))
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
    op->n_inputs = count;
    op->n_outputs = type->n_outputs ? type->n_outputs : 1;
    if (count)
        memcpy(op->inputs, inputs, (size_t)count * sizeof *inputs);
    for (int i = 0; i < op->n_outputs; i++) {
        iso_tensor *tensor = iso_graph_keep(graph, sizeof *tensor);
        if (!tensor)
            return NULL;
        *tensor = (iso_tensor){.graph = graph, .producer = op, .output = i};
        op->outputs[i] = tensor;
    }
    return op;
}

static uint32_t factors_of(const iso_tensor *tensor, const int8_t *dims)
{
    uint32_t factors = 0;
    for (int d = 0; d < tensor->shape.rank; d++)
        if (dims[d] != ISO_WHOLE)
            factors |= 1u << dims[d];
    return factors;
}

/* Whether slots may have parts of a sum that is an element of the output: the rule contracts a factor, or
 * windows of the output overlap. */
static bool is_sum(const iso_op *op, const iso_rule *rule, int output)
{
    uint32_t read = 0;
    for (int i = 0; i < op->n_inputs; i++)
        read |= factors_of(op->inputs[i], rule->input[i]);
    bool contracts = read & ~factors_of(op->outputs[output], rule->output[output]);
    return (contracts && !rule->contract_max) || rule->output_windows[output];
}

/* Sums in bfloat16 are made in float32, in the kernel and between slots, and rounded once, when they are
 * whole. A registered op has the types that its own infer gives. */
static void widen_sums(iso_op *op)
{
    iso_rule rule;
    for (int o = 0; o < op->n_outputs; o++) {
        if (op->outputs[o]->dtype != ISO_BF16 || op->type->no_kernel ||
            iso_registered_op_find(op->type->name))
            continue;
        iso_op_rule(op, &rule);
        if (is_sum(op, &rule, o)) {
            op->outputs[o]->dtype = ISO_F32;
            op->widened |= 1u << o;
        }
    }
}

/* Whether a tensor may have so many elements. */
static bool shape_fits(const iso_shape *shape)
{
    int64_t count;
    iso_shape one_row = iso_shape_with_rows(shape, 1);
    return iso_shape_count(&one_row, &count) == ISO_OK && count <= ISO_MAX_ELEMENTS;
}

static void too_large(iso_graph *graph, const char *what, const char *name, const iso_shape *shape)
{
    char text[160];
    iso_graph_fail(graph, "%s '%s': shape %s has more than %lld elements", what, name,
                   iso_shape_text(shape, text, sizeof text), ISO_MAX_ELEMENTS);
}

static bool check_shapes(iso_op *op)
{
    char text[160];
    for (int i = 0; i < op->n_outputs; i++)
        if (!shape_fits(&op->outputs[i]->shape))
            return iso_op_refuse(op, "the result %s would have more than %lld elements",
                                 iso_shape_text(&op->outputs[i]->shape, text, sizeof text), ISO_MAX_ELEMENTS);
    return true;
}

/* NULL: the graph has an error. */
static iso_op *make_op(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs, int count,
                       const void *attrs)
{
    if (graph->status != ISO_OK || !iso_op_type_check(graph, type) ||
        !check_inputs(graph, type, inputs, count))
        return NULL;
    iso_op *op = new_op(graph, type, inputs, count, attrs);
    if (!op || !type->infer(op) || !check_shapes(op) || !iso_registered_op_check(op)) {
        iso_graph_fail(graph, "%s: the inputs do not fit", type->name);
        return NULL;
    }
    widen_sums(op);
    op->recomputation = graph->recomputing > 0 ? graph->recomputations : 0;
    op->id = graph->n_ops;
    return iso_graph_append(graph, graph->ops, graph->n_ops, op) && add_outputs(op) ? op : NULL;
}

iso_op *iso_op_again(const iso_op *op, iso_tensor *const *inputs)
{
    iso_op *copy = make_op(op->graph, op->type, inputs, op->n_inputs, op->attrs);
    if (copy)
        copy->again = copy->backward_of = op;
    return copy;
}

static iso_tensor *result_of(const iso_op *op, int output)
{
    return op->widened & 1u << output ? iso_cast(op->outputs[output], ISO_BF16) : op->outputs[output];
}

iso_tensor *iso_op_create(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs, int count,
                          const void *attrs)
{
    iso_op *op = make_op(graph, type, inputs, count, attrs);
    return op ? result_of(op, 0) : &graph->bad;
}

void iso_op_create_several(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs, int count,
                           const void *attrs, iso_tensor **results)
{
    iso_op *op = make_op(graph, type, inputs, count, attrs);
    for (int i = 0; i < (op ? op->n_outputs : type->n_outputs); i++)
        results[i] = op ? result_of(op, i) : &graph->bad;
}

/* ---- tensors ---- */

iso_graph *iso_tensor_graph(const iso_tensor *tensor)
{
    if (ISO_ANY_NULL(tensor))
        return NULL;
    return tensor->graph;
}

iso_dtype iso_tensor_dtype(const iso_tensor *tensor)
{
    if (ISO_ANY_NULL(tensor))
        return ISO_DTYPE_NONE;
    return tensor->dtype;
}

const iso_shape *iso_tensor_shape(const iso_tensor *tensor)
{
    if (ISO_ANY_NULL(tensor))
        return NULL;
    return &tensor->shape;
}

const char *iso_tensor_name(const iso_tensor *tensor)
{
    if (ISO_ANY_NULL(tensor))
        return NULL;
    return tensor->name ? tensor->name : tensor->producer ? tensor->producer->type->name : "(none)";
}

void iso_tensor_set_name(iso_tensor *tensor, const char *name)
{
    if (ISO_ANY_NULL(tensor) || ISO_NULL_IN(tensor->graph, name))
        return;
    if (iso_tensor_good(tensor))
        tensor->name = iso_graph_keep_text(tensor->graph, name);
}

/* Floating-point tensors have the graph's precision. */
static iso_dtype in_precision(const iso_graph *graph, iso_dtype dtype)
{
    return dtype == ISO_F32 ? graph->precision : dtype;
}

/* shape: of one row if there is a batch, else of the whole tensor. */
static iso_tensor *make_input(iso_graph *graph, const char *name, iso_dtype dtype, const iso_shape *shape,
                              bool batch)
{
    int most = ISO_MAX_RANK - batch;
    if (graph->status != ISO_OK)
        return &graph->bad;
    if (dtype == ISO_BF16) {
        iso_graph_fail(graph, "input '%s': bfloat16 is a type to compute in; inputs are float32 or float64",
                       name);
        return &graph->bad;
    }
    if (shape->rank < 0 || shape->rank > most || !iso_dtype_size(dtype)) {
        iso_graph_fail(graph, "input '%s': rank %d (0 to %d are possible) of type %d", name, shape->rank,
                       most, dtype);
        return &graph->bad;
    }
    iso_input_attrs attrs = {.dtype = in_precision(graph, dtype), .shape = {.rank = shape->rank + batch}};
    attrs.shape.dim[0] = ISO_BATCH;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] <= 0)
            iso_graph_fail(graph, "input '%s': dimension %d is %lld, it must be positive", name, i,
                           (long long)shape->dim[i]);
        attrs.shape.dim[i + batch] = shape->dim[i];
    }
    if (!shape_fits(&attrs.shape))
        too_large(graph, "input", name, &attrs.shape);
    attrs.name = iso_graph_keep_text(graph, name ? name : "input");
    iso_tensor *tensor = iso_op_create(graph, &iso_op_input, NULL, 0, &attrs);
    iso_tensor_set_name(tensor, attrs.name);
    return tensor;
}

iso_tensor *iso_input(iso_graph *graph, const char *name, iso_dtype dtype, iso_shape shape)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return make_input(graph, name, dtype, &shape, true);
}

iso_tensor *iso_input_unbatched(iso_graph *graph, const char *name, iso_dtype dtype, iso_shape shape)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return make_input(graph, name, dtype, &shape, false);
}

bool iso_tensor_is_input(const iso_tensor *tensor)
{
    if (ISO_ANY_NULL(tensor))
        return false;
    return tensor->producer && tensor->producer->type == &iso_op_input;
}

iso_tensor *iso_constant(iso_graph *graph, iso_dtype dtype, iso_shape shape, const double *values)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    int64_t count;
    if (graph->status != ISO_OK)
        return &graph->bad;
    if (iso_shape_count(&shape, &count) != ISO_OK) {
        iso_graph_fail(graph, "constant: %s", iso_error_message());
        return &graph->bad;
    }
    if (!iso_dtype_size(dtype))
        iso_graph_fail(graph, "constant: unknown element type");
    if (count > ISO_MAX_ELEMENTS)
        iso_graph_fail(graph, "constant: more than %lld elements", ISO_MAX_ELEMENTS);
    if (graph->status != ISO_OK || (count > 0 && ISO_NULL_IN(graph, values)))
        return &graph->bad;
    iso_constant_attrs attrs = {.dtype = in_precision(graph, dtype), .shape = shape};
    attrs.values = iso_graph_keep(graph, (size_t)count * sizeof(double));
    if (attrs.values)
        memcpy(attrs.values, values, (size_t)count * sizeof(double));
    return iso_op_create(graph, &iso_op_constant, NULL, 0, &attrs);
}

iso_tensor *iso_number(iso_graph *graph, iso_dtype dtype, double value)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return iso_constant(graph, dtype, ISO_SCALAR, &value);
}

bool iso_tensor_is_number(const iso_tensor *x, double *value)
{
    if (ISO_ANY_NULL(x, value) || x->shape.rank != 0 || !x->producer || x->producer->type != &iso_op_constant)
        return false;
    *value = ((const iso_constant_attrs *)x->producer->attrs)->values[0];
    return true;
}

/* ---- variables ---- */

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
    else if (!shape_fits(shape))
        too_large(graph, "variable", path, shape);
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
    else if (variable->dtype != in_precision(graph, dtype) || !iso_shape_equal(&variable->shape, shape))
        iso_graph_fail(graph, "a layer is used again: its variable '%s' is %s %s, here it would be %s %s",
                       path, iso_dtype_name(variable->dtype), iso_shape_text(&variable->shape, is, sizeof is),
                       iso_dtype_name(in_precision(graph, dtype)),
                       iso_shape_text(shape, wanted, sizeof wanted));
    return graph->status == ISO_OK ? variable : &graph->bad_variable;
}

static bool is_within(const char *path, const char *name)
{
    size_t length = strlen(name);
    return strncmp(path, name, length) == 0 && (path[length] == '/' || !path[length]);
}

static iso_status no_such_layer(const iso_graph *graph, const char *name)
{
    iso_text nearest = {0};
    const char **names = iso_new(((size_t)graph->n_layers + 1) * sizeof *names);
    for (int i = 0; names && i < graph->n_layers; i++)
        names[i] = graph->layers[i]->name;
    if (names)
        iso_text_add_nearest(&nearest, name, names, graph->n_layers);
    iso_status status =
        iso_error(ISO_INVALID, "there is no layer or block '%s'%s", name, iso_text_get(&nearest));
    iso_text_free(&nearest);
    iso_free(names);
    return status;
}

iso_status iso_graph_set_trainable(iso_graph *graph, const char *name, bool trainable)
{
    ISO_NEED(graph);
    bool found = !name;
    if (graph->status != ISO_OK)
        return iso_graph_error(graph);
    for (int i = 0; i < graph->n_layers; i++)
        if (!name || is_within(graph->layers[i]->name, name)) {
            graph->layers[i]->frozen = !trainable;
            found = true;
        }
    if (!found)
        return no_such_layer(graph, name);
    for (int i = 0; i < graph->n_variables; i++)
        if (!name || is_within(graph->variables[i]->path, name))
            graph->variables[i]->frozen = !trainable;
    return ISO_OK;
}

bool iso_graph_freezes(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return false;
    return graph->frozen > 0;
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
    iso_variable *variable = iso_graph_keep(graph, sizeof *variable);
    if (!variable)
        return &graph->bad_variable;
    *variable = (iso_variable){.graph = graph,
                               .id = graph->n_variables,
                               .path = iso_graph_keep_text(graph, path),
                               .dtype = in_precision(graph, dtype),
                               .shape = shape,
                               .initializer = initializer,
                               .trainable = trainable,
                               .frozen = graph->frozen > 0,
                               .made_frozen = graph->frozen > 0};
    iso_variable_attrs attrs = {.variable = variable};
    variable->value = iso_op_create(graph, &iso_op_variable, NULL, 0, &attrs);
    iso_tensor_set_name(variable->value, path);
    iso_graph_append(graph, graph->variables, graph->n_variables, variable);
    if (graph->status == ISO_OK)
        iso_name_add(graph, &graph->variable_paths, variable->path, variable->id);
    return variable;
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

int iso_graph_op_count(const iso_graph *graph)
{
    return graph->n_ops;
}

const iso_op *iso_graph_op(const iso_graph *graph, int index)
{
    return graph->ops[index];
}

int iso_graph_tensor_count(const iso_graph *graph)
{
    return graph->n_tensors;
}

int iso_graph_variable_count(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return 0;
    return graph->n_variables;
}

iso_variable *iso_graph_variable(const iso_graph *graph, int index)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return index >= 0 && index < graph->n_variables ? graph->variables[index] : NULL;
}

iso_variable *iso_graph_find_variable(const iso_graph *graph, const char *path)
{
    if (ISO_ANY_NULL(graph, path))
        return NULL;
    const iso_name *found = iso_name_find(&graph->variable_paths, path);
    return found ? graph->variables[found->value] : NULL;
}
