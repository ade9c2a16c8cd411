#include "runtime/base/host_memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The number that follows `key` at the beginning of a line of a file; -1: there is none. key "": the file's first. */
static int64_t number_in(const char *path, const char *key)
{
    char line[512];
    int64_t number = -1;
    FILE *file = fopen(path, "r");
    while (file && number < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) != 0 || sscanf(line + strlen(key), " %" SCNd64, &number) != 1)
            number = -1;
    if (file)
        fclose(file);
    return number;
}

static int64_t kilobytes_in(const char *root, const char *key)
{
    char path[512];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    int64_t kilobytes = number_in(path, key);
    return kilobytes < 0 || kilobytes > INT64_MAX / 1024 / 4 ? -1 : 1024 * kilobytes;
}

static void find_machine(const char *root, iso_host_memory *memory)
{
    int64_t total = kilobytes_in(root, "MemTotal:"), available = kilobytes_in(root, "MemAvailable:");
    int64_t swap = kilobytes_in(root, "SwapTotal:"), unused = kilobytes_in(root, "SwapFree:");
    if (total > 0)
        memory->limit = total + (swap > 0 ? swap : 0);
    if (available >= 0)
        memory->available = available + (unused > 0 ? unused : 0);
}

/* The files of a version of control groups, and the lines of memory.stat for pages of files, which the system can
 * take back. */
typedef struct group_files {
    const char *folder, *limit, *usage, *swap, *cache[2];
    bool swap_and_memory; /* `swap` limits their sum */
} group_files;
static const group_files V1 = {"memory",
                               "memory.limit_in_bytes",
                               "memory.usage_in_bytes",
                               "memory.memsw.limit_in_bytes",
                               {"total_inactive_file ", "total_active_file "},
                               true};
static const group_files V2 = {
    "", "memory.max", "memory.current", "memory.swap.max", {"inactive_file ", "active_file "}, false};

static int64_t number_of_group(const char *folder, const char *file, const char *key)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return number_in(path, key);
}

/* The swap that a group may use: the machine's, or less. */
static int64_t swap_of_group(const char *folder, const group_files *files, int64_t limit, int64_t swap)
{
    int64_t own = number_of_group(folder, files->swap, "");
    if (own >= 0 && files->swap_and_memory)
        own = own > limit ? own - limit : 0;
    return own >= 0 && own < swap ? own : swap;
}

/* The limit of one group. A group without a limit has no number there, or one that is larger than any machine. */
static void take_group(const char *folder, const char *group, const group_files *files, int64_t swap,
                       iso_host_memory *memory)
{
    int64_t limit = number_of_group(folder, files->limit, ""),
            usage = number_of_group(folder, files->usage, "");
    if (limit < 0 || limit > INT64_MAX / 2)
        return;
    swap = swap_of_group(folder, files, limit, swap);
    for (int i = 0; i < 2; i++) {
        int64_t cache = number_of_group(folder, "memory.stat", files->cache[i]);
        usage -= cache > 0 ? cache : 0;
    }
    int64_t available = limit - (usage > 0 ? usage : 0) + swap;
    if (limit + swap < memory->limit) {
        memory->limit = limit + swap;
        snprintf(memory->group, sizeof memory->group, "%s", group);
    }
    if (available < memory->available)
        memory->available = available > 0 ? available : 0;
}

/* A group and those above it. In a container the system may show the group's own folder as the topmost one. */
static void take_groups(const char *root, char *group, const group_files *files, int64_t swap,
                        iso_host_memory *memory)
{
    char folder[1100];
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        *end = 0;
        snprintf(folder, sizeof folder, "%s/sys/fs/cgroup/%s%s", root, files->folder, group);
        take_group(folder, *group ? group : "/", files, swap, memory);
    }
}

/* Lines "4:memory:/slurm/job_7" of version 1, "0::/slurm/job_7" of version 2. */
static void find_groups(const char *root, int64_t swap, iso_host_memory *memory)
{
    char path[512], line[800];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        if (strcmp(controllers, ":memory") == 0)
            take_groups(root, group, &V1, swap, memory);
        else if (strcmp(controllers, ":") == 0)
            take_groups(root, group, &V2, swap, memory);
    }
    if (file)
        fclose(file);
}

void iso_host_memory_find(const char *root, iso_host_memory *memory)
{
    int64_t swap = kilobytes_in(root, "SwapTotal:");
    *memory = (iso_host_memory){.limit = INT64_MAX, .available = INT64_MAX};
    find_machine(root, memory);
    find_groups(root, swap > 0 ? swap : 0, memory);
}
