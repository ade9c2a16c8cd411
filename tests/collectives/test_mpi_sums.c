/* Sums that MPI adds between hosts. The values are integers, so that every order gives the same bits: sums and maxima
 * of all types, wanted by one host or by several, whole, in parts and in place; sums of a few slots, which messages
 * bring. What crosses is one result for each region, not one partial sum of each other host.
 * Ranks: 1, 3, 8   More: 2, 5
 * Sanitize: 3 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/coll.h"
#include "runtime/backend/backend.h"
#include "runtime/session/session.h"
#include "tests/support/hosts.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

enum { MOST_SLOTS = 24, PULLS = 10, N = 1203, BUFFER = (N * 8 + 63) / 64 * 64, RUNS = 3 };

typedef struct pull_case {
    iso_dtype dtype;
    iso_reduce reduce;
    int64_t begin, count; /* of N elements */
    int first, sources;   /* slots */
    bool all;             /* every slot pulls it, else slot `by` */
    int by;
} pull_case;

typedef struct scene {
    iso_topology topology;
    int rank_of_slot[MOST_SLOTS], host_of_rank[64], domain_of_slot[MOST_SLOTS], hosts;
    iso_fabric *fabric;
    iso_exchange *exchange;
    char *out[MOST_SLOTS]; /* of this rank's slots: [PULLS * BUFFER] */
} scene;

static double value_of(int slot, int64_t element, int run)
{
    return (double)((slot * 37 + element * 11 + run * 5) % 1000 - 400);
}

static void put(iso_dtype dtype, void *at, int64_t i, double value)
{
    iso_element_set(at, dtype, i, value);
}

/* The same on every rank. Every third is of a part of the slots only. */
static pull_case pull_number(const scene *s, int i)
{
    const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_I32};
    int slots = s->topology.n_slots;
    pull_case p = {.dtype = types[i % 3],
                   .reduce = i % 4 == 1 ? ISO_MAX : ISO_SUM,
                   .begin = i * 37,
                   .count = i % 2 ? 100 : N - i * 37,
                   .sources = slots,
                   .all = i % 5 < 2,
                   .by = i * 7 % slots};
    if (i % 3 == 2) {
        p.first = i % slots;
        p.sources = (slots - p.first + 1) / 2;
    }
    return p;
}

static double expected(const pull_case *p, int64_t element, int run)
{
    double result = value_of(p->first, element, run);
    for (int slot = p->first + 1; slot < p->first + p->sources; slot++) {
        double value = value_of(slot, element, run);
        result = p->reduce == ISO_SUM ? result + value : value > result ? value : result;
    }
    return result;
}

static bool is_mine(const scene *s, int slot)
{
    return s->rank_of_slot[slot] == s->topology.rank;
}

/* Buffer number 3 of a slot's area is for the sum in place. */
static void *buffer_of(const scene *s, int slot, int number)
{
    return (char *)iso_fabric_slot_area(s->fabric, slot) + (size_t)number * BUFFER;
}

static int type_number(iso_dtype dtype)
{
    return dtype == ISO_F32 ? 0 : dtype == ISO_F64 ? 1 : 2;
}

static void add_pull(scene *s, int i, int slot)
{
    pull_case p = pull_number(s, i);
    iso_source source[MOST_SLOTS];
    iso_box flat = iso_box_range(0, N), part = iso_box_range(p.begin, p.count);
    for (int k = 0; k < p.sources; k++)
        source[k] =
            (iso_source){.slot = p.first + k, .offset = (size_t)type_number(p.dtype) * BUFFER, .box = flat};
    ck_assert_msg(iso_exchange_add(s->exchange, slot, i, &flat, p.dtype, p.reduce, &part, source, p.sources,
                                   NULL) == ISO_OK,
                  "%s", iso_error_message());
    if (is_mine(s, slot))
        iso_exchange_bind(s->exchange, slot, i, s->out[slot] + (size_t)i * BUFFER);
}

