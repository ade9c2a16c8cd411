/* Random exchanges against an oracle that knows nothing of hosts, ranks or threads: boxes of up to four
 * dimensions in larger boxes, one or many sources, sums whose bits depend on their order. Hosts and memory
 * domains are pretended, so that one machine has messages too. Ranks: 1, 3, 8   More: 2, 5
 * Sanitize: 3 */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/coll.h"
#include "runtime/base/memory.h"
#include "runtime/session/session.h"
#include "tests/support/hosts.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

/* ---- what happens, the same on every rank ---- */

typedef struct random_state {
    uint64_t word;
} random_state;

static int64_t draw(random_state *r, int64_t from, int64_t to) /* both included */
{
    r->word = r->word * 6364136223846793005u + 1442695040888963407u;
    return from + (int64_t)((r->word >> 33) % (uint64_t)(to - from + 1));
}

enum { MOST_SLOTS = 16, MOST_PULLS = 24, RUNS = 3 };

typedef struct pull_case {
    int slot, count, target, number;
    iso_dtype dtype;
    iso_reduce reduce;
    iso_box region, target_box;
    iso_source source[MOST_SLOTS];
    void *out;
} pull_case;

typedef struct scene {
    iso_topology topology;
    int rank_of_slot[MOST_SLOTS], host_of_rank[64], domain_of_slot[MOST_SLOTS];
    size_t slot_bytes, shared_bytes;
    int pulls;
    pull_case pull[MOST_PULLS];
    iso_fabric *fabric;
    iso_exchange *exchange;
} scene;

/* A box of the same rank around `inner`. */
static iso_box box_around(random_state *r, const iso_box *inner)
{
    iso_box box = *inner;
    for (int d = 0; d < box.rank; d++) {
        int64_t before = draw(r, 0, 2) ? 0 : draw(r, 0, 3), after = draw(r, 0, 2) ? 0 : draw(r, 0, 3);
        box.offset[d] -= before;
        box.extent[d] += before + after;
    }
    return box;
}

static iso_box random_region(random_state *r)
{
    iso_box box = {.rank = (int)draw(r, 0, 4)};
    int64_t most[] = {0, 3000, 50, 12, 6};
    for (int d = 0; d < box.rank; d++) {
        box.offset[d] = draw(r, 0, 100);
        box.extent[d] = draw(r, draw(r, 0, 9) ? 1 : 0, most[box.rank]);
    }
    return box;
}

static void draw_sources(random_state *r, scene *s, pull_case *p)
{
    int few = (int)draw(r, 0, 2);
    p->count = 0;
    for (int slot = 0; slot < s->topology.n_slots; slot++) {
        if (few == 0 && draw(r, 0, 3))
            continue;
        iso_source *source = &p->source[p->count++];
        source->slot = slot;
        source->space = draw(r, 0, 3) ? ISO_SPACE_SLOT : ISO_SPACE_SHARED;
        source->box = box_around(r, &p->region);
        size_t *end = source->space == ISO_SPACE_SLOT ? &s->slot_bytes : &s->shared_bytes;
        source->offset = *end;
        *end += ((size_t)iso_box_count(&source->box) * 8 + 63) / 64 * 64;
        if (few == 1)
            return;
    }
    if (p->count == 0)
        draw_sources(r, s, p);
}

/* What decides the domains of a scene. */
enum { BY_HOST, BY_SLOT, AT_RANDOM, DOMAINS };

