/* The context of a program: its ranks, options and roles.
 * Functions are local unless their comment says otherwise.
 *
 * Threads, for all of Isogrid:
 *   - One thread at a time uses a context and the objects made with it.
 *   - Threads may use different contexts at once, each on its own communicator: communicators that share no
 *     rank, or duplicates (MPI_Comm_dup), after MPI_Init_thread with MPI_THREAD_MULTIPLE.
 *   - The message of an error belongs to the thread that made the call.
 *   - Any thread may call, at any time, functions that take neither a context nor an object made with one (names,
 *     shapes, boxes, texts, settings of optimizers), each on data of its own.
 *   - Functions that a program gives Isogrid (callbacks) are called by the thread that made the call of Isogrid.
 *   - Exceptions to this stand in the comments of the functions.
 *   - Types, kernels and the instruction set belong to the process: if one context sets them, all use them.
 *   - Environment variables are set only in the first iso_init or iso_init_on of the process. During that call,
 *     no other thread may use the environment or create a context. If no context is created, this applies to
 *     the first compile or function instead. */
#ifndef ISO_SESSION_SESSION_H
#define ISO_SESSION_SESSION_H

#include <stdbool.h>

#include "runtime/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Creates the context of a program. Initialises MPI if a launcher started the process and MPI is not initialised
 * yet (a program without mpirun runs without MPI). Takes Isogrid's options out of argv (--mesh, --devices, --seed,
 * --threads, --backend, ...: `--name value` or `--name=value`); other arguments stay. argc and argv may be NULL. *ctx
 * is NULL afterwards only if there was no memory; after any other error iso_finish(ctx, status) still works.
 * Collective.
 *
 * Environment:
 *   ISOGRID_THREADS=n         as --threads
 *   ISOGRID_BACKEND=name      as --backend
 *   ISOGRID_MAX_CPU_ISA=name  the highest instruction set of the CPU backend: base, avx2, avx512, avx512_bf16, amx
 *   ISOGRID_MPI=0 or 1        whether to initialise MPI, with or without a launcher
 *   ISOGRID_RANKS_PER_HOST=k  every k ranks of a machine count as a host, to test messages between hosts
 *   ISOGRID_SLOTS_PER_DOMAIN=k  every k slots of a host count as a memory domain, to test messages within a host
 *   ISOGRID_CHUNK_BYTES=n     messages of GPUs to other hosts go through pinned memory in chunks of n bytes, to test
 *                             many of them; otherwise of 1 MiB
 *   ISOGRID_SLOTS=n           the slots of a mesh whose size is computed (data=*), instead of one for each rank
 *   ISOGRID_SHM_FILES=1       shared memory is in /dev/shm, for ranks that may not open each other's files
 *   ISOGRID_REPORTS=DIR       the folder for the watchdog's reports (docs/failures.md)
 *   ISOGRID_JOB=NAME          the name of the job in the names of these reports; otherwise SLURM_JOB_ID
 *
 *   TF_CONFIG                 the task of this rank, in the form that TensorFlow uses. The ranks that train must
 *                             be its cluster: the chief becomes rank 0, the workers follow by their index
 *
 * The ranks of the job are divided by role (iso_role). Each role has its own ranks, counted from 0: all other
 * functions know only the ranks of this rank's role. Ranks of different roles never wait for each other before
 * iso_finish, but the failure of any rank ends the job. ISO_INVALID on every rank if --role or TF_CONFIG is wrong or
 * the ranks contradict each other. */
ISO_API iso_status iso_init(int *argc, char ***argv, iso_context **ctx);
/* Registers a function for the failure of a rank. NULL: none. Does nothing with one rank. Local.
 *
 * The watchdog of a context of several ranks finds a rank that has died, was stopped or cannot be reached, and
 * prints a report (docs/failures.md). If iso_init began MPI, the process then ends with exit code 74. In another
 * program, calls of Isogrid on this context, also those that already wait for the lost rank, return ISO_FAILED with
 * the report's first line as message, and iso_finish returns 74; calls of MPI itself and of HDF5 may wait for ever.
 *
 * When a rank is lost, a thread of the watchdog calls take(user, text) once, with this line; after an earlier
 * failure it does so at once. take may end the program, with MPI_Abort or _exit; it must not call Isogrid. */
