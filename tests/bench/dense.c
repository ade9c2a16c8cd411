/* The time of a training step of two Dense layers over widths and rows of the batch, on one and two slots of
 * one process, beside its floor: one dnnl_sgemm for each product of a slot and one pass of the optimizer over
 * the slot's share of the weights, in the same run, in turn.
 *     tests/bench/run dense [--widths N,...] [--rows N,...] [--slots N,...] [--rounds N]
 * Judged: no step takes more than 1.1 times the step of the next larger width or number of rows, nor more
 * than 1/0.9 of its floor. "fixed" marks steps that miss only the latter, and by less than what a step of any
 * network costs, which the floor does not count (reading, loss, barriers): it is the step of a network of
 * width 16. Exit code 1 where any other step misses. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/cpu/onednn.h"
#include "runtime/base/clock.h"
#include "runtime/exec/function/function.h"
#include "runtime/graph/optimizer.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd.h"

enum { MOST = 32, LAYERS = 2, MOST_SLOTS = 8, MOST_ROUNDS = 99, FIXED_WIDTH = 16 };
static const double BURST = 0.04; /* seconds at least that steps, or floors, run before the other's turn */
static const double SLOWER = 1.1, OF_FLOOR = 0.9;

typedef struct numbers {
    int count;
    int64_t n[MOST];
} numbers;

typedef struct bench {
    iso_context *ctx;
    numbers widths, rows, slots, rounds;
    double step[MOST][MOST], floor[MOST][MOST]; /* [width][rows] seconds */
    double fixed;
    int missed;
} bench;

/* ---- the step ---- */

typedef struct network {
    iso_graph *graph;
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_function *train;
} network;

static iso_status read_rows(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            iso_dtype dtype, void *out)
{
    (void)dtype;
    int64_t width = batch->shape[component].dim[0];
    memcpy(out, (const float *)batch->impl + begin * width, (size_t)(count * width) * sizeof(float));
    return ISO_OK;
}

static iso_status make_network(iso_context *ctx, int64_t width, int slots, network *net)
{
    iso_status status;
    char mesh[32];
    snprintf(mesh, sizeof mesh, "data=%d", slots);
    net->graph = iso_graph_create(ctx);
    iso_tensor *input = iso_input(net->graph, "x", ISO_F32, ISO_SHAPE(width)), *x = input;
    for (int i = 0; i < LAYERS; i++)
        x = iso_dense(x, width, .activation = i + 1 < LAYERS ? ISO_RELU : ISO_LINEAR);
    iso_tensor *loss = iso_mean(iso_square(x));
    iso_update *update = iso_minimize(loss, iso_adam(1e-12)); /* numbers stay as large as at first */
    ISO_TRY(iso_mesh_create(ctx, mesh, &net->mesh));
    ISO_TRY(iso_data_parallel_create(net->mesh, &net->distribution));
    iso_graph_distribute(net->graph, net->distribution);
    ISO_TRY(iso_function_create(net->graph, &net->train, .inputs = {input}, .outputs = {loss},
                                .updates = {update}, .training = true));
done:
    return status;
}

static void free_network(network *net)
{
    iso_function_destroy(net->train);
    iso_graph_destroy(net->graph);
    iso_distribution_destroy(net->distribution);
    iso_mesh_destroy(net->mesh);
    *net = (network){0};
}

static iso_status time_steps(const network *net, float *x, int64_t width, int64_t rows, double *seconds)
{
    iso_batch batch = {.rows = rows,
                       .n_components = 1,
                       .shape = {ISO_SHAPE(width)},
                       .dtype = {ISO_F32},
                       .read = read_rows,
                       .impl = x};
    iso_status status = ISO_OK;
    double loss, begin = iso_clock(), now = begin;
    int steps = 0;
    for (; status == ISO_OK && (steps == 0 || now - begin < BURST); now = iso_clock(), steps++)
        status = iso_function_run(net->train, &batch, &loss);
    *seconds = (now - begin) / steps;
    return status;
}

/* ---- its floor ---- */

typedef struct floor_slot {
    int64_t width, rows, share;  /* share: of the weights of a layer */
    float *a, *b, *c, *state[4]; /* state: weights, the optimizer's two, gradient */
    double seconds;
    pthread_barrier_t *begin;
} floor_slot;

static void one_floor(const floor_slot *f)
{
    static const double hyper[ISO_MAX_HYPER] = {1e-12, 0, 0.1, 0.001, 1e-7, 0};
    const int64_t n = f->width, rows = f->rows;
    const iso_product forward = {.m = rows, .n = n, .k = n},
                      back = {.m = rows, .n = n, .k = n, .transpose_b = true},
                      gradient = {.m = n, .n = n, .k = rows, .transpose_a = true};
    iso_rule_run adam = iso_backend_cpu()->optimizer("adam", ISO_F32);
    for (int layer = 0; layer < LAYERS; layer++) {
        const int64_t at = layer * n * n, part = layer * f->share;
        iso_onednn_sgemm(&forward, f->a, f->state[0] + at, f->b);
        if (layer > 0)
            iso_onednn_sgemm(&back, f->b, f->state[0] + at, f->a);
        iso_onednn_sgemm(&gradient, f->a, f->b, f->c + at);
        adam(f->share, f->state[3] + part, (void *[]){f->state[1] + part, f->state[2] + part, NULL},
             f->c + at, hyper);
    }
}

