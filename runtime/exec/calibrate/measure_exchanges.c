/* The rates of this machine: exchanges between the threads of a process, and messages between hosts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "collectives/coll.h"
#include "collectives/control/control.h"
#include "runtime/base/clock.h"
#include "runtime/base/memory.h"
#include "runtime/exec/calibrate/measure_impl.h"
#include "runtime/session/session.h"

enum { MOST_PULLED = 1 << 22, PULLED = 1 << 20 };

/* Slots that all take `bytes` bytes from the others, as many from each: as gradients and new weights of data
 * parallel training. */
typedef struct pulls {
    iso_fabric *fabric;
    iso_exchange *exchange;
    void **target;           /* [slots] */
    int slots, first, times; /* first: local slot of thread 0 */
    int tries;               /* of measure_byte, on all hosts */
    size_t bytes;
} pulls;

static iso_status add_pulls(pulls *r, int slot)
{
    iso_status status = ISO_OK;
    int64_t elements = (int64_t)(r->bytes / sizeof(float)), others = r->slots - 1;
    iso_box box = iso_box_range(0, elements);
    for (int64_t k = 0; k < others && status == ISO_OK; k++) {
        int64_t begin = k * elements / others, end = (k + 1) * elements / others;
        iso_box region = iso_box_range(begin, end - begin);
        iso_source source = {.slot = (int)((slot + 1 + k) % r->slots), .space = ISO_SPACE_SLOT, .box = box};
        if (end > begin)
            status =
                iso_exchange_add(r->exchange, slot, 0, &box, ISO_F32, ISO_SUM, &region, &source, 1, NULL);
    }
    return status;
}

/* locals: slots of this rank, from r->first on. */
static iso_status make_pulls(pulls *r, size_t bytes, int locals)
{
    iso_status status = ISO_OK;
    r->bytes = bytes;
    ISO_TRY(iso_fabric_reserve(r->fabric, bytes, NULL));
    ISO_TRY(iso_exchange_create(r->fabric, "a measurement", &r->exchange));
    for (int s = 0; s < r->slots; s++)
        ISO_TRY(add_pulls(r, s));
    ISO_TRY(iso_exchange_commit(r->exchange));
    for (int s = r->first; s < r->first + locals; s++)
        iso_exchange_bind(r->exchange, s, 0, r->target[s]);
done:
    return status;
}

static void run_pulls(void *arg, int thread)
{
    const pulls *r = arg;
    for (int i = 0; i < r->times; i++) {
        iso_exchange_begin(r->exchange, thread);
        iso_exchange_pull(r->exchange, r->first + thread);
        iso_exchange_end(r->exchange, thread);
    }
}

static void run_barriers(void *arg, int thread)
{
    const pulls *r = arg;
    for (int i = 0; i < r->times; i++)
        iso_fabric_barrier(r->fabric, thread);
}

static iso_status allocate_targets(pulls *r, int locals)
{
    iso_status status = ISO_OK;
    r->target = iso_new((size_t)r->slots * sizeof *r->target);
    if (!r->target)
        return iso_no_memory("a measurement");
    for (int s = r->first; s < r->first + locals; s++)
        ISO_TRY(iso_alloc(MOST_PULLED, "a measurement", &r->target[s]));
done:
    return status;
}

static void free_pulls(pulls *r)
{
    iso_exchange_destroy(r->exchange);
    for (int s = 0; r->target && s < r->slots; s++)
        iso_free(r->target[s]);
    iso_free(r->target);
    iso_fabric_destroy(r->fabric);
}

/* Between the threads of this process. */
iso_status iso_measure_exchanges(const iso_backend *backend, iso_thread_pool *pool, int threads,
                                 iso_machine_rates *rates)
{
    iso_status status = ISO_OK;
    pulls r = {.slots = threads};
    int host = 0, *ranks = iso_new((size_t)threads * sizeof *ranks);
    iso_topology topology = {.n_slots = threads,
                             .n_ranks = 1,
                             .rank_of_slot = ranks,
                             .host_of_rank = &host,
                             .n_threads = threads,
                             .device = backend->device(0)};
    rates->barrier = 0;
    rates->pull = rates->bytes_one / 2;
    if (threads < 2)
        goto done;
    if (!ranks)
        ISO_TRY(iso_no_memory("a measurement"));
    ISO_TRY(iso_fabric_create(&topology, NULL, backend->sum, backend->maximum, &r.fabric));
    ISO_TRY(allocate_targets(&r, threads));
    r.times = 100;
    rates->barrier = iso_measure_least(pool, run_barriers, &r) / r.times;
    ISO_TRY(make_pulls(&r, PULLED, threads));
    r.times = 20;
    double seconds = iso_measure_least(pool, run_pulls, &r) / r.times - 2 * rates->barrier;
    if (seconds > 0)
        rates->pull = PULLED / seconds;
done:
    free_pulls(&r);
    iso_free(ranks);
    return status;
}