ISO_API void iso_set_failure_handler(iso_context *ctx, void (*take)(void *user, const char *text),
                                     void *user);
/* Ends a context: prints the error once, naming its rank, and frees ctx. Returns the exit code. Ends MPI if iso_init
 * began it, and aborts the job if only this rank fails. In a job with both roles, the ranks of each role wait here
 * for those of the other. ctx may be NULL. Objects that were made with ctx may be destroyed after it, but not used:
 * their collective functions then return ISO_INVALID. Collective. */
ISO_API int iso_finish(iso_context *ctx, iso_status status);

/* ---- properties of a context; NULL means a program of one rank that did not call iso_init ---- */
ISO_API int iso_rank(const iso_context *ctx);
ISO_API int iso_ranks(const iso_context *ctx);
/* The number of ranks on this rank's host, the number of hosts, and the index of a rank's host (-1: there is
 * no such rank). */
ISO_API int iso_host_ranks(const iso_context *ctx);
ISO_API int iso_hosts(const iso_context *ctx);
ISO_API int iso_host_of_rank(const iso_context *ctx, int rank);
/* Whether this is the first rank of its host. */
ISO_API bool iso_is_host_leader(const iso_context *ctx);
/* The cores that this rank may use; cores are shared with the other ranks of its host. At least 1. --threads
 * or ISOGRID_THREADS overrides. */
ISO_API int iso_threads(const iso_context *ctx);
/* The devices of this rank: the GPUs that it sees if the backend uses GPUs, otherwise its threads. In a single
 * process an axis "*" of a mesh has a slot for each. Their kind is "threads" or "GPUs": constant. */
ISO_API int iso_local_devices(const iso_context *ctx);
ISO_API const char *iso_local_device_kind(const iso_context *ctx);
/* The verbosity of iso_fit, iso_evaluate and iso_predict if their option .verbose is not set: --verbose, otherwise
 * 1, and 0 in a context of iso_init_on. */
ISO_API int iso_verbose(const iso_context *ctx);
#define ISO_DEFAULT_SEED 1337
#define ISO_DEFAULT_TIMEOUT 60
ISO_API uint64_t iso_seed(const iso_context *ctx); /* --seed, otherwise ISO_DEFAULT_SEED */
/* Sets the seed of objects that are made afterwards; it must be the same on every rank. ctx must not be NULL. */
ISO_API void iso_set_seed(iso_context *ctx, uint64_t seed);
/* The value of an option that iso_init took, otherwise `fallback`. Lent. */
ISO_API const char *iso_option(const iso_context *ctx, const char *name, const char *fallback);

/* A worker trains. An evaluator follows the checkpoints (iso_follow), in the workers' job or in a job of its
 * own; it may have several ranks. */
typedef enum iso_role_kind { ISO_WORKER, ISO_EVALUATOR } iso_role_kind;
/* The role of this rank: from --role; with --role auto (the default) from TF_CONFIG, otherwise a worker. */
ISO_API iso_role_kind iso_role(const iso_context *ctx);
/* True on rank 0 of each role, which prints and writes files: the chief of the workers, and as in TensorFlow
 * the first rank of the evaluator. */
ISO_API bool iso_is_chief(const iso_context *ctx);

/* ---- stopping on request ---- */

