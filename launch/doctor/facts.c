/* Facts that several checks use. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/doctor/doctor_impl.h"

int iso_doctor_host(const iso_doctor *doctor)
{
    return iso_host_of_rank(doctor->ctx, iso_rank(doctor->ctx));
}

bool iso_doctor_is_lowest(const iso_doctor *doctor)
{
    return doctor->lowest[iso_doctor_host(doctor)] == iso_rank(doctor->ctx);
}

const char *iso_doctor_host_name(const iso_doctor *doctor, int host)
{
    return doctor->facts[doctor->lowest[host]].host;
}

int iso_doctor_host_cores(const iso_doctor *doctor, int host, int *counts)
{
    int cores = 0;
    memset(counts, 0, ISO_MAX_CORES * sizeof *counts);
    for (int rank = 0; rank < iso_ranks(doctor->ctx); rank++)
        for (int cpu = 0; cpu < ISO_MAX_CORES && iso_host_of_rank(doctor->ctx, rank) == host; cpu++)
            counts[cpu] += iso_cores_have(&doctor->facts[rank].mask, cpu);
    for (int cpu = 0; cpu < ISO_MAX_CORES; cpu++)
        cores += counts[cpu] > 0;
    return cores > 0 ? cores : 1;
}

const char *iso_doctor_variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

void iso_doctor_read(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, text, size - 1) : 0;
    text[got > 0 ? got : 0] = 0;
    if (file >= 0)
        close(file);
}

char *iso_doctor_seconds(double seconds, char *text, size_t size)
{
    double size_of = fabs(seconds);
    snprintf(text, size,
             size_of >= 1      ? "%.1f s"
             : size_of >= 1e-3 ? "%.0f ms"
                               : "%.0f us",
             size_of >= 1      ? seconds
             : size_of >= 1e-3 ? 1e3 * seconds
                               : 1e6 * seconds);
    return text;
}

char *iso_doctor_bytes(double bytes, char *text, size_t size)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int i = 0;
    for (; bytes >= 1024 && i < 5; i++)
        bytes /= 1024;
    snprintf(text, size, i ? "%.1f %s" : "%.0f %s", bytes, units[i]);
    return text;
}
