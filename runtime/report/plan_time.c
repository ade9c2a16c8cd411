/* The time of a step: the works of a slot, the exchanges between them, and a simulation of both. */
#include "runtime/report/plan_time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/report/plan_report_impl.h"
#include "runtime/report/plan_work.h"

/* ---- the simulation ---- */

typedef struct clock {
    double now, link; /* seconds: of the slots; when the link is free */
    double *arrives;  /* [transfers] */
    const iso_network *network;
} clock;

static void start(clock *c, const iso_time_event *e, iso_report_time *t)
{
    c->arrives[e->transfer] = c->now;
    if (e->messages == 0)
        return;
    double sending = e->messages * c->network->message, travel = e->bytes / c->network->bandwidth;
    c->now += sending;
    t->waits += sending;
    c->link = (c->link > c->now ? c->link : c->now) + travel;
    c->arrives[e->transfer] = c->link + c->network->latency;
    t->travels += travel + c->network->latency;
}

static void simulate_event(clock *c, const iso_time_event *e, iso_report_time *t)
{
    double wait;
    switch (e->kind) {
    case ISO_TIME_START:
        start(c, e, t);
        return;
    case ISO_TIME_WAIT:
        wait = c->arrives[e->transfer] - c->now;
        wait = wait > 0 ? wait : 0;
        c->now += wait;
        t->waits += wait;
        return;
    case ISO_TIME_UPDATE:
        t->update += e->seconds;
        break;
    case ISO_TIME_HERE:
        t->here += e->seconds;
        break;
    case ISO_TIME_WORK:
        t->computation += e->seconds;
    }
    c->now += e->seconds;
}

iso_status iso_time_simulate(const iso_time_event *events, int count, int transfers,
                             const iso_network *network, iso_report_time *time)
{
    clock c = {.network = network, .arrives = iso_new(((size_t)transfers + 1) * sizeof *c.arrives)};
    if (!c.arrives)
        return iso_no_memory("the time of %d transfers", transfers);
    for (int step = 0; step < 2; step++) {
        double begin = c.now;
        time->computation = time->update = time->here = time->waits = time->travels = 0;
        for (int i = 0; i < count; i++)
            simulate_event(&c, &events[i], time);
        time->step = c.now - begin;
    }
    time->hidden = time->travels > time->waits ? time->travels - time->waits : 0;
    iso_free(c.arrives);
    return ISO_OK;
}

/* ---- works that were not measured ---- */

/* The seconds of a work by the machine's rates alone. */
static double by_rates(const iso_calibration *c, const iso_calibrated *work)
{
    static const double call = 2e-7; /* of a kernel that does nothing */
    double bytes = work->busy > 1 ? c->rates.bytes_all / work->busy : c->rates.bytes_one;
    return call + work->flops / c->rates.flops + work->bytes / bytes;
}

static const char SEPARATORS[] = " ,[]@=";

/* The words and extents in which two keys differ. */
static int differences(const char *a, const char *b)
{
    int count = 0;
    while (*a || *b) {
        size_t n = strcspn(a, SEPARATORS), m = strcspn(b, SEPARATORS);
        count += n != m || strncmp(a, b, n) != 0;
        a += n + (a[n] != 0);
        b += m + (b[m] != 0);
    }
    return count;
}

static double log_ratio(double a, double b)
{
    return fabs(log((a + 1) / (b + 1)));
}

/* Extents that differ count more than sizes: with other rows and the same weights, a kernel is much the same. */
static const double FAR = 10;

double iso_time_of_work(const iso_calibration *c, const iso_calibrated *work, bool *measured)
{
    const iso_calibrated *found = iso_calibration_find(c, work->key);
    double nearest = INFINITY;
    *measured = found != NULL;
    if (found)
        return found->seconds;
    for (int i = 0; i < c->n_works; i++) {
        const iso_calibrated *other = &c->work[i];
        if (strcmp(other->op, work->op) != 0)
            continue;
        double distance = log_ratio(other->flops, work->flops) + log_ratio(other->bytes, work->bytes) +
                          FAR * differences(other->key, work->key);
        if (distance >= nearest)
            continue;
        nearest = distance;
        found = other;
    }
    return found ? found->seconds * by_rates(c, work) / by_rates(c, found) : by_rates(c, work);
}

