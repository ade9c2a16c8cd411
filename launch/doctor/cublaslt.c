/* cuBLASLt: matrix products on GPUs. */
#include "launch/doctor/cuda_part.h"

static const iso_doctor_outcome outcomes[] = {
    [ISO_DOCTOR_PART_FOUND] = {"found", ISO_DOCTOR_OK, NULL},
    [ISO_DOCTOR_PART_MISSING] = {"missing", ISO_DOCTOR_WARNING,
                                 "--backend cuda fails without it: install cuBLAS, or name its file in "
                                 "ISOGRID_CUBLASLT_LIBRARY (none there: slower kernels)"},
};

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    (void)doctor;
    return iso_doctor_find_part(ISO_CUDA_CUBLASLT, finding);
}

const iso_doctor_check iso_doctor_check_cublaslt = {
    .name = "cublaslt",
    .looks_at = "cuBLASLt, for matrix products on GPUs",
    .scope = ISO_DOCTOR_RANKS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