static void add_in_place(scene *s, int slot)
{
    iso_source source[MOST_SLOTS];
    int64_t begin, count;
    iso_part_range(N, s->topology.n_slots, slot, &begin, &count);
    for (int k = 0; k < s->topology.n_slots; k++)
        source[k] = (iso_source){.slot = k, .offset = 3 * (size_t)BUFFER, .box = iso_box_range(0, N)};
    if (count > 0)
        ck_assert(iso_exchange_add_in_place(s->exchange, slot, PULLS, ISO_F64, ISO_SUM, N, begin, count,
                                            source, s->topology.n_slots) == ISO_OK);
    if (is_mine(s, slot))
        iso_exchange_bind(s->exchange, slot, PULLS, buffer_of(s, slot, 3));
}

static void fill(const scene *s, int slot, int run)
{
    const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_I32, ISO_F64};
    for (int b = 0; b < 4; b++)
        for (int64_t e = 0; e < N; e++)
            put(types[b], buffer_of(s, slot, b), e, value_of(slot, e, run));
}

static void check_slot(const scene *s, int slot, int run)
{
    pull_case whole = {.reduce = ISO_SUM, .sources = s->topology.n_slots};
    for (int i = 0; i < PULLS; i++) {
        pull_case p = pull_number(s, i);
        for (int64_t e = p.begin; e < p.begin + p.count && (p.all || p.by == slot); e++)
            ck_assert_msg(iso_element_get(s->out[slot] + (size_t)i * BUFFER, p.dtype, e) ==
                              expected(&p, e, run),
                          "run %d, pull %d of slot %d, element %lld", run, i, slot, (long long)e);
    }
    for (int owner = 0; owner < s->topology.n_slots; owner++) {
        int64_t begin, count;
        iso_part_range(N, s->topology.n_slots, owner, &begin, &count);
        bool given =
            iso_fabric_domain_of_slot(s->fabric, owner) == iso_fabric_domain_of_slot(s->fabric, slot);
        for (int64_t e = begin; e < begin + count; e++)
            ck_assert(iso_element_get(buffer_of(s, slot, 3), ISO_F64, e) ==
                      (given ? expected(&whole, e, run) : value_of(slot, e, run)));
    }
}

static void run_once(scene *s, int run)
{
    for (int slot = 0; slot < s->topology.n_slots; slot++)
        if (is_mine(s, slot))
            fill(s, slot, run);
    iso_exchange_start(s->exchange, 0);
    iso_fabric_progress(s->fabric);
    iso_exchange_wait(s->exchange, 0);
    for (int slot = 0; slot < s->topology.n_slots; slot++)
        if (is_mine(s, slot))
            iso_exchange_pull(s->exchange, slot);
    iso_exchange_end(s->exchange, 0);
    ck_assert_int_eq(iso_fabric_failures(s->fabric), 0);
    for (int slot = 0; slot < s->topology.n_slots; slot++)
        if (is_mine(s, slot))
            check_slot(s, slot, run);
}

