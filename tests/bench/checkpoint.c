/* What a checkpoint costs, beside the plainest thing that could do the same, in one run on one disk:
 *
 *   launch/mpirun -np 4 build/tests/bench/checkpoint [--mib 1024] [--folder /tmp] [--rounds 5]
 *       [--columns] [--json] [--width 4096]
 *
 * Every rank has its part of a state of so many MiB. Each round measures three pairs, each twice.
 *
 * Writing: all ranks write their bytes into one file, at their offsets, and sync it; a checkpoint that is
 * committed: layout, checksums, rename and all.
 *
 * Waiting: a copy of the rank's bytes into memory that is there already; what iso_saver_save lets the caller
 * wait.
 *
 * Reading: all ranks read their bytes of the plain file; those of the checkpoint; both from the disk.
 *
 * Prints medians of the slowest rank's times, and their ratios. --columns cuts the matrices, which have
 * `width` columns, by them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/clock.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/session/session.h"

enum { TENSORS = 24, MOST_ROUNDS = 101, KINDS = 6, AT_ONCE = 8 << 20 };

typedef struct bench {
    iso_context *ctx;
    char folder[1024], plain[1100], saved[1100];
    int rounds;
    size_t bytes; /* this rank's */
    char *state, *spare;
    iso_saved_tensor tensor[TENSORS];
    iso_state_shard shard[TENSORS];
    iso_file_spec contents;
    iso_state_shards shards;
    iso_saver *waiting, *saver; /* one that writes before it returns, one that copies and goes on */
    double seconds[KINDS][MOST_ROUNDS];
} bench;

static const char *const kinds[KINDS] = {"plain write + fsync", "checkpoint", "memcpy",
                                         "stall of a save",     "plain read", "checkpoint read"};

/* From when all ranks begin until the slowest has done it. */
static double begin(bench *b)
{
    iso_agree(b->ctx, ISO_OK);
    return iso_clock();
}

static double slowest(bench *b, double seconds)
{
    double all[1024];
    iso_gather_all(b->ctx, &seconds, sizeof seconds, all);
    for (int r = 0; r < iso_ranks(b->ctx); r++)
        seconds = all[r] > seconds ? all[r] : seconds;
    return seconds;
}

/* Of its own, below the one that was asked for. */
static iso_status make_folder(bench *b, const char *parent)
{
    snprintf(b->folder, sizeof b->folder, "%.1000s/iso-bench-XXXXXX", parent);
    bool good = iso_rank(b->ctx) != 0 || mkdtemp(b->folder);
    iso_status status = iso_agree(b->ctx, good ? ISO_OK : iso_error(ISO_IO, "no folder in '%s'", parent));
    if (status == ISO_OK)
        status = iso_broadcast(b->ctx, b->folder, sizeof b->folder);
    snprintf(b->plain, sizeof b->plain, "%s/plain", b->folder);
    snprintf(b->saved, sizeof b->saved, "%s/saved.weights.h5", b->folder);
    return status;
}

static void remove_folder(bench *b)
{
    char latest[sizeof b->folder + 16];
    snprintf(latest, sizeof latest, "%s/latest", b->folder);
    if (iso_rank(b->ctx) == 0) {
        unlink(b->plain);
        unlink(b->saved);
        unlink(latest);
        rmdir(b->folder);
    }
}