/* ---- between hosts ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *tries, int count)
{
    qsort(tries, (size_t)count, sizeof *tries, by_value);
    return tries[count / 2];
}

static double least(const double *tries, int count)
{
    double found = INFINITY;
    for (int i = 0; i < count; i++)
        found = tries[i] < found ? tries[i] : found;
    return found;
}

/* Waits for messages that have been sent; returns the seconds until they had arrived. */
static double finish_pulls(const pulls *r)
{
    double begin = iso_clock();
    iso_exchange_wait(r->exchange, 0);
    double passed = iso_clock() - begin;
    iso_exchange_pull(r->exchange, r->first);
    iso_exchange_end(r->exchange, 0);
    return passed;
}

/* The seconds until an exchange has arrived in which each host takes `bytes` bytes from the others. */
static double time_pulls(const pulls *r)
{
    double begin = iso_clock();
    iso_exchange_start(r->exchange, 0);
    double sent = iso_clock();
    return sent - begin + finish_pulls(r);
}

enum { TIMES = 20 };

/* Times TIMES exchanges of `bytes` bytes in a row. Collective. */
static iso_status time_messages(iso_context *ctx, pulls *r, size_t bytes, bool takes_part, double row[TIMES])
{
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(ctx, make_pulls(r, bytes, takes_part)));
    for (int i = 0; i < TIMES && takes_part; i++)
        row[i] = time_pulls(r);
done:
    iso_exchange_destroy(r->exchange);
    r->exchange = NULL;
    return status;
}

/* ---- messages while a slot computes ---- */

enum { TRIES = 7, MOST_TRIES = 25, SHORT_OPS = 16, MOST_OPS = 100 };
static const double SHORT = 5e-5, LONGEST = 0.3, SPIN = 0.1; /* seconds of ops */
static const double LONG_ENOUGH = 5;                         /* seconds that MOST_TRIES exchanges may take */

/* Arithmetic in registers. */
static double spin(int64_t rounds)
{
    volatile double factor = 1.0000001;
    double x = 1, by = factor;
    for (int64_t i = 0; i < rounds; i++)
        x = x * by + 1e-9;
    return x;
}

static double rounds_of_a_second(void)
{
    enum { ROUNDS = 1 << 20 };
    volatile double kept = 0;
    double least = INFINITY;
    for (int i = 0; i < 2 * TRIES; i++) {
        double begin = iso_clock();
        kept = spin(ROUNDS);
        double passed = iso_clock() - begin;
        least = passed < least ? passed : least;
    }
    (void)kept;
    return ROUNDS / least;
}

/* The seconds of ops of these rounds, between which messages move on, as in a step. */
static double compute(const pulls *r, int64_t rounds, int times)
{
    volatile double kept = 0;
    double begin = iso_clock();
    for (int i = 0; i < times; i++) {
        kept = spin(rounds);
        iso_fabric_progress(r->fabric);
    }
    (void)kept;
    return iso_clock() - begin;
}

/* The seconds of a core that these took, and messages meanwhile, if `exchanges`: with the copies of what is sent and
 * what has come. How long it lasted differs by far more than messages take, where other programs or other simulated
 * hosts have the core meanwhile. */
static double compute_of_core(const pulls *r, int64_t rounds, int times, bool exchanges)
{
    double ran = iso_clock_of_thread();
    if (exchanges)
        iso_exchange_start(r->exchange, 0);
    compute(r, rounds, times);
    if (exchanges)
        finish_pulls(r);
    return iso_clock_of_thread() - ran;
}

/* The ops of this many seconds in all, during which an exchange should arrive. */
static double longest_ops(double transfer_time)
{
    return 1.5 * transfer_time < LONGEST ? 1.5 * transfer_time : LONGEST;
}

/* Measures the time that the messages of an exchange take from short ops. It varies by a third from one exchange to
 * the next, by which host handles the packets of which, and by how many packets come at once. The exchange has been
 * made. */
static void measure_byte(const pulls *r, iso_network *network)
{
    int64_t rounds = (int64_t)(SHORT * rounds_of_a_second());
    int times = (int)(2 * longest_ops((double)r->bytes / network->bandwidth) / SHORT) + SHORT_OPS;
    double alone[MOST_TRIES], together[MOST_TRIES];
    for (int i = 0; i < r->tries; i++) {
        time_pulls(r); /* hosts that share cores work at the same time */
        alone[i] = compute_of_core(r, rounds, times, false);
        time_pulls(r);
        together[i] = compute_of_core(r, rounds, times, true);
    }
    double taken = median(together, r->tries) - least(alone, r->tries);
    network->byte = taken > 0 ? taken / (double)r->bytes : 0;
}

