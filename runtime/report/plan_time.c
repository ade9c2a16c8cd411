/* The time of a step: the ops of a slot, the exchanges between them, and a simulation of both. */
#include "runtime/report/plan_time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend/division.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/report/plan_ops.h"
#include "runtime/report/plan_report_impl.h"

/* ---- the simulation ---- */

typedef struct transfer {
    double left;    /* bytes that the link has not carried */
    double latency; /* from then on until they have arrived */
    double arrives; /* when they have arrived, once none is left */
} transfer;

typedef struct clock {
    double now, met; /* seconds; when the slots last waited for each other */
    transfer *transfers;
    int *queue, first, last; /* [events of two steps] numbers of transfers, in the order of the link */
    double free, saved;      /* since when the link is free, and the bytes that it could carry at once then */
    const iso_network *network;
} clock;

/* How much later a message arrives because the hosts have not stayed in step. */
static double skew(const clock *c)
{
    const iso_network *n = c->network;
    double worked = (c->now - c->met) * (n->core > 0 ? n->core : 1);
    return worked < ISO_SKEW_SECONDS ? n->skew * worked / ISO_SKEW_SECONDS : n->skew;
}

/* The slots work for `seconds` of their own, while the link carries up to a window of bytes. Returns what these
 * take of the slots' time. */
static double pass(clock *c, double seconds)
{
    const iso_network *n = c->network;
    double room = n->window > 0 ? n->window : INFINITY, taken = n->byte * n->bandwidth;
    double own = taken < 1 ? 1 - taken : 0, rate = taken < 1 ? n->bandwidth : 1 / n->byte, lost = 0;
    while (seconds > 0 && c->first < c->last && room > 0) {
        transfer *t = &c->transfers[c->queue[c->first]];
        double bytes = t->left < room ? t->left : room, most = own > 0 ? seconds / own * rate : INFINITY;
        bool ends = bytes >= most;
        bytes = ends ? most : bytes;
        seconds = ends ? 0 : seconds - bytes / rate * own;
        c->now += bytes / rate;
        lost += bytes * n->byte;
        room -= bytes;
        t->left -= bytes;
        if (t->left > 0)
            continue;
        t->arrives = c->now + t->latency;
        c->free = c->now;
        c->first++;
    }
    c->now += seconds;
    return lost;
}

/* The link carries the first transfer of its queue, from `from` to `until` at the longest. Returns when it is
 * free. */
static double carry(clock *c, double from, double until)
{
    transfer *t = &c->transfers[c->queue[c->first]];
    double end = from + t->left / c->network->bandwidth;
    if (end > until) {
        t->left -= (until - from) * c->network->bandwidth;
        return until;
    }
    t->left = 0;
    t->arrives = end + t->latency;
    c->free = end;
    c->first++;
    return end;
}

/* The slots wait, and call MPI all the time. Returns how long. */
static double await(clock *c, int number)
{
    double begin = c->now, link = begin;
    while (c->transfers[number].left > 0)
        link = carry(c, link, INFINITY);
    if (c->transfers[number].arrives > c->now)
        c->now = c->met = c->transfers[number].arrives;
    while (c->first < c->last && link < c->now)
        link = carry(c, link, c->now);
    return c->now - begin;
}

/* A free link saves up what it could have carried, up to a burst (a token bucket), and carries that at once. */
static double carry_burst(clock *c, double bytes)
{
    double saved = c->saved + (c->now - c->free) * c->network->bandwidth;
    saved = saved < c->network->burst ? saved : c->network->burst;
    double carried = bytes < saved ? bytes : saved;
    c->saved = saved - carried;
    c->free = c->now;
    return carried;
}

static void start(clock *c, const iso_time_event *e, iso_report_time *t)
{
    transfer *fresh = &c->transfers[e->transfer];
    double sending = e->messages * c->network->message;
    fresh->arrives = c->now;
    if (e->messages == 0)
        return;
    t->exposed += sending + pass(c, sending);
    double latency = c->network->latency + skew(c);
    *fresh = (transfer){.left = e->bytes, .latency = latency, .arrives = c->now + latency};
    if (c->first == c->last)
        fresh->left -= carry_burst(c, e->bytes);
    if (fresh->left > 0)
        c->queue[c->last++] = e->transfer;
    t->in_flight += e->bytes / c->network->bandwidth + latency;
}

/* The time that messages take from an op counts as waiting for them. */
static void simulate_event(clock *c, const iso_time_event *e, iso_report_time *t)
{
    switch (e->kind) {
    case ISO_TIME_START:
        start(c, e, t);
        return;
    case ISO_TIME_WAIT:
        t->exposed += await(c, e->transfer);
        return;
    case ISO_TIME_UPDATE:
        t->update += e->seconds;
        break;
    case ISO_TIME_HERE:
        t->intra_host += e->seconds;
        break;
    case ISO_TIME_COMPUTE:
        t->computation += e->seconds;
    }
    t->exposed += pass(c, e->seconds);
}

