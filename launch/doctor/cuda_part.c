/* The libraries of NVIDIA's that the CUDA backend opens. They are looked at where there is a GPU, because opening
 * them takes a while. */
#include "launch/doctor/cuda_part.h"

iso_status iso_doctor_find_part(iso_cuda_part part, iso_doctor_finding *finding)
{
    iso_cuda_facts gpus;
    iso_cuda_part_facts facts;
    iso_cuda_find(false, &gpus);
    if (gpus.state != ISO_CUDA_FOUND)
        return iso_doctor_find(finding, ISO_DOCTOR_NOT_CHECKED, 0, "there is no GPU");
    iso_cuda_find_part(part, &facts);
    return iso_doctor_find(finding, facts.found ? ISO_DOCTOR_PART_FOUND : ISO_DOCTOR_PART_MISSING, 0, "%s",
                           facts.text);
}