static iso_status make_state(bench *b, size_t mib, int64_t width, bool columns)
{
    static char name[TENSORS][40];
    int64_t rows = (int64_t)(mib << 20) / (TENSORS * width * 4);
    iso_status status = ISO_OK;
    for (int t = 0; t < TENSORS; t++) {
        iso_shape shape = ISO_SHAPE(rows, width);
        iso_box box = iso_box_whole(&shape);
        iso_part_range(box.extent[columns], iso_ranks(b->ctx), iso_rank(b->ctx), &box.offset[columns],
                       &box.extent[columns]);
        snprintf(name[t], sizeof name[t], "/layers/dense_%d/vars/0", t);
        b->tensor[t] = (iso_saved_tensor){name[t], name[t] + 1, ISO_F32, shape};
        b->shard[t] = (iso_state_shard){.path = name[t] + 1,
                                        .dtype = ISO_F32,
                                        .shape = shape,
                                        .box = box,
                                        .count = iso_box_count(&box),
                                        .writer = true};
        b->bytes += (size_t)iso_box_count(&box) * 4;
    }
    ISO_TRY(iso_alloc(b->bytes, "the state", (void **)&b->state));
    ISO_TRY(iso_alloc(b->bytes, "a copy of it", (void **)&b->spare));
    for (size_t i = 0; i < b->bytes / 4; i++)
        ((uint32_t *)(void *)b->state)[i] = (uint32_t)i * 2654435761u;
    char *at = b->state;
    for (int t = 0; t < TENSORS; t++) {
        b->shard[t].data = at;
        at += (size_t)b->shard[t].count * 4;
    }
    b->contents = (iso_file_spec){.n_tensors = TENSORS, .tensors = b->tensor, .state = "{}", .number = 1};
    b->shards = (iso_state_shards){TENSORS, b->shard};
done:
    return status;
}

/* All at this rank's place in one file. */
static iso_status plain(bench *b, bool write)
{
    int file = open(b->plain, write ? O_WRONLY | O_CREAT : O_RDONLY, 0666);
    size_t offset = b->bytes * (size_t)iso_rank(b->ctx);
    bool good = file >= 0;
    for (size_t at = 0; good && at < b->bytes; at += AT_ONCE) {
        size_t n = b->bytes - at < AT_ONCE ? b->bytes - at : AT_ONCE;
        ssize_t done = write ? pwrite(file, b->state + at, n, (off_t)(offset + at))
                             : pread(file, b->spare + at, n, (off_t)(offset + at));
        good = done == (ssize_t)n;
    }
    good = good && (!write || fsync(file) == 0);
    if (file >= 0)
        close(file);
    return good ? ISO_OK
                : iso_error(ISO_IO, "'%s': plain %s failed", b->plain, write ? "writing" : "reading");
}

static void forget(const char *path)
{
    int file = open(path, O_RDONLY);
    if (file >= 0) {
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        close(file);
    }
}

static iso_status measure_plain_write(bench *b, double *seconds)
{
    unlink(b->plain);
    double from = begin(b);
    iso_status status = plain(b, true);
    *seconds = slowest(b, iso_clock() - from);
    return status;
}

static iso_status measure_save(bench *b, double *seconds)
{
    unlink(b->saved);
    double from = begin(b);
    iso_status status = iso_saver_save(b->waiting, b->saved, &b->contents, &b->shards, false, NULL);
    *seconds = slowest(b, iso_clock() - from);
    return status;
}

static iso_status measure_stall(bench *b, double *seconds)
{
    unlink(b->saved);
    double from = begin(b);
    iso_status status = iso_saver_save(b->saver, b->saved, &b->contents, &b->shards, false, NULL);
    *seconds = slowest(b, iso_clock() - from);
    return status == ISO_OK ? iso_saver_wait(b->saver) : status;
}

static iso_status measure_copy(bench *b, double *seconds)
{
    double from = begin(b);
    memcpy(b->spare, b->state, b->bytes);
    *seconds = slowest(b, iso_clock() - from);
    return ISO_OK;
}

static iso_status measure_plain_read(bench *b, double *seconds)
{
    forget(b->plain);
    double from = begin(b);
    iso_status status = plain(b, false);
    *seconds = slowest(b, iso_clock() - from);
    return status;
}

static iso_status measure_read(bench *b, double *seconds)
{
    iso_saved_file *file = NULL;
    char *at = b->spare;
    forget(b->saved);
    double from = begin(b);
    iso_status status = iso_saved_file_open(b->ctx, b->saved, &file);
    for (int t = 0; t < TENSORS && status == ISO_OK; t++) {
        iso_state_shard shard = b->shard[t];
        shard.data = at;
        status = iso_saved_file_read_shard(file, iso_saved_file_of(file, shard.path), &shard);
        at += (size_t)shard.count * 4;
    }
    *seconds = slowest(b, iso_clock() - from);
    iso_saved_file_close(file);
    if (status == ISO_OK && memcmp(b->spare, b->state, b->bytes) != 0)
        status = iso_error(ISO_FAILED, "other bytes were read than written");
    return status;
}

