/* A solver of the heat equation that trains a network while it runs. The ranks divide the rows of a grid and
 * exchange halos on a communicator of their own; the last rank only prints. The network learns to predict, from the
 * 5 x 5 cells around a cell, how the cell changes in AHEAD steps. Each rank feeds the cells that it owns. */
#include <isogrid_mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 48 };    /* cells in each direction, within a border of zeros */
enum { REACH = 2 }; /* cells that a patch extends from its centre */
enum { SIDE = 2 * REACH + 1, PATCH = SIDE * SIDE };
enum { WIDTH = N + 2 * REACH }; /* of a row, with the border */
enum { AHEAD = 32, ROUNDS = 10, EPOCHS = 4, BATCH = 128, SLOTS = 8, MODES = 3 };
static const double gain = 10; /* differences are small: the network sees and predicts them in finer units */
static const double ratio = 0.2; /* of diffusivity * time step to the squared spacing: below 1/4, stable */

typedef struct heat {
    MPI_Comm all, line; /* line: of the solvers; MPI_COMM_NULL on other ranks */
    int rank, ranks, solvers;
    int64_t first, rows, steps; /* this rank's rows, possibly none; steps so far */
    double *u, *next;           /* [rows + 2 REACH][WIDTH] */
} heat;

/* ---- the solver ---- */

static const double pi = 3.14159265358979323846;
static const double amplitude[MODES] = {1, 0.5, -0.4};
static const int mode_x[MODES] = {1, 3, 2}, mode_y[MODES] = {1, 2, 4};

/* u_t = u_xx + u_yy on the unit square: modes that decay each on its own. */
static double exact(double x, double y, double time)
{
    double sum = 0;
    for (int m = 0; m < MODES; m++)
        sum += amplitude[m] * sin(mode_x[m] * pi * x) * sin(mode_y[m] * pi * y) *
               exp(-pi * pi * (mode_x[m] * mode_x[m] + mode_y[m] * mode_y[m]) * time);
    return sum;
}

static double spacing(void)
{
    return 1.0 / (N + 1);
}

static double time_of(const heat *h)
{
    return (double)h->steps * ratio * spacing() * spacing();
}

static double *row_of(const heat *h, double *field, int64_t row)
{
    return field + (row - h->first + REACH) * WIDTH + REACH;
}

/* The rows of the neighbours that patches reach; beyond the border they stay zero. */
static void exchange(const heat *h)
{
    enum { COUNT = REACH * WIDTH };
    if (h->line == MPI_COMM_NULL)
        return;
    int up = h->rank > 0 ? h->rank - 1 : MPI_PROC_NULL;
    int down = h->rank + 1 < h->solvers ? h->rank + 1 : MPI_PROC_NULL;
    double *top = h->u + COUNT, *bottom = h->u + h->rows * WIDTH;
    MPI_Sendrecv(top, COUNT, MPI_DOUBLE, up, 0, bottom + COUNT, COUNT, MPI_DOUBLE, down, 0, h->line,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(bottom, COUNT, MPI_DOUBLE, down, 1, h->u, COUNT, MPI_DOUBLE, up, 1, h->line,
                 MPI_STATUS_IGNORE);
}

static void heat_begin(heat *h, MPI_Comm all)
{
    memset(h, 0, sizeof *h);
    h->all = all;
    MPI_Comm_rank(all, &h->rank);
    MPI_Comm_size(all, &h->ranks);
    h->solvers = h->ranks > 1 ? h->ranks - 1 : 1;
    h->solvers = h->solvers > N / REACH ? N / REACH : h->solvers;
    MPI_Comm_split(all, h->rank < h->solvers ? 0 : MPI_UNDEFINED, h->rank, &h->line);
    if (h->rank < h->solvers) {
        h->first = (int64_t)N * h->rank / h->solvers;
        h->rows = (int64_t)N * (h->rank + 1) / h->solvers - h->first;
    }
    h->u = calloc((size_t)(h->rows + 2 * REACH) * WIDTH, sizeof *h->u);
    h->next = calloc((size_t)(h->rows + 2 * REACH) * WIDTH, sizeof *h->next);
    for (int64_t i = h->first; i < h->first + h->rows; i++)
        for (int64_t k = 0; k < N; k++)
            row_of(h, h->u, i)[k] = exact((double)(k + 1) * spacing(), (double)(i + 1) * spacing(), 0);
    exchange(h);
}

static void heat_end(heat *h)
{
    if (h->line != MPI_COMM_NULL)
        MPI_Comm_free(&h->line);
    free(h->u);
    free(h->next);
}

static void advance(heat *h, int steps)
{
    for (; steps > 0; steps--, h->steps++) {
        exchange(h);
        for (int64_t i = h->first; i < h->first + h->rows; i++) {
            const double *u = row_of(h, h->u, i);
            double *next = row_of(h, h->next, i);
            for (int64_t k = 0; k < N; k++)
                next[k] = u[k] + ratio * ((u[k - 1] + u[k + 1]) + (u[k - WIDTH] + u[k + WIDTH]) - 4 * u[k]);
        }
        double *old = h->u;
        h->u = h->next;
        h->next = old;
    }
    exchange(h);
}

static double largest_of_all(const heat *h, double value)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, h->all);
    return value;
}

