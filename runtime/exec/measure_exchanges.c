/* The rates of this machine: exchanges between the threads of a process, and messages between hosts. */
#include <math.h>
#include <stdio.h>

#include "collectives/coll.h"
#include "collectives/control/control.h"
#include "runtime/base/clock.h"
#include "runtime/base/memory.h"
#include "runtime/exec/measure_impl.h"
#include "runtime/session/session.h"

enum { MOST_PULLED = 1 << 22, PULLED = 1 << 20 };

/* Slots that all take `bytes` bytes from the next one. */
typedef struct ring {
    iso_fabric *fabric;
    iso_exchange *exchange;
    void **target;           /* [slots] */
    int slots, first, times; /* first: local slot of thread 0 */
    size_t bytes;
} ring;

static iso_status add_ring(ring *r, int slot)
{
    int64_t elements = (int64_t)(r->bytes / sizeof(float));
    iso_box box = iso_box_range(0, elements);
    iso_source source = {.slot = (slot + 1) % r->slots, .space = ISO_SPACE_SLOT, .box = box};
    return iso_exchange_add(r->exchange, slot, 0, &box, ISO_F32, ISO_SUM, &box, &source, 1, NULL);
}

/* locals: slots of this rank, from r->first on. */
static iso_status make_ring(ring *r, size_t bytes, int locals)
{
    iso_status status = ISO_OK;
    r->bytes = bytes;
    ISO_TRY(iso_fabric_reserve(r->fabric, bytes, NULL));
    ISO_TRY(iso_exchange_create(r->fabric, "a measurement", &r->exchange));
    for (int s = 0; s < r->slots; s++)
        ISO_TRY(add_ring(r, s));
    ISO_TRY(iso_exchange_commit(r->exchange));
    for (int s = r->first; s < r->first + locals; s++)
        iso_exchange_bind(r->exchange, s, 0, r->target[s]);
done:
    return status;
}

static void run_ring(void *arg, int thread)
{
    const ring *r = arg;
    for (int i = 0; i < r->times; i++) {
        iso_exchange_begin(r->exchange, thread);
        iso_exchange_pull(r->exchange, r->first + thread);
        iso_exchange_end(r->exchange, thread);
    }
}

static void run_barriers(void *arg, int thread)
{
    const ring *r = arg;
    for (int i = 0; i < r->times; i++)
        iso_fabric_barrier(r->fabric, thread);
}

static iso_status allocate_targets(ring *r, int locals)
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

static void free_ring(ring *r)
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
    ring r = {.slots = threads};
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
    ISO_TRY(make_ring(&r, PULLED, threads));
    r.times = 20;
    double seconds = iso_measure_least(pool, run_ring, &r) / r.times - 2 * rates->barrier;
    if (seconds > 0)
        rates->pull = PULLED / seconds;
done:
    free_ring(&r);
    iso_free(ranks);
    return status;
}

/* ---- between hosts ---- */

/* The least seconds of an exchange in which each host takes `bytes` bytes from the next one. Collective. */
static iso_status time_messages(iso_context *ctx, ring *r, size_t bytes, bool takes_part, double *seconds)
{
    enum { TIMES = 8 };
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(ctx, make_ring(r, bytes, takes_part)));
    r->times = 1;
    *seconds = INFINITY;
    for (int i = 0; i < TIMES && takes_part; i++) {
        double begin = iso_clock();
        run_ring(r, 0);
        double passed = iso_clock() - begin;
        *seconds = passed < *seconds ? passed : *seconds;
    }
done:
    iso_exchange_destroy(r->exchange);
    r->exchange = NULL;
    return status;
}

static iso_status measure_ring(iso_context *ctx, ring *r, bool takes_part, iso_network *network)
{
    enum { FEW = 64, SOME = 1 << 18, MANY = MOST_PULLED };
    double few = 0, some = 0, many = 0;
    iso_status status;
    ISO_TRY(iso_agree(ctx, allocate_targets(r, takes_part)));
    ISO_TRY(time_messages(ctx, r, FEW, takes_part, &few));
    ISO_TRY(time_messages(ctx, r, SOME, takes_part, &some));
    ISO_TRY(time_messages(ctx, r, MANY, takes_part, &many));
    *network = (iso_network){.known = true, .latency = few, .bandwidth = (MANY - SOME) / (many - some)};
    snprintf(network->name, sizeof network->name, "measured on %d hosts", r->slots);
    if (takes_part && many <= some)
        status = iso_error(ISO_FAILED, "%d bytes between hosts took %g s, and %d bytes %g s: measure again",
                           SOME, some, MANY, many);
    ISO_TRY(iso_agree(ctx, status));
done:
    return status;
}

/* One slot on the first rank of each host. */
iso_status iso_measure_network(iso_context *ctx, const iso_backend *backend, iso_network *network)
{
    int ranks = iso_ranks(ctx), hosts = iso_hosts(ctx);
    int *host_of = iso_new((size_t)ranks * sizeof *host_of), *first = iso_new((size_t)hosts * sizeof *first);
    ring r = {.slots = hosts, .first = iso_host_of_rank(ctx, iso_rank(ctx))};
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
    ISO_TRY(measure_ring(ctx, &r, iso_leads_host(ctx), network));
done:
    free_ring(&r);
    iso_free(host_of);
    iso_free(first);
    return status;
}