iso_status iso_time_simulate(const iso_time_event *events, int count, int transfers,
                             const iso_network *network, iso_report_time *time)
{
    clock c = {.network = network,
               .transfers = iso_new(((size_t)transfers + 1) * sizeof *c.transfers),
               .queue = iso_new((2 * (size_t)count + 1) * sizeof *c.queue)};
    bool room = c.transfers && c.queue;
    for (int step = 0; step < 2 && room; step++) {
        double begin = c.now;
        time->computation = time->update = time->intra_host = time->exposed = time->in_flight = 0;
        for (int i = 0; i < count; i++)
            simulate_event(&c, &events[i], time);
        time->step = c.now - begin;
    }
    time->hidden = time->in_flight > time->exposed ? time->in_flight - time->exposed : 0;
    iso_free(c.transfers);
    iso_free(c.queue);
    return room ? ISO_OK : iso_no_memory("the time of %d transfers", transfers);
}

/* ---- ops that were not measured ---- */

/* The seconds of an op by the machine's rates alone. Cores without a slot divide the work of ops. */
static double by_rates(const iso_calibration *c, const iso_calibrated_op *op)
{
    static const double call = 2e-7; /* of a kernel that does nothing */
    const int busy = op->busy > 1 ? op->busy : 1;
    const double most = iso_division_most_parts(op->flops, op->bytes), cores = fmax(1, c->cores / busy),
                 each = most < cores ? most : cores;
    double bytes =
        busy * each > 1 ? fmin(c->rates.bytes_all / busy, each * c->rates.bytes_one) : c->rates.bytes_one;
    return call + op->flops / (c->rates.flops * each) + op->bytes / bytes;
}

static double log_ratio(double a, double b)
{
    return fabs(log((a + 1) / (b + 1)));
}

/* Words and extents that differ count more than sizes: with other rows and the same weights, a kernel is much the
 * same. */
static const double FAR = 5;

double iso_time_of_op(const iso_calibration *c, const iso_calibrated_op *op, bool *measured)
{
    const iso_calibrated_op *found = iso_calibration_find(c, op->key);
    iso_key_words words;
    double nearest = INFINITY;
    *measured = found != NULL;
    if (found)
        return found->seconds;
    iso_key_words_find(op->key, &words);
    for (int i = 0; i < c->n_ops; i++) {
        const iso_calibrated_op *other = &c->op[i];
        if (strcmp(other->type, op->type) != 0)
            continue;
        double distance = log_ratio(other->flops, op->flops) + log_ratio(other->bytes, op->bytes) +
                          FAR * iso_key_words_differ(&other->words, &words);
        if (distance >= nearest)
            continue;
        nearest = distance;
        found = other;
    }
    return found ? found->seconds * by_rates(c, op) / by_rates(c, found) : by_rates(c, op);
}

/* ---- the events of a plan ---- */

typedef struct timer {
    const iso_plan *plan;
    const iso_plan_report *report;
    const iso_time_model *model;
    iso_report_time *time;
    int busy, rounds; /* threads of the host; slots that a thread runs, one after the other */
    double core;      /* the part of a core that each has */
    int n_events;
    iso_time_event *events;
    int n_kinds;
    iso_report_op_time *kinds; /* ops of one key */
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

static iso_status note_kind(timer *t, const iso_plan_op *op, double seconds, bool measured)
{
    uint64_t hash = iso_hash_text(0, op->key);
    int number = iso_table_find(&t->by_key, hash, NULL, NULL);
    iso_status status = ISO_OK;
    if (number < 0) {
        iso_report_op_time fresh = {.type = op->type, .measured = measured};
        if (op->kind == ISO_PLAN_OP_KERNEL)
            fresh.origin = t->report->ops[op->index].origin;
        if (op->kind == ISO_PLAN_OP_PRODUCT)
            fresh.origin = t->report->ops[t->plan->n_instructions + op->index].origin;
        number = t->n_kinds;
        ISO_TRY(iso_list_add(t->kinds, t->n_kinds, fresh, "the time of a plan"));
        ISO_TRY(iso_table_add(&t->by_key, hash, number, "the time of a plan"));
    }
    t->kinds[number].count++;
    t->kinds[number].seconds += seconds;
done:
    return status;
}

static iso_status time_op(timer *t, const iso_plan_op *op)
{
    bool measured, update = op->kind == ISO_PLAN_OP_UPDATE || op->kind == ISO_PLAN_OP_PRODUCT;
    const iso_calibrated_op like = {
        .key = op->key, .type = (char *)op->type, .busy = t->busy, .flops = op->flops, .bytes = op->bytes};
    double seconds = t->rounds * iso_time_of_op(t->model->calibration, &like, &measured) / t->core;
    iso_status status = note_kind(t, op, seconds, measured);
    t->all += seconds;
    t->measured += measured ? seconds : 0;
    return status == ISO_OK
               ? add_event(t, (iso_time_event){.kind = update ? ISO_TIME_UPDATE : ISO_TIME_COMPUTE,
                                               .seconds = seconds})
               : status;
}

/* Transfers have the number of the instruction that ends them, or begins those of gradients. Those between memory
 * domains of one host use no network. */
static iso_status start_transfer(timer *t, int number, int at)
{
    const iso_report_op *op = &t->report->ops[at];
    if (t->report->n_hosts == 1)
        return add_here(t, op->arrives, 0);
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
    int number = instruction->payload == ISO_PAYLOAD_GRADIENTS ? i : instruction->end;
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
    ISO_TRY(add_here(t, 0, whole && !instruction->constant));
    if (whole)
        ISO_TRY(start_transfer(t, i, i));
    ISO_TRY(await_transfer(t, i));
    ISO_TRY(add_here(t, t->report->ops[i].taken, !instruction->constant));
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
        if (iso_plan_overlaps(plan, b))
            ISO_TRY(await_transfer(t, plan->bucket_begin[b]));
    ISO_TRY(await_transfer(t, plan->n_instructions));
    ISO_TRY(add_here(t, t->report->ops[end].taken, 1));
done:
    return status;
}

static iso_status time_all(timer *t, const iso_plan_ops *ops)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < ops->count; i++) {
        const iso_plan_op *op = &ops->op[i];
        if (op->key)
            ISO_TRY(time_op(t, op));
        else if (op->kind == ISO_PLAN_OP_BEGIN)
            ISO_TRY(time_begin(t, op->index));
        else if (op->kind == ISO_PLAN_OP_EXCHANGE)
            ISO_TRY(time_exchange(t, op->index));
        else
            ISO_TRY(time_end(t));
    }