static void build(scene *s, int slots, bool blocks, int per_host, bool mpi, bool in_domains)
{
    int ranks = iso_ranks(ctx);
    const iso_backend *cpu = iso_backend_cpu();
    *s = (scene){.topology = {.n_slots = slots, .n_ranks = ranks, .rank = iso_rank(ctx), .n_threads = 1}};
    for (int slot = 0; slot < slots; slot++)
        s->rank_of_slot[slot] = blocks ? slot * ranks / slots : slot * 5 % ranks;
    pretend_hosts(ctx, per_host, s->host_of_rank);
    s->topology.rank_of_slot = s->rank_of_slot;
    s->topology.host_of_rank = s->host_of_rank;
    pretend_domains(slots, s->rank_of_slot, s->host_of_rank, (unsigned)slots / 2, s->domain_of_slot);
    s->topology.domain_of_slot = in_domains ? s->domain_of_slot : NULL;
    for (int h = 0; h < ranks; h++) /* hosts that have slots */
        for (int slot = 0, found = 0; slot < slots && !found; slot++)
            s->hosts += found = s->host_of_rank[s->rank_of_slot[slot]] == h;
    ck_assert(iso_fabric_create(&s->topology, iso_communicator(ctx), cpu->sum, cpu->maximum, &s->fabric) ==
              ISO_OK);
    if (mpi)
        ck_assert(iso_fabric_use(s->fabric, "mpi") == ISO_OK);
    ck_assert(iso_fabric_reserve(s->fabric, 4 * BUFFER, NULL) == ISO_OK);
    ck_assert(iso_exchange_create(s->fabric, "test", &s->exchange) == ISO_OK);
    for (int slot = 0; slot < slots; slot++)
        if (is_mine(s, slot))
            s->out[slot] = malloc((size_t)PULLS * BUFFER);
}

static void tear_down(scene *s)
{
    iso_exchange_destroy(s->exchange);
    iso_fabric_destroy(s->fabric);
    for (int slot = 0; slot < s->topology.n_slots; slot++)
        free(s->out[slot]);
}

static void try_sums(int slots, bool blocks, int per_host, bool in_domains)
{
    scene s;
    build(&s, slots, blocks, per_host, true, in_domains);
    for (int slot = 0; slot < slots; slot++) {
        for (int i = 0; i < PULLS; i++)
            if (pull_number(&s, i).all || pull_number(&s, i).by == slot)
                add_pull(&s, i, slot);
        add_in_place(&s, slot);
    }
    ck_assert_msg(iso_exchange_commit(s.exchange) == ISO_OK, "%s", iso_error_message());
    for (int run = 0; run < RUNS; run++)
        run_once(&s, run);
    tear_down(&s);
}

START_TEST(mpi_adds_between_hosts)
{
    const int slots[] = {1, 3, 8, 17, MOST_SLOTS};
    int ranks = iso_ranks(ctx), per_host[] = {ranks, 1, 2, 3};
    for (int h = 0; h < 4; h++)
        for (int k = 0; k < 5 && (h == 0 || per_host[h] < ranks); k++)
            for (int blocks = 0; blocks < 2; blocks++)
                try_sums(slots[k], blocks, per_host[h], (k + blocks) % 2);
}
END_TEST

/* Bytes that come to each host for one sum over all slots. */
static double crossing(bool mpi, bool in_domains, int *hosts)
{
    scene s;
    double mine = 0, all[64], sum = 0;
    build(&s, MOST_SLOTS, true, 1, mpi, in_domains);
    for (int slot = 0; slot < MOST_SLOTS; slot++)
        add_pull(&s, 0, slot);
    ck_assert(iso_exchange_commit(s.exchange) == ISO_OK);
    for (int slot = 0; slot < MOST_SLOTS; slot++)
        mine += (double)iso_exchange_planned(s.exchange, slot).crossed;
    ck_assert(iso_gather_all(ctx, &mine, sizeof mine, all) == ISO_OK);
    for (int r = 0; r < iso_ranks(ctx); r++)
        sum += all[r];
    *hosts = s.hosts;
    tear_down(&s);
    return sum;
}

START_TEST(one_result_crosses)
{
    for (int in_domains = 0; in_domains < 2; in_domains++) {
        int hosts;
        double tree = crossing(false, in_domains, &hosts), mpi = crossing(true, in_domains, &hosts);
        ck_assert_msg(mpi == (hosts > 1 ? 4.0 * N : 0), "%g bytes cross to %d hosts", mpi, hosts);
        ck_assert(tree >= 4.0 * N * hosts * (hosts - 1));
        ck_assert(tree == crossing(false, false, &hosts)); /* a host combines what its domains have */
    }
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("sums of MPI", 0, mpi_adds_between_hosts, one_result_crosses))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
