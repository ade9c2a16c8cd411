/* All-reduces of float32 by Isogrid's exchanges and by Open MPI, measured in turn in one run:
 *
 *   launch/mpirun -np 2 build/tests/bench/collectives [--smallest 1024] [--largest 67108864] [--rounds 15]
 *                                                     [--slots 1]
 *
 * tests/bench/collectives runs it on 2 to 8 ranks and on simulated hosts. Each rank is one slot, or several
 * with `--slots`. Isogrid's all-reduce is the one that a plan makes for a value of this size: one exchange in
 * which every slot adds the whole, or one in which every slot adds its chunk in place on its host, followed
 * between hosts by one in which it takes the chunks of other hosts; `ratio` is that of the plan's choice.
 * `shared` is what a plan makes for gradients: every slot adds its chunk, and writes it where all slots of its
 * host read it. Open MPI's is the faster of MPI_Allreduce with MPI_IN_PLACE and with two buffers.
 *
 * With --count ELEMENTS --only whole|chunks|shared --times N nothing is measured: it runs one kind N times, and
 * prints the bytes that cross between hosts in each.
 *
 * Each line gives the least of all rounds of the slowest rank's time, and the ratios of these: what else runs
 * on the machine only adds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "collectives/coll.h"
#include "runtime/backend/backend.h"
#include "runtime/base/clock.h"
#include "runtime/session/session.h"

enum {
    LEAST_IN_TWO = 1 << 21
}; /* of runtime/plan/schedule.c, as the other bounds of a plan's choice below */
enum { MOST_ROUNDS = 99, MOST_SLOTS = 256, KINDS = 5 };
typedef enum kind { WHOLE, CHUNKS, SHARED, MPI_INPLACE, MPI_PLAIN } kind;

typedef struct bench {
    iso_context *ctx;
    iso_fabric *fabric;
    int ranks, hosts, rank, rounds;
    int each, slots; /* slots of each rank, and of all */
    int64_t count;   /* elements */
    iso_exchange *whole, *scatter, *gather, *shared;
    float *out, *in; /* private */
    double seconds[KINDS][MOST_ROUNDS];
} bench;

static double least(const double *values, int count)
{
    double found = values[0];
    for (int i = 1; i < count; i++)
        found = values[i] < found ? values[i] : found;
    return found;
}

/* ---- the exchanges ---- */

enum { TARGET };

/* Every slot pulls `count` elements from `begin` on: of all slots, or of one. */
static iso_status add_pull(bench *b, iso_exchange *exchange, int slot, int first, int sources, int64_t begin,
                           int64_t count)
{
    iso_source source[MOST_SLOTS];
    iso_box flat = iso_box_range(0, b->count), part = iso_box_range(begin, count);
    for (int i = 0; i < sources; i++)
        source[i] = (iso_source){.slot = first + i, .space = ISO_SPACE_SLOT, .box = flat};
    if (exchange == b->scatter)
        return iso_exchange_add_in_place(exchange, slot, TARGET, ISO_F32, ISO_SUM, b->count, begin, count,
                                         source, sources);
    return iso_exchange_add(exchange, slot, TARGET, &flat, ISO_F32, ISO_SUM, &part, source, sources, NULL);
}

static iso_status add_pulls(bench *b, int slot)
{
    int64_t begin, count;
    iso_status status = ISO_OK;
    ISO_TRY(add_pull(b, b->whole, slot, 0, b->slots, 0, b->count));
    iso_part_range(b->count, b->slots, slot, &begin, &count);
    if (count > 0) {
        ISO_TRY(add_pull(b, b->scatter, slot, 0, b->slots, begin, count));
        ISO_TRY(add_pull(b, b->shared, slot, 0, b->slots, begin, count));
    }
    for (int i = 0; i < b->slots; i++) {
        iso_part_range(b->count, b->slots, i, &begin, &count);
        if (count > 0 && iso_host_of_rank(b->ctx, i / b->each) != iso_host_of_rank(b->ctx, slot / b->each))
            ISO_TRY(add_pull(b, b->gather, slot, i, 1, begin, count));
    }
done:
    return status;
}

static void bind_slot(bench *b, int slot)
{
    float *area = iso_fabric_slot_area(b->fabric, slot);
    iso_exchange_bind(b->whole, slot, TARGET, b->out + (slot % b->each) * b->count);
    iso_exchange_bind(b->scatter, slot, TARGET, area);
    iso_exchange_bind(b->gather, slot, TARGET, area);
    iso_exchange_bind(b->shared, slot, TARGET, iso_fabric_shared_area(b->fabric, slot));
    for (int64_t i = 0; i < b->count; i++)
        area[i] = b->in[i] = (float)(i % 13 + slot);
}