static void draw_scene(random_state *r, scene *s, int per_host, int threads, int domains)
{
    int ranks = iso_ranks(ctx);
    *s = (scene){.topology = {.n_slots = (int)draw(r, 1, MOST_SLOTS),
                              .n_ranks = ranks,
                              .rank = iso_rank(ctx),
                              .n_threads = threads}};
    bool blocks = draw(r, 0, 1);
    for (int slot = 0; slot < s->topology.n_slots; slot++)
        s->rank_of_slot[slot] = blocks ? slot * ranks / s->topology.n_slots : (int)draw(r, 0, ranks - 1);
    pretend_hosts(ctx, per_host, s->host_of_rank);
    s->topology.rank_of_slot = s->rank_of_slot;
    s->topology.host_of_rank = s->host_of_rank;
    pretend_domains(s->topology.n_slots, s->rank_of_slot, s->host_of_rank,
                    domains == BY_SLOT ? 0 : (unsigned)draw(r, 1, 1 << 20), s->domain_of_slot);
    s->topology.domain_of_slot = domains == BY_HOST ? NULL : s->domain_of_slot;
    const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_I32};
    s->pulls = (int)draw(r, 1, MOST_PULLS);
    for (int i = 0; i < s->pulls; i++) {
        pull_case *p = &s->pull[i];
        *p = (pull_case){.slot = (int)draw(r, 0, s->topology.n_slots - 1), .target = i, .number = -1};
        p->dtype = types[draw(r, 0, 2)];
        p->reduce = draw(r, 0, 4) ? ISO_SUM : ISO_MAX;
        p->region = random_region(r);
        p->target_box = box_around(r, &p->region);
        draw_sources(r, s, p);
        if (i > 0 && draw(r, 0, 3) == 0) { /* two slots that want the same */
            int target = p->target;
            *p = s->pull[i - 1];
            p->target = target;
            p->slot = (int)draw(r, 0, s->topology.n_slots - 1);
            if (p->region.rank > 0 && p->region.extent[0] > 1 && draw(r, 0, 1)) { /* a part of it */
                p->region.offset[0]++;
                p->region.extent[0] = draw(r, 1, p->region.extent[0] - 1);
            }
        }
    }
}

/* ---- values ---- */

/* Of a source's element; what lies in an area that slots share is the area's. Sizes differ widely, so that sums
 * depend on their order. */
static double value_of(const scene *s, const iso_source *source, int64_t element, int run)
{
    int owner = source->space == ISO_SPACE_SLOT ? source->slot
                                                : 100 + iso_fabric_domain_of_slot(s->fabric, source->slot);
    uint64_t hash =
        ((uint64_t)owner * 1000003u + source->offset * 31u + (uint64_t)element) * 0x9E3779B97F4A7C15u +
        (uint64_t)run;
    hash ^= hash >> 29;
    hash *= 0xBF58476D1CE4E5B9u;
    double small = (double)(int32_t)(hash >> 32) * 0x1p-31;
    return small * (double)(1 << (hash % 20));
}

static void store(iso_dtype dtype, void *at, int64_t i, double value)
{
    if (dtype == ISO_F32)
        ((float *)at)[i] = (float)value;
    else if (dtype == ISO_F64)
        ((double *)at)[i] = value;
    else
        ((int32_t *)at)[i] = (int32_t)value;
}

/* The index in `box` of the element of `region` at position `at` of its row-major order. */
static int64_t index_in(const iso_box *box, const iso_box *region, int64_t at)
{
    int64_t index = 0, scale = 1;
    for (int d = box->rank - 1; d >= 0; d--) {
        index += (region->offset[d] + at % region->extent[d] - box->offset[d]) * scale;
        at /= region->extent[d];
        scale *= box->extent[d];
    }
    return index;
}

static float add_f32(float a, float b)
{
    volatile float sum = a + b;
    return sum;
}

static double join(const pull_case *p, double a, double b)
{
    if (p->reduce == ISO_MAX)
        return a > b ? a : b;
    return p->dtype == ISO_F32 ? (double)add_f32((float)a, (float)b) : a + b;
}

/* The value that sources [from, to) make together. */
static double expected(const scene *s, const pull_case *p, int from, int to, int64_t at, int run)
{
    if (to - from == 1) {
        double value = value_of(s, &p->source[from], index_in(&p->source[from].box, &p->region, at), run);
        return p->dtype == ISO_F32   ? (double)(float)value
               : p->dtype == ISO_I32 ? (double)(int32_t)value
                                     : value;
    }
    int half = 1;
    for (int power = 1; power < to - from; power *= 2)
        half = power;
    return join(p, expected(s, p, from, from + half, at, run), expected(s, p, from + half, to, at, run));
}

