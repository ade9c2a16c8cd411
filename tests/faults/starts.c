/* A program that loses a rank, or is kept waiting by one, while it starts, for tests/faults/test_starts.
 *
 *   starts CALL VICTIM SIGNAL ARGUMENT...
 *
 * VICTIM, a rank or "2-3" for several, sends itself the SIGNAL (KILL, STOP or none) before it calls iso_init (CALL
 * 0), or when iso_init makes its CALL-th call of MPI: 1 is MPI_Init, the others are collective. If there are
 * fewer, "only so many calls" is printed. Further arguments are Isogrid's. The calls are stood in for, as in
 * tests/session/test_mpi_errors.c.
 */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/isogrid.h"

static int calls, victim_call = -1, victim = -1, last_victim, number;

static int own_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *other = getenv("PMIX_RANK"); /* of srun */
    return rank ? atoi(rank) : other ? atoi(other) : 0;
}

static bool is_victim(void)
{
    return own_rank() >= victim && own_rank() <= last_victim;
}

static void make_call(void)
{
    if (calls++ == victim_call && is_victim())
        kill(getpid(), number);
}

#define BEFORE(name, parameters, arguments)                                                                  \
    int MPI_##name parameters                                                                                \
    {                                                                                                        \
        make_call();                                                                                         \
        return PMPI_##name arguments;                                                                        \
    }
BEFORE(Init_thread, (int *c, char ***v, int wanted, int *given), (c, v, wanted, given))
BEFORE(Allreduce, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c))
BEFORE(Allgather, (const void *a, int n, MPI_Datatype t, void *b, int m, MPI_Datatype u, MPI_Comm c),
       (a, n, t, b, m, u, c))
BEFORE(Bcast, (void *a, int n, MPI_Datatype t, int root, MPI_Comm c), (a, n, t, root, c))
BEFORE(Comm_split, (MPI_Comm c, int color, int key, MPI_Comm *made), (c, color, key, made))
BEFORE(Comm_split_type, (MPI_Comm c, int type, int key, MPI_Info info, MPI_Comm *made),
       (c, type, key, info, made))
BEFORE(Comm_dup, (MPI_Comm c, MPI_Comm *made), (c, made))

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    victim_call = atoi(argv[1]);
    if (sscanf(argv[2], "%d-%d", &victim, &last_victim) == 1)
        last_victim = victim;
    number = !strcmp(argv[3], "KILL") ? SIGKILL : !strcmp(argv[3], "STOP") ? SIGSTOP : 0;
    make_call();
    argc -= 3;
    argv[3] = argv[0];
    argv += 3;
    iso_context *ctx;
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (is_victim() && calls <= victim_call)
        printf("only %d calls\n", calls - 1);
    return iso_finish(ctx, status);
}