static void *run_floor(void *arg)
{
    floor_slot *f = arg;
    int count = 0;
    pthread_barrier_wait(f->begin);
    double begin = iso_clock(), now = begin;
    for (; count == 0 || now - begin < BURST; now = iso_clock(), count++)
        one_floor(f);
    f->seconds = (now - begin) / count;
    return NULL;
}

/* All slots at once: the slowest counts. */
static double time_floor(floor_slot *slot, int slots, int64_t rows)
{
    pthread_t thread[MOST_SLOTS];
    pthread_barrier_t begin;
    double most = 0;
    pthread_barrier_init(&begin, NULL, (unsigned)slots);
    for (int i = 0; i < slots; i++) {
        slot[i].rows = (rows + slots - 1) / slots;
        slot[i].begin = &begin;
        if (pthread_create(&thread[i], NULL, run_floor, &slot[i]) != 0)
            abort();
    }
    for (int i = 0; i < slots; i++) {
        pthread_join(thread[i], NULL);
        most = slot[i].seconds > most ? slot[i].seconds : most;
    }
    pthread_barrier_destroy(&begin);
    return most;
}

static float *some(int64_t count)
{
    float *x = aligned_alloc(64, ((size_t)count * sizeof *x + 127) / 64 * 64);
    for (int64_t i = 0; x && i < count; i++)
        x[i] = (float)(i % 97) * 1e-4f;
    return x;
}

/* weights: one copy, which all slots read, as they do in a process. */
static iso_status make_floor(floor_slot *f, int64_t width, int64_t rows, int slots, float *weights)
{
    *f = (floor_slot){.width = width, .share = (width * width + slots - 1) / slots};
    f->a = some(rows * width), f->b = some(rows * width), f->c = some(LAYERS * width * width);
    f->state[0] = weights;
    for (int i = 1; i < 4; i++)
        f->state[i] = some(LAYERS * f->share);
    bool made = f->a && f->b && f->c && f->state[1] && f->state[2] && f->state[3];
    return made ? ISO_OK : ISO_NO_MEMORY;
}

static void free_floor(floor_slot *f)
{
    free(f->a), free(f->b), free(f->c);
    for (int i = 1; i < 4; i++)
        free(f->state[i]);
}

/* ---- measuring ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int64_t count)
{
    qsort(x, (size_t)count, sizeof *x, by_size);
    return x[count / 2];
}

static iso_status measure_rows(const network *net, floor_slot *slot, int slots, int64_t width, int64_t rows,
                               int64_t rounds, double *step, double *floor)
{
    double steps[MOST_ROUNDS], floors[MOST_ROUNDS], warm;
    float *x = some(rows * width);
    if (!x)
        return ISO_NO_MEMORY;
    iso_status status = time_steps(net, x, width, rows, &warm);
    for (int64_t r = 0; r < rounds && status == ISO_OK; r++) {
        status = time_steps(net, x, width, rows, &steps[r]);
        floors[r] = slot ? time_floor(slot, slots, rows) : 0;
    }
    free(x);
    *step = median(steps, rounds);
    *floor = median(floors, rounds);
    return status;
}

static iso_status measure_width(bench *b, int w, int slots)
{
    iso_status status = ISO_OK;
    int64_t width = b->widths.n[w], most = b->rows.n[b->rows.count - 1];
    network net = {0};
    floor_slot slot[MOST_SLOTS] = {{0}};
    float *weights = some(LAYERS * width * width);
    if (!weights)
        status = ISO_NO_MEMORY;
    ISO_TRY(status);
    for (int i = 0; i < slots; i++)
        ISO_TRY(make_floor(&slot[i], width, most, slots, weights));
    ISO_TRY(make_network(b->ctx, width, slots, &net));
    for (int r = 0; r < b->rows.count; r++)
        ISO_TRY(measure_rows(&net, slot, slots, width, b->rows.n[r], b->rounds.n[0], &b->step[w][r],
                             &b->floor[w][r]));
done:
    free_network(&net);
    for (int i = 0; i < slots; i++)
        free_floor(&slot[i]);
    free(weights);
    return status;
}

static iso_status measure_fixed(bench *b, int slots)
{
    double none;
    network net = {0};
    iso_status status = make_network(b->ctx, FIXED_WIDTH, slots, &net);
    if (status == ISO_OK)
        status = measure_rows(&net, NULL, slots, FIXED_WIDTH, slots, b->rounds.n[0], &b->fixed, &none);
    free_network(&net);
    return status;
}

/* ---- judging ---- */

