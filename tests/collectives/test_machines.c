/* Ranks of a program that goes on after failures are of one machine if the machine's name is the same: also where
 * other names have the same hash. This program's gethostname gives each rank a name. Ranks: 3, 4 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/comm.h"
#include "collectives/control/control.h"
#include "runtime/base/hash.h"
#include "runtime/isogrid_mpi.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static char names[2][32]; /* of the even ranks, and of the odd ones; "": all have one name */

int gethostname(char *name, size_t size)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(name, size, "%s", *names[0] ? names[rank % 2] : "machine");
    return 0;
}

typedef struct entry {
    uint32_t hash;
    int number;
} entry;

static int compare(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return (x->hash > y->hash) - (x->hash < y->hash);
}

/* Finds two names whose hashes agree in 31 bits. */
static void find_names(void)
{
    enum { TRIED = 1 << 18 };
    entry *entries = calloc(TRIED, sizeof *entries);
    ck_assert_ptr_nonnull(entries);
    for (int i = 0; i < TRIED; i++) {
        char name[32];
        snprintf(name, sizeof name, "host%d", i);
        entries[i] = (entry){(uint32_t)(iso_hash_text(0, name) & INT32_MAX), i};
    }
    qsort(entries, TRIED, sizeof *entries, compare);
    int at = 1;
    while (at < TRIED && entries[at].hash != entries[at - 1].hash)
        at++;
    ck_assert_int_lt(at, TRIED);
    snprintf(names[0], sizeof names[0], "host%d", entries[at - 1].number);
    snprintf(names[1], sizeof names[1], "host%d", entries[at].number);
    free(entries);
}

START_TEST(machines_with_names_of_one_hash_stay_apart)
{
    iso_comm *machine;
    int rank = iso_rank(ctx), ranks = iso_ranks(ctx);
    ck_assert_int_eq(iso_comm_split_shared(iso_communicator(ctx), 0, &machine), ISO_OK);
    ck_assert_int_eq(iso_comm_size(machine), ranks);
    iso_comm_free(&machine);
    find_names();
    ck_assert_int_eq(iso_comm_split_shared(iso_communicator(ctx), 0, &machine), ISO_OK);
    ck_assert_int_eq(iso_comm_size(machine), (ranks + (rank % 2 == 0)) / 2);
    ck_assert_int_eq(iso_comm_rank(machine), rank / 2);
    iso_comm_free(&machine);
}
END_TEST

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    iso_status status = iso_init_on(MPI_COMM_WORLD, &argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("machines", 0, machines_with_names_of_one_hash_stay_apart))
        status = iso_error(ISO_FAILED, "a test failed");
    int code = iso_finish(ctx, status);
    MPI_Finalize();
    return code;
}
