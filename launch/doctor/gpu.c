/* GPUs: this build has no backend for them. */
#include "launch/doctor/list.h"

static const iso_doctor_outcome outcomes[] = {{"none", ISO_DOCTOR_OK, NULL}};

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    (void)doctor;
    return iso_doctor_find(finding, 0, 0, "none in this build");
}

const iso_doctor_check iso_doctor_check_gpu = {
    .name = "gpu",
    .looks_at = "the backend for GPUs",
    .scope = ISO_DOCTOR_JOB,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