/* ---- the events of a plan ---- */

typedef struct timer {
    const iso_plan *plan;
    const iso_plan_report *report;
    const iso_time_model *model;
    iso_report_time *time;
    int busy, rounds; /* threads of the host; slots that a thread runs, one after the other */
    int n_events;
    iso_time_event *events;
    int n_kinds;
    iso_report_work *kinds; /* works of one key */
    iso_table by_key;
    double measured, all; /* seconds */
} timer;

static iso_status add_event(timer *t, iso_time_event event)
{
    return iso_list_add(t->events, t->n_events, event, "the time of a plan");
}

static iso_status add_here(timer *t, double taken, int barriers)
{
    const iso_machine_rates *rates = &t->model->calibration->rates;
    double seconds = taken / rates->pull * t->rounds + (t->busy > 1 ? barriers * rates->barrier : 0);
    return seconds > 0 ? add_event(t, (iso_time_event){.kind = ISO_TIME_HERE, .seconds = seconds}) : ISO_OK;
}

static iso_status note_kind(timer *t, const iso_plan_work *work, double seconds, bool measured)
{
    uint64_t hash = iso_hash_text(0, work->key);
    int number = iso_table_find(&t->by_key, hash, NULL, NULL);
    iso_status status = ISO_OK;
    if (number < 0) {
        iso_report_work fresh = {.op = work->op, .measured = measured};
        if (work->kind == ISO_WORK_KERNEL)
            fresh.origin = t->report->ops[work->index].origin;
        if (work->kind == ISO_WORK_PRODUCT)
            fresh.origin = t->report->ops[t->plan->n_instructions + work->index].origin;
        number = t->n_kinds;
        ISO_TRY(iso_list_add(t->kinds, t->n_kinds, fresh, "the time of a plan"));
        ISO_TRY(iso_table_add(&t->by_key, hash, number, "the time of a plan"));
    }
    t->kinds[number].count++;
    t->kinds[number].seconds += seconds;
done:
    return status;
}

static iso_status time_work(timer *t, const iso_plan_work *work)
{
    bool measured, update = work->kind == ISO_WORK_UPDATE || work->kind == ISO_WORK_PRODUCT;
    const iso_calibrated like = {.key = work->key,
                                 .op = (char *)work->op,
                                 .busy = t->busy,
                                 .flops = work->flops,
                                 .bytes = work->bytes};
    double seconds = t->rounds * iso_time_of_work(t->model->calibration, &like, &measured);
    iso_status status = note_kind(t, work, seconds, measured);
    t->all += seconds;
    t->measured += measured ? seconds : 0;
    return status == ISO_OK ? add_event(t, (iso_time_event){.kind = update ? ISO_TIME_UPDATE : ISO_TIME_WORK,
                                                            .seconds = seconds})
                            : status;
}

/* Transfers have the number of the instruction that ends them, or begins those of gradients. */
static iso_status start_transfer(timer *t, int number, int at)
{
    const iso_report_op *op = &t->report->ops[at];
    return add_event(
        t, (iso_time_event){
               .kind = ISO_TIME_START, .transfer = number, .bytes = op->arrives, .messages = op->senders});
}

static iso_status await_transfer(timer *t, int number)
{
    return add_event(t, (iso_time_event){.kind = ISO_TIME_WAIT, .transfer = number});
}

static iso_status time_begin(timer *t, int i)
{
    const iso_instruction *instruction = &t->plan->instructions[i];
    int number = instruction->cargo == ISO_CARGO_GRADIENTS ? i : instruction->end;
    iso_status status;
    ISO_TRY(add_here(t, 0, 1));
    ISO_TRY(start_transfer(t, number, number));
done:
    return status;
}

/* Sources are written before it, and may be written again after it. */
static iso_status time_exchange(timer *t, int i)
{
    const iso_instruction *instruction = &t->plan->instructions[i];
    bool whole = instruction->begin == i;
    iso_status status;
    ISO_TRY(add_here(t, 0, whole && !instruction->settled));
    if (whole)
        ISO_TRY(start_transfer(t, i, i));
    ISO_TRY(await_transfer(t, i));
    ISO_TRY(add_here(t, t->report->ops[i].taken, !instruction->settled));
done:
    return status;
}

