/* The trace of a step: it covers every instruction of every slot, its events nest, exchanges are there on all
 * sides, and clocks agree with what waited for what. Ranks: 1, 3, 8 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/backend/backend.h"
#include "runtime/base/json.h"
#include "runtime/isogrid.h"
#include "runtime/isogrid_extend.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

enum { MOST_SLOTS = 8, MOST_EVENTS = 4000 };

static iso_context *ctx;
static bool host_clock = true; /* else events are timed in the slots' streams */

/* ---- reading ---- */

typedef struct event {
    const char *name, *category;
    double begin, end; /* microseconds */
    int pid, tid, instruction, count;
} event;

typedef struct slot_trace {
    int count;
    event event[MOST_EVENTS];
} slot_trace;

static slot_trace traces[MOST_SLOTS];

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_number(value), "an event lacks %s", key);
    return json_number_value(value);
}

static event read_event(const json_t *object)
{
    const json_t *instruction = json_object_get(json_object_get(object, "args"), "instruction");
    const json_t *count = json_object_get(json_object_get(object, "args"), "count");
    event e = {.name = json_string_value(json_object_get(object, "name")),
               .category = json_string_value(json_object_get(object, "cat")),
               .begin = number_of(object, "ts"),
               .pid = (int)number_of(object, "pid"),
               .tid = (int)number_of(object, "tid"),
               .instruction = instruction ? (int)json_integer_value(instruction) : -1,
               .count = count ? (int)json_integer_value(count) : 1};
    e.end = e.begin + number_of(object, "dur");
    return e;
}

