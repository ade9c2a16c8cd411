/* Windows, barriers, exchanges that need no meeting, and what a fabric refuses.
 * Ranks: 1, 2, 5 */
#include <check.h>
#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "collectives/coll.h"
#include "collectives/control/control.h"
#include "collectives/tree.h"
#include "runtime/base/device_comms.h"
#include "runtime/base/memory.h"
#include "runtime/session/session.h"
#include "tests/support/hosts.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static int rank_of_slot[64], host_of_rank[64];

static void sum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *stream)
{
    (void)stream;
    (void)dtype;
    for (int64_t i = 0; i < n; i++)
        ((float *)out)[i] = ((const float *)a)[i] + ((const float *)b)[i];
}

/* slots_per_rank slots on every rank, in order. */
static iso_topology topology_of(int slots_per_rank, int ranks_per_host, int threads)
{
    int ranks = iso_ranks(ctx);
    pretend_hosts(ctx, ranks_per_host, host_of_rank);
    for (int slot = 0; slot < ranks * slots_per_rank; slot++)
        rank_of_slot[slot] = slot / slots_per_rank;
    return (iso_topology){.n_slots = ranks * slots_per_rank,
                          .n_ranks = ranks,
                          .rank = iso_rank(ctx),
                          .rank_of_slot = rank_of_slot,
                          .host_of_rank = host_of_rank,
                          .n_threads = threads};
}

static iso_fabric *make(const iso_topology *topology)
{
    iso_fabric *fabric = NULL;
    ck_assert_msg(iso_fabric_create(topology, iso_communicator(ctx), sum, sum, &fabric) == ISO_OK, "%s",
                  iso_error_message());
    return fabric;
}

/* ---- a device whose library for exchanges cannot be opened, as in a build without NCCL ---- */

static iso_status no_library(void)
{
    return iso_error(ISO_FAILED, "there is no library");
}

static void never_gather(iso_stream *stream, const iso_device_gather *gather)
{
    (void)stream, (void)gather;
    ck_abort_msg("nothing is exchanged");
}

START_TEST(devices_do_without_a_library)
{
    static const iso_device_comms comms = {.open = no_library};
    static int domain_of_slot[64];
    iso_device device = *iso_device_cpu();
    iso_stream *stream = NULL, *streams[64];
    device.gather = never_gather;
    device.comms = &comms;
    ck_assert(device.create_stream(&device, &stream) == ISO_OK);
    for (int slot = 0; slot < 64; slot++) {
        domain_of_slot[slot] = slot;
        streams[slot] = stream;
    }
    iso_topology topology = topology_of(2, iso_ranks(ctx), 1);
    topology.device = &device;
    topology.domain_of_slot = domain_of_slot;
    topology.stream_of_slot = streams;
    iso_fabric_destroy(make(&topology));
    device.destroy_stream(stream);
}
END_TEST

/* ---- areas ---- */

static void try_areas(void)
{
    iso_topology topology = topology_of(3, 2, 1);
    iso_fabric *fabric = make(&topology);
    ck_assert(iso_fabric_reserve(fabric, 1000, same_bytes(5000)) == ISO_OK);
    for (size_t bytes = 1000; bytes < 5000000; bytes *= 4) {
        for (int slot = 0; slot < topology.n_slots; slot++) {
            char *area = iso_fabric_slot_area(fabric, slot);
            ck_assert((area != NULL) == (host_of_rank[rank_of_slot[slot]] == host_of_rank[topology.rank]));
            ck_assert((uintptr_t)area % 4096 == 0);
            if (rank_of_slot[slot] == topology.rank) {
                ck_assert(area[0] == 0 && area[bytes - 1] == 0);
                memset(area, slot + 1, bytes);
            }
        }
        char *host = iso_fabric_shared_area(fabric, topology.rank * 3);
        if (bytes == 1000)
            memset(host, 77, 5000);
        iso_fabric_barrier(fabric, 0);
        for (int slot = 0; slot < topology.n_slots; slot++) {
            const char *area = iso_fabric_slot_area(fabric, slot);
            ck_assert(!area || (area[0] == slot + 1 && area[bytes - 1] == slot + 1));
        }
        ck_assert(host[0] == 77 && host[4999] == 77);
        iso_fabric_barrier(fabric, 0);
        ck_assert(iso_fabric_reserve(fabric, bytes * 4, same_bytes(bytes * 2)) == ISO_OK);
    }
    ck_assert(iso_fabric_reserve(fabric, 1, same_bytes(1)) == ISO_OK); /* never shrinks */
    memset(iso_fabric_slot_area(fabric, topology.rank * 3), 1, 4000000);
    iso_fabric_destroy(fabric);
}

