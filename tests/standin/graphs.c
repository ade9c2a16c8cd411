/* Capture and graphs. */
#include <stdlib.h>
#include <string.h>

#include "tests/standin/streams_impl.h"

struct CUgraphExec_st {
    standin_node *nodes;
    int n_nodes;
    int launched; /* and not done */
};

void standin_set_nodes(int **nodes, int *n_nodes, const int *from, int n_from)
{
    free(*nodes);
    *nodes = malloc((size_t)n_from * sizeof **nodes + 1);
    if (!*nodes)
        standin_stop("no memory for a capture");
    if (n_from > 0)
        memcpy(*nodes, from, (size_t)n_from * sizeof **nodes);
    *n_nodes = n_from;
}

/* Why a capture takes no more: it is broken, or STANDIN_FAIL=capture breaks it now. */
static cudaError_t refusal(cudaGraph_t graph)
{
    if (graph->broken)
        return cudaErrorStreamCaptureInvalidated;
    cudaError_t error = standin_ordered("capture");
    if (error != cudaSuccess)
        graph->broken = cudaErrorStreamCaptureInvalidated;
    return error;
}

cudaError_t standin_add_node(cudaStream_t stream, standin_item *item)
{
    cudaGraph_t graph = stream->graph;
    cudaError_t error = refusal(graph);
    if (error != cudaSuccess) {
        standin_drop_item(item);
        return error;
    }
    int number = graph->n_nodes++;
    graph->nodes = realloc(graph->nodes, (size_t)graph->n_nodes * sizeof *graph->nodes);
    if (!graph->nodes)
        standin_stop("no memory for a graph");
    graph->nodes[number] = (standin_node){.item = item};
    standin_set_nodes(&graph->nodes[number].after, &graph->nodes[number].n_after, stream->tail,
                      stream->n_tail);
    standin_set_nodes(&stream->tail, &stream->n_tail, &number, 1);
    return cudaSuccess;
}

cudaError_t standin_refuse_capture(void)
{
    cudaError_t error = cudaSuccess;
    for (cudaStream_t s = standin_streams(); s; s = s->next)
        if (s->graph) {
            s->graph->broken = cudaErrorStreamCaptureInvalidated;
            error = cudaErrorStreamCaptureUnsupported;
        }
    return error;
}

bool standin_in_capture(void)
{
    bool is = false;
    pthread_mutex_lock(&standin_lock);
    for (cudaStream_t s = standin_streams(); s && !is; s = s->next)
        is = s->graph && pthread_equal(s->graph->thread, pthread_self());
    if (is)
        standin_refuse_capture();
    pthread_mutex_unlock(&standin_lock);
    return is;
}

/* The kernels that are loaded; they are never forgotten. */
static struct loaded {
    uint64_t kernel;
    int gpu;
} * loaded;
static int n_loaded;

static bool is_loaded(cudaStream_t stream, uint64_t kernel)
{
    for (int i = 0; i < n_loaded; i++)
        if (loaded[i].kernel == kernel && loaded[i].gpu == stream->gpu)
            return true;
    return false;
}

static void add_loaded(cudaStream_t stream, uint64_t kernel)
{
    loaded = realloc(loaded, ((size_t)n_loaded + 1) * sizeof *loaded);
    if (!loaded)
        standin_stop("no memory for the list of kernels");
    loaded[n_loaded++] = (struct loaded){kernel, stream->gpu};
}

cudaError_t standin_load(cudaStream_t stream, uint64_t kernel)
{
    cudaError_t error = cudaSuccess;
    pthread_mutex_lock(&standin_lock);
    stream->computes = true;
    if (!is_loaded(stream, kernel)) {
        if (stream->graph)
            error = standin_refuse_capture();
        else
            add_loaded(stream, kernel);
    }
    pthread_mutex_unlock(&standin_lock);
    return error;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)mode;
    STANDIN_ENTER();
    cudaGraph_t graph = calloc(1, sizeof *graph);
    if (!graph)
        return standin_error(cudaErrorMemoryAllocation);
    pthread_mutex_lock(&standin_lock);
    if (stream->graph)
        standin_stop("a capture begins on a stream that is captured");
    static uint64_t captures;
    graph->origin = stream;
    graph->capture = ++captures;
    graph->thread = pthread_self();
    stream->graph = graph;
    stream->n_tail = 0;
    pthread_mutex_unlock(&standin_lock);
    return cudaSuccess;
}

static void reach_back(const struct CUgraph_st *graph, int node, bool *reached)
{
    if (reached[node])
        return;
    reached[node] = true;
    for (int i = 0; i < graph->nodes[node].n_after; i++)
        reach_back(graph, graph->nodes[node].after[i], reached);
}