static iso_status time_end(timer *t)
{
    const iso_plan *plan = t->plan;
    iso_status status;
    int end = t->report->n_ops - 1;
    ISO_TRY(add_here(t, 0, plan->faults ? 3 : 1));
    ISO_TRY(start_transfer(t, plan->n_instructions, end));
    for (int b = 0; b < plan->buckets->count; b++)
        if (iso_plan_goes_early(plan, b))
            ISO_TRY(await_transfer(t, plan->bucket_begin[b]));
    ISO_TRY(await_transfer(t, plan->n_instructions));
    ISO_TRY(add_here(t, t->report->ops[end].taken, 1));
done:
    return status;
}

static iso_status time_all(timer *t, const iso_plan_works *works)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < works->count; i++) {
        const iso_plan_work *work = &works->work[i];
        if (work->key)
            ISO_TRY(time_work(t, work));
        else if (work->kind == ISO_WORK_BEGIN)
            ISO_TRY(time_begin(t, work->index));
        else if (work->kind == ISO_WORK_EXCHANGE)
            ISO_TRY(time_exchange(t, work->index));
        else
            ISO_TRY(time_end(t));
    }
done:
    return status;
}

/* ---- the report ---- */

static int longer(const void *a, const void *b)
{
    const iso_report_work *x = a, *y = b;
    return x->seconds != y->seconds ? (x->seconds < y->seconds ? 1 : -1) : strcmp(x->op, y->op);
}

static void note_largest(timer *t)
{
    iso_report_time *time = t->time;
    qsort(t->kinds, (size_t)t->n_kinds, sizeof *t->kinds, longer);
    time->n_works = t->n_kinds < ISO_REPORT_LARGEST ? t->n_kinds : ISO_REPORT_LARGEST;
    memcpy(time->works, t->kinds, (size_t)time->n_works * sizeof *t->kinds);
    time->measured = t->all > 0 ? t->measured / t->all : 1;
}

static void name_sources(const timer *t, const iso_network *network)
{
    const iso_calibration *c = t->model->calibration;
    snprintf(t->time->machine, sizeof t->time->machine, "%s, %d cores, %s", c->processor, c->cores, c->date);
    if (t->report->n_hosts > 1)
        snprintf(t->time->network, sizeof t->time->network, "%s: %.3g us, %.3g Gbit/s", network->name,
                 network->latency * 1e6, network->bandwidth * 8e-9);
}

static iso_status make_time(timer *t)
{
    const iso_calibration *c = t->model->calibration;
    const iso_network *network = t->model->network.known ? &t->model->network : &c->network;
    iso_plan_works works = {0};
    iso_status status = ISO_OK;
    int slots = t->report->n_host_slots;
    if (t->report->n_hosts > 1 && !network->known)
        ISO_TRY(iso_error(ISO_INVALID,
                          "the plan is for %d hosts, and the calibration has no network: give one "
                          "with --network",
                          t->report->n_hosts));
    t->busy = slots < c->cores ? slots : c->cores;
    t->rounds = (slots + t->busy - 1) / t->busy;
    ISO_TRY(iso_plan_works_list(t->plan, 0, t->busy, &works));
    ISO_TRY(time_all(t, &works));
    ISO_TRY(iso_time_simulate(t->events, t->n_events, t->plan->n_instructions + 1, network, t->time));
    note_largest(t);
    name_sources(t, network);
done:
    iso_plan_works_free(&works);
    return status;
}

iso_status iso_plan_time_create(const struct iso_plan *plan, const iso_plan_report *report,
                                const iso_time_model *model, iso_report_time **time)
{
    timer t = {.plan = plan, .report = report, .model = model, .time = iso_new(sizeof *t.time)};
    iso_status status = t.time ? make_time(&t) : iso_no_memory("the time of a plan");
    if (status == ISO_OK)
        *time = t.time;
    else
        iso_free(t.time);
    iso_free(t.events);
    iso_free(t.kinds);
    iso_table_free(&t.by_key);
    return status;
}