START_TEST(areas_are_shared_apart_and_grow)
{
    try_areas();
}
END_TEST

START_TEST(files_in_dev_shm_serve_too)
{
    glob_t left;
    setenv("ISOGRID_SHM_FILES", "1", 1);
    try_areas();
    unsetenv("ISOGRID_SHM_FILES");
    iso_agree(ctx, ISO_OK);
    char pattern[80];
    snprintf(pattern, sizeof pattern, "/dev/shm/isogrid.%ld.*", (long)getpid());
    ck_assert_int_eq(glob(pattern, 0, NULL, &left), GLOB_NOMATCH);
}
END_TEST

/* A second area that would not fit beside the first is an error, before either is written: a write would end the
 * process by a signal. Needs a small /dev/shm, which test_small_shm makes. */
START_TEST(what_dev_shm_cannot_hold_is_refused)
{
    struct statvfs room;
    if (!getenv("ISOGRID_TEST_SMALL_SHM") || iso_ranks(ctx) == 1)
        return;
    iso_topology topology = topology_of(1, iso_ranks(ctx), 1);
    iso_fabric *first = make(&topology), *second = make(&topology);
    setenv("ISOGRID_SHM_FILES", "1", 1);
    iso_agree(ctx, ISO_OK);
    ck_assert(statvfs("/dev/shm", &room) == 0);
    size_t bytes = room.f_bavail * room.f_frsize / 5 * 3 / (size_t)iso_ranks(ctx);
    iso_agree(ctx, ISO_OK);
    ck_assert(iso_fabric_reserve(first, bytes, NULL) == ISO_OK);
    ck_assert_int_eq(iso_fabric_reserve(second, bytes, NULL), ISO_NO_MEMORY);
    ck_assert_msg(strstr(iso_error_message(), "/dev/shm has too little room"), "%s", iso_error_message());
    memset(iso_fabric_slot_area(first, topology.rank), 1, bytes);
    unsetenv("ISOGRID_SHM_FILES");
    iso_fabric_destroy(second);
    iso_fabric_destroy(first);
}
END_TEST

/* ---- barriers ---- */

enum { ROUNDS = 2000 };
typedef struct walker {
    iso_fabric *fabric;
    int thread, slot, wrong;
} walker;

/* Each writes its round, meets, reads everybody's, meets. */
static void *walk(void *argument)
{
    walker *w = argument;
    const iso_topology *topology = iso_fabric_topology(w->fabric);
    for (int round = 1; round <= ROUNDS; round++) {
        *(int *)iso_fabric_slot_area(w->fabric, w->slot) = round;
        iso_fabric_barrier(w->fabric, w->thread);
        for (int slot = 0; slot < topology->n_slots; slot++) {
            const int *area = iso_fabric_slot_area(w->fabric, slot);
            w->wrong += area && *area != round;
        }
        iso_fabric_barrier(w->fabric, w->thread);
    }
    return NULL;
}

static void walk_together(int ranks_per_host)
{
    iso_topology topology = topology_of(2, ranks_per_host, 2);
    iso_fabric *fabric = make(&topology);
    ck_assert(iso_fabric_reserve(fabric, 64, NULL) == ISO_OK);
    walker walkers[2];
    for (int i = 0; i < 2; i++)
        walkers[i] = (walker){fabric, i, topology.rank * 2 + i, 0};
    pthread_t other;
    ck_assert(!pthread_create(&other, NULL, walk, &walkers[1]));
    walk(&walkers[0]);
    pthread_join(other, NULL);
    ck_assert_int_eq(walkers[0].wrong + walkers[1].wrong, 0);
    iso_fabric_destroy(fabric);
}

START_TEST(threads_meet)
{
    walk_together(iso_ranks(ctx));
    walk_together(2);
}
END_TEST

