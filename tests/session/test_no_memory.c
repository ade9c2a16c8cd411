/* No memory where a context begins or ends: the watchdog's thread is not started without room for what it waits for,
 * and iso_finish says that it could not learn how the other ranks ended.
 * Ranks: 1, 2 */
#include <check.h>
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/watchdog_impl.h"
#include "runtime/base/memory.h"
#include "runtime/isogrid_mpi.h"
#include "runtime/session/session.h"
#include "tests/support/run_tests.h"

static bool refuses;

/* The library is linked into this program, so its calls come here. */
__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t size)
{
    void *memory = NULL;
    return refuses || posix_memalign(&memory, alignment, size) ? NULL : memory;
}

START_TEST(watchdog)
{
    static const int host_of_rank[1];
    iso_watchdog w = {.n_ranks = 1, .n_hosts = 1, .host_of_rank = host_of_rank};
    w.peer = iso_new(sizeof *w.peer);
    w.identity = iso_new(sizeof *w.identity);
    refuses = true;
    iso_status status = iso_watchdog_thread_start(&w);
    refuses = false;
    ck_assert_int_eq(status, ISO_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "the watchdog of 1 ranks"));
    iso_watchdog_thread_end(&w);
    iso_free(w.identity);
    iso_free(w.peer);
}
END_TEST

/* Every rank has a context of its own. */
START_TEST(finish)
{
    iso_context *ctx = NULL;
    ck_assert_int_eq(iso_init_on(MPI_COMM_SELF, NULL, NULL, &ctx), ISO_OK);
    refuses = true;
    int code = iso_finish(ctx, ISO_OK);
    refuses = false;
    ck_assert_int_eq(code, iso_status_exit_code(ISO_NO_MEMORY));
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "the endings of 1 ranks"));
}
END_TEST

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int code = RUN_TESTS("no_memory", 0, watchdog, finish);
    MPI_Finalize();
    return code;
}
