/* Facts about a function's plans: figures, and the plan as data and as text. */
#include <inttypes.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/report/report.h"
#include "runtime/session/session.h"

/* Bytes that a slot pulls of the gradients of its part of the buckets, run by run, without the gaps between the
 * members of a bucket; and bytes that fused products read. Elements of the part: those that the exchanges state. */
static double gradient_bytes(const iso_executable *executable, int local, double *stated)
{
    const iso_plan *plan = executable->plan;
    const iso_slot_plan *sp = &executable->slot[local];
    double bytes = 0;
    for (int r = 0; r < sp->n_runs; r++) {
        const iso_weight_run *run = &sp->runs[r];
        const iso_bucket *bucket = &plan->buckets->buckets[run->bucket];
        if (run->product < 0)
            bytes += (double)run->count * (bucket->group - 1) * (double)iso_dtype_size(bucket->dtype);
        bytes += run->taken;
    }
    *stated = 0;
    for (int b = 0; b < plan->buckets->count; b++) {
        const iso_bucket *bucket = &plan->buckets->buckets[b];
        int64_t begin, part;
        iso_plan_stored_part(plan, b, sp->local->slot, &begin, &part);
        *stated += (double)part * (bucket->group - 1) * (double)iso_dtype_size(bucket->dtype);
    }
    return bytes;
}

/* Bytes that slots pull in one step, as planned. */
typedef struct step_bytes {
    double all;    /* of a step that changes weights */
    double update; /* of these, the ones that only such a step pulls: gradients at its end, and new weights */
} step_bytes;

static void add_slot(const iso_executable *executable, int local, int slot, step_bytes *bytes)
{
    const iso_plan *plan = executable->plan;
    double stated, update = gradient_bytes(executable, local, &stated);
    for (int i = 0; i < plan->n_instructions; i++)
        if (plan->instructions[i].kind == ISO_EXCHANGE && plan->instructions[i].payload == ISO_PAYLOAD_MOVES)
            bytes->all += (double)iso_exchange_planned(plan->instructions[i].exchange, slot).pulled;
    bytes->all += (double)iso_exchange_planned(plan->epilogue, slot).pulled - stated;
    for (int b = 0; b < plan->buckets->count; b++)
        if (iso_plan_overlaps(plan, b))
            bytes->all += (double)iso_exchange_planned(plan->bucket_exchange[b], slot).pulled;
    bytes->all += plan->faults ? (double)iso_exchange_planned(plan->faults, slot).pulled : 0;
    update += plan->weight_gather ? (double)iso_exchange_planned(plan->weight_gather, slot).pulled : 0;
    bytes->all += update;
    bytes->update += update;
}

static int64_t count_parameters(const iso_graph *graph)
{
    int64_t total = 0, count;
    for (int i = 0; i < graph->n_variables; i++)
        if (iso_variable_trainable(graph->variables[i]) &&
            iso_shape_count(&graph->variables[i]->shape, &count) == ISO_OK)
            total += count;
    return total;
}

static int64_t state_bytes(const iso_function *function)
{
    int64_t bytes = 0;
    for (int b = 0; b < function->buckets.count; b++) {
        const iso_bucket *bucket = &function->buckets.buckets[b];
        int64_t part = bucket->part < bucket->total ? bucket->part : bucket->total;
        bytes += part * (int64_t)iso_dtype_size(bucket->dtype) * function->updates->state[b].n_slots;
    }
    return bytes;
}

/* The parts of the rows of the first input that has rows. */
static int count_batch_parts(const iso_function *function, const iso_plan *plan)
{
    const iso_program *program = plan->program;
    int i = 0, parts = 1;
    while (i < program->n_inputs && (program->input_value[i] < 0 || !iso_input_has_batch(program->inputs[i])))
        i++;
    if (i == program->n_inputs)
        return 1;
    const iso_sharding *rows = &program->values[program->input_value[i]].layout.dim[0];
    for (int a = 0; a < rows->count; a++)
        parts *= function->runtime->mesh->size[rows->axis[a]];
    return parts;
}

