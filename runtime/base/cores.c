#include "runtime/base/cores.h"

#include <sched.h>
#include <string.h>

static cpu_set_t *as_set(iso_cores *cores)
{
    return (cpu_set_t *)(void *)cores->word;
}

bool iso_cores_find(iso_cores *cores)
{
    memset(cores, 0, sizeof *cores);
    return sched_getaffinity(0, sizeof *cores, as_set(cores)) == 0;
}

bool iso_cores_find_bindable(iso_cores *cores)
{
    iso_cores own, all;
    memset(&all, 0xff, sizeof all);
    if (!iso_cores_find(&own) || sched_setaffinity(0, sizeof all, as_set(&all)) != 0)
        return iso_cores_find(cores); /* a sandbox that lets nobody change it */
    bool found = iso_cores_find(cores);
    sched_setaffinity(0, sizeof own, as_set(&own));
    return found;
}

void iso_cores_add(iso_cores *cores, int core)
{
    CPU_SET_S((size_t)core, sizeof *cores, as_set(cores));
}

bool iso_cores_have(const iso_cores *cores, int core)
{
    return CPU_ISSET_S((size_t)core, sizeof *cores, (const cpu_set_t *)(const void *)cores->word) != 0;
}

int iso_cores_count(const iso_cores *cores)
{
    return CPU_COUNT_S(sizeof *cores, (const cpu_set_t *)(const void *)cores->word);
}
