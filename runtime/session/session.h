/* The context of a program: its ranks, options and roles.
 * Functions are local unless their comment says otherwise.
 *
 * Threads, for all of Isogrid: one thread at a time uses a context and what was made with it. Threads may use different
 * contexts at once, each on a communicator of its own: two that share no rank, or duplicates
 * (MPI_Comm_dup), with MPI begun by MPI_Init_thread at MPI_THREAD_MULTIPLE. The message of an error belongs to the thread that
 * made the call. Types, kernels and the instruction set belong to the process: what one context agreed on holds for all.
 * OpenBLAS, which float64 products and machines without oneDNN use, is loaded with the first function that needs it; two
 * variables of the environment are set while it is loaded, so other threads must not read the environment then. Nothing else
 * changes it after iso_init. */
#ifndef ISO_SESSION_SESSION_H
#define ISO_SESSION_SESSION_H

#include "runtime/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Begins. MPI is initialised if a launcher started the process and nobody has initialised it (a program
 * without mpirun runs without MPI). Takes Isogrid's options (--mesh, --devices, --seed, --threads, ...:
 * `--name value` or `--name=value`) out of argv; other arguments stay. argc and argv may be NULL. *ctx is
 * NULL afterwards only if there was no memory; after any other error iso_finish(ctx, status) still works.
 * Collective.
 * Environment:
 *   ISOGRID_THREADS=n         as --threads
 *   ISOGRID_MPI=0 or 1        whether to initialise MPI, whoever started the process
 *   ISOGRID_RANKS_PER_HOST=k  every k ranks of a machine count as a host, to test messages between hosts
 *   ISOGRID_SHM_FILES=1       shared memory lies in /dev/shm, for ranks that may not open each other's files
 * TensorFlow's TF_CONFIG is not read. ISO_INVALID if it names several tasks, or another role than that of a
 * worker, and MPI does not run yet. */
ISO_API iso_status iso_init(int *argc, char ***argv, iso_context **ctx);
/* Prints the error once, naming its rank; ends MPI if iso_init began it (aborting the job where this rank
 * fails alone); frees ctx; returns the exit code. ctx may be NULL. Objects that were made with ctx may be
 * destroyed after it, but not used. Collective. */
ISO_API int iso_finish(iso_context *ctx, iso_status status);

/* ---- of a context; NULL: of a program of one rank, which iso_init was not given ---- */
ISO_API int iso_rank(const iso_context *ctx);
ISO_API int iso_ranks(const iso_context *ctx);
/* Ranks on this rank's host, hosts in all, and the number of a rank's host (-1: there is no such rank). */
ISO_API int iso_host_ranks(const iso_context *ctx);
ISO_API int iso_hosts(const iso_context *ctx);
ISO_API int iso_host_of_rank(const iso_context *ctx, int rank);
/* Cores this rank may use, shared with the other ranks of its host: at least 1. --threads or ISOGRID_THREADS
 * overrides. */
ISO_API int iso_threads(const iso_context *ctx);
#define ISO_DEFAULT_SEED 1337
ISO_API uint64_t iso_seed(const iso_context *ctx); /* --seed, else ISO_DEFAULT_SEED */
/* For what is made from now on; the same on every rank. ctx must not be NULL. */
ISO_API void iso_set_seed(iso_context *ctx, uint64_t seed);
/* The value of an option taken by iso_init, else `fallback`. Lent. */
ISO_API const char *iso_option(const iso_context *ctx, const char *name, const char *fallback);

typedef enum iso_role_kind { ISO_WORKER, ISO_EVALUATOR } iso_role_kind;
/* Every rank is a worker: evaluators are not supported yet. */
ISO_API iso_role_kind iso_role(const iso_context *ctx);
/* True on rank 0 of the workers: it prints. */
ISO_API bool iso_is_chief(const iso_context *ctx);

/* A pointer to the MPI_Comm of the workers, NULL where there is no MPI (opaque here, so that mpi.h is not
 * needed). */
ISO_API void *iso_communicator(const iso_context *ctx);

/* Collectives for set-up, not for steps. ctx NULL: of one rank. ISO_INVALID on every rank where one gives
 * NULL. */

/* `bytes` of rank 0, or of rank `root`, to all ranks. Collective. */
ISO_API iso_status iso_broadcast(iso_context *ctx, void *data, size_t bytes);
ISO_API iso_status iso_broadcast_from(iso_context *ctx, int root, void *data, size_t bytes);
/* `bytes` of every rank into all [n_ranks * bytes], in the order of ranks. Collective. */
ISO_API iso_status iso_gather_all(iso_context *ctx, const void *mine, size_t bytes, void *all);

typedef enum iso_reduction { ISO_REDUCE_SUM, ISO_REDUCE_MIN, ISO_REDUCE_MAX, ISO_REDUCE_OR } iso_reduction;
/* Replaces values[i] by the sum, the least, the greatest or the bitwise "or" of values[i] of all ranks, for i
 * below `count`. dtype: ISO_I64 (sums wrap) or ISO_F64 (no "or"). The order in which doubles are added is not
 * fixed: a sum is the same on any number of ranks where it is exact, as that of whole numbers below 2^53.
 * Collective. */
ISO_API iso_status iso_all_reduce(iso_context *ctx, iso_reduction how, iso_dtype dtype, void *values,
                                  size_t count);

#ifdef __cplusplus
}
#endif
#endif
