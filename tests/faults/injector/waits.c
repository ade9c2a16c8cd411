/* Threads that go on late: what happens between the end of a wait and the next call is seldom tried otherwise. */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/faults/injector/injector.h"

#define PUBLIC __attribute__((visibility("default")))

/* FAULTS_LATE: how late, in microseconds, after a wait of less than 0.2 s in which nothing happened. */
PUBLIC int poll(struct pollfd *polled, nfds_t count, int timeout)
{
    int (*wait)(struct pollfd *, nfds_t, int) = (int (*)(struct pollfd *, nfds_t, int))real_function("poll");
    const char *late = getenv("FAULTS_LATE");
    int ready = wait(polled, count, timeout);
    if (late && ready == 0 && timeout > 0 && timeout < 200)
        usleep((useconds_t)atoi(late));
    return ready;
}