static void judge_next(bench *b, int w, int r, int w2, int r2)
{
    if (w2 >= b->widths.count || r2 >= b->rows.count || b->step[w][r] <= SLOWER * b->step[w2][r2])
        return;
    b->missed++;
    printf("width %lld, %lld rows: %.2f times width %lld, %lld rows\n", (long long)b->widths.n[w],
           (long long)b->rows.n[r], b->step[w][r] / b->step[w2][r2], (long long)b->widths.n[w2],
           (long long)b->rows.n[r2]);
}

static void judge_floor(bench *b, int w, int r)
{
    bool fixed = b->step[w][r] - b->fixed <= b->floor[w][r] / OF_FLOOR;
    if (b->step[w][r] <= b->floor[w][r] / OF_FLOOR)
        return;
    b->missed += !fixed;
    printf("width %lld, %lld rows: %.2f of the floor%s\n", (long long)b->widths.n[w], (long long)b->rows.n[r],
           b->floor[w][r] / b->step[w][r], fixed ? " (fixed)" : "");
}

static void print_table(const bench *b, const char *what, bool floors)
{
    printf("\n%-10s", what);
    for (int w = 0; w < b->widths.count; w++)
        printf("%9lld", (long long)b->widths.n[w]);
    for (int r = 0; r < b->rows.count; r++) {
        printf("\n%10lld", (long long)b->rows.n[r]);
        for (int w = 0; w < b->widths.count; w++)
            if (floors)
                printf("%9.2f", b->floor[w][r] / b->step[w][r]);
            else
                printf("%9.0f", 1e6 * b->step[w][r]);
    }
    printf("\n");
}

static iso_status measure(bench *b, int slots)
{
    iso_status status;
    ISO_TRY(measure_fixed(b, slots));
    for (int w = 0; w < b->widths.count; w++) {
        ISO_TRY(measure_width(b, w, slots));
        fprintf(stderr, "%d slots, width %lld of %lld\n", slots, (long long)b->widths.n[w],
                (long long)b->widths.n[b->widths.count - 1]);
    }
    printf("\n%d slots: rows of the batch against the width; a step of any network: %.0f us\n", slots,
           1e6 * b->fixed);
    print_table(b, "us a step", false);
    print_table(b, "floor/step", true);
    printf("\nmisses:\n");
    for (int w = 0; w < b->widths.count; w++)
        for (int r = 0; r < b->rows.count; r++) {
            judge_next(b, w, r, w + 1, r);
            judge_next(b, w, r, w, r + 1);
            judge_floor(b, w, r);
        }
    fflush(stdout);
done:
    return status;
}

/* ---- the command line ---- */

static bool parse(const char *text, numbers *list)
{
    list->count = 0;
    for (char *end; list->count < MOST; text = end + 1) {
        errno = 0;
        long long n = strtoll(text, &end, 10);
        if (end == text || errno || n < 1 || (*end && *end != ','))
            return false;
        list->n[list->count++] = n;
        if (!*end)
            return true;
    }
    return false;
}

static bool options(int argc, char **argv, bench *b)
{
    const struct {
        const char *name;
        numbers *list;
        int64_t most;
    } known[] = {{"--widths", &b->widths, 65536},
                 {"--rows", &b->rows, 65536},
                 {"--slots", &b->slots, MOST_SLOTS},
                 {"--rounds", &b->rounds, MOST_ROUNDS}};
    for (int i = 1; i < argc; i += 2) {
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strcmp(known[k].name, argv[i]) != 0)
            k++;
        if (k == sizeof known / sizeof *known || i + 1 == argc || !parse(argv[i + 1], known[k].list)) {
            fprintf(stderr, "dense: '%s': --widths, --rows, --slots or --rounds and numbers\n", argv[i]);
            return false;
        }
        for (int j = 0; j < known[k].list->count; j++)
            if (known[k].list->n[j] > known[k].most) {
                fprintf(stderr, "dense: %s is at most %lld\n", argv[i], (long long)known[k].most);
                return false;
            }
    }
    return true;
}

int main(int argc, char **argv)
{
    static bench b = {
        .widths = {15, {64, 96, 128, 200, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192}},
        .rows = {16, {1, 2, 4, 8, 16, 32, 64, 96, 128, 130, 192, 200, 256, 260, 384, 512}},
        .slots = {2, {1, 2}},
        .rounds = {1, {3}}};
    iso_status status = iso_init(&argc, &argv, &b.ctx);
    if (status != ISO_OK || !options(argc, argv, &b))
        return 2;
    printf("%s\n", iso_backend_cpu()->description());
    for (int i = 0; i < b.slots.count && status == ISO_OK; i++)
        status = measure(&b, (int)b.slots.n[i]);
    if (status == ISO_OK)
        printf("\n%d steps miss\n", b.missed);
    status = iso_finish(b.ctx, status);
    return status == ISO_OK ? b.missed > 0 : 3;
}
