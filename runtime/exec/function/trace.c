/* A recorded step as a Chrome trace: an object with "traceEvents". These are complete events ("ph": "X"); the
 * process is the rank, the thread is the slot, and times are in microseconds since the barrier before the
 * step. Ranks of one host have the same clock; the clocks of hosts are aligned at the barrier. */
#include <inttypes.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/build.h"
#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/exec/function/recorder_impl.h"
#include "runtime/report/report.h"
#include "runtime/session/session.h"
#include "runtime/spmd/collective.h"

enum { CHUNK = 1 << 16 };

typedef struct tracer {
    const iso_function *function;
    const iso_runtime *runtime;
    const iso_recorder *recorder;
    const iso_plan *plan;
    const iso_plan_report *report;
    int64_t origin; /* of this rank's host, in nanoseconds */
    iso_text *text; /* events, each preceded by a comma */
} tracer;

/* ---- names ---- */

static const char *move_name(const tracer *t, const iso_move *move)
{
    if (move->kind == ISO_MOVE_SCATTER)
        return move->gathered ? "reduce-scatter" : "all-reduce"; /* or its first half */
    if (move->kind == ISO_MOVE_GATHER)
        return "all-gather";
    iso_shape shape = iso_plan_shape(t->plan, move->from);
    iso_collective what = iso_collective_of(t->runtime->mesh, &t->plan->program->values[move->from].layout,
                                            &t->plan->program->values[move->to].layout, &shape, false);
    return iso_collective_name(what.kind);
}

/* "all-gather dense/kernel" */
static void trace_add_move(const tracer *t, const iso_move *move, iso_text *text)
{
    iso_text_add(text, "%s %s", move_name(t, move),
                 iso_tensor_name(t->plan->program->values[move->from].tensor));
}

/* "matmul dense", "matmul dense, gradient", "equal": the op and the layer to which it belongs. */
static void name_kernel(const iso_report_op *op, iso_text *name)
{
    iso_text_add(name, "%s", op->origin.op);
    if (op->origin.layer[0])
        iso_text_add(name, " %s", op->origin.layer);
    if (op->origin.backward)
        iso_text_add(name, op->origin.again ? ", again" : ", gradient");
}

/* "reduce-scatter gradient of dense_1/kernel and 3 more" */
static void name_bucket(const tracer *t, const iso_instruction *instruction, iso_text *name)
{
    const iso_bucket *bucket = &t->plan->buckets->buckets[instruction->bucket];
    bool gradients = instruction->payload == ISO_PAYLOAD_GRADIENTS;
    iso_text_add(name, "%s", gradients ? "reduce-scatter gradient of " : "all-gather new ");
    iso_bucket_add_name(bucket, name);
}

/* The name of an instruction: its op and tensor, or its first collective. */
static void name_instruction(const tracer *t, const iso_event *event, iso_text *name)
{
    const iso_instruction *instruction = &t->plan->instructions[event->instruction];
    const iso_report_op *op = &t->report->ops[event->instruction];
    if (event->kind == ISO_EVENT_BEGIN)
        iso_text_add(name, "begin ");
    if (instruction->payload != ISO_PAYLOAD_MOVES) {
        name_bucket(t, instruction, name);
        return;
    }
    if (event->kind != ISO_EVENT_OP) {
        trace_add_move(t, &t->plan->moves[instruction->first_move], name);
        if (instruction->n_moves > 1)
            iso_text_add(name, " and %d more", instruction->n_moves - 1);
        return;
    }
    if (instruction->kind == ISO_READ || instruction->kind == ISO_COPY)
        iso_text_add(name, "%s %s", instruction->kind == ISO_READ ? "read" : "copy",
                     op->tensor ? op->tensor : "");
    else
        name_kernel(op, name);
    if (event->count > 1)
        iso_text_add(name, " and %d more", event->count - 1);
}

typedef struct event_words {
    const char *name, *category; /* name NULL: the instruction's own */
} event_words;

