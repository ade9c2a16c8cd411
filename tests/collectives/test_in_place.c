/* Sums in place over all slots of a job: every element that a slot of the same host combined has the bits of the
 * tree over slot numbers, in every slot's own area; chunks of other hosts are as they were. Sizes that do not
 * divide, fewer elements than slots, more than one block. Ranks: 1, 3, 8   More: 2, 5
 * Sanitize: 3 */
#include <check.h>
#include <stdlib.h>

#include "collectives/coll.h"
#include "runtime/backend/backend.h"
#include "runtime/session/session.h"
#include "tests/support/hosts.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

enum { MOST_SLOTS = 64, OFFSET = 192 };

/* Sizes differ widely, so that a sum depends on its order. */
static float value_of(int slot, int64_t element)
{
    uint32_t hash = ((uint32_t)slot * 7919u + (uint32_t)element) * 2654435761u;
    return (float)(int32_t)hash * (float)(1 << hash % 17);
}

/* Of slots [first, first + count): split at the largest power of two. */
static float expected(int first, int count, int64_t element)
{
    int half = 1;
    if (count == 1)
        return value_of(first, element);
    while (half * 2 < count)
        half *= 2;
    volatile float sum = expected(first, half, element) + expected(first + half, count - half, element);
    return sum;
}

typedef struct scene {
    iso_topology topology;
    int rank_of_slot[MOST_SLOTS], host_of_rank[64], domain_of_slot[MOST_SLOTS];
    int64_t n;
    iso_fabric *fabric;
    iso_exchange *exchange;
} scene;

static float *buffer_of(const scene *s, int slot)
{
    return (float *)(void *)((char *)iso_fabric_slot_area(s->fabric, slot) + OFFSET);
}

static void add_all(scene *s)
{
    iso_source source[MOST_SLOTS];
    int slots = s->topology.n_slots;
    for (int i = 0; i < slots; i++)
        source[i] = (iso_source){.slot = i, .offset = OFFSET, .box = iso_box_range(0, s->n)};
    for (int slot = 0; slot < slots; slot++) {
        int64_t begin, count;
        iso_part_range(s->n, slots, slot, &begin, &count);
        if (count > 0)
            ck_assert(iso_exchange_add_in_place(s->exchange, slot, 0, ISO_F32, ISO_SUM, s->n, begin, count,
                                                source, slots) == ISO_OK);
    }
}

static void scene_run(scene *s)
{
    for (int slot = 0; slot < s->topology.n_slots; slot++)
        if (s->rank_of_slot[slot] == s->topology.rank) {
            for (int64_t i = 0; i < s->n; i++)
                buffer_of(s, slot)[i] = value_of(slot, i);
            iso_exchange_bind(s->exchange, slot, 0, buffer_of(s, slot));
        }
    iso_exchange_begin(s->exchange, 0);
    for (int slot = 0; slot < s->topology.n_slots; slot++)
        if (s->rank_of_slot[slot] == s->topology.rank)
            iso_exchange_pull(s->exchange, slot);
    iso_exchange_end(s->exchange, 0);
}

static void check_slot(const scene *s, int slot)
{
    int slots = s->topology.n_slots;
    for (int owner = 0; owner < slots; owner++) {
        int64_t begin, count;
        iso_part_range(s->n, slots, owner, &begin, &count);
        for (int64_t i = begin; i < begin + count; i++) {
            bool given =
                iso_fabric_domain_of_slot(s->fabric, owner) == iso_fabric_domain_of_slot(s->fabric, slot);
            float right = given ? expected(0, slots, i) : value_of(slot, i);
            ck_assert_msg(buffer_of(s, slot)[i] == right, "element %lld of slot %d is %.9g, not %.9g",
                          (long long)i, slot, (double)buffer_of(s, slot)[i], (double)right);
        }
    }
    iso_traffic planned = iso_exchange_planned(s->exchange, slot),
                counted = iso_fabric_traffic(s->fabric, slot);
    ck_assert_uint_eq(planned.pulled, counted.pulled);
}

/* In one domain the slots receive what an all-reduce moves. */
static void check_bytes(const scene *s)
{
    double mine = 0, all[64], sum = 0;
    for (int slot = 0; slot < s->topology.n_slots; slot++)
        mine += (double)iso_exchange_planned(s->exchange, slot).pulled;
    ck_assert(iso_gather_all(ctx, &mine, sizeof mine, all) == ISO_OK);
    for (int r = 0; r < iso_ranks(ctx); r++)
        sum += all[r];
    ck_assert(iso_fabric_domains(s->fabric) > 1 || sum == 2.0 * 4 * (double)s->n * (s->topology.n_slots - 1));
}

static void try_sum(int slots, bool blocks, int64_t n, int per_host, bool in_domains, unsigned seed)
{
    scene s = {.n = n, .topology = {.n_slots = slots, .n_threads = 1}};
    int ranks = iso_ranks(ctx);
    const iso_backend *cpu = iso_backend_cpu();
    for (int slot = 0; slot < slots; slot++)
        s.rank_of_slot[slot] = blocks ? slot * ranks / slots : slot * 5 % ranks;
    pretend_hosts(ctx, per_host, s.host_of_rank);
    pretend_domains(slots, s.rank_of_slot, s.host_of_rank, seed, s.domain_of_slot);
    s.topology.domain_of_slot = in_domains ? s.domain_of_slot : NULL;
    s.topology.rank_of_slot = s.rank_of_slot;
    s.topology.host_of_rank = s.host_of_rank;
    s.topology.n_ranks = ranks;
    s.topology.rank = iso_rank(ctx);
    ck_assert(iso_fabric_create(&s.topology, iso_communicator(ctx), cpu->sum, cpu->maximum, &s.fabric) ==
              ISO_OK);
    ck_assert(iso_fabric_reserve(s.fabric, OFFSET + (size_t)n * 4, NULL) == ISO_OK);
    ck_assert(iso_exchange_create(s.fabric, "test", &s.exchange) == ISO_OK);
    add_all(&s);
    ck_assert(iso_exchange_commit(s.exchange) == ISO_OK);
    scene_run(&s);
    for (int slot = 0; slot < slots; slot++)
        if (s.rank_of_slot[slot] == s.topology.rank)
            check_slot(&s, slot);
    check_bytes(&s);
    iso_exchange_destroy(s.exchange);
    iso_fabric_destroy(s.fabric);
}

START_TEST(sums_in_place)
{
    const int64_t sizes[] = {1, 5, 1000, 4097, 9001};
    const int slots[] = {1, 2, 3, 7, 16};
    int ranks = iso_ranks(ctx), per_host[] = {ranks, 1, 2, 3};
    for (int h = 0; h < 4; h++)
        for (int k = 0; k < 5 && (h == 0 || per_host[h] < ranks); k++)
            for (int i = 0; i < 5; i++)
                try_sum(slots[k], (i + k) % 2, sizes[i], per_host[h], (i + h) % 3 > 0, (unsigned)(i * k));
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("in place", 0, sums_in_place))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