iso_status iso_function_facts(iso_function *function, int64_t rows, iso_plan_facts *facts)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(function);
    ISO_NEED_AGREED(function->graph->ctx, facts);
    iso_runtime *runtime = function->runtime;
    iso_executable *executable;
    iso_status status = ISO_OK;
    ISO_TRY(iso_function_executable(function, rows, &executable));
    step_bytes bytes = {0}; /* whole numbers */
    for (int l = 0; l < runtime->n_locals; l++)
        add_slot(executable, l, runtime->locals[l].slot, &bytes);
    ISO_TRY(iso_all_reduce(runtime->ctx, ISO_REDUCE_SUM, ISO_F64, &bytes.all, 1));
    ISO_TRY(iso_all_reduce(runtime->ctx, ISO_REDUCE_SUM, ISO_F64, &bytes.update, 1));
    int exchanges = 1 + (executable->plan->weight_gather != NULL),
        host = iso_host_of_rank(runtime->ctx, iso_rank(runtime->ctx)), here = 0;
    for (int i = 0; i < executable->plan->n_instructions; i++)
        exchanges += executable->plan->instructions[i].kind == ISO_EXCHANGE &&
                     executable->plan->instructions[i].payload == ISO_PAYLOAD_MOVES;
    for (int b = 0; b < executable->plan->buckets->count; b++)
        exchanges += iso_plan_overlaps(executable->plan, b);
    size_t variables = 0;
    for (int d = 0; d < runtime->domains.count; d++)
        variables += runtime->domains.host[d] == host ? runtime->domain_bytes[d] : 0;
    for (int s = 0; s < runtime->mesh->n_slots; s++)
        here += iso_host_of_rank(runtime->ctx, runtime->mesh->rank_of_slot[s]) == host;
    *facts = (iso_plan_facts){
        .slots = runtime->mesh->n_slots,
        .batch_parts = count_batch_parts(function, executable->plan),
        .domains = runtime->domains.count,
        .parameters = count_parameters(function->graph),
        .variables_bytes = (int64_t)variables,
        .state_bytes = state_bytes(function),
        .arena_bytes = (int64_t)(executable->plan->arena_bytes + executable->plan->constant_bytes),
        .shared_bytes = (int64_t)executable->plan->shared_bytes,
        .host_bytes = (int64_t)(variables + executable->plan->shared_bytes * (size_t)here),
        .flops = executable->plan->flops,
        .exchanged_bytes = bytes.all,
        .accumulation_bytes = bytes.all - (iso_buckets_accumulate(&function->buckets) ? bytes.update : 0),
        .instructions = executable->plan->n_instructions,
        .exchanges = exchanges,
        .gpu_exchange = iso_fabric_describe_exchange(runtime->fabric)};
done:
    return status;
}

void iso_function_counted(const iso_function *function, double *flops, double *exchanged_bytes)
{
    ISO_DEFAULT_MODES();
    if (ISO_ANY_NULL(function, flops, exchanged_bytes))
        return;
    const iso_runtime *runtime = function->runtime;
    *flops = *exchanged_bytes = 0;
    for (int l = 0; l < runtime->n_locals; l++) {
        *flops += runtime->locals[l].flops;
        *exchanged_bytes += (double)iso_fabric_traffic(runtime->fabric, runtime->locals[l].slot).pulled +
                            runtime->locals[l].taken;
    }
}

iso_status iso_function_report(iso_function *function, int64_t rows, iso_plan_report **report)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(function);
    ISO_NEED_AGREED(function->graph->ctx, report);
    iso_executable *executable;
    iso_status status = ISO_OK;
    ISO_TRY(iso_function_executable(function, rows, &executable));
    ISO_TRY(iso_agree(function->runtime->ctx, iso_plan_report_create(executable->plan, report)));
done:
    return status;
}

iso_status iso_function_print(iso_function *function, int64_t rows, char **text)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(function);
    ISO_NEED_AGREED(function->graph->ctx, text);
    iso_plan_report *report;
    iso_text out = {0};
    iso_status status = iso_function_report(function, rows, &report);
    if (status != ISO_OK)
        return status;
    iso_plan_report_print(report, &out);
    iso_plan_report_destroy(report);
    if (out.failed) {
        iso_text_free(&out);
        return iso_no_memory("the text of a plan");
    }
    *text = out.data;
    return ISO_OK;
}