/* The largest value, or the largest difference from the exact solution. */
static double largest(const heat *h, int of_error)
{
    double most = 0;
    for (int64_t i = h->first; i < h->first + h->rows; i++)
        for (int64_t k = 0; k < N; k++) {
            double should = exact((double)(k + 1) * spacing(), (double)(i + 1) * spacing(), time_of(h));
            most = fmax(most, fabs(row_of(h, h->u, i)[k] - (of_error ? should : 0)));
        }
    return largest_of_all(h, most);
}

/* ---- what the network sees ---- */

/* For each of this rank's cells, in units of `scale`: its value, and what its neighbours differ from it.
 * out [rows * N][PATCH]. */
static void take_patches(const heat *h, double scale, float *out)
{
    for (int64_t i = h->first; i < h->first + h->rows; i++)
        for (int64_t k = 0; k < N; k++) {
            const double *cell = row_of(h, h->u, i) + k;
            for (int64_t a = -REACH; a <= REACH; a++)
                for (int64_t b = -REACH; b <= REACH; b++)
                    *out++ = (float)(a || b ? gain * (cell[a * WIDTH + b] - *cell) / scale : *cell / scale);
        }
}

/* AHEAD steps; out [rows * N]: how much each of this rank's cells changes. */
static void take_changes(heat *h, double scale, float *out)
{
    for (int64_t i = 0; i < h->rows * N; i++)
        out[i] = (float)row_of(h, h->u, h->first + i / N)[i % N];
    advance(h, AHEAD);
    for (int64_t i = 0; i < h->rows * N; i++)
        out[i] = (float)(gain * (row_of(h, h->u, h->first + i / N)[i % N] - (double)out[i]) / scale);
}

/* ---- training ---- */

/* The mesh decides the bits, so it is the same on any number of ranks. The rank that prints has no slot. */
static iso_status make_model(iso_context *ctx, const heat *h, iso_distribution **distribution,
                             iso_model **model)
{
    iso_mesh *mesh = NULL;
    iso_status status;
    int rank_of_slot[SLOTS];
    for (int slot = 0; slot < SLOTS; slot++)
        rank_of_slot[slot] = slot * (h->solvers < SLOTS ? h->solvers : SLOTS) / SLOTS;
    ISO_TRY(iso_mesh_create_on(ctx, "data=8", rank_of_slot, SLOTS, &mesh));
    ISO_TRY(iso_data_parallel_create(mesh, distribution));
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "patch", ISO_F32, ISO_SHAPE(PATCH));
    *model = iso_model_create(g, x, iso_dense(iso_dense(x, 32, .activation = ISO_TANH), 1));
    ISO_TRY(iso_compile(*model, .optimizer = iso_adam(3e-3), .loss = ISO_LOSS_MSE,
                        .distribution = *distribution));
done:
    iso_mesh_destroy(mesh);
    return status;
}