/* Whether all that was captured comes before the end of the stream where the capture began. */
static bool is_joined(cudaStream_t origin)
{
    const struct CUgraph_st *graph = origin->graph;
    bool *reached = calloc((size_t)graph->n_nodes + 1, sizeof *reached), joined = true;
    if (!reached)
        standin_stop("no memory for a capture");
    for (int i = 0; i < origin->n_tail; i++)
        reach_back(graph, origin->tail[i], reached);
    for (int i = 0; i < graph->n_nodes; i++)
        joined = joined && reached[i];
    free(reached);
    return joined;
}

static void free_nodes(standin_node *nodes, int n_nodes)
{
    for (int i = 0; i < n_nodes; i++) {
        standin_drop_item(nodes[i].item);
        free(nodes[i].after);
    }
    free(nodes);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    cudaError_t entered = standin_enter(__func__); /* the capture ends in any case */
    pthread_mutex_lock(&standin_lock);
    cudaGraph_t graph = stream->graph;
    if (!graph || graph->origin != stream || !pthread_equal(graph->thread, pthread_self()))
        standin_stop("the end of a capture that did not begin on this stream, in this thread");
    cudaError_t error = entered             ? entered
                        : graph->broken     ? graph->broken
                        : is_joined(stream) ? cudaSuccess
                                            : cudaErrorStreamCaptureUnjoined;
    for (cudaStream_t s = standin_streams(); s; s = s->next)
        if (s->graph == graph)
            s->graph = NULL;
    if (error != cudaSuccess) {
        free_nodes(graph->nodes, graph->n_nodes);
        free(graph);
        graph = NULL;
    }
    pthread_mutex_unlock(&standin_lock);
    *out = graph;
    return standin_error(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    STANDIN_ENTER();
    pthread_mutex_lock(&standin_lock);
    *status = stream->graph ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    pthread_mutex_unlock(&standin_lock);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    STANDIN_ENTER();
    cudaGraphExec_t fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return standin_error(cudaErrorMemoryAllocation);
    pthread_mutex_lock(&standin_lock);
    fresh->n_nodes = graph->n_nodes;
    fresh->nodes = calloc((size_t)graph->n_nodes + 1, sizeof *fresh->nodes);
    if (!fresh->nodes)
        standin_stop("no memory for a graph");
    for (int i = 0; i < graph->n_nodes; i++) {
        const standin_node *node = &graph->nodes[i];
        fresh->nodes[i].item = node->item;
        node->item->users++;
        standin_set_nodes(&fresh->nodes[i].after, &fresh->nodes[i].n_after, node->after, node->n_after);
    }
    pthread_mutex_unlock(&standin_lock);
    *out = fresh;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    pthread_mutex_lock(&standin_lock);
    free_nodes(graph->nodes, graph->n_nodes);
    free(graph);
    pthread_mutex_unlock(&standin_lock);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    pthread_mutex_lock(&standin_lock);
    if (exec->launched > 0)
        standin_stop("a graph is destroyed that was launched and is not done");
    free_nodes(exec->nodes, exec->n_nodes);
    free(exec);
    pthread_mutex_unlock(&standin_lock);
    return standin_enter(__func__);
}

/* ---- launches ---- */

typedef struct launched {
    cudaGraphExec_t exec;
    cudaStream_t stream;
} launched;

static bool can_run(const standin_node *node, const bool *done)
{
    for (int i = 0; i < node->n_after; i++)
        if (!done[node->after[i]])
            return false;
    return true;
}

/* One of the nodes that can run now, drawn at random. */
static int draw_node(const launched *of, const bool *done)
{
    int chosen = -1, seen = 0;
    pthread_mutex_lock(&standin_lock);
    for (int i = 0; i < of->exec->n_nodes; i++)
        if (!done[i] && can_run(&of->exec->nodes[i], done) && standin_draw(of->stream, (uint64_t)++seen) == 0)
            chosen = i;
    pthread_mutex_unlock(&standin_lock);
    return chosen;
}

static void run_graph(void *argument)
{
    const launched *of = argument;
    bool *done = calloc((size_t)of->exec->n_nodes + 1, sizeof *done);
    if (!done)
        standin_stop("no memory for a graph");
    for (int left = of->exec->n_nodes; left > 0; left--) {
        int node = draw_node(of, done);
        standin_item *item = of->exec->nodes[node].item;
        item->work.run(item->argument);
        done[node] = true;
    }
    free(done);
    pthread_mutex_lock(&standin_lock);
    of->exec->launched--;
    pthread_mutex_unlock(&standin_lock);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    static const standin_work work = {.run = run_graph, .what = "a graph"};
    STANDIN_ENTER();
    pthread_mutex_lock(&standin_lock);
    exec->launched++;
    pthread_mutex_unlock(&standin_lock);
    return standin_enqueue(stream, &work, &(launched){exec, stream}, sizeof(launched));
}
