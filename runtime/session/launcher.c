/* Finds out whether a launcher started this process. Otherwise MPI must not begin: it costs a quarter of a
 * second, and inside a Slurm allocation it could wait for a daemon that does not run. So only the variables
 * that launchers set for each rank count, not those of an allocation's shell. ISOGRID_MPI=0 or 1 overrides
 * this: a program that a rank of another job starts inherits that rank's variables. */
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/cores.h"
#include "runtime/session/session_impl.h"

/* Set by mpirun and its daemons, by PMIx servers (srun --mpi=pmix), and by PMI-1 and 2 (MPICH's mpiexec, srun
 * --mpi=pmi2). */
static const char *const rank_variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
static const char *const size_variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

static long launcher_number_of(const char *name, long fallback)
{
    const char *text = getenv(name);
    char *end;
    long value = text ? strtol(text, &end, 10) : 0;
    return text && *text && !*end ? value : fallback;
}

/* True in a task of an srun that started several. The batch script, an interactive step and the shell of
 * salloc have step numbers from 0xfffffff0 up, or none. */
static bool in_parallel_step(void)
{
    long step = launcher_number_of("SLURM_STEP_ID", -1);
    return step >= 0 && step < 0xfffffff0L && launcher_number_of("SLURM_STEP_NUM_TASKS", 1) > 1 &&
           is_set("SLURM_PROCID");
}

/* True in a task of srun --mpi=pmi2. */
static bool has_pmi_alone(void)
{
    return is_set("PMI_RANK") && !is_set("PMIX_RANK") && !is_set("OMPI_COMM_WORLD_RANK") &&
           is_set("SLURM_STEP_ID") && is_set("SLURM_PROCID");
}

/* ---- environment ---- */

static bool is_switch(const char *name)
{
    const char *value = getenv(name);
    return is_set(name) && (!strcmp(value, "0") || !strcmp(value, "1"));
}

static iso_status check_switch(const char *name)
{
    return !is_set(name) || is_switch(name)
               ? ISO_OK
               : iso_error(ISO_INVALID, "%s is '%s': it must be 0 or 1", name, getenv(name));
}

iso_status iso_launcher_check(void)
{
    iso_status status = check_switch("ISOGRID_MPI");
    if (status == ISO_OK)
        status = check_switch("ISOGRID_SHM_FILES");
    if (status == ISO_OK && is_set("ISOGRID_SLOTS") && !iso_slots_stated())
        status = iso_error(ISO_INVALID, "ISOGRID_SLOTS is '%s': it must be an integer from 1",
                           getenv("ISOGRID_SLOTS"));
    return status;
}

int iso_slots_stated(void)
{
    long slots = launcher_number_of("ISOGRID_SLOTS", 0);
    return slots >= 1 && slots <= 1 << 20 ? (int)slots : 0;
}

iso_status iso_launcher_find(bool *found)
{
    *found = false;
    if (is_switch("ISOGRID_MPI")) {
        *found = strcmp(getenv("ISOGRID_MPI"), "1") == 0;
        return ISO_OK;
    }
    for (size_t i = 0; i < sizeof rank_variables / sizeof *rank_variables; i++)
        *found = *found || is_set(rank_variables[i]);
    if (!*found && in_parallel_step())
        return iso_error(ISO_INVALID,
                         "srun started %s tasks without a way for MPI to start; try srun --mpi=pmix (srun "
                         "--mpi=list shows what there is)",
                         getenv("SLURM_STEP_NUM_TASKS"));
    if (has_pmi_alone())
        return iso_error(ISO_INVALID,
                         "srun --mpi=pmi2 tells the tasks their ranks by PMI-2, which Open MPI seldom "
                         "knows; use srun --mpi=pmix (srun --mpi=list shows what there is), or set "
                         "ISOGRID_MPI=1 where this MPI was built with PMI-2");
    return ISO_OK;
}

bool iso_launcher_forwards_signals(void)
{
    return is_set("OMPI_MCA_isogrid_launcher");
}

int iso_launcher_ranks(void)
{
    for (size_t i = 0; i < sizeof size_variables / sizeof *size_variables; i++)
        if (is_set(size_variables[i]))
            return (int)launcher_number_of(size_variables[i], 0);
    return 0;
}

iso_launcher_location iso_launcher_find_location(void)
{
    const long rank = launcher_number_of("PMIX_RANK", -1), local = launcher_number_of("SLURM_LOCALID", -1);
    return (iso_launcher_location){.rank = (int)launcher_number_of("OMPI_COMM_WORLD_RANK", rank),
                                   .n_ranks = iso_launcher_ranks(),
                                   .local_rank = (int)launcher_number_of("OMPI_COMM_WORLD_LOCAL_RANK", local),
                                   .n_local = (int)launcher_number_of("OMPI_COMM_WORLD_LOCAL_SIZE", -1)};
}

/* Whether all ranks were started on one machine. Slurm's variables count where mpirun's are not set: mpirun starts
 * its daemons by steps of Slurm, whose number of nodes is not that of the job. */
static bool on_one_machine(void)
{
    long ranks = launcher_number_of("OMPI_COMM_WORLD_SIZE", 0);
    return ranks > 0 ? launcher_number_of("OMPI_COMM_WORLD_LOCAL_SIZE", 0) == ranks
                     : launcher_number_of("SLURM_STEP_NUM_NODES", 0) == 1;
}

/* Whether this host has more ranks than cores. Open MPI knows the slots of a hostfile instead, which may be more.
 * Each rank that Open MPI has bound may have cores of its own. */
static bool has_more_ranks_than_cores(void)
{
    iso_cores cores;
    bool bound = is_set("OMPI_MCA_orte_bound_at_launch");
    bool known = bound ? iso_cores_find_bindable(&cores) : iso_cores_find(&cores);
    return known && launcher_number_of("OMPI_COMM_WORLD_LOCAL_SIZE", 0) > iso_cores_count(&cores);
}

void iso_launcher_prepare(void)
{
    static const char eager[] = "1048576"; /* bytes */
    bool one_machine = on_one_machine();
    if (has_more_ranks_than_cores())
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    /* Open MPI's own MPI-IO leaves a semaphore behind if a rank dies in MPI_File_open, and the next open
     * hangs on it. */
    setenv("OMPI_MCA_io", "romio321", 0);
    /* On one machine only shared memory is needed; without the search for networks, starting is several times
     * faster. */
    if (one_machine && !is_set("OMPI_MCA_pml") && !is_set("OMPI_MCA_btl")) {
        setenv("OMPI_MCA_pml", "ob1", 1);
        setenv("OMPI_MCA_btl", "self,vader", 1);
    }
    /* Between hosts a message of up to this size is sent without a handshake. With one, its answer waits behind
     * what travels the other way: a step of mlp on two hosts took 16.3 ms at 1 Gbit/s with 64 KiB, Open MPI's own
     * limit, and 11.6 ms with this. Larger ones are sent in parts (collectives/mpi/requests.c): mlp2048, 330 ms in
     * one message and 206 ms in parts. Receives are posted before, so nothing is copied that is not expected. */
    if (!one_machine) {
        setenv("OMPI_MCA_btl_tcp_eager_limit", eager, 0);
        setenv("OMPI_MCA_btl_tcp_rndv_eager_limit", eager, 0);
        setenv("OMPI_MCA_btl_tcp_max_send_size", eager, 0);
    }
}