/* ---- exchanges that concern one slot, or another host ---- */

static iso_source whole_of(int slot, int64_t n)
{
    return (iso_source){slot, ISO_SPACE_SLOT, 0, {1, {0}, {n}}};
}

START_TEST(copies_of_ones_own_need_nobody)
{
    iso_topology topology = topology_of(2, iso_ranks(ctx), 2);
    iso_fabric *fabric = make(&topology);
    iso_exchange *exchange;
    ck_assert(iso_fabric_reserve(fabric, 4096, NULL) == ISO_OK);
    ck_assert(iso_exchange_create(fabric, "slice", &exchange) == ISO_OK);
    iso_box region = {1, {3}, {5}};
    for (int slot = 0; slot < topology.n_slots; slot++) {
        iso_source source = whole_of(slot, 10);
        ck_assert(iso_exchange_add(exchange, slot, 0, &region, ISO_F32, ISO_SUM, &region, &source, 1, NULL) ==
                  ISO_OK);
    }
    ck_assert(iso_exchange_commit(exchange) == ISO_OK);
    float out[5] = {0};
    int mine = topology.rank * 2;
    for (int i = 0; i < 10; i++)
        ((float *)iso_fabric_slot_area(fabric, mine))[i] = (float)i;
    iso_exchange_bind(exchange, mine, 0, out);
    for (int run = 0; run < topology.rank + 1; run++) { /* as often as it likes: a barrier would hang here */
        iso_exchange_begin(exchange, 0);
        iso_exchange_pull(exchange, mine);
        iso_exchange_end(exchange, 0);
    }
    ck_assert(out[0] == 3 && out[4] == 7);
    ck_assert_uint_eq(iso_fabric_traffic(fabric, mine).pulled, 0);
    iso_exchange_destroy(exchange);
    iso_fabric_destroy(fabric);
}
END_TEST

/* Every slot takes the sum of all: another host's block of slots is one partial sum, which crosses once for
 * all who want it. */
START_TEST(a_host_sends_one_partial_sum)
{
    enum { N = 1000 };
    int ranks = iso_ranks(ctx);
    iso_topology topology = topology_of(4, 2, 1);
    iso_fabric *fabric = make(&topology);
    iso_exchange *exchange;
    iso_box whole = {1, {0}, {N}};
    ck_assert(iso_fabric_reserve(fabric, 2 * N * sizeof(float), NULL) == ISO_OK);
    ck_assert(iso_exchange_create(fabric, "sum", &exchange) == ISO_OK);
    iso_source sources[64];
    for (int slot = 0; slot < topology.n_slots; slot++)
        sources[slot] = whole_of(slot, N);
    for (int slot = 0; slot < topology.n_slots; slot++)
        ck_assert(iso_exchange_add(exchange, slot, 0, &whole, ISO_F32, ISO_SUM, &whole, sources,
                                   topology.n_slots, NULL) == ISO_OK);
    ck_assert(iso_exchange_commit(exchange) == ISO_OK);
    double crossed = 0, all[64], sum = 0;
    for (int slot = topology.rank * 4; slot < topology.rank * 4 + 4; slot++)
        crossed += (double)iso_exchange_planned(exchange, slot).crossed;
    iso_gather_all(ctx, &crossed, sizeof crossed, all);
    for (int rank = 0; rank < ranks; rank++)
        sum += all[rank];
    int hosts = (ranks + 1) / 2;
    ck_assert_msg(sum == (double)hosts * (hosts - 1) * N * sizeof(float), "%g bytes cross", sum);
    iso_exchange_destroy(exchange);
    iso_fabric_destroy(fabric);
}
END_TEST

/* What is counted in a run is what the plan states: of all that a slot takes, that part crosses hosts for
 * which it is the first to ask. */