static void fill_sources(const scene *s, int run)
{
    for (int i = 0; i < s->pulls; i++)
        for (int k = 0; k < s->pull[i].count; k++) {
            const iso_source *source = &s->pull[i].source[k];
            char *area = source->space == ISO_SPACE_SLOT ? iso_fabric_slot_area(s->fabric, source->slot)
                                                         : iso_fabric_shared_area(s->fabric, source->slot);
            if (s->rank_of_slot[source->slot] != s->topology.rank)
                continue;
            for (int64_t e = 0; e < iso_box_count(&source->box); e++)
                store(s->pull[i].dtype, area + source->offset, e, value_of(s, source, e, run));
        }
}

/* ---- running ---- */

#define COMBINE(type)                                                                                        \
    for (int64_t i = 0; i < n; i++)                                                                          \
    ((type *)out)[i] = OP(((const type *)a)[i], ((const type *)b)[i])
#define OP(x, y) ((x) + (y))
static void sum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *stream)
{
    (void)stream;
    if (dtype == ISO_F32)
        COMBINE(float);
    else if (dtype == ISO_F64)
        COMBINE(double);
    else
        COMBINE(int32_t);
}
#undef OP
#define OP(x, y) ((x) > (y) ? (x) : (y))
static void maximum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *stream)
{
    (void)stream;
    if (dtype == ISO_F32)
        COMBINE(float);
    else if (dtype == ISO_F64)
        COMBINE(double);
    else
        COMBINE(int32_t);
}

static const int sentinel = 0x5a;

static void check_pull(const scene *s, const pull_case *p, int run)
{
    int64_t n = iso_box_count(&p->target_box);
    size_t size = iso_dtype_size(p->dtype);
    unsigned char *right = malloc((size_t)n * size + 1);
    memset(right, sentinel, (size_t)n * size);
    for (int64_t at = 0; at < iso_box_count(&p->region); at++)
        store(p->dtype, right, index_in(&p->target_box, &p->region, at),
              expected(s, p, 0, p->count, at, run));
    ck_assert_msg(!memcmp(right, p->out, (size_t)n * size),
                  "run %d, target %d of slot %d on rank %d: %d sources", run, p->target, p->slot,
                  s->topology.rank, p->count);
    free(right);
}

/* What a slot's owner combines itself must be what the pull wrote. */
static void check_combine(const scene *s, const pull_case *p, int run)
{
    int64_t n = iso_box_count(&p->region);
    if (!iso_exchange_is_run(s->exchange, p->slot, p->number) || n == 0)
        return;
    int64_t begin = n / 3, length = n - begin < 4096 ? n - begin : 4096;
    size_t size = iso_dtype_size(p->dtype);
    char *part = malloc((size_t)length * size), *right = malloc((size_t)length * size);
    for (int64_t i = 0; i < length; i++)
        store(p->dtype, right, i, expected(s, p, 0, p->count, begin + i, run));
    iso_exchange_combine(s->exchange, p->slot, p->number, begin, length, part);
    ck_assert(!memcmp(part, right, (size_t)length * size));
    const void *view = iso_exchange_view(s->exchange, p->slot, p->number, begin), *address[MOST_SLOTS];
    int operands = iso_exchange_pull_sources(s->exchange, p->slot, p->number, address, MOST_SLOTS);
    ck_assert((view != NULL) == (operands == 1) && operands <= p->count);
    ck_assert(!view || !memcmp(view, right, (size_t)length * size));
    free(right);
    free(part);
}

typedef struct worker {
    scene *s;
    int thread, run;
} worker;

static bool is_mine(const worker *w, int slot)
{
    return w->s->rank_of_slot[slot] == w->s->topology.rank && slot % w->s->topology.n_threads == w->thread;
}

static void *work(void *argument)
{
    worker *w = argument;
    scene *s = w->s;
    iso_exchange_begin(s->exchange, w->thread);
    for (int slot = 0; slot < s->topology.n_slots; slot++)
        if (is_mine(w, slot))
            iso_exchange_pull(s->exchange, slot);
    for (int i = 0; i < s->pulls; i++)
        if (is_mine(w, s->pull[i].slot))
            check_combine(s, &s->pull[i], w->run);
    iso_exchange_end(s->exchange, w->thread);
    return NULL;
}