/* A few epochs on the patches of now and the changes until AHEAD steps later. */
static iso_status train_round(iso_context *ctx, heat *h, iso_model *model, float *x, float *y, double *loss)
{
    iso_dataset *data = NULL;
    iso_history *history = NULL;
    iso_status status;
    int64_t cells = h->rows * N;
    double scale = largest(h, 0);
    take_patches(h, scale, x);
    take_changes(h, scale, y);
    /* This rank's cells; the rank that prints passes none. The data set has those of all ranks. */
    ISO_TRY(iso_dataset_arrays(ctx, &data, .local = true, .x = {x, ISO_F32, ISO_SHAPE(cells, PATCH)},
                               .y = {y, ISO_F32, ISO_SHAPE(cells, 1)}));
    ISO_TRY(iso_dataset_shuffle(data, 0));
    ISO_TRY(iso_dataset_batch(data, BATCH));
    ISO_TRY(iso_fit(model, data, .epochs = EPOCHS, .history = &history));
    iso_logs logs = iso_history_logs(history, EPOCHS - 1);
    *loss = iso_logs_get(&logs, "loss");
done:
    iso_history_destroy(history);
    iso_dataset_destroy(data);
    return status;
}

/* Compares what the network predicts with what the solver computes. */
static iso_status forecast(iso_context *ctx, heat *h, iso_model *model, float *x, float *y, double *error,
                           double *change)
{
    iso_dataset *data = NULL;
    iso_status status;
    double scale = largest(h, 0);
    float *predicted = malloc((size_t)N * N * sizeof *predicted); /* of all cells, on every rank */
    take_patches(h, scale, x);
    ISO_TRY(iso_dataset_arrays(ctx, &data, .local = true, .x = {x, ISO_F32, ISO_SHAPE(h->rows * N, PATCH)}));
    ISO_TRY(iso_dataset_batch(data, BATCH));
    ISO_TRY(iso_predict(model, data, .outputs = {predicted}));
    take_changes(h, scale, y);
    for (int64_t i = 0; i < h->rows * N; i++) {
        *error = fmax(*error, fabs((double)predicted[h->first * N + i] - (double)y[i]));
        *change = fmax(*change, fabs((double)y[i]));
    }
    *error = largest_of_all(h, *error / gain);
    *change = largest_of_all(h, *change / gain);
done:
    iso_dataset_destroy(data);
    free(predicted);
    return status;
}

static iso_status simulate(iso_context *ctx, heat *h, float *x, float *y)
{
    iso_model *model = NULL;
    iso_distribution *distribution = NULL;
    iso_fingerprint weights;
    iso_status status;
    char text[33];
    double loss, error = 0, change = 0;
    int prints = h->rank == h->ranks - 1;
    ISO_TRY(make_model(ctx, h, &distribution, &model));
    for (int round = 1; round <= ROUNDS; round++) {
        ISO_TRY(train_round(ctx, h, model, x, y, &loss));
        double off = largest(h, 1);
        if (prints)
            printf("step %3d: solver's error %.1e, loss %.3e\n", (int)h->steps, off, loss);
    }
    ISO_TRY(forecast(ctx, h, model, x, y, &error, &change));
    ISO_TRY(iso_graph_fingerprint(iso_model_graph(model), &weights));
    iso_fingerprint_text(&weights, text);
    if (prints)
        printf("in %d steps cells change by at most %.4f; forecast with an error of %.4f; weights %s\n",
               AHEAD, change, error, text);
done:
    iso_model_destroy(model);
    iso_distribution_destroy(distribution);
    return status;
}

/* A rank is lost: those that wait for it in calls of MPI, such as exchange(), would wait for ever. */
static void end_all(void *user, const char *text)
{
    (void)user;
    (void)text; /* the first line of the report, which is printed */
    MPI_Abort(MPI_COMM_WORLD, 74);
}

int main(int argc, char **argv)
{
    heat h;
    MPI_Comm world;
    iso_context *ctx = NULL;
    iso_status status;
    int provided, code;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided); /* slots run on threads, MPI on this one */
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    heat_begin(&h, world);
    float *x = malloc((size_t)h.rows * N * PATCH * sizeof *x + 1),
          *y = malloc((size_t)h.rows * N * sizeof *y + 1);

    ISO_TRY(iso_init_on(world, &argc, &argv, &ctx));
    iso_set_failure_handler(ctx, end_all, NULL);
    ISO_TRY(simulate(ctx, &h, x, y));
done:
    code = iso_finish(ctx, status);
    free(x);
    free(y);
    heat_end(&h);
    MPI_Comm_free(&world);
    MPI_Finalize();
    return code;
}