/* "'training' of a batch of 64 rows needs 74.5 MB on a GPU of 2 slots (weights 1.08 MB, ...), and 730 kB of the
 * host's memory"; "'training' of a batch of 64 rows needs 74.5 MB on a host of 2 slots (weights 1.08 MB, ...)" */
static void state_memory(const iso_function *function, const iso_plan *plan, const iso_plan_report *report,
                         iso_text *text)
{
    bool gpu = report->n_gpu_slots > 0;
    int slots = gpu ? report->n_gpu_slots : report->n_host_slots;
    const iso_report_memory *m = gpu ? &report->gpu : &report->host;
    const struct {
        const char *name;
        int64_t bytes;
    } uses[] = {{"weights", m->weights},
                {"gradients", m->gradients},
                {"optimizer", m->optimizer},
                {"activations", m->activations},
                {gpu ? "workspaces" : "buffers", m->buffers}};
    char bytes[32];
    iso_text_scaled((double)m->total, "B", bytes, sizeof bytes);
    iso_text_add(text, "'%s' of a batch of %" PRId64 " row%s needs %s on a %s of %d slot%s", function->name,
                 plan->rows, plan->rows == 1 ? "" : "s", bytes, gpu ? "GPU" : "host", slots,
                 slots == 1 ? "" : "s");
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++)
        iso_text_add(text, "%s%s %s", i ? ", " : " (", uses[i].name,
                     iso_text_scaled((double)uses[i].bytes, "B", bytes, sizeof bytes));
    iso_text_add(text, ")");
    if (gpu)
        iso_text_add(text, ", and %s of the host's memory",
                     iso_text_scaled((double)report->host.total, "B", bytes, sizeof bytes));
}

static int64_t held_by_optimizer(const iso_plan_report *report)
{
    return report->n_gpu_slots > 0 ? report->gpu.optimizer : report->host.optimizer;
}

/* ", besides 272 kB of the optimizer of 'training'": what another function holds on a GPU, or a host, of this
 * plan. All functions share the weights, and memory for activations and workspaces. */
static void state_held(const iso_function *function, const iso_function *other, iso_text *text)
{
    iso_plan *plan = NULL;
    iso_plan_report *report = NULL;
    char bytes[32];
    if (other == function || other->buckets.count == 0)
        return;
    if (iso_plan_create(other->program, &other->buckets, &other->runtime->site, 1, &plan) == ISO_OK &&
        iso_plan_report_create(plan, &report) == ISO_OK && held_by_optimizer(report) > 0)
        iso_text_add(text, ", besides %s of the optimizer of '%s'",
                     iso_text_scaled((double)held_by_optimizer(report), "B", bytes, sizeof bytes),
                     other->name);
    iso_plan_report_destroy(report);
    iso_plan_destroy(plan);
}

iso_status iso_function_explain_memory(const iso_function *function, const iso_plan *plan, iso_status status)
{
    const iso_runtime *runtime = function->runtime;
    iso_plan_report *report = NULL;
    iso_plan *smallest = NULL;
    if (status != ISO_NO_MEMORY)
        return status;
    iso_text needs = {0}, message = {0};
    iso_text_add(&message, "%s", iso_error_message()); /* which what follows may replace */
    if (message.failed)
        return status;
    if (!plan &&
        iso_plan_create(function->program, &function->buckets, &runtime->site, 1, &smallest) == ISO_OK)
        plan = smallest;
    if (plan && iso_plan_report_create(plan, &report) == ISO_OK) {
        state_memory(function, plan, report, &needs);
        for (const iso_function *other = runtime->functions; other; other = other->next)
            state_held(function, other, &needs);
        iso_text_add(&needs, ": ");
    }
    iso_error(status, "%s%s", iso_text_get(&needs), iso_text_get(&message));
    iso_plan_report_destroy(report);
    iso_plan_destroy(smallest);
    iso_text_free(&needs);
    iso_text_free(&message);
    return status;
}
