/* A simulation that trains in place: its ranks hold unequal shares of the cells, and the network learns from
 * all of them, on the simulation's own communicator. First from a data set of the shares (.local), then from
 * a generator, with new samples for every batch. */
#include <isogrid_mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 1000, BATCH = 64, BATCHES = 16 };

/* The target: the flux of a cell from its density, velocity and temperature. */
static void sample(uint64_t number, float *state, float *flux)
{
    uint64_t bits = number * 6364136223846793005u + 1442695040888963407u;
    for (int i = 0; i < 3; i++) {
        bits = (bits ^ bits >> 29) * 6364136223846793005u + 1442695040888963407u;
        state[i] = (float)(bits >> 40) / (1 << 24);
    }
    *flux = state[0] * state[1] + sinf(3 * state[2]);
}

/* ---- the generator: rows of a batch that is sampled anew ---- */

static iso_status read_batch(const iso_batch *batch, int component, int64_t begin, int64_t count,
                             iso_dtype dtype, void *out)
{
    const int64_t *first = batch->impl;
    float state[3], flux, *to = out;
    (void)dtype; /* as the data set was made: float32 */
    for (int64_t row = begin; row < begin + count; row++) {
        sample((uint64_t)(*first + row), state, &flux);
        for (int i = 0; i < 3 && component == 0; i++)
            *to++ = state[i];
        if (component == 1)
            *to++ = flux;
    }
    return ISO_OK;
}

/* On every rank before each step; a rank makes only the rows that its slots read. */
static iso_status next_batch(void *user, int64_t epoch, int64_t number, iso_batch *batch)
{
    int64_t *first = user;
    *first = CELLS + (epoch * BATCHES + number) * BATCH;
    batch->read = read_batch;
    batch->impl = first;
    return ISO_OK;
}

/* ---- training ---- */

static iso_status train(iso_context *ctx, const float *states, const float *fluxes, int64_t cells)
{
    iso_dataset *data = NULL, *last = NULL, *fresh = NULL;
    iso_model *model = NULL;
    int64_t first = 0;
    iso_status status;

    /* This rank's cells, possibly none; the data set has those of all ranks. They are copied. */
    ISO_TRY(iso_dataset_arrays(ctx, &data, .local = true, .x = {states, ISO_F32, ISO_SHAPE(cells, 3)},
                               .y = {fluxes, ISO_F32, ISO_SHAPE(cells, 1)}));
    ISO_TRY(iso_dataset_split(data, CELLS / 10, &last));
    ISO_TRY(iso_dataset_shuffle(data, 0));
    ISO_TRY(iso_dataset_batch(data, BATCH));
    ISO_TRY(iso_dataset_generator(ctx, &fresh, .next = next_batch, .user = &first, .batch_size = BATCH,
                                  .batches = BATCHES, .shape = {ISO_SHAPE(3), ISO_SHAPE(1)},
                                  .dtype = {ISO_F32, ISO_F32}));

    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "state", ISO_F32, ISO_SHAPE(3));
    model = iso_model_create(g, x, iso_dense(iso_dense(x, 32, .activation = ISO_TANH), 1));
    ISO_TRY(iso_compile(model, .optimizer = iso_adam(1e-2), .loss = ISO_LOSS_MSE));
    ISO_TRY(iso_fit(model, data, .epochs = 3, .validation = last, .verbose = 1));
    ISO_TRY(iso_fit(model, fresh, .epochs = 2, .validation = last, .verbose = 1));
done:
    iso_model_destroy(model);
    iso_dataset_destroy(fresh);
    iso_dataset_destroy(last);
    iso_dataset_destroy(data);
    return status;
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    MPI_Comm simulation;
    iso_status status;
    int rank, ranks, provided, code;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided); /* slots run on threads, MPI on this one */
    MPI_Comm_dup(MPI_COMM_WORLD, &simulation);
    MPI_Comm_rank(simulation, &rank);
    MPI_Comm_size(simulation, &ranks);
    /* Few cells on the first rank, many on the last. */
    int64_t begin = (int64_t)CELLS * rank * rank / (ranks * ranks);
    int64_t end = (int64_t)CELLS * (rank + 1) * (rank + 1) / (ranks * ranks);
    float *states = malloc((size_t)(end - begin) * 3 * sizeof *states + 1),
          *fluxes = malloc((size_t)(end - begin) * sizeof *fluxes + 1);
    for (int64_t i = begin; i < end; i++)
        sample((uint64_t)i, states + 3 * (i - begin), fluxes + (i - begin));

    ISO_TRY(iso_init_on(simulation, &argc, &argv, &ctx));
    ISO_TRY(train(ctx, states, fluxes, end - begin));
done:
    code = iso_finish(ctx, status);
    free(states);
    free(fluxes);
    MPI_Comm_free(&simulation);
    MPI_Finalize();
    return code;
}
