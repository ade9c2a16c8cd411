/* The memory that a process may use, from files like those of the system: of the machine, and of control groups
 * of both versions, nested, without limits, in containers that show the group's folder as the topmost one.
 * Ranks: 1 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/host_memory.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static char root[64];
#define MEMINFO "MemTotal:       1000000 kB\nMemFree:  100 kB\nMemAvailable:    700000 kB\n"
#define KB INT64_C(1024)

static void set_up(void)
{
    check_ok(make_test_folder(NULL, root));
}

static void tear_down(void)
{
    check_ok(remove_test_folder(NULL, root));
}

/* Writes a file of the system, and the folders to it. */
static void write(const char *path, const char *text)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *slash = strchr(name + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(name, 0777);
        *slash = '/';
    }
    FILE *file = fopen(name, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void check_memory(int64_t limit, int64_t available, const char *group)
{
    iso_host_memory memory;
    iso_host_memory_find(root, &memory);
    ck_assert_int_eq(memory.limit, limit);
    ck_assert_int_eq(memory.available, available);
    ck_assert_str_eq(memory.group, group);
}

START_TEST(a_machine_has_memory_and_swap)
{
    check_memory(INT64_MAX, INT64_MAX, ""); /* no file says anything */
    write("/proc/meminfo", MEMINFO);
    check_memory(1000000 * KB, 700000 * KB, "");
    write("/proc/meminfo", MEMINFO "SwapTotal: 5000 kB\nSwapFree: 3000 kB\n");
    check_memory(1005000 * KB, 703000 * KB, "");
    write("/proc/meminfo", "MemTotal: many kB\n");
    check_memory(INT64_MAX, INT64_MAX, "");
}
END_TEST

START_TEST(groups_of_version_2_limit_it)
{
    write("/proc/meminfo", MEMINFO "SwapTotal: 5000 kB\nSwapFree: 3000 kB\n");
    write("/proc/self/cgroup", "0::/slurm/job_7/step_0\n");
    write("/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
    check_memory(1005000 * KB, 703000 * KB, "");
    write("/sys/fs/cgroup/slurm/job_7/memory.max", "409600000\n"); /* 400000 kB */
    write("/sys/fs/cgroup/slurm/job_7/memory.current", "204800000\n");
    write("/sys/fs/cgroup/slurm/job_7/memory.stat",
          "anon 1\nfile 900000000\ninactive_file 1024000\nactive_file 2048000\n");
    check_memory(405000 * KB, 208000 * KB,
                 "/slurm/job_7"); /* what is used, without 3000 kB of files; and swap */
    write("/sys/fs/cgroup/slurm/job_7/memory.swap.max", "1024000\n");
    check_memory(401000 * KB, 204000 * KB, "/slurm/job_7");
    write("/sys/fs/cgroup/slurm/memory.max", "102400000\n");
    check_memory(105000 * KB, 105000 * KB, "/slurm");
}
END_TEST

START_TEST(groups_of_version_1_limit_it)
{
    write("/proc/meminfo", MEMINFO);
    write("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/other\n3:memory:/a b\n0::/\n");
    write("/sys/fs/cgroup/memory/a b/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    check_memory(1000000 * KB, 700000 * KB, "");
    write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "307200000\n"); /* that of a container */
    write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "407200000\n");
    check_memory(300000 * KB, 0, "/");
    write("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 300000000\ntotal_active_file 4800000\n");
    check_memory(300000 * KB, 200000 * KB, "/");
    write("/proc/meminfo", MEMINFO "SwapTotal: 5000 kB\nSwapFree: 3000 kB\n");
    check_memory(305000 * KB, 205000 * KB, "/");
    write("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "308224000\n"); /* 1000 kB of swap */
    check_memory(301000 * KB, 201000 * KB, "/");
    write("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "307200000\n");
    check_memory(300000 * KB, 200000 * KB, "/");
}
END_TEST

int main(void)
{
    return RUN_TESTS_WITH("memory of a host", 0, set_up, tear_down, a_machine_has_memory_and_swap,
                          groups_of_version_2_limit_it, groups_of_version_1_limit_it);
}
