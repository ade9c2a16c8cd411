/* The hosts of the job and their ranks, as MPI sees them. */
#include <stdio.h>
#include <string.h>

#include "launch/doctor/list.h"

enum { GOOD, UNEQUAL, SPLIT, SAME_NAME };
static const iso_doctor_outcome outcomes[] = {
    [GOOD] = {"good", ISO_DOCTOR_OK, NULL},
    [UNEQUAL] = {"unequal", ISO_DOCTOR_WARNING,
                 "a step waits for the host with the most ranks: give each host the same number (slots=N in "
                 "the hostfile, --ntasks-per-node)"},
    [SPLIT] = {"split", ISO_DOCTOR_WARNING,
               "ranks of one machine exchange messages instead of sharing memory: start them in one "
               "container, or let the "
               "containers share /dev/shm and the host's name (unset ISOGRID_RANKS_PER_HOST if it is set)"},
    [SAME_NAME] = {"same-name", ISO_DOCTOR_WARNING,
                   "give each host a name of its own (hostnamectl set-hostname): Open MPI tells hosts apart "
                   "by their names"},
};

static int host_ranks(const iso_doctor *doctor, int host)
{
    int count = 0;
    for (int rank = 0; rank < iso_ranks(doctor->ctx); rank++)
        count += iso_host_of_rank(doctor->ctx, rank) == host;
    return count;
}

static const char *machine_of(const iso_doctor *doctor, int host)
{
    return doctor->facts[doctor->lowest[host]].machine;
}

/* Two hosts on one machine, or (names) with one name on two machines; *second is 0 if there are none. */
static void find_pair(const iso_doctor *doctor, bool names, int *first, int *second)
{
    *second = 0;
    for (int b = 1; b < iso_hosts(doctor->ctx) && !*second; b++)
        for (int a = 0; a < b && !*second; a++) {
            bool machine = *machine_of(doctor, a) && !strcmp(machine_of(doctor, a), machine_of(doctor, b));
            bool name = !strcmp(iso_doctor_host_name(doctor, a), iso_doctor_host_name(doctor, b));
            if (names ? name && !machine : machine) {
                *first = a;
                *second = b;
            }
        }
}

static void count_ranks(const iso_doctor *doctor, int *least, int *most)
{
    *least = *most = host_ranks(doctor, 0);
    for (int host = 1; host < iso_hosts(doctor->ctx); host++) {
        int ranks = host_ranks(doctor, host);
        *least = ranks < *least ? ranks : *least;
        *most = ranks > *most ? ranks : *most;
    }
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    int first = 0, second, least, most, hosts = iso_hosts(doctor->ctx), ranks = iso_ranks(doctor->ctx);
    find_pair(doctor, true, &first, &second);
    if (second)
        return iso_doctor_find(finding, SAME_NAME, 0, "the hosts of rank %d and rank %d are both called '%s'",
                               doctor->lowest[first], doctor->lowest[second],
                               iso_doctor_host_name(doctor, first));
    find_pair(doctor, false, &first, &second);
    if (second)
        return iso_doctor_find(
            finding, SPLIT, 0, "rank %d and rank %d are on one machine (%s), but do not share memory",
            doctor->lowest[first], doctor->lowest[second], iso_doctor_host_name(doctor, first));
    count_ranks(doctor, &least, &most);
    if (least != most)
        return iso_doctor_find(finding, UNEQUAL, 0, "%d hosts with %d to %d ranks each, %d together", hosts,
                               least, most, ranks);
    if (hosts == 1)
        return iso_doctor_find(finding, GOOD, 0, "1 host (%s) with %d rank%s",
                               iso_doctor_host_name(doctor, 0), ranks, ranks == 1 ? "" : "s");
    return iso_doctor_find(finding, GOOD, 0, "%d hosts with %d rank%s each", hosts, most,
                           most == 1 ? "" : "s");
}

const iso_doctor_check iso_doctor_check_hosts = {
    .name = "hosts",
    .looks_at = "the hosts, their names and their numbers of ranks",
    .scope = ISO_DOCTOR_JOB,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
