/* Barriers, and counts that wake those who wait for them: between threads and between processes, with and
 * without a core for each. A waiter that waits for long uses no processor time. Ranks: 1 */
#include <check.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collectives/shm/barrier_impl.h"
#include "runtime/base/thread_pool.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { THREADS = 5, ROUNDS = 3000 };

static void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(memory != MAP_FAILED);
    return memory;
}

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000L}, NULL);
}

static double own_seconds(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

/* ---- barriers ---- */

typedef struct meeting {
    iso_barrier barrier;
    int members;
    int *round; /* [members] that each is in */
} meeting;

/* Nobody is more than a round away from anybody else. Returns the rounds in which somebody was. */
static int meet(const meeting *m, int self)
{
    int wrong = 0;
    for (int r = 1; r <= ROUNDS; r++) {
        __atomic_store_n(&m->round[self], r, __ATOMIC_RELAXED);
        iso_barrier_wait(&m->barrier, self);
        for (int i = 0; i < m->members; i++) {
            int other = __atomic_load_n(&m->round[i], __ATOMIC_RELAXED);
            wrong += other < r || other > r + 1;
        }
    }
    return wrong;
}

static meeting begin(int members, bool crowded, uint32_t first)
{
    iso_count *flags = shared_memory((size_t)(members + 2) * sizeof *flags);
    for (int i = 0; i <= members + 1; i++)
        atomic_store(&flags[i].value, i == members ? first * (uint32_t)members : first);
    return (meeting){{flags, members, crowded, NULL}, members, shared_memory(THREADS * sizeof(int))};
}

typedef struct member {
    const meeting *meeting;
    int self, wrong;
} member;

static void *run_member(void *arg)
{
    member *m = arg;
    m->wrong = meet(m->meeting, m->self);
    return NULL;
}

/* The counts begin at zero, and where they pass 2^32. */
START_TEST(threads_meet)
{
    bool crowded = _i % 2;
    uint32_t first = _i < 2 ? 0 : UINT32_MAX - ROUNDS / 2;
    for (int members = 1; members <= THREADS; members += 2) {
        meeting m = begin(members, crowded, first);
        pthread_t thread[THREADS];
        member all[THREADS];
        for (int i = 0; i < members; i++) {
            all[i] = (member){&m, i, 0};
            ck_assert_int_eq(pthread_create(&thread[i], NULL, run_member, &all[i]), 0);
        }
        for (int i = 0; i < members; i++) {
            pthread_join(thread[i], NULL);
            ck_assert_int_eq(all[i].wrong, 0);
        }
    }
}
END_TEST

START_TEST(processes_meet)
{
    meeting m = begin(3, _i % 2, 0);
    for (int i = 1; i < 3; i++)
        if (fork() == 0)
            _exit(meet(&m, i) != 0);
    ck_assert_int_eq(meet(&m, 0), 0);
    for (int i = 1; i < 3; i++) {
        int status;
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
}
END_TEST

/* ---- long waits ---- */

START_TEST(a_long_wait_uses_no_processor)
{
    iso_count *count = shared_memory(sizeof *count);
    pid_t child = fork();
    if (child == 0) {
        sleep_ms(200);
        iso_count_raise(count, 1);
        _exit(0);
    }
    double before = own_seconds();
    iso_count_await(count, 1, _i % 2, NULL);
    double used = own_seconds() - before;
    waitpid(child, NULL, 0);
    ck_assert_msg(used < 0.02, "%g s of 0.2", used);
}
END_TEST

static void *announce(void *over)
{
    sleep_ms(50);
    atomic_store((atomic_int *)over, 1);
    return NULL;
}

/* A waiter whose partner never comes is released by the word, also one that comes later. */
START_TEST(a_word_ends_waits)
{
    meeting m = begin(2, _i % 2, 0);
    atomic_int over = 0;
    pthread_t thread;
    m.barrier.over = &over;
    ck_assert_int_eq(pthread_create(&thread, NULL, announce, &over), 0);
    iso_barrier_wait(&m.barrier, 0);
    ck_assert_int_eq(atomic_load(&over), 1);
    iso_barrier_wait(&m.barrier, 0);
    pthread_join(thread, NULL);
}
END_TEST

static void one_is_late(void *arg, int thread)
{
    (void)arg;
    if (thread == 1)
        sleep_ms(200);
}

/* The thread that begins a job waits for the others, and they for the next job. */
START_TEST(threads_of_a_pool_wait_asleep)
{
    iso_thread_pool *pool;
    check_ok(iso_thread_pool_create(2, _i % 2, &pool));
    double before = own_seconds();
    iso_thread_pool_run(pool, one_is_late, NULL);
    double used = own_seconds() - before;
    iso_thread_pool_destroy(pool);
    ck_assert_msg(used < 0.02, "%g s of 0.2", used);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("barrier");
    TCase *tests = tcase_create("barrier");
    tcase_set_timeout(tests, 0);
    tcase_add_loop_test(tests, threads_meet, 0, 4);
    tcase_add_loop_test(tests, processes_meet, 0, 2);
    tcase_add_loop_test(tests, a_long_wait_uses_no_processor, 0, 2);
    tcase_add_loop_test(tests, a_word_ends_waits, 0, 2);
    tcase_add_loop_test(tests, threads_of_a_pool_wait_asleep, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