/* Measures the bytes that arrive during a long op. The exchange has been made. */
static void measure_window(const pulls *r, iso_network *network)
{
    double transfer_time = (double)r->bytes / network->bandwidth, second = rounds_of_a_second();
    double longest = longest_ops(transfer_time), early = SHORT_OPS * SHORT * network->bandwidth, carried = 0;
    for (int i = 0; i < TRIES; i++) {
        time_pulls(r);
        iso_exchange_start(r->exchange, 0);
        compute(r, (int64_t)(SHORT * second), SHORT_OPS);
        compute(r, (int64_t)(longest * second), 1);
        double bytes = (double)r->bytes - finish_pulls(r) * network->bandwidth - early;
        carried = bytes > carried ? bytes : carried;
    }
    double most = longest < 1.2 * transfer_time ? longest * network->bandwidth : (double)r->bytes - early;
    network->window = carried < 0.9 * most ? carried : 0;
}

/* The seconds that an exchange adds to `ops` ops of 0.1 ms if the slots wait for each other after them, as the mean
 * of `times`. */
static double added_to_ops(const pulls *r, int ops, int times)
{
    int64_t rounds = (int64_t)(2 * SHORT * rounds_of_a_second());
    double added[TRIES];
    for (int i = 0; i < TRIES; i++) {
        double alone = compute(r, rounds, ops * times), begin = iso_clock();
        for (int k = 0; k < times; k++) {
            compute(r, rounds, ops);
            time_pulls(r);
        }
        added[i] = (iso_clock() - begin - alone) / times;
    }
    return median(added, TRIES);
}

/* The latency is longer than that of a message for which nobody waits, because hosts are never quite in step, and
 * because hosts that share cores must be scheduled first. */
static void measure_latency(const pulls *r, iso_network *network)
{
    double found = added_to_ops(r, 1, 200);
    network->latency = found > network->latency ? found : network->latency;
}

/* Hosts that have computed for long are less in step than after the short ops of measure_latency: most of all those
 * that share cores, of which one computes while the other waits for its share. */
static void measure_skew(const pulls *r, iso_network *network)
{
    double found = added_to_ops(r, (int)(ISO_SKEW_SECONDS / (2 * SHORT)), 20);
    network->skew = found > network->latency ? found - network->latency : 0;
}

/* Between the exchanges are ops during which the link could carry as much, as in a step. After a pause in which the
 * hosts sleep they would begin at different times, and who begins late finds messages there. */
static void measure_burst(const pulls *r, iso_network *network)
{
    double transfer_time = (double)r->bytes / network->bandwidth, ops = ceil(transfer_time / (2 * SHORT));
    double found = added_to_ops(r, ops < MOST_OPS ? (int)ops : MOST_OPS, 20);
    network->burst = (transfer_time + network->latency - found) * network->bandwidth;
}

/* `measure` with pulls of so many bytes. Collective. */
static iso_status with_pulls(iso_context *ctx, pulls *r, size_t bytes, bool takes_part,
                             void (*measure)(const pulls *r, iso_network *network), iso_network *network)
{
    iso_status status = iso_agree(ctx, make_pulls(r, bytes, takes_part));
    if (status == ISO_OK && takes_part)
        measure(r, network);
    iso_exchange_destroy(r->exchange);
    r->exchange = NULL;
    return status;
}

enum { FEW = 64, SOME = 1 << 18, MANY = MOST_PULLED };

/* The bandwidth is the usual one, as in steps: the best exchanges seem faster than the link, because messages of
 * hosts that began before this one are there already. The difference to shorter messages would hold the chance of
 * both. */
static iso_status measure_links(iso_context *ctx, pulls *r, bool takes_part, iso_network *network)
{
    double few[TIMES] = {0}, many[TIMES] = {0};
    iso_status status;
    ISO_TRY(iso_agree(ctx, allocate_targets(r, takes_part)));
    ISO_TRY(time_messages(ctx, r, FEW, takes_part, few));
    ISO_TRY(time_messages(ctx, r, MANY, takes_part, many));
    double latency = median(few, TIMES), longest = median(many, TIMES);
    double transfer_time = longest - (latency < longest / 2 ? latency : 0); /* 0: this rank takes no part */
    *network = (iso_network){
        .known = true, .latency = latency, .bandwidth = transfer_time > 0 ? MANY / transfer_time : 1};
    snprintf(network->name, sizeof network->name, "measured on %d hosts", r->slots);
    ISO_TRY(with_pulls(ctx, r, FEW, takes_part, measure_latency, network));
    ISO_TRY(with_pulls(ctx, r, FEW, takes_part, measure_skew, network));
    ISO_TRY(with_pulls(ctx, r, SOME, takes_part, measure_burst, network));
    ISO_TRY(iso_all_reduce(ctx, ISO_REDUCE_MAX, ISO_F64, &transfer_time, 1));
    r->tries = transfer_time * MOST_TRIES < LONG_ENOUGH ? MOST_TRIES : TRIES;
    ISO_TRY(with_pulls(ctx, r, MOST_PULLED, takes_part, measure_byte, network));
    ISO_TRY(with_pulls(ctx, r, MOST_PULLED, takes_part, measure_window, network));
done:
    return status;
}

