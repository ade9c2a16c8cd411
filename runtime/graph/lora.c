/* Low-rank adapters: the scopes in which layers have them, and the variables that they adapt. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/base/options.h"
#include "runtime/base/pattern.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/layer.h"
#include "runtime/graph/lora.h"
#include "runtime/graph/null_tensor.h"

struct iso_lora {
    int64_t rank;
    double alpha;
    const char *text;    /* the target's */
    iso_pattern *target; /* of layers' paths; NULL: all */
    iso_pattern
        *trained; /* of the paths of layers whose variables are trained; NULL: all, but for the kernels */
    int adapted;  /* kernels that have adapters */
    int whole;    /* variables that `trained` has */
    const char *trained_text;
    iso_text others; /* the paths of those that do not match, for a message */
    struct iso_lora *outer;
};

enum { MOST_SHOWN = 400 }; /* characters of a message's list */

/* ---- scopes ---- */

/* An expression that matches a whole path, or its end after a '/'. */
static iso_status compile(const char *text, iso_pattern **pattern)
{
    iso_text whole = {0};
    iso_status status = iso_pattern_create(text, pattern); /* for its message */
    if (status != ISO_OK)
        return status;
    iso_pattern_destroy(*pattern);
    *pattern = NULL;
    iso_text_add(&whole, "(?:.*/)?(?:%s)", text);
    status =
        whole.failed ? iso_no_memory("an expression") : iso_pattern_create(iso_text_get(&whole), pattern);
    iso_text_free(&whole);
    return status;
}

static void lora_free(iso_lora *lora)
{
    iso_pattern_destroy(lora->target);
    iso_pattern_destroy(lora->trained);
    iso_text_free(&lora->others);
    iso_free(lora);
}

static bool numbers_fit(iso_graph *graph, const iso_lora_options *o)
{
    if (o->rank < 1 || o->rank > INT32_MAX)
        iso_graph_fail(graph, "iso_lora_begin: rank is %lld, it must be positive, and below 2^31",
                       (long long)o->rank);
    else if (!isfinite(o->alpha) || o->alpha < 0)
        iso_graph_fail(graph, "iso_lora_begin: alpha is %g, it must be positive; 0: as rank", o->alpha);
    else
        return true;
    return false;
}

static void lora_compile(iso_graph *graph, const char *what, const char *text, iso_pattern **pattern)
{
    if (text && compile(text, pattern) != ISO_OK)
        iso_graph_fail(graph, "iso_lora_begin: %s '%s': %s", what, text, iso_error_message());
}

void iso_lora_begin_with(iso_graph *graph, const iso_lora_options *given, size_t size)
{
    iso_lora_options options = {0};
    if (ISO_ANY_NULL(graph))
        return;
    iso_options_copy(&options, sizeof options, given, size);
    iso_lora *lora = iso_new(sizeof *lora);
    if (!lora) {
        iso_graph_fail_memory(graph, "adapters", sizeof *lora);
        return;
    }
    *lora = (iso_lora){.rank = options.rank,
                       .alpha = options.alpha != 0 ? options.alpha : (double)options.rank,
                       .text = options.target ? iso_graph_keep_text(graph, options.target) : NULL,
                       .trained_text = options.trained ? iso_graph_keep_text(graph, options.trained) : NULL,
                       .outer = graph->lora};
    graph->lora = lora;
    if (!numbers_fit(graph, &options))
        return;
    lora_compile(graph, "target", options.target, &lora->target);
    lora_compile(graph, "trained", options.trained, &lora->trained);
}

/* A target that no kernel has would train nothing. */
static void check_adapted(iso_graph *graph, const iso_lora *lora)
{
    const char *others = iso_text_get(&lora->others);
    if (lora->adapted > 0 || graph->status != ISO_OK)
        return;
    if (lora->text && *others)
        iso_graph_fail(
            graph,
            "LoRA: the target '%s' is the path of no layer with a kernel or table, nor the end of one "
            "after a '/'; there are: %.*s%s",
            lora->text, MOST_SHOWN, others, strlen(others) > MOST_SHOWN ? "..." : "");
    else
        iso_graph_fail(graph, "LoRA: no layer has a kernel or table that could be adapted: those of Dense, "
                              "EinsumDense, Embedding and attention can");
}

/* Nor would a layer that was meant. An expression with an empty alternative, "classifier|", may match nothing. */
static void check_trained(iso_graph *graph, const iso_lora *lora)
{
    const char *text = lora->trained_text;
    const size_t length = text ? strlen(text) : 0;
    if (length > 0 && text[length - 1] != '|' && lora->whole == 0 && graph->status == ISO_OK)
        iso_graph_fail(
            graph, "LoRA: trained '%s' is the path of no layer with weights, nor the end of one after a '/'",
            text);
}

void iso_lora_end(iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return;
    iso_lora *lora = graph->lora;
    if (!lora) {
        iso_graph_fail(graph, "iso_lora_end without iso_lora_begin");
        return;
    }
    check_adapted(graph, lora);
    check_trained(graph, lora);
    graph->lora = lora->outer;
    lora_free(lora);
}

void iso_lora_end_all(iso_graph *graph)
{
    while (graph->lora) {
        iso_lora *outer = graph->lora->outer;
        lora_free(graph->lora);
        graph->lora = outer;
    }
}

/* ---- what holds for a variable ---- */

/* Whether the path without the variable's own name matches. */
static bool matches(iso_graph *graph, const iso_pattern *pattern, const char *path)
{
    bool found = false;
    char layer[ISO_MAX_PATH];
    const char *name = strrchr(path, '/');
    snprintf(layer, sizeof layer, "%.*s", name ? (int)(name - path) : 0, path);
    if (iso_pattern_match(pattern, layer, &found) != ISO_OK)
        iso_graph_fail(graph, "LoRA: %s", iso_error_message());
    return found;
}

bool iso_graph_lora_freezes(iso_graph *graph, const char *path)
{
    iso_lora *lora = graph->lora;
    if (!lora || !lora->trained)
        return false;
    const bool trained = matches(graph, lora->trained, path);
    lora->whole += trained;
    return !trained;
}

bool iso_graph_lora_of(iso_graph *graph, const char *path, int64_t *rank, double *scale)
{
    iso_lora *lora = graph->lora;
    if (!lora || graph->status != ISO_OK)
        return false;
    if (lora->target && !matches(graph, lora->target, path)) {
        const char *name = strrchr(path, '/');
        if (lora->others.length <= MOST_SHOWN)
            iso_text_add(&lora->others, "%s%.*s", lora->others.length ? ", " : "",
                         name ? (int)(name - path) : 0, path);
        return false;
    }
    lora->adapted++;
    *rank = lora->rank;
    *scale = lora->alpha / (double)lora->rank;
    return graph->status == ISO_OK;
}

void iso_variable_adapt(iso_variable *variable, const iso_adapter *adapter)
{
    iso_graph *graph = variable->graph;
    if (variable->adapter || graph->status != ISO_OK) /* a layer that is built again */
        return;
    iso_adapter *kept = iso_graph_keep(graph, sizeof *kept);
    if (!kept)
        return;
    *kept = *adapter;
    variable->adapter = kept;
    variable->frozen = true;
    adapter->a->of_adapter = adapter->b->of_adapter = true;
    adapter->a->frozen = adapter->b->frozen = graph->frozen > 0;
}

const iso_adapter *iso_variable_adapter(const iso_variable *variable)
{
    return variable->adapter;
}

bool iso_variable_is_adapter(const iso_variable *variable)
{
    return variable->of_adapter;
}