START_TEST(what_crosses_hosts_is_counted)
{
    enum { N = 1000, RUNS = 3 };
    static float out[4][N];
    int ranks = iso_ranks(ctx), hosts = (ranks + 1) / 2;
    iso_topology topology = topology_of(4, 2, 1);
    iso_fabric *fabric = make(&topology);
    iso_exchange *exchange;
    iso_box whole = {1, {0}, {N}};
    ck_assert(iso_fabric_reserve(fabric, 2 * N * sizeof(float), NULL) == ISO_OK);
    ck_assert(iso_exchange_create(fabric, "sum", &exchange) == ISO_OK);
    iso_source sources[64];
    for (int slot = 0; slot < topology.n_slots; slot++)
        sources[slot] = whole_of(slot, N);
    for (int slot = 0; slot < topology.n_slots; slot++)
        ck_assert(iso_exchange_add(exchange, slot, 0, &whole, ISO_F32, ISO_SUM, &whole, sources,
                                   topology.n_slots, NULL) == ISO_OK);
    int first = topology.rank * 4;
    for (int i = 0; i < 4; i++)
        iso_exchange_bind(exchange, first + i, 0, out[i]);
    ck_assert(iso_exchange_commit(exchange) == ISO_OK);
    for (int run = 0; run < RUNS; run++) {
        iso_exchange_begin(exchange, 0);
        for (int i = 0; i < 4; i++)
            iso_exchange_pull(exchange, first + i);
        iso_exchange_end(exchange, 0);
    }
    double bytes[2] = {0, 0}, all[128], crossed = 0, pulled = 0;
    for (int slot = first; slot < first + 4; slot++) {
        iso_traffic planned = iso_exchange_planned(exchange, slot),
                    counted = iso_fabric_traffic(fabric, slot);
        ck_assert_uint_eq(counted.crossed, RUNS * planned.crossed);
        ck_assert_uint_eq(counted.pulled, RUNS * planned.pulled);
        bytes[0] += (double)counted.crossed;
        bytes[1] += (double)counted.pulled;
    }
    iso_gather_all(ctx, bytes, sizeof bytes, all);
    for (int rank = 0; rank < ranks; rank++) {
        crossed += all[2 * rank];
        pulled += all[2 * rank + 1];
    }
    double slots = topology.n_slots, element = sizeof(float);
    ck_assert_msg(crossed == RUNS * N * element * hosts * (hosts - 1), "%g bytes crossed", crossed);
    ck_assert_msg(pulled == RUNS * N * element * slots * (slots - 1), "%g bytes were taken", pulled);
    iso_exchange_destroy(exchange);
    iso_fabric_destroy(fabric);
}
END_TEST

/* A message of 2.6 MB is sent as several requests, of which the last is shorter. */
START_TEST(large_messages_arrive_whole)
{
    enum { N = 650001, RUNS = 2 };
    int slots = iso_ranks(ctx), next = (iso_rank(ctx) + 1) % slots;
    iso_topology topology = topology_of(1, 1, 1);
    iso_fabric *fabric = make(&topology);
    iso_exchange *exchange;
    iso_box whole = {1, {0}, {N}};
    float *out = calloc(N, sizeof *out);
    ck_assert(out && iso_fabric_reserve(fabric, N * sizeof *out, NULL) == ISO_OK);
    ck_assert(iso_exchange_create(fabric, "the next slot's", &exchange) == ISO_OK);
    for (int slot = 0; slot < slots; slot++) {
        iso_source source = whole_of((slot + 1) % slots, N);
        ck_assert(iso_exchange_add(exchange, slot, 0, &whole, ISO_F32, ISO_SUM, &whole, &source, 1, NULL) ==
                  ISO_OK);
    }
    ck_assert(iso_exchange_commit(exchange) == ISO_OK);
    iso_exchange_bind(exchange, topology.rank, 0, out);
    for (int run = 0; run < RUNS; run++) {
        float *own = iso_fabric_slot_area(fabric, topology.rank);
        for (int i = 0; i < N; i++)
            own[i] = (float)(i + 1000000 * (topology.rank + run));
        iso_exchange_begin(exchange, 0);
        iso_exchange_pull(exchange, topology.rank);
        iso_exchange_end(exchange, 0);
        int right = 0;
        while (right < N && out[right] == (float)(right + 1000000 * (next + run)))
            right++;
        ck_assert_int_eq(right, N);
    }
    iso_exchange_destroy(exchange);
    iso_fabric_destroy(fabric);
    free(out);
}
END_TEST

/* ---- exchanges under way together ---- */

enum { PARTS = 3000 };