done:
    return status;
}

/* ---- the report ---- */

static int longer(const void *a, const void *b)
{
    const iso_report_op_time *x = a, *y = b;
    return x->seconds != y->seconds ? (x->seconds < y->seconds ? 1 : -1) : strcmp(x->type, y->type);
}

static void note_largest(timer *t)
{
    iso_report_time *time = t->time;
    qsort(t->kinds, (size_t)t->n_kinds, sizeof *t->kinds, longer);
    time->n_ops = t->n_kinds < ISO_REPORT_LARGEST ? t->n_kinds : ISO_REPORT_LARGEST;
    memcpy(time->ops, t->kinds, (size_t)time->n_ops * sizeof *t->kinds);
    time->measured = t->all > 0 ? t->measured / t->all : 1;
}

bool iso_time_model_is_foreign(const iso_time_model *model)
{
    return model->calibration && model->processor[0] &&
           strcmp(model->processor, model->calibration->processor) != 0;
}

bool iso_time_model_has_other_backend(const iso_time_model *model)
{
    return model->calibration && model->backend[0] &&
           strcmp(model->backend, model->calibration->backend) != 0;
}

bool iso_time_model_has_other_build(const iso_time_model *model)
{
    char build[ISO_CALIBRATION_TEXT];
    iso_calibration_name_build(build);
    return model->calibration && strcmp(model->calibration->build, build) != 0;
}

static void name_sources(const timer *t, const iso_network *network)
{
    const iso_calibration *c = t->model->calibration;
    char latency[32];
    snprintf(t->time->machine, sizeof t->time->machine, "%s, %d core%s, %s", c->processor, c->cores,
             c->cores == 1 ? "" : "s", c->date);
    if (iso_time_model_is_foreign(t->model))
        snprintf(t->time->processor, sizeof t->time->processor, "%s", t->model->processor);
    if (iso_time_model_has_other_backend(t->model)) {
        snprintf(t->time->backend, sizeof t->time->backend, "%s", t->model->backend);
        snprintf(t->time->measured_backend, sizeof t->time->measured_backend, "%s", c->backend);
    }
    if (iso_time_model_has_other_build(t->model)) {
        iso_calibration_name_build(t->time->build);
        snprintf(t->time->measured_build, sizeof t->time->measured_build, "%s",
                 iso_calibration_measured_by(c));
    }
    if (t->report->n_hosts > 1)
        snprintf(t->time->network, sizeof t->time->network, "%s: %s, %.3g Gbit/s", network->name,
                 iso_text_seconds(network->latency, latency, sizeof latency), network->bandwidth * 8e-9);
}

static iso_status make_time(timer *t)
{
    const iso_calibration *c = t->model->calibration;
    const iso_network *network = t->model->network.known ? &t->model->network : &c->network;
    iso_plan_ops ops = {0};
    iso_status status = ISO_OK;
    int slots = t->report->n_host_slots;
    if (t->report->n_hosts > 1 && !network->known)
        ISO_TRY(iso_error(ISO_INVALID,
                          "the plan is for %d hosts, and the calibration has no network: give one "
                          "with --network",
                          t->report->n_hosts));
    t->busy = slots < c->cores ? slots : c->cores;
    t->rounds = (slots + t->busy - 1) / t->busy;
    t->core = t->report->n_hosts > 1 && network->core > 0 ? network->core : 1;
    ISO_TRY(iso_plan_ops_list(t->plan, 0, t->busy, &ops));
    ISO_TRY(time_all(t, &ops));
    ISO_TRY(iso_time_simulate(t->events, t->n_events, t->plan->n_instructions + 1, network, t->time));
    note_largest(t);
    name_sources(t, network);
done:
    iso_plan_ops_free(&ops);
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
