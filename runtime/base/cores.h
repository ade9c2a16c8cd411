/* The cores that a process may use. A cpu_set_t holds 1024; larger machines exist. */
#ifndef ISO_BASE_CORES_H
#define ISO_BASE_CORES_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ISO_MAX_CORES = 8192 }; /* the most that Linux is built for */

/* A set of cores, by the kernel's numbers. A set in which each bit is that of any of several sets is their union. */
typedef struct iso_cores {
    unsigned long word[ISO_MAX_CORES / (8 * sizeof(unsigned long))];
} iso_cores;

/* Finds the cores that this thread may use (sched_getaffinity). False: the kernel does not say; the set is empty. */
bool iso_cores_find(iso_cores *cores);
/* Finds the cores that this thread could be bound to: those of the container or of the job (its cpuset), or all of
 * the machine. False: the kernel does not say; the set is empty. */
bool iso_cores_find_bindable(iso_cores *cores);
void iso_cores_add(iso_cores *cores, int core);
bool iso_cores_have(const iso_cores *cores, int core);
int iso_cores_count(const iso_cores *cores);

#ifdef __cplusplus
}
#endif
#endif