/* Exchange number `number` takes from each slot its floats at [number * PARTS, ...): the first two their
 * sum, the third those of the next slot. */
static iso_exchange *make_sum(iso_fabric *fabric, int slots, int number)
{
    iso_exchange *exchange;
    iso_source sources[64];
    iso_box whole = {1, {0}, {PARTS}};
    ck_assert(iso_exchange_create(fabric, "sum", &exchange) == ISO_OK);
    for (int slot = 0; slot < slots; slot++) {
        sources[slot] = whole_of(slot, PARTS);
        sources[slot].offset = (size_t)number * PARTS * sizeof(float);
    }
    for (int slot = 0; slot < slots; slot++)
        ck_assert(iso_exchange_add(exchange, slot, 0, &whole, ISO_F32, ISO_SUM, &whole,
                                   number < 2 ? sources : &sources[(slot + 1) % slots],
                                   number < 2 ? slots : 1, NULL) == ISO_OK);
    if (number == 0)
        iso_exchange_set_constant(exchange);
    return exchange;
}

/* The first two are under way together, the third has the buffers of the first. */
static void share(iso_fabric *fabric, iso_exchange *const *exchange, size_t more)
{
    iso_message_bytes of[3], all = {0};
    for (int i = 0; i < 3; i++)
        of[i] = iso_exchange_message_bytes(exchange[i]);
    all.incoming = of[0].incoming > of[2].incoming ? of[0].incoming : of[2].incoming;
    all.outgoing = of[0].outgoing > of[2].outgoing ? of[0].outgoing : of[2].outgoing;
    for (int i = 0; i < 3 && more == 0; i++)
        iso_exchange_share_buffers(exchange[i], i == 1 ? all : (iso_message_bytes){0});
    all.incoming += of[1].incoming + more;
    all.outgoing += of[1].outgoing + more;
    ck_assert(iso_fabric_reserve_messages(fabric, all) == ISO_OK);
}

static void take(iso_exchange *exchange, int slot, const float *got, double want)
{
    iso_exchange_wait(exchange, 0);
    iso_exchange_pull(exchange, slot);
    iso_exchange_end(exchange, 0);
    for (int i = 0; i < PARTS; i++)
        ck_assert_msg(got[i] == (float)(want + i), "element %d is %g instead of %g", i, got[i], want + i);
}

/* One run; the slots' numbers are small integers, so sums are exact. */
static void run_three(iso_fabric *fabric, iso_exchange *const *exchange, int slots, int run,
                      float (*got)[PARTS])
{
    int me = iso_rank(ctx);
    float *area = iso_fabric_slot_area(fabric, me);
    double sum = 0;
    for (int slot = 0; slot < slots; slot++)
        sum += slot * 10 + run;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < PARTS; i++)
            area[k * PARTS + i] = (float)(me * 10 + run + (k < 2 ? (me == 0 ? i + 1000 * k : 0) : i));
    ck_assert(iso_agree(ctx, ISO_OK) == ISO_OK); /* the first one's sources are constant */
    iso_exchange_start(exchange[0], 0);
    iso_exchange_start(exchange[1], 0);
    for (int i = 0; i < run; i++)
        iso_fabric_progress(fabric);
    take(exchange[1], me, got[1], sum + 1000);
    take(exchange[0], me, got[0], sum);
    iso_exchange_start(exchange[2], 0);
    take(exchange[2], me, got[2], (me + 1) % slots * 10 + run);
    ck_assert(iso_agree(ctx, ISO_OK) == ISO_OK);
}

START_TEST(exchanges_travel_together_in_shared_buffers)
{
    static float got[3][PARTS];
    for (int per_host = 1; per_host <= 2; per_host++) {
        iso_topology topology = topology_of(1, per_host, 1);
        iso_fabric *fabric = make(&topology);
        iso_exchange *exchange[3];
        ck_assert(iso_fabric_reserve(fabric, 3 * PARTS * sizeof(float), NULL) == ISO_OK);
        for (int k = 0; k < 3; k++)
            exchange[k] = make_sum(fabric, topology.n_slots, k);
        share(fabric, exchange, 0);
        for (int k = 0; k < 3; k++) {
            ck_assert(iso_exchange_commit(exchange[k]) == ISO_OK);
            iso_exchange_bind(exchange[k], topology.rank, 0, got[k]);
        }
        for (int run = 0; run < 4; run++)
            run_three(fabric, exchange, topology.n_slots, run, got);
        share(fabric, exchange, 100000); /* they move into larger buffers */
        run_three(fabric, exchange, topology.n_slots, 5, got);
        for (int k = 0; k < 3; k++)
            iso_exchange_destroy(exchange[k]);
        iso_fabric_destroy(fabric);
    }
}
END_TEST

