/* Building a graph: its storage and its sticky error. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/owner.h"
#include "runtime/graph/pending.h"
#include "runtime/graph/savepoint.h"
#include "runtime/session/lifetime.h"

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
        graph_set_up(graph, iso_context_hold(ctx));
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
    ISO_DEFAULT_MODES();
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
    iso_lora_end_all(graph);
    for (int i = 0; i < graph->kept; i++)
        iso_free(graph->keep[i]);
    iso_free(graph->keep);
    iso_free(graph->tensors);
    iso_free(graph->ops);
    iso_free(graph->variables);
    iso_names_free(&graph->layer_names);
    iso_names_free(&graph->variable_paths);
    iso_free(graph->layers);
    iso_free(graph->parts);
    iso_free(graph->loss_terms);
    iso_free(graph->blocks);
    iso_context_release(graph->ctx);
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
    ISO_DEFAULT_MODES();
    va_list args;
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, format))
        return;
    va_start(args, format);
    fail(graph, ISO_INVALID, format, args);
    va_end(args);
}

void iso_graph_fail_text(iso_graph *graph, const char *text)
{
    if (!ISO_ANY_NULL(graph) && !ISO_NULL_IN(graph, text))
        iso_graph_fail(graph, "%s", text);
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

iso_dtype iso_graph_in_precision(const iso_graph *graph, iso_dtype dtype)
{
    return dtype == ISO_F32 ? graph->precision : dtype;
}

const char *iso_graph_precision_name(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return "none";
    if (graph->several_policies)
        return ISO_PRECISION_OF_LAYERS;
    return graph->compute == ISO_BF16 ? "mixed_bfloat16" : iso_dtype_name(graph->precision);
}

/* Whether something depends on the seed: a variable's initial values, or an op's random numbers. */
static bool uses_seed(const iso_graph *graph)
{
    bool uses = graph->n_variables > 0;
    for (int i = 0; i < graph->n_ops && !uses; i++)
        uses = graph->ops[i]->type->random;
    return uses;
}

void iso_graph_set_seed(iso_graph *graph, uint64_t seed)
{
    if (ISO_ANY_NULL(graph))
        return;
    if (uses_seed(graph))
        iso_graph_fail(graph, "the seed must be set before the graph's first variable and random op");
    else
        graph->seed = seed;
}

uint64_t iso_graph_seed(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return 0;
    return graph->seed;
}

int iso_graph_op_count(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return 0;
    return graph->n_ops;
}

const iso_op *iso_graph_op(const iso_graph *graph, int index)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return index >= 0 && index < graph->n_ops ? graph->ops[index] : NULL;
}

int iso_graph_tensor_count(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return 0;
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

bool iso_graph_freezes(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return false;
    return graph->frozen > 0;
}