static event_words words_of(const tracer *t, const iso_event *event)
{
    static const event_words words[] = {
        [ISO_EVENT_STEP] = {"step", "step"},
        [ISO_EVENT_OP] = {NULL, "op"},
        [ISO_EVENT_BEGIN] = {NULL, "collective"},
        [ISO_EVENT_EXCHANGE] = {NULL, "collective"},
        [ISO_EVENT_WAIT] = {"wait for others", "wait"},
        [ISO_EVENT_PULL] = {"pull", "move"},
        [ISO_EVENT_RELEASE] = {"wait until pulled", "wait"},
        [ISO_EVENT_PREPARE] = {"gradients into buckets", "update"},
        [ISO_EVENT_EPILOGUE] = {"end of the step", "collective"},
        [ISO_EVENT_UPDATE] = {"update", "update"},
        [ISO_EVENT_WEIGHT_GATHER] = {"new weights to other hosts", "collective"},
        [ISO_EVENT_FLIGHT] = {NULL, "message"},
    };
    event_words out = words[event->kind];
    if (event->kind == ISO_EVENT_FLIGHT && event->instruction < 0)
        out.name = "end of the step";
    if (event->kind == ISO_EVENT_OP && t->plan->instructions[event->instruction].kind == ISO_READ)
        out.category = "input";
    return out;
}

/* ---- events ---- */

static void trace_add_item(iso_text *list, const char *kind, const char *tensor)
{
    iso_text both = {0};
    iso_text_add(&both, "%s %s", kind, tensor);
    iso_json_put_text(list, NULL, iso_text_get(&both));
    list->failed |= both.failed;
    iso_text_free(&both);
}

static void trace_add_moves(const tracer *t, int first, int count)
{
    iso_json_put(t->text, "moves", "[");
    for (int i = first; i < first + count; i++)
        trace_add_item(t->text, move_name(t, &t->plan->moves[i]),
                       iso_tensor_name(t->plan->program->values[t->plan->moves[i].from].tensor));
    iso_text_add(t->text, "]");
}

/* The exchanges at the end of a step: scalars, gradients, new weights. */
static void add_last_moves(const tracer *t)
{
    iso_json_put(t->text, "moves", "[");
    for (int i = 0; i < t->report->n_collectives; i++)
        if (t->report->collectives[i].begin == t->report->n_ops - 1)
            trace_add_item(t->text, t->report->collectives[i].kind, t->report->collectives[i].tensor);
    iso_text_add(t->text, "]");
}

static void add_layer(const tracer *t, const iso_report_op *op)
{
    if (op->origin.layer[0])
        iso_json_put_text(t->text, "layer", op->origin.layer);
    if (op->kernel)
        iso_json_put_text(t->text, "kernel", op->kernel);
}

static void add_arguments(const tracer *t, const iso_event *event)
{
    iso_json_put(t->text, "args", "{");
    if (event->kind == ISO_EVENT_STEP) {
        iso_json_put(t->text, "step", "%" PRIu64, t->recorder->step);
        iso_json_put(t->text, "rows", "%" PRId64, t->recorder->rows);
    } else if (event->kind == ISO_EVENT_EPILOGUE) {
        add_last_moves(t);
    } else if (event->instruction >= 0) {
        const iso_instruction *instruction = &t->plan->instructions[event->instruction];
        iso_json_put(t->text, "instruction", "%d", event->instruction);
        if (event->count > 1)
            iso_json_put(t->text, "count", "%d", event->count);
        else if (event->kind == ISO_EVENT_OP)
            add_layer(t, &t->report->ops[event->instruction]);
        if (event->kind == ISO_EVENT_BEGIN)
            iso_json_put(t->text, "ends_with", "%d", instruction->end);
        if (event->kind == ISO_EVENT_EXCHANGE)
            trace_add_moves(t, instruction->first_move, instruction->n_moves);
    }
    iso_text_add(t->text, "}");
}

/* Begins an event with what all of them have: name, phase ("ph"), rank and slot. */
static void begin_event(iso_text *text, const char *name, const char *phase, int rank, int slot)
{
    iso_json_put(text, NULL, "\n{");
    iso_json_put_text(text, "name", name);
    iso_json_put_text(text, "ph", phase);
    iso_json_put(text, "pid", "%d", rank);
    iso_json_put(text, "tid", "%d", slot);
}

/* Messages of several exchanges are on their way at once, so they are asynchronous events: begin ("b") and end
 * ("e") of one id. */