START_TEST(the_tree_splits_at_powers_of_two)
{
    const int left[] = {0, 0, 1, 2, 2, 4, 4, 4, 4, 8, 8};
    for (int count = 2; count <= 10; count++)
        ck_assert_int_eq(iso_tree_left(count), left[count]);
    iso_memory_location locations[] = {{0, 0}, {0, 0}, {1, 1}, {1, 2}, {1, 1}, {1, 1},
                                       {2, 3}, {2, 4}, {2, 4}, {0, 0}, {0, 0}};
    iso_tree_node nodes[11];
    /* 8 + 3 sources, the 3 being 2 + 1. Host 0 sees its own one by one: 0, 1, 2-3, 4-5, 6-7, 8, 9, 10. */
    ck_assert_int_eq(iso_tree_cut(locations, 11, (iso_memory_location){0, 0}, nodes), 8);
    /* A domain of host 1 sees 2 and 3 one by one: 3 is its own. 4-5 is in one other domain: 0-1, 2, 3, 4-5, ... */
    ck_assert_int_eq(iso_tree_cut(locations, 11, (iso_memory_location){1, 2}, nodes), 8);
    ck_assert(nodes[1].begin == 2 && nodes[1].count == 1 && nodes[3].begin == 4 && nodes[3].count == 2);
    ck_assert_int_eq(iso_tree_cut(locations, 11, (iso_memory_location){5, 5}, nodes), 7);
    ck_assert(nodes[0].begin == 0 && nodes[0].count == 2 && nodes[1].begin == 2 && nodes[1].count == 2 &&
              nodes[1].n_folds == 1);
}
END_TEST

/* ---- what is refused ---- */

START_TEST(wrong_topologies_are_refused)
{
    iso_fabric *fabric = NULL;
    iso_topology topology = topology_of(1, 1, 1);
    topology.n_threads = 0;
    ck_assert(iso_fabric_create(&topology, iso_communicator(ctx), sum, sum, &fabric) == ISO_INVALID);
    topology = topology_of(1, 1, 1);
    rank_of_slot[0] = 1000;
    ck_assert(iso_fabric_create(&topology, iso_communicator(ctx), sum, sum, &fabric) == ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "slot 0 is on rank 1000"));
    ck_assert(fabric == NULL);
}
END_TEST

START_TEST(wrong_pulls_are_refused)
{
    iso_topology topology = topology_of(2, 1, 1);
    iso_fabric *fabric = make(&topology);
    iso_exchange *exchange;
    ck_assert(iso_exchange_create(fabric, "halo", &exchange) == ISO_OK);
    iso_box box = {1, {0}, {10}}, outside = {1, {5}, {6}}, other = {2, {0}, {2, 5}};
    iso_source sources[2] = {whole_of(0, 10), whole_of(1, 10)}, backwards[2] = {sources[1], sources[0]};
    ck_assert(iso_exchange_add(exchange, 0, 0, &box, ISO_F32, ISO_SUM, &outside, sources, 2, NULL) ==
              ISO_INVALID);
    ck_assert(iso_exchange_add(exchange, 0, 0, &outside, ISO_F32, ISO_SUM, &outside, sources, 2, NULL) ==
              ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "'halo'") && strstr(iso_error_message(), "slot 0"));
    ck_assert(iso_exchange_add(exchange, 0, 0, &other, ISO_F32, ISO_SUM, &box, sources, 2, NULL) ==
              ISO_INVALID);
    ck_assert(iso_exchange_add(exchange, 0, 0, &box, ISO_F32, ISO_SUM, &box, backwards, 2, NULL) ==
              ISO_INVALID);
    ck_assert(iso_exchange_add(exchange, 99, 0, &box, ISO_F32, ISO_SUM, &box, sources, 2, NULL) ==
              ISO_INVALID);
    ck_assert(iso_exchange_add(exchange, 0, 0, &box, ISO_DTYPE_NONE, ISO_SUM, &box, sources, 2, NULL) ==
              ISO_INVALID);
    ck_assert(iso_exchange_add(exchange, 0, 0, &box, ISO_F32, ISO_SUM, &box, sources, 0, NULL) ==
              ISO_INVALID);
    ck_assert(iso_exchange_commit(exchange) == ISO_INVALID); /* there is no memory yet */
    ck_assert(iso_fabric_reserve(fabric, SIZE_MAX / 2, NULL) == ISO_INVALID);
    ck_assert(iso_fabric_reserve(fabric, (size_t)1 << 46, NULL) == ISO_NO_MEMORY); /* 64 TiB */
    ck_assert(iso_fabric_reserve(fabric, 4096, NULL) == ISO_OK);
    ck_assert(iso_exchange_commit(exchange) == ISO_OK);
    ck_assert(iso_exchange_add(exchange, 0, 0, &box, ISO_F32, ISO_SUM, &box, sources, 2, NULL) ==
              ISO_INVALID);
    iso_exchange_destroy(exchange);
    iso_fabric_destroy(fabric);
}
END_TEST

