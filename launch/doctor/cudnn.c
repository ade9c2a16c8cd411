/* cuDNN: convolutions on GPUs. */
#include "launch/doctor/cuda_part.h"

static const iso_doctor_outcome outcomes[] = {
    [ISO_DOCTOR_PART_FOUND] = {"found", ISO_DOCTOR_OK, NULL},
    [ISO_DOCTOR_PART_MISSING] =
        {"missing", ISO_DOCTOR_WARNING,
         "convolutions use im2col with cuBLASLt, small ones Isogrid's own kernels; both are slower: install "
         "cuDNN, and build Isogrid with its headers"},
};

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    (void)doctor;
    return iso_doctor_find_part(ISO_CUDA_CUDNN, finding);
}

const iso_doctor_check iso_doctor_check_cudnn = {
    .name = "cudnn",
    .looks_at = "cuDNN, for convolutions on GPUs",
    .scope = ISO_DOCTOR_RANKS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