/* Each pair in both orders: a disk may be slower for a while after it has been fast. */
static iso_status run_round(bench *b, int round)
{
    static iso_status (*const measure[KINDS])(bench *, double *) = {
        measure_plain_write, measure_save, measure_copy, measure_stall, measure_plain_read, measure_read};
    iso_status status = ISO_OK;
    for (int pair = 0; pair < KINDS; pair += 2)
        for (int turn = 0; turn < 4; turn++) {
            int kind = pair + (turn == 1 || turn == 2);
            double seconds = 0;
            ISO_TRY(iso_agree(b->ctx, measure[kind](b, &seconds)));
            if (round >= 0)
                b->seconds[kind][round] += seconds / 2;
        }
done:
    return status;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(const double *values, int count)
{
    double sorted[MOST_ROUNDS];
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    return sorted[count / 2];
}

/* The machine may be slower in one round than in another, so ratios are taken within rounds. */
static double median_ratio(const bench *b, int kind)
{
    double ratio[MOST_ROUNDS];
    for (int r = 0; r < b->rounds; r++)
        ratio[r] = b->seconds[kind][r] / b->seconds[kind - 1][r];
    return median(ratio, b->rounds);
}

static void print(const bench *b)
{
    double total = (double)b->bytes * iso_ranks(b->ctx);
    printf("%d ranks, %.0f MiB, %d rounds\n", iso_ranks(b->ctx), total / (1 << 20), b->rounds);
    for (int k = 0; k < KINDS; k++) {
        double seconds = median(b->seconds[k], b->rounds);
        printf("%-20s %8.3f s %8.2f GB/s", kinds[k], seconds, total / seconds * 1e-9);
        if (k % 2)
            printf("   %.2f times", median_ratio(b, k));
        printf("\n");
    }
}

static void print_json(const bench *b)
{
    printf("{\"seconds\": {");
    for (int k = 0; k < KINDS; k++)
        printf("%s\"%s\": %.6f", k ? ", " : "", kinds[k], median(b->seconds[k], b->rounds));
    printf("}, \"times\": {");
    for (int k = 1; k < KINDS; k += 2)
        printf("%s\"%s\": %.4f", k > 1 ? ", " : "", kinds[k], median_ratio(b, k));
    printf("}}\n");
}

/* --NAME VALUE */
static const char *option(int argc, char **argv, const char *name, const char *fallback)
{
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], name))
            return argv[i + 1];
    return fallback;
}

static bool flag(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return false;
}

int main(int argc, char **argv)
{
    static bench b;
    iso_status status = iso_init(&argc, &argv, &b.ctx);
    ISO_TRY(status);
    b.rounds = atoi(option(argc, argv, "--rounds", "5"));
    b.rounds = b.rounds < 1 ? 1 : b.rounds > MOST_ROUNDS ? MOST_ROUNDS : b.rounds;
    ISO_TRY(make_folder(&b, option(argc, argv, "--folder", "/tmp")));
    ISO_TRY(iso_agree(b.ctx, make_state(&b, (size_t)atol(option(argc, argv, "--mib", "1024")),
                                        atol(option(argc, argv, "--width", "4096")),
                                        flag(argc, argv, "--columns"))));
    ISO_TRY(iso_saver_create(b.ctx, &b.waiting, .waits = true, .mpio = flag(argc, argv, "--mpio")));
    ISO_TRY(iso_saver_create(b.ctx, &b.saver));
    for (int round = -1; round < b.rounds; round++) /* the first is not counted */
        ISO_TRY(run_round(&b, round));
    if (iso_rank(b.ctx) == 0)
        (flag(argc, argv, "--json") ? print_json : print)(&b);
done:
    iso_saver_destroy(b.waiting);
    iso_saver_destroy(b.saver);
    if (b.folder[0])
        remove_folder(&b);
    iso_free(b.state);
    iso_free(b.spare);
    return iso_finish(b.ctx, status);
}