/* Each rank on a host of its own; all on one, whose shared window only one of them counts. */
static void make_and_destroy(int ranks_per_host)
{
    size_t before = iso_memory_held();
    iso_topology topology = topology_of(2, ranks_per_host, 1);
    iso_fabric *fabric = make(&topology);
    iso_exchange *exchange;
    iso_box box = {1, {0}, {10}};
    iso_source sources[2] = {whole_of(0, 10), whole_of(1, 10)};
    ck_assert(iso_fabric_reserve(fabric, 4096, NULL) == ISO_OK);
    ck_assert(iso_exchange_create(fabric, "all", &exchange) == ISO_OK);
    for (int slot = 0; slot < topology.n_slots; slot++)
        ck_assert(iso_exchange_add(exchange, slot, 0, &box, ISO_F32, ISO_SUM, &box, sources, 2, NULL) ==
                  ISO_OK);
    ck_assert(iso_exchange_commit(exchange) == ISO_OK);
    ck_assert(iso_memory_held() > before);
    iso_exchange_destroy(exchange);
    iso_fabric_destroy(fabric);
    ck_assert_uint_eq(iso_memory_held(), before);
}

START_TEST(nothing_is_left)
{
    make_and_destroy(1);
    make_and_destroy(iso_ranks(ctx));
}
END_TEST

static bool is_crowded(int threads)
{
    iso_topology topology = topology_of(1, 1, threads);
    iso_fabric *fabric = make(&topology);
    bool crowded = iso_fabric_is_crowded(fabric);
    iso_fabric_destroy(fabric);
    return crowded;
}

/* The cores that the ranks may use count, and the ranks of all hosts that share the machine. */
START_TEST(threads_are_crowded)
{
    cpu_set_t all, one;
    int core = 0, ranks = iso_ranks(ctx);
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    int cores = CPU_COUNT(&all);
    ck_assert_int_eq(is_crowded(1), ranks > cores);
    ck_assert_int_eq(is_crowded(cores), ranks > 1);
    ck_assert(is_crowded(cores + 1));
    while (!CPU_ISSET(core, &all))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_int_eq(is_crowded(1), ranks > 1);
    ck_assert(is_crowded(2));
    ck_assert_int_eq(sched_setaffinity(0, sizeof all, &all), 0);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("fabric", 0, devices_do_without_a_library, areas_are_shared_apart_and_grow,
                  files_in_dev_shm_serve_too, what_dev_shm_cannot_hold_is_refused, threads_meet,
                  copies_of_ones_own_need_nobody, a_host_sends_one_partial_sum, what_crosses_hosts_is_counted,
                  large_messages_arrive_whole, exchanges_travel_together_in_shared_buffers,
                  the_tree_splits_at_powers_of_two, wrong_topologies_are_refused, wrong_pulls_are_refused,
                  threads_are_crowded, nothing_is_left))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
