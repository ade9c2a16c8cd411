/* Processes as the kernel shows them, and threads that handle no signals. */
#ifndef ISO_PROCESS_H
#define ISO_PROCESS_H

#include <pthread.h>
#include <stdint.h>

/* Two processes see the same process numbers if this is the same (their PID namespace). 0: not known. */
uint64_t iso_process_space(void);
/* The state of a process of this space, a letter as in /proc/PID/stat: T stopped, Z ended. 0: there is none.
 * '?': it cannot be known. */
char iso_process_state(int pid);
/* Starts a thread that blocks all signals, so the program's handlers run in the program's threads. Returns 0 or
 * an error number. */
int iso_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
