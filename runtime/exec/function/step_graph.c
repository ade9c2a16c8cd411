/* Steps that a device does by one launch: those in which nothing but the rows and the rates of a batch comes from the
 * host, and slots wait for slots of this rank alone. */
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/exec/function/step_impl.h"

/* NULL: it is not captured. */
static iso_step_graph *graph_of(const iso_step *s)
{
    const unsigned does = iso_step_does(s);
    iso_step_graph *captured = s->executable->graphs;
    while (captured && (captured->does != does || captured->buffer != s->buffer))
        captured = captured->next;
    return captured;
}

/* ---- which steps ---- */

static bool can_be_captured(const iso_exchange *exchange)
{
    return !exchange || iso_exchange_can_be_captured(exchange);
}

static bool exchanges_can_be_captured(const iso_plan *plan)
{
    bool can = can_be_captured(plan->epilogue) && can_be_captured(plan->faults) &&
               can_be_captured(plan->weight_gather);
    for (int i = 0; i < plan->n_instructions && can; i++)
        can = can_be_captured(plan->instructions[i].exchange);
    for (int b = 0; b < plan->buckets->count && can; b++)
        can = can_be_captured(plan->bucket_exchange[b]) && can_be_captured(plan->bucket_gather[b]);
    return can;
}

/* Whether the step can be launched once it is captured. */
static bool can_be_launched(const iso_step *s)
{
    const iso_device *device = s->runtime->device;
    bool is_lost = s->lost && atomic_load_explicit(s->lost, memory_order_relaxed);
    return device->captures && !s->executable->in_parts && s->knows_rates && !s->recorder && !is_lost;
}

/* ---- capture ---- */

static void note_work(const iso_step *s, iso_slot_work *work)
{
    for (int l = 0; l < s->runtime->n_locals; l++)
        work[l] = (iso_slot_work){s->runtime->locals[l].flops,
                                  iso_fabric_traffic(s->runtime->fabric, s->runtime->locals[l].slot)};
}

/* What the slots have counted since then becomes the work of a launch, and is not counted yet. */
static void take_work(const iso_step *s, iso_slot_work *work)
{
    for (int l = 0; l < s->runtime->n_locals; l++) {
        iso_local_slot *slot = &s->runtime->locals[l];
        const iso_slot_work before = work[l];
        iso_traffic now = iso_fabric_traffic(s->runtime->fabric, slot->slot);
        work[l] = (iso_slot_work){slot->flops - before.flops,
                                  {now.pulled - before.traffic.pulled, now.crossed - before.traffic.crossed}};
        slot->flops = before.flops;
        iso_fabric_set_traffic(s->runtime->fabric, slot->slot, before.traffic);
    }
}

static void count_work(const iso_step *s, const iso_slot_work *work)
{
    for (int l = 0; l < s->runtime->n_locals; l++) {
        iso_local_slot *slot = &s->runtime->locals[l];
        iso_traffic traffic = iso_fabric_traffic(s->runtime->fabric, slot->slot);
        traffic.pulled += work[l].traffic.pulled;
        traffic.crossed += work[l].traffic.crossed;
        slot->flops += work[l].flops;
        iso_fabric_set_traffic(s->runtime->fabric, slot->slot, traffic);
    }
}

/* Queues the step while it is captured on the streams of the slots. */
static iso_status queue_captured(iso_step *s, iso_stream *const *streams, iso_step_graph *captured)
{
    const iso_device *device = s->runtime->device;
    iso_step_refusal refusal = {.lock = PTHREAD_MUTEX_INITIALIZER};
    iso_status status = device->begin_capture(streams, s->runtime->n_locals, &captured->graph);
    if (status != ISO_OK)
        return status;
    note_work(s, captured->work);
    s->refusal = &refusal;
    iso_thread_pool_run(s->runtime->pool, iso_step_queue, s);
    iso_results_queue(s->runtime, s->function->program, s->results);
    s->refusal = NULL;
    take_work(s, captured->work);
    iso_first_error_keep(&refusal.first, device->end_capture(captured->graph));
    return iso_first_error_get(&refusal.first);
}

static void drop(const iso_runtime *runtime, iso_step_graph *captured)
{
    if (captured->graph)
        runtime->device->destroy_graph(captured->graph);
    iso_free(captured);
}

static iso_status capture(iso_step *s, iso_step_graph **out)
{
    const int n_locals = s->runtime->n_locals;
    iso_stream **streams = iso_new((size_t)n_locals * sizeof *streams);
    iso_step_graph *captured = iso_new(sizeof *captured + (size_t)n_locals * sizeof *captured->work);
    iso_status status = streams && captured ? ISO_OK : iso_no_memory("a step of %d slots", n_locals);
    for (int l = 0; streams && l < n_locals; l++)
        streams[l] = s->runtime->locals[l].stream;
    if (status == ISO_OK)
        status = queue_captured(s, streams, captured);
    iso_free(streams);
    if (status == ISO_OK)
        *out = captured;
    else if (captured)
        drop(s->runtime, captured);
    return status;
}

/* Captures the step. NULL: it cannot be captured now. A plan of which a step is refused is run in parts from then
 * on. */
static iso_step_graph *make_graph(iso_step *s)
{
    iso_executable *executable = s->executable;
    iso_step_graph *captured;
    executable->in_parts = !s->runtime->device->captures() || !exchanges_can_be_captured(executable->plan);
    s->loads = !executable->in_parts && (iso_step_does(s) & ~executable->ran) != 0;
    if (executable->in_parts || s->loads)
        return NULL;
    iso_status status = capture(s, &captured);
    executable->in_parts = status != ISO_OK;
    if (status != ISO_OK) {
        iso_warn("a step of '%s' is several launches, not one: %s", s->function->name, iso_error_message());
        return NULL;
    }
    captured->does = iso_step_does(s);
    captured->buffer = s->buffer;
    captured->next = executable->graphs;
    executable->graphs = captured;
    return captured;
}

void iso_step_drop_graphs(const iso_runtime *runtime, iso_executable *executable)
{
    while (executable->graphs) {
        iso_step_graph *next = executable->graphs->next;
        drop(runtime, executable->graphs);
        executable->graphs = next;
    }
}

/* ---- launch ---- */

static void fetch_thread(void *arg, int thread)
{
    const iso_step *s = arg;
    for (int l = s->runtime->first_local[thread]; l < s->runtime->first_local[thread + 1]; l++)
        iso_step_fetch(s, l);
}

bool iso_step_launch(iso_step *s)
{
    const iso_runtime *runtime = s->runtime;
    if (!can_be_launched(s))
        return false;
    iso_step_graph *captured = graph_of(s);
    captured = captured ? captured : make_graph(s);
    if (!captured)
        return false;
    iso_thread_pool_run(runtime->pool, fetch_thread, s);
    iso_step_tell_failures(s);
    for (int l = 0; l < runtime->n_locals; l++)
        iso_step_tell_host_faults(s, l);
    runtime->device->launch_graph(captured->graph);
    for (int l = 0; l < runtime->n_locals; l++)
        iso_step_tell_failed_device(s, l);
    s->results->device_failed = iso_fabric_device_failed(runtime->fabric);
    count_work(s, captured->work);
    return true;
}