/* The part of a core that each thread has while all compute. */
static void run_spin(void *arg, int thread)
{
    double *part = arg, begin = iso_clock(), ran = iso_clock_of_thread(), passed = 0;
    volatile double kept = 0;
    for (; passed < SPIN; passed = iso_clock() - begin)
        kept = spin(1 << 12);
    (void)kept;
    part[thread] = (iso_clock_of_thread() - ran) / passed;
}

/* The mean of all threads of all hosts. Other work makes it smaller, in several tries in a row if it lasts; hosts
 * that do not begin at the same time make it larger, so the second largest counts. What a byte takes of a core takes
 * longer where slots have a part of a core only. */
static iso_status measure_core(iso_context *ctx, iso_thread_pool *pool, int threads, iso_network *network)
{
    double *part = iso_new((size_t)threads * sizeof *part), tries[TRIES];
    iso_status status = part ? ISO_OK : iso_no_memory("a measurement");
    ISO_TRY(iso_agree(ctx, status));
    for (int i = 0; i < TRIES; i++) {
        double sum[] = {0, threads};
        iso_thread_pool_run(pool, run_spin, part);
        for (int t = 0; t < threads; t++)
            sum[0] += part[t];
        ISO_TRY(iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_F64, sum, sizeof sum / sizeof sum[0]));
        tries[i] = sum[0] / sum[1];
    }
    qsort(tries, TRIES, sizeof *tries, by_value);
    network->core = tries[TRIES - 2] < 1 ? tries[TRIES - 2] : 1;
    network->byte /= network->core;
done:
    iso_free(part);
    return status;
}

/* The means of the hosts: who is scheduled late finds more messages there, and others wait longer. Bursts of a
 * sixteenth of what was sent and less are chance. */
static iso_status average(iso_context *ctx, bool takes_part, iso_network *network)
{
    double part = takes_part;
    double sum[] = {part,
                    part * network->latency,
                    part * network->bandwidth,
                    part * network->byte,
                    part * network->burst,
                    part * network->skew};
    iso_status status;
    ISO_TRY(iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_F64, sum, sizeof sum / sizeof sum[0]));
    network->latency = sum[1] / sum[0];
    network->bandwidth = sum[2] / sum[0];
    network->byte = sum[3] / sum[0];
    network->skew = sum[5] / sum[0];
    network->burst = sum[4] / sum[0] < SOME / 16 ? 0 : sum[4] / sum[0] < SOME ? sum[4] / sum[0] : SOME;
done:
    return status;
}

/* One slot on the first rank of each host. */
iso_status iso_measure_network(iso_context *ctx, const iso_backend *backend, iso_thread_pool *pool,
                               int threads, iso_network *network)
{
    int ranks = iso_ranks(ctx), hosts = iso_hosts(ctx);
    int *host_of = iso_new((size_t)ranks * sizeof *host_of), *first = iso_new((size_t)hosts * sizeof *first);
    pulls r = {.slots = hosts, .first = iso_host_of_rank(ctx, iso_rank(ctx))};
    iso_status status = host_of && first ? ISO_OK : iso_no_memory("a measurement");
    ISO_TRY(iso_agree(ctx, status));
    for (int i = ranks - 1; i >= 0; i--) {
        host_of[i] = iso_host_of_rank(ctx, i);
        first[host_of[i]] = i;
    }
    iso_topology topology = {.n_slots = hosts,
                             .n_ranks = ranks,
                             .rank = iso_rank(ctx),
                             .rank_of_slot = first,
                             .host_of_rank = host_of,
                             .n_threads = 1,
                             .device = backend->device(0)};
    ISO_TRY(iso_fabric_create(&topology, iso_communicator(ctx), backend->sum, backend->maximum, &r.fabric));
    ISO_TRY(measure_links(ctx, &r, iso_is_host_leader(ctx), network));
    ISO_TRY(average(ctx, iso_is_host_leader(ctx), network));
    ISO_TRY(measure_core(ctx, pool, threads, network));
done:
    free_pulls(&r);
    iso_free(host_of);
    iso_free(first);
    return status;
}