/* From now on SIGINT, SIGTERM and SIGUSR1 ask the program to stop, whichever rank gets them. After the step
 * in which that happens
 *   - iso_fit saves the training's state with its iso_backup_and_restore, otherwise with its
 *     iso_model_checkpoint callbacks, and returns ISO_STOPPED; without such a callback, ISO_INTERRUPTED;
 *   - iso_evaluate and iso_predict return ISO_INTERRUPTED;
 *   - iso_stop_requested is true.
 * Signals within a second count as one, because launchers may deliver a signal twice. A later one ends the
 * process at once; what launch/mpirun forwards is counted apart from what a rank gets by itself. An evaluator in
 * the workers' job goes on until they end. A signal that is ignored when this is called stays ignored. In a job of
 * several ranks
 * SIGPIPE is ignored, because mpirun closes the ranks' output when it loses a host, and the loss is to be
 * reported. iso_finish restores the handlers. ISO_INVALID unless iso_init made the context and, if there is
 * MPI, initialised it: signals belong to the program. Collective. */
ISO_API iso_status iso_stop_on_signals(iso_context *ctx);
/* Asks Slurm for the time limit of the job; the program is then asked to stop, as by a signal, at the first
 * step after which another one would end later than `seconds` before the limit. Rank 0 asks and decides.
 * SLURM_JOB_END_TIME gives the limit, otherwise `squeue`. ISO_INVALID if there is no Slurm job, it has no limit,
 * or `seconds` is not below the job's whole time. Collective. */
ISO_API iso_status iso_stop_before_limit(iso_context *ctx, double seconds);
/* Whether all ranks have agreed, at the end of a step, that a request to stop has come: the same on every rank. For
 * programs with a loop of their own. */
ISO_API bool iso_stop_requested(const iso_context *ctx);
/* The status of a program that stops on request, for iso_finish. saved: the file from which a new run
 * continues (ISO_STOPPED), "": there was nothing to save yet (ISO_STOPPED), NULL: none (ISO_INTERRUPTED). Records the
 * message, which names the request. ISO_INVALID if nothing asked to stop. Collective. */
ISO_API iso_status iso_stopped(iso_context *ctx, const char *saved);

/* A pointer to the MPI_Comm of this role's ranks, which belongs to the context; NULL without MPI (void *, so that
 * mpi.h is not needed here). */
ISO_API void *iso_communicator(const iso_context *ctx);

/* Collectives for set-up, not for steps. ctx NULL: one rank. */

/* Sends `bytes` of rank 0, or of rank `root`, to all ranks. ISO_INVALID on every rank: one passes NULL data, the
 * ranks pass different roots, or there is no such root. Both collective. */
ISO_API iso_status iso_broadcast(iso_context *ctx, void *data, size_t bytes);
ISO_API iso_status iso_broadcast_from(iso_context *ctx, int root, void *data, size_t bytes);
/* Sends `bytes` of the first rank of each host to the host's other ranks. ISO_INVALID on every rank if one
 * passes NULL data. Collective. */
ISO_API iso_status iso_broadcast_in_hosts(iso_context *ctx, void *data, size_t bytes);
/* Gathers `bytes` of every rank into all [n_ranks * bytes], in rank order. ISO_INVALID on every rank if one
 * passes NULL data. Collective. */
ISO_API iso_status iso_gather_all(iso_context *ctx, const void *mine, size_t bytes, void *all);

typedef enum iso_reduction { ISO_REDUCE_SUM, ISO_REDUCE_MIN, ISO_REDUCE_MAX, ISO_REDUCE_OR } iso_reduction;
/* Replaces values[i] by the sum, the minimum, the maximum or the bitwise "or" of values[i] over all ranks,
 * for i below `count`. dtype: ISO_I64 (sums wrap) or ISO_F64 (no "or"). The order in which doubles are added
 * is not fixed: a sum is the same on any number of ranks if it is exact, such as a sum of integers below
 * 2^53. ISO_INVALID: another type, or on every rank if one passes NULL values. Collective. */
ISO_API iso_status iso_all_reduce(iso_context *ctx, iso_reduction how, iso_dtype dtype, void *values,
                                  size_t count);

#ifdef __cplusplus
}
#endif
#endif
