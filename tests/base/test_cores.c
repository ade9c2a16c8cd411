/* The cores that a process may use, on a machine that has more of them than a cpu_set_t holds: this program's
 * sched_getaffinity and sched_setaffinity stand in for those of the C library. Ranks: 1, 3 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "runtime/base/cores.h"
#include "runtime/session/session.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static const int on_this_machine[] = {0, 1023, 1024, 1500, 5000, 8191};
enum { HERE = sizeof on_this_machine / sizeof on_this_machine[0] };

static int used = HERE; /* the process may use the first of them: it is bound to them */

int sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set)
{
    (void)process;
    memset(set, 0, bytes);
    for (int i = 0; i < HERE; i++) {
        if ((size_t)on_this_machine[i] / 8 >= bytes) {
            errno = EINVAL;
            return -1;
        }
        if (i < used)
            CPU_SET_S((size_t)on_this_machine[i], bytes, set);
    }
    return 0;
}

/* As in a container of these cores: others are left out. */
int sched_setaffinity(pid_t process, size_t bytes, const cpu_set_t *set)
{
    (void)process;
    for (used = 0; used < HERE && CPU_ISSET_S((size_t)on_this_machine[used], bytes, set); used++)
        ;
    return 0;
}

START_TEST(every_core_is_seen)
{
    iso_cores cores;
    ck_assert(iso_cores_find(&cores));
    ck_assert_int_eq(iso_cores_count(&cores), HERE);
    for (int i = 0; i < HERE; i++)
        ck_assert(iso_cores_have(&cores, on_this_machine[i]));
    ck_assert(!iso_cores_have(&cores, 1));
    iso_cores_add(&cores, 4097);
    ck_assert(iso_cores_have(&cores, 4097));
    ck_assert_int_eq(iso_cores_count(&cores), HERE + 1);
}
END_TEST

START_TEST(a_bound_process_knows_to_what_it_could_be_bound)
{
    iso_cores cores;
    used = 2;
    ck_assert(iso_cores_find(&cores));
    ck_assert_int_eq(iso_cores_count(&cores), 2);
    ck_assert(iso_cores_find_bindable(&cores));
    ck_assert_int_eq(iso_cores_count(&cores), HERE);
    ck_assert_int_eq(used, 2);
    used = HERE;
}
END_TEST

START_TEST(ranks_share_the_cores)
{
    ck_assert_int_eq(iso_threads(ctx), HERE / iso_ranks(ctx));
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("cores", 0, every_core_is_seen,
                                      a_bound_process_knows_to_what_it_could_be_bound, ranks_share_the_cores))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