static void add_flight(const tracer *t, int slot, const iso_event *event, const char *name,
                       const char *category)
{
    int rank = iso_rank(t->runtime->ctx);
    for (int end = 0; end < 2; end++) {
        begin_event(t->text, name, end ? "e" : "b", rank, slot);
        iso_json_put_text(t->text, "cat", category);
        iso_json_put(t->text, "id", "\"%d-%d\"", rank, (int)(event - t->recorder->slot[0].events));
        iso_json_put(t->text, "ts", "%.3f", 1e-3 * (double)((end ? event->end : event->begin) - t->origin));
        iso_json_put(t->text, "args", "{");
        iso_json_put(t->text, "instruction", "%d}}", event->instruction);
    }
}

static void trace_add_event(const tracer *t, int slot, const iso_event *event)
{
    event_words words = words_of(t, event);
    iso_text name = {0};
    if (words.name)
        iso_text_add(&name, "%s", words.name);
    else
        name_instruction(t, event, &name);
    if (event->kind == ISO_EVENT_FLIGHT) {
        add_flight(t, slot, event, iso_text_get(&name), words.category);
    } else {
        begin_event(t->text, iso_text_get(&name), "X", iso_rank(t->runtime->ctx), slot);
        iso_json_put_text(t->text, "cat", words.category);
        iso_json_put(t->text, "ts", "%.3f", 1e-3 * (double)(event->begin - t->origin));
        iso_json_put(t->text, "dur", "%.3f", 1e-3 * (double)(event->end - event->begin));
        add_arguments(t, event);
        iso_text_add(t->text, "}");
    }
    t->text->failed |= name.failed;
    iso_text_free(&name);
}

/* The name of a rank (event_name "process_name") or a slot ("thread_name"), and its position among the
 * others. */
static void add_title(const tracer *t, const char *event_name, const char *event_order, int slot,
                      const char *name, int order)
{
    int rank = iso_rank(t->runtime->ctx);
    begin_event(t->text, event_name, "M", rank, slot);
    iso_json_put(t->text, "args", "{");
    iso_json_put_text(t->text, "name", name);
    iso_text_add(t->text, "}}");
    begin_event(t->text, event_order, "M", rank, slot);
    iso_json_put(t->text, "args", "{");
    iso_json_put(t->text, "sort_index", "%d}}", order);
}

static iso_status describe_rank(tracer *t)
{
    const iso_runtime *runtime = t->runtime;
    char name[80];
    int rank = iso_rank(runtime->ctx);
    snprintf(name, sizeof name, "host %d, rank %d", iso_host_of_rank(runtime->ctx, rank), rank);
    add_title(t, "process_name", "process_sort_index", 0, name, rank);
    for (int l = 0; l < t->recorder->n_locals; l++) {
        int slot = runtime->locals[l].slot;
        snprintf(name, sizeof name, "slot %d", slot);
        add_title(t, "thread_name", "thread_sort_index", slot, name, slot);
        for (int i = 0; i < t->recorder->slot[l].count; i++)
            trace_add_event(t, slot, &t->recorder->slot[l].events[i]);
    }
    return t->text->failed ? iso_no_memory("the trace of a step") : ISO_OK;
}

/* ---- all ranks ---- */

/* The end of the barrier on this host: the earliest time at which one of its ranks went on. */
static iso_status find_origin(iso_context *ctx, const iso_recorder *recorder, int64_t *origin)
{
    int ranks = iso_ranks(ctx), host = iso_host_of_rank(ctx, iso_rank(ctx));
    int64_t *all = iso_new((size_t)ranks * sizeof *all);
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(ctx, all ? ISO_OK : iso_no_memory("the clocks of %d ranks", ranks)));
    ISO_TRY(iso_gather_all(ctx, &recorder->origin, sizeof *all, all));
    *origin = recorder->origin;
    for (int r = 0; r < ranks; r++)
        if (iso_host_of_rank(ctx, r) == host && all[r] < *origin)
            *origin = all[r];
done:
    iso_free(all);
    return status;
}

/* Sends the texts of all ranks to the chief, a part of each at a time. room: [ranks * CHUNK]. */
static iso_status gather_parts(iso_context *ctx, const iso_text *mine, size_t longest, char *room,
                               const size_t *length, iso_text *text)
{
    iso_status status = ISO_OK;
    char part[CHUNK];
    for (size_t at = 0; at < longest; at += CHUNK) {
        size_t left = mine->length > at ? mine->length - at : 0, n = left < CHUNK ? left : CHUNK;
        memset(part, 0, sizeof part);
        if (n)
            memcpy(part, mine->data + at, n);
        ISO_TRY(iso_gather_all(ctx, part, CHUNK, room));
        for (int r = 0; iso_is_chief(ctx) && r < iso_ranks(ctx); r++)
            if (length[r] > at)
                iso_text_add(&text[r], "%.*s", (int)(length[r] - at < CHUNK ? length[r] - at : CHUNK),
                             room + (size_t)r * CHUNK);
    }
done:
    return status;
}

