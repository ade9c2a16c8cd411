/* What Isogrid's own start costs a job: CPU time and memory from after MPI_Init to the end of the first step, summed
 * over ranks. tests/bench/startup runs it from 2 to 64 ranks.
 *
 *   launch/mpirun -np 8 build/tests/bench/startup
 *
 * The network has the sizes of `mlp`; the mesh is data=RANKS, the batch 192 rows. CPU time contains that of polling
 * for other ranks, so it is an upper bound, above all with more ranks than cores. Accounted bytes are those that
 * Isogrid allocates (iso_memory_held); resident bytes the growth of the ranks' proportional set sizes, in which
 * shared memory is divided among those that have mapped it; MPI's own buffers for connections that the first step
 * opens are in it. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

#include "runtime/base/memory.h"
#include "runtime/isogrid.h"
#include "runtime/session/session_mpi.h"

enum { SECONDS, HELD, RESIDENT, FIGURES };

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Bytes; 0: unknown. */
static double resident(void)
{
    char line[200];
    double kilobytes = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %lf", &kilobytes) == 1)
            break;
    if (file)
        fclose(file);
    return 1024 * kilobytes;
}

static void read_figures(double *out)
{
    out[SECONDS] = cpu_seconds();
    out[HELD] = (double)iso_memory_held();
    out[RESIDENT] = resident();
}

static iso_status one_step(iso_context *ctx, iso_model **model, iso_dataset **data, iso_mesh **mesh,
                           iso_distribution **distribution)
{
    char axes[32];
    iso_status status = ISO_OK;
    snprintf(axes, sizeof axes, "data=%d", iso_ranks(ctx));
    ISO_TRY(iso_mesh_create(ctx, axes, mesh));
    ISO_TRY(iso_data_parallel_create(*mesh, distribution));
    ISO_TRY(iso_dataset_random(ctx, 192, data, .shape = ISO_SHAPE(784), .targets = ISO_SHAPE(10)));
    ISO_TRY(iso_dataset_batch(*data, 192));
    iso_tensor *x = iso_input(iso_graph_create(ctx), "x", ISO_F32, ISO_SHAPE(784));
    iso_tensor *y = iso_dense(iso_relu(iso_dense(iso_relu(iso_dense(x, 256)), 256)), 10);
    *model = iso_model_create(iso_tensor_graph(x), x, y);
    ISO_TRY(iso_compile(*model, .optimizer = iso_adam(0.001), .loss = ISO_LOSS_MSE,
                        .distribution = *distribution));
    ISO_TRY(iso_fit(*model, *data, .epochs = 1, .verbose = ISO_ZERO));
done:
    return status;
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_model *model = NULL;
    iso_dataset *data = NULL;
    iso_mesh *mesh = NULL;
    iso_distribution *distribution = NULL;
    int level;
    double before[FIGURES], after[FIGURES], sum[FIGURES];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    read_figures(before);
    iso_status status = iso_init_on(MPI_COMM_WORLD, &argc, &argv, &ctx);
    if (status == ISO_OK)
        status = one_step(ctx, &model, &data, &mesh, &distribution);
    if (status == ISO_OK) {
        read_figures(after);
        for (int i = 0; i < FIGURES; i++)
            after[i] -= before[i];
        MPI_Reduce(after, sum, FIGURES, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        if (iso_is_chief(ctx))
            printf("%5d %5d %10.3f %12.2f %12.2f\n", iso_ranks(ctx), iso_hosts(ctx), sum[SECONDS],
                   sum[HELD] / (1 << 20), sum[RESIDENT] / (1 << 20));
    }
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
    int code = iso_finish(ctx, status);
    MPI_Finalize();
    return code;
}