static iso_status make_exchanges(bench *b)
{
    size_t bytes = (size_t)b->count * sizeof(float), shared[MOST_SLOTS];
    iso_status status = ISO_OK;
    for (int i = 0; i < MOST_SLOTS; i++)
        shared[i] = bytes;
    ISO_TRY(iso_fabric_reserve(b->fabric, bytes, shared));
    ISO_TRY(iso_exchange_create(b->fabric, "whole", &b->whole));
    ISO_TRY(iso_exchange_create(b->fabric, "scatter", &b->scatter));
    ISO_TRY(iso_exchange_create(b->fabric, "gather", &b->gather));
    ISO_TRY(iso_exchange_create(b->fabric, "shared", &b->shared));
    for (int slot = 0; slot < b->slots; slot++)
        ISO_TRY(add_pulls(b, slot));
    ISO_TRY(iso_exchange_commit(b->whole));
    ISO_TRY(iso_exchange_commit(b->scatter));
    ISO_TRY(iso_exchange_commit(b->gather));
    ISO_TRY(iso_exchange_commit(b->shared));
    for (int i = 0; i < b->each; i++)
        bind_slot(b, b->rank * b->each + i);
done:
    return status;
}

static void free_exchanges(bench *b)
{
    iso_exchange_destroy(b->whole);
    iso_exchange_destroy(b->scatter);
    iso_exchange_destroy(b->gather);
    iso_exchange_destroy(b->shared);
}

/* ---- measuring ---- */

static void exchange(bench *b, iso_exchange *e)
{
    iso_exchange_begin(e, 0);
    for (int i = 0; i < b->each; i++)
        iso_exchange_pull(e, b->rank * b->each + i);
    iso_exchange_end(e, 0);
}