/* Events by slot, in order of their begin, those that hold others before them. */
static int compare_events(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

static void read_traces(const json_t *root, const iso_mesh *mesh)
{
    size_t i;
    const json_t *object;
    int slots = iso_mesh_slots(mesh);
    memset(traces, 0, sizeof traces);
    json_array_foreach(json_object_get(root, "traceEvents"), i, object)
    {
        if (strcmp(json_string_value(json_object_get(object, "ph")), "X") != 0)
            continue;
        event e = read_event(object);
        ck_assert(e.tid >= 0 && e.tid < slots);
        ck_assert_int_lt(traces[e.tid].count, MOST_EVENTS);
        traces[e.tid].event[traces[e.tid].count++] = e;
    }
    for (int s = 0; s < slots; s++)
        qsort(traces[s].event, (size_t)traces[s].count, sizeof(event), compare_events);
}

/* ---- what must hold ---- */

/* Times are rounded to a nanosecond. */
static const double rounding = 0.0021;

static void check_nesting(const slot_trace *trace, const char *what)
{
    double open[64];
    int depth = 0;
    for (int i = 0; i < trace->count; i++) {
        const event *e = &trace->event[i];
        while (depth && e->begin >= open[depth - 1] - rounding)
            depth--;
        ck_assert_msg(!depth || e->end <= open[depth - 1] + rounding, "%s: '%s' ends behind what holds it",
                      what, e->name);
        ck_assert_msg(i == 0 || depth > 0, "%s: '%s' is outside of the step", what, e->name);
        ck_assert_int_lt(depth, 64);
        open[depth++] = e->end;
    }
}

static bool is_wait(const event *e)
{
    return strcmp(e->category, "wait") == 0;
}

static bool is_instruction(const event *e)
{
    return e->instruction >= 0 && (!strcmp(e->category, "op") || !strcmp(e->category, "input") ||
                                   !strcmp(e->category, "collective"));
}

/* What an exchange holds: two waits, and the taking of parts. */
static void check_exchange(const slot_trace *trace, const event *exchange, const char *what)
{
    int waits = 0, moves = 0;
    for (int i = 0; i < trace->count; i++) {
        const event *e = &trace->event[i];
        bool inside = e->instruction == exchange->instruction && e->begin >= exchange->begin - rounding &&
                      e->end <= exchange->end + rounding;
        waits += inside && is_wait(e);
        moves += inside && strcmp(e->category, "move") == 0;
    }
    ck_assert_msg(waits >= 2 && moves >= 1, "%s: '%s' holds %d waits and takes parts %d times", what,
                  exchange->name, waits, moves);
}

static void check_slot(int slot, const iso_plan_facts *facts, const char *what)
{
    const slot_trace *trace = &traces[slot];
    int *seen = calloc((size_t)facts->instructions + 1, sizeof *seen), exchanges = 0;
    double waits = 0, inside = 0;
    ck_assert_msg(trace->count > 0, "%s: slot %d has no events", what, slot);
    ck_assert_str_eq(trace->event[0].name, "step");
    double whole = trace->event[0].end - trace->event[0].begin;
    check_nesting(trace, what);
    for (int i = 0; i < trace->count; i++) {
        const event *e = &trace->event[i];
        ck_assert_int_eq(e->pid, trace->event[0].pid);
        ck_assert(e->begin >= -rounding && e->end >= e->begin);
        waits += is_wait(e) ? e->end - e->begin : 0;
        if (!strcmp(e->category, "collective") && strncmp(e->name, "begin ", 6) != 0) {
            exchanges++;
            check_exchange(trace, e, what);
        }
        if (!is_instruction(e))
            continue;
        ck_assert_int_le(e->instruction + e->count, facts->instructions);
        for (int k = 0; k < e->count; k++)
            seen[e->instruction + k]++;
        inside += e->end - e->begin;
    }
    for (int i = 0; i < facts->instructions; i++)
        ck_assert_msg(seen[i] == 1, "%s: slot %d ran instruction %d %d times", what, slot, i, seen[i]);
    ck_assert_int_eq(exchanges, facts->exchanges);
    ck_assert_msg(waits <= whole && inside <= whole + facts->instructions * rounding,
                  "%s: slot %d waited %g us and worked %g us in a step of %g us", what, slot, waits, inside,
                  whole);
    free(seen);
}

static const event *find(int slot, const char *name, const event *within)
{
    for (int i = 0; i < traces[slot].count; i++) {
        const event *e = &traces[slot].event[i];
        if (strcmp(e->name, name) == 0 &&
            (!within || (e->begin >= within->begin - rounding && e->end <= within->end + rounding)))
            return e;
    }
    ck_abort_msg("slot %d has no '%s'", slot, name);
    return NULL;
}

/* No slot of a host goes on from the last exchange before all have come to it, nor leaves it before all have
 * taken their parts. */
static void check_meeting(int slots)
{
    for (int a = 0; a < slots; a++)
        for (int b = 0; b < slots; b++) {
            const event *mine = find(a, "end of the step", NULL), *theirs = find(b, "end of the step", NULL);
            ck_assert(find(a, "wait for others", mine)->end >= find(b, "wait for others", theirs)->begin);
            ck_assert(find(a, "wait until pulled", mine)->end >= find(b, "pull", theirs)->end);
            ck_assert(find(a, "update", mine)->begin >= find(a, "wait for others", mine)->end - rounding);
        }
}

static void check_titles(const json_t *root, int ranks, int slots)
{
    size_t i;
    const json_t *object;
    int processes = 0, threads = 0;
    json_array_foreach(json_object_get(root, "traceEvents"), i, object)
    {
        const char *name = json_string_value(json_object_get(object, "name"));
        processes += strcmp(name, "process_name") == 0;
        threads += strcmp(name, "thread_name") == 0;
    }
    ck_assert_int_eq(processes, ranks);
    ck_assert_int_eq(threads, slots);
    ck_assert_int_eq((int)number_of(json_object_get(root, "otherData"), "slots"), slots);
}

/* ---- trials ---- */

static void check_text(const iso_text *text, const trial *t, const iso_plan_facts *facts, int step)
{
    json_t *root = NULL;
    int slots = iso_mesh_slots(t->mesh);
    if (!iso_is_chief(ctx)) {
        ck_assert_uint_eq(text->length, 0);
        return;
    }
    trial_ok(t, iso_json_parse("trace", iso_text_get(text), text->length, &root));
    ck_assert_int_eq((int)number_of(json_object_get(root, "otherData"), "step"), step);
    read_traces(root, t->mesh);
    for (int s = 0; s < slots; s++)
        check_slot(s, facts, t->what);
    if (iso_hosts(ctx) == 1 && host_clock)
        check_meeting(slots);
    check_titles(root, iso_ranks(ctx), slots);
    json_decref(root);
}

static void check_detail(iso_trace_detail detail, const char *kind, const char *mesh, const char *key,
                         const char *layout)
{
    trial t = {.zero = 0};
    iso_plan_facts facts;
    iso_optimizer optimizer = iso_adam(0.01);
    trial_begin(&t, ctx, net_kind_find(kind), ISO_F32, 20);
    trial_mesh(&t, mesh, NULL);
    if (key)
        trial_layout(&t, key, layout);
    trial_make(&t, key ? "data" : NULL, &optimizer);
    iso_text text = {0};
    check_refused(iso_function_trace(t.train, &text), "no step of function 'training'");
    trial_step(&t, 0);
    for (int again = 0; again < 2; again++) {
        trial_ok(&t, iso_function_record(t.train, detail));
        trial_step(&t, 1);
        trial_step(&t, 2); /* is not recorded */
        trial_ok(&t, iso_function_facts(t.train, t.rows, &facts));
        text.length = 0;
        trial_ok(&t, iso_function_trace(t.train, &text));
        check_text(&text, &t, &facts, 1 + 2 * again);
    }
    iso_text_free(&text);
    trial_end(&t);
}

static void check_trace(const char *kind, const char *mesh, const char *key, const char *layout)
{
    check_detail(ISO_TRACE_INSTRUCTIONS, kind, mesh, key, layout);
    check_detail(ISO_TRACE_LAUNCHES, kind, mesh, key, layout);
}

START_TEST(a_step_of_one_slot)
{
    if (iso_ranks(ctx) == 1)
        check_trace("mlp", "data=1", NULL, NULL);
}
END_TEST

START_TEST(a_step_of_data_parallel_slots)
{
    check_trace("mlp", "data=8", NULL, NULL);
}
END_TEST

START_TEST(a_step_of_a_sharded_model)
{
    check_trace("mlp", "data=2,model=4", ".*kernel", "-, model");
    check_trace("mlp", "data=4,model=2", ".*kernel", "data, model");
}
END_TEST

/* Results are those of a run that records nothing. */
START_TEST(recording_changes_no_number)
{
    double *weights[3];
    int64_t count = 0;
    for (int way = 0; way < 3; way++) {
        trial t = {.zero = 0};
        iso_optimizer optimizer = iso_adam(0.01);
        trial_begin(&t, ctx, net_kind_find("mlp"), ISO_F32, 20);
        trial_mesh(&t, "data=8", NULL);
        trial_make(&t, NULL, &optimizer);
        for (int step = 0; step < 3; step++) {
            if (way)
                trial_ok(
                    &t, iso_function_record(t.train, way == 1 ? ISO_TRACE_INSTRUCTIONS : ISO_TRACE_LAUNCHES));
            trial_step(&t, step);
        }
        weights[way] = trial_weights(&t, &count);
        trial_end(&t);
    }
    for (int way = 1; way < 3; way++)
        check_near("weights", weights[way], weights[0], count, 0);
    for (int way = 0; way < 3; way++)
        free(weights[way]);
}
END_TEST

int main(void)
{
    int failed = 1;
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status == ISO_OK)
        host_clock = !iso_context_backend(ctx)->device(0)->create_timer;
    if (status == ISO_OK)
        failed = RUN_TESTS("trace", 0, a_step_of_one_slot, a_step_of_data_parallel_slots,
                           a_step_of_a_sharded_model, recording_changes_no_number);
    return iso_finish(ctx, status) || failed;
}
