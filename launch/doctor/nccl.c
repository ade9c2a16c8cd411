/* NCCL: exchanges between GPUs. */
#include "launch/doctor/cuda_part.h"

static const iso_doctor_outcome outcomes[] = {
    [ISO_DOCTOR_PART_FOUND] = {"found", ISO_DOCTOR_OK, NULL},
    [ISO_DOCTOR_PART_MISSING] = {"missing", ISO_DOCTOR_WARNING,
                                 "GPUs without access to each other's memory exchange through the host's: "
                                 "install NCCL, and build Isogrid "
                                 "with its headers"},
};

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    (void)doctor;
    return iso_doctor_find_part(ISO_CUDA_NCCL, finding);
}

const iso_doctor_check iso_doctor_check_nccl = {
    .name = "nccl",
    .looks_at = "NCCL, for exchanges between GPUs without access to each other's memory",
    .scope = ISO_DOCTOR_RANKS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