static iso_status trace_gather(iso_context *ctx, const iso_text *mine, iso_text *json)
{
    size_t ranks = (size_t)iso_ranks(ctx), longest = 0;
    size_t *length = iso_new(ranks * sizeof *length);
    iso_text *text = iso_new(ranks * sizeof *text);
    char *room = iso_new(ranks * CHUNK);
    iso_status status = length && text && room ? ISO_OK : iso_no_memory("the traces of %zu ranks", ranks);
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_gather_all(ctx, &mine->length, sizeof *length, length));
    for (size_t r = 0; r < ranks; r++)
        longest = length[r] > longest ? length[r] : longest;
    ISO_TRY(gather_parts(ctx, mine, longest, room, length, text));
    for (size_t r = 0; r < ranks; r++) {
        iso_json_put(json, NULL, "%s", iso_text_get(&text[r]));
        json->failed |= text[r].failed;
    }
done:
    for (size_t r = 0; text && r < ranks; r++)
        iso_text_free(&text[r]);
    iso_free(text);
    iso_free(length);
    iso_free(room);
    return status;
}

/* ---- the whole ---- */

static const iso_plan *plan_of(const iso_function *function)
{
    for (const iso_executable *executable = function->plans; executable; executable = executable->next)
        if (executable->plan->rows == function->recorder->rows)
            return executable->plan;
    return NULL;
}

static iso_status trace_describe(const iso_function *function, int64_t origin, iso_text *mine)
{
    iso_plan_report *report = NULL;
    iso_status status = ISO_OK;
    ISO_TRY(iso_plan_report_create(plan_of(function), &report));
    tracer t = {.function = function,
                .runtime = function->runtime,
                .recorder = function->recorder,
                .plan = plan_of(function),
                .report = report,
                .origin = origin,
                .text = mine};
    ISO_TRY(describe_rank(&t));
done:
    iso_plan_report_destroy(report);
    return status;
}

static void begin_json(const iso_function *function, iso_text *json)
{
    iso_text_add(json, "{");
    iso_json_put_text(json, "displayTimeUnit", "ms");
    iso_json_put(json, "otherData", "{");
    iso_json_put_text(json, "program", "isogrid " ISO_VERSION);
    iso_json_put_text(json, "function", function->name);
    iso_json_put(json, "step", "%" PRIu64, function->recorder->step);
    iso_json_put(json, "rows", "%" PRId64, function->recorder->rows);
    iso_json_put(json, "slots", "%d", function->runtime->mesh->n_slots);
    iso_json_put(json, "ranks", "%d}", iso_ranks(function->runtime->ctx));
    iso_json_put(json, "traceEvents", "[");
    begin_event(json, "barrier", "i", 0, 0);
    iso_json_put(json, "ts", "0");
    iso_json_put_text(json, "s", "g");
    iso_text_add(json, "}");
}

iso_status iso_function_trace(iso_function *function, iso_text *json)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(function);
    iso_context *ctx = function->graph->ctx;
    ISO_NEED_AGREED(ctx, json);
    iso_text mine = {0}, whole = {0};
    int64_t origin = 0;
    iso_status status = ISO_OK;
    if (!function->recorder || !function->recorder->recorded || !plan_of(function))
        status = iso_error(ISO_INVALID, "no step of function '%s' has been recorded", function->name);
    if (status == ISO_OK)
        status = iso_recorder_end(function->recorder, function->runtime);
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(find_origin(ctx, function->recorder, &origin));
    ISO_TRY(iso_agree(ctx, trace_describe(function, origin, &mine)));
    begin_json(function, &whole);
    ISO_TRY(trace_gather(ctx, &mine, &whole));
    iso_text_add(&whole, "\n]}\n");
    if (iso_is_chief(ctx))
        iso_text_add(json, "%s", iso_text_get(&whole));
    status = whole.failed || json->failed ? iso_no_memory("the trace of a step") : ISO_OK;
    status = iso_agree(ctx, status);
done:
    iso_text_free(&mine);
    iso_text_free(&whole);
    return status;
}