static void run_once(scene *s, int run)
{
    worker workers[2] = {{s, 0, run}, {s, 1, run}};
    pthread_t other;
    fill_sources(s, run);
    if (s->topology.n_threads == 2)
        ck_assert(!pthread_create(&other, NULL, work, &workers[1]));
    work(&workers[0]);
    if (s->topology.n_threads == 2)
        pthread_join(other, NULL);
    for (int i = 0; i < s->pulls; i++)
        if (s->rank_of_slot[s->pull[i].slot] == s->topology.rank)
            check_pull(s, &s->pull[i], run);
}

static void build(scene *s)
{
    ck_assert_msg(iso_fabric_create(&s->topology, iso_communicator(ctx), sum, maximum, &s->fabric) == ISO_OK,
                  "%s", iso_error_message());
    ck_assert(iso_fabric_reserve(s->fabric, s->slot_bytes, same_bytes(s->shared_bytes)) == ISO_OK);
    ck_assert(iso_exchange_create(s->fabric, "test", &s->exchange) == ISO_OK);
    for (int i = 0; i < s->pulls; i++) {
        pull_case *p = &s->pull[i];
        ck_assert_msg(iso_exchange_add(s->exchange, p->slot, p->target, &p->target_box, p->dtype, p->reduce,
                                       &p->region, p->source, p->count, &p->number) == ISO_OK,
                      "%s", iso_error_message());
        if (s->rank_of_slot[p->slot] != s->topology.rank)
            continue;
        size_t bytes = (size_t)iso_box_count(&p->target_box) * 8 + 8;
        p->out = malloc(bytes);
        memset(p->out, sentinel, bytes);
        iso_exchange_bind(s->exchange, p->slot, p->target, p->out);
    }
    ck_assert(iso_exchange_commit(s->exchange) == ISO_OK);
}

/* Pulled bytes are those of the plan, and the plan's do not depend on who hosts what. */
static void check_traffic(const scene *s)
{
    for (int slot = 0; slot < s->topology.n_slots; slot++) {
        if (s->rank_of_slot[slot] != s->topology.rank)
            continue;
        uint64_t bytes = 0;
        for (int i = 0; i < s->pulls; i++)
            for (int k = 0; k < s->pull[i].count && s->pull[i].slot == slot; k++)
                if (s->pull[i].source[k].slot != slot)
                    bytes += (uint64_t)iso_box_count(&s->pull[i].region) * iso_dtype_size(s->pull[i].dtype);
        iso_traffic planned = iso_exchange_planned(s->exchange, slot),
                    counted = iso_fabric_traffic(s->fabric, slot);
        ck_assert_uint_eq(planned.pulled, bytes);
        ck_assert(counted.pulled >= RUNS * bytes && planned.crossed <= planned.pulled);
    }
}

static void try_scene(uint64_t seed, int per_host, int threads, int domains)
{
    random_state r = {seed * 7919 + (uint64_t)per_host * 31 + (uint64_t)threads};
    scene *s = malloc(sizeof *s);
    draw_scene(&r, s, per_host, threads, domains);
    build(s);
    for (int run = 0; run < RUNS; run++) {
        if (run == 2) /* areas move, exchanges follow */
            ck_assert(iso_fabric_reserve(s->fabric, s->slot_bytes + 100000,
                                         same_bytes(s->shared_bytes + 5000)) == ISO_OK);
        run_once(s, run);
    }
    check_traffic(s);
    iso_exchange_destroy(s->exchange);
    iso_fabric_destroy(s->fabric);
    for (int i = 0; i < s->pulls; i++)
        free(s->pull[i].out);
    free(s);
}

START_TEST(random_exchanges)
{
    int ranks = iso_ranks(ctx), per_host[] = {ranks, 1, 2, 3};
    for (int hosts = 0; hosts < 4; hosts++)
        for (int threads = 1; threads <= 2; threads++)
            for (uint64_t seed = 0; seed < 12 && (hosts == 0 || per_host[hosts] < ranks); seed++)
                try_scene(seed, per_host[hosts], threads, (int)seed % DOMAINS);
    ck_assert_uint_eq(iso_memory_held() > 0, 1);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("exchange", 0, random_exchanges))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
