/* Whether a host's own name is resolved, and how long that takes: MPI asks at each start. */
#include <netdb.h>
#include <sys/socket.h>

#include "launch/doctor/list.h"
#include "runtime/base/clock.h"

enum { RESOLVED, SLOW, UNRESOLVED };
static const iso_doctor_outcome outcomes[] = {
    [RESOLVED] = {"resolved", ISO_DOCTOR_OK, NULL},
    [SLOW] = {"slow", ISO_DOCTOR_WARNING,
              "each start of a job waits for it: add a line with the host's address and name to /etc/hosts"},
    [UNRESOLVED] =
        {"unresolved", ISO_DOCTOR_WARNING,
         "each start of a job may wait 5 s for a name server: add a line with the host's address and name to "
         "/etc/hosts"},
};
static const double slow = 0.5; /* seconds */

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    const char *name = iso_doctor_host_name(doctor, iso_doctor_host(doctor));
    struct addrinfo *addresses = NULL, want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char time[32];
    double begin = iso_clock();
    int error = getaddrinfo(name, NULL, &want, &addresses);
    double seconds = iso_clock() - begin;
    iso_doctor_seconds(seconds, time, sizeof time);
    if (error)
        return iso_doctor_find(finding, UNRESOLVED, seconds,
                               "the host's own name '%s' does not resolve: %s (after %s)", name,
                               gai_strerror(error), time);
    freeaddrinfo(addresses);
    if (seconds > slow)
        return iso_doctor_find(finding, SLOW, seconds, "resolving the host's own name '%s' takes %s", name,
                               time);
    return iso_doctor_find(finding, RESOLVED, 0, "the host's own name resolves");
}

const iso_doctor_check iso_doctor_check_host_names = {
    .name = "host-names",
    .looks_at = "whether each host's own name resolves, and how fast",
    .scope = ISO_DOCTOR_HOSTS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
