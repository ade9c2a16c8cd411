/* The clocks of the hosts, compared with that of rank 0's host. */
#include <math.h>

#include "launch/doctor/list.h"

enum { CLOSE, SKEWED, FAR };
static const iso_doctor_outcome outcomes[] = {
    [CLOSE] = {"close", ISO_DOCTOR_OK, NULL},
    [SKEWED] =
        {"skewed", ISO_DOCTOR_WARNING,
         "times in logs, events and file names do not fit together: synchronise the clocks (chrony, ntpd)"},
    [FAR] =
        {"far", ISO_DOCTOR_ERROR,
         "Slurm refuses credentials that are 5 minutes off (munge): synchronise the clocks (chrony, ntpd)"},
};
static const double allowed = 1, refused = 300; /* seconds */

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    double offset = 0, uncertainty = 0;
    char a[32], b[32];
    if (iso_hosts(doctor->ctx) == 1)
        return iso_doctor_find(finding, ISO_DOCTOR_NOT_CHECKED, 0, "one host");
    iso_status status = iso_clock_offset(doctor->ctx, &offset, &uncertainty);
    if (status != ISO_OK)
        return status;
    double certain = fabs(offset) - uncertainty;
    int outcome = certain <= allowed ? CLOSE : certain <= refused ? SKEWED : FAR;
    return iso_doctor_find(finding, outcome, fabs(offset) + uncertainty,
                           "differs from rank 0's clock by %s%s, give or take %s", offset > 0 ? "+" : "",
                           iso_doctor_seconds(offset, a, sizeof a),
                           iso_doctor_seconds(uncertainty, b, sizeof b));
}

const iso_doctor_check iso_doctor_check_clocks = {
    .name = "clocks",
    .looks_at = "the clocks of the hosts, compared by messages",
    .scope = ISO_DOCTOR_HOSTS,
    .collective = true,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