static void run_once(bench *b, kind k)
{
    int count = (int)b->count;
    if (k == WHOLE) {
        exchange(b, b->whole);
    } else if (k == CHUNKS) {
        exchange(b, b->scatter);
        if (b->hosts > 1)
            exchange(b, b->gather);
    } else if (k == SHARED) {
        exchange(b, b->shared);
    } else if (k == MPI_INPLACE) {
        MPI_Allreduce(MPI_IN_PLACE, b->out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else {
        MPI_Allreduce(b->in, b->out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
}

static double measure(bench *b, kind k, int repeats)
{
    double slowest;
    memset(b->out, 0, (size_t)b->count * sizeof(float)); /* sums of sums would overflow */
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = iso_clock();
    for (int i = 0; i < repeats; i++)
        run_once(b, k);
    double taken = (iso_clock() - begin) / repeats;
    MPI_Allreduce(&taken, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* On huge pages, from which Open MPI profits too. */
static iso_status make_buffer(size_t bytes, float **buffer)
{
    const size_t page = (size_t)2 << 20;
    *buffer = aligned_alloc(page, (bytes + page - 1) / page * page);
    if (!*buffer)
        return iso_no_memory("a buffer of %zu bytes", bytes);
    madvise(*buffer, bytes, MADV_HUGEPAGE);
    return ISO_OK;
}

/* ---- counting (tests/launch/test_wire_bytes) ---- */

/* Bytes that come to the slots of all ranks from other hosts in one run, as the plan's reports count them. */
static double crossing_bytes(bench *b, kind k)
{
    double mine = 0, all;
    for (int i = 0; i < b->each; i++) {
        int slot = b->rank * b->each + i;
        const iso_exchange *first = k == WHOLE ? b->whole : k == CHUNKS ? b->scatter : b->shared;
        mine += (double)iso_exchange_planned(first, slot).crossed;
        mine += k == CHUNKS ? (double)iso_exchange_planned(b->gather, slot).crossed : 0;
    }
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* Runs one kind `times` times, and prints its bytes. */
static iso_status count_only(bench *b, kind k, int64_t count, int times)
{
    iso_status status = ISO_OK;
    b->count = count;
    ISO_TRY(make_buffer((size_t)count * 4, &b->in));
    ISO_TRY(make_buffer((size_t)b->each * (size_t)count * 4, &b->out));
    ISO_TRY(make_exchanges(b));
    measure(b, k, times);
    double bytes = crossing_bytes(b, k);
    if (b->rank == 0)
        printf("%.0f\n", bytes);
done:
    free_exchanges(b);
    free(b->in);
    free(b->out);
    return status;
}

/* Enough repeats for about 20 ms. */
static int find_repeats(bench *b)
{
    double once = measure(b, MPI_PLAIN, 3);
    once = measure(b, MPI_PLAIN, 3);
    return once > 0.02 ? 1 : once < 1e-5 ? 2000 : (int)(0.02 / once);
}

static void print_line(const bench *b)
{
    double us[KINDS];
    int64_t slots = b->slots;
    bool chunks = b->hosts == 1 ? b->count * slots >= 16384
                                : slots > 2 && b->count >= 4096 &&
                                      (b->hosts > 2 || b->count * slots * slots >= LEAST_IN_TWO);
    for (int k = 0; k < KINDS; k++)
        us[k] = 1e6 * least(b->seconds[k], b->rounds);
    double mpi = us[MPI_INPLACE] < us[MPI_PLAIN] ? us[MPI_INPLACE] : us[MPI_PLAIN];
    printf("%5d %5d %5d %10lld %11.2f %11.2f %11.2f %11.2f %7.2f %7.2f\n", b->ranks, b->slots, b->hosts,
           (long long)b->count * 4, mpi, us[WHOLE], us[CHUNKS], us[SHARED], mpi / us[chunks ? CHUNKS : WHOLE],
           mpi / us[SHARED]);
    fflush(stdout);
}

static iso_status measure_size(bench *b, size_t bytes)
{
    iso_status status = ISO_OK;
    b->count = (int64_t)bytes / 4;
    ISO_TRY(make_buffer(bytes, &b->in));
    ISO_TRY(make_buffer((size_t)b->each * bytes, &b->out));
    ISO_TRY(make_exchanges(b));
    int repeats = find_repeats(b);
    for (int k = 0; k < KINDS; k++)
        measure(b, (kind)k, repeats);
    for (int round = 0; round < b->rounds; round++)
        for (int k = 0; k < KINDS; k++)
            b->seconds[k][round] = measure(b, (kind)k, repeats);
    if (b->rank == 0)
        print_line(b);
done:
    free_exchanges(b);
    free(b->in);
    free(b->out);
    b->in = b->out = NULL;
    return status;
}

static iso_status make_fabric(bench *b)
{
    int rank_of_slot[MOST_SLOTS], host_of_rank[MOST_SLOTS];
    b->slots = b->ranks * b->each;
    if (b->ranks < 2 || b->each < 1 || b->slots > MOST_SLOTS)
        return iso_error(ISO_INVALID, "%d ranks of %d slots: 2 to %d slots are needed", b->ranks, b->each,
                         MOST_SLOTS);
    for (int s = 0; s < b->slots; s++)
        rank_of_slot[s] = s / b->each;
    for (int r = 0; r < b->ranks; r++)
        host_of_rank[r] = iso_host_of_rank(b->ctx, r);
    iso_topology topology = {.n_slots = b->slots,
                             .n_ranks = b->ranks,
                             .rank = b->rank,
                             .rank_of_slot = rank_of_slot,
                             .host_of_rank = host_of_rank,
                             .n_threads = 1};
    const iso_backend *cpu = iso_backend_cpu();
    return iso_fabric_create(&topology, iso_communicator(b->ctx), cpu->sum, cpu->maximum, &b->fabric);
}

static iso_status bench_run(bench *b, int argc, char **argv)
{
    size_t smallest = 1024, largest = (size_t)64 << 20, count = 0, times = 1;
    kind only = WHOLE;
    iso_status status = ISO_OK;
    for (int i = 1; i + 1 < argc; i += 2) {
        size_t value = strtoul(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--smallest"))
            smallest = value;
        else if (!strcmp(argv[i], "--largest"))
            largest = value;
        else if (!strcmp(argv[i], "--count"))
            count = value;
        else if (!strcmp(argv[i], "--times"))
            times = value;
        else if (!strcmp(argv[i], "--only"))
            only = argv[i + 1][0] == 'w' ? WHOLE : argv[i + 1][0] == 'c' ? CHUNKS : SHARED;
        else if (!strcmp(argv[i], "--slots"))
            b->each = value < MOST_SLOTS ? (int)value : MOST_SLOTS;
        else if (!strcmp(argv[i], "--rounds"))
            b->rounds = value < 1 ? 1 : value < MOST_ROUNDS ? (int)value : MOST_ROUNDS;
        else
            return iso_error(ISO_INVALID, "unknown option '%s'", argv[i]);
    }
    ISO_TRY(make_fabric(b));
    if (count > 0)
        return count_only(b, only, (int64_t)count, (int)times);
    if (b->rank == 0)
        printf("%5s %5s %5s %10s %11s %11s %11s %11s %7s %7s\n", "ranks", "slots", "hosts", "bytes",
               "Open MPI us", "whole us", "chunks us", "shared us", "ratio", "shared");
    for (size_t bytes = smallest; bytes <= largest; bytes *= 4)
        ISO_TRY(measure_size(b, bytes));
done:
    return status;
}

int main(int argc, char **argv)
{
    bench b = {.rounds = 15, .each = 1};
    iso_status status = iso_init(&argc, &argv, &b.ctx);
    b.ranks = iso_ranks(b.ctx);
    b.rank = iso_rank(b.ctx);
    b.hosts = iso_hosts(b.ctx);
    if (status == ISO_OK && !iso_communicator(b.ctx))
        status = iso_error(ISO_INVALID, "one rank: run it with launch/mpirun -np 2 or more");
    if (status == ISO_OK)
        status = bench_run(&b, argc, argv);
    iso_fabric_destroy(b.fabric);
    return iso_finish(b.ctx, status);
}
