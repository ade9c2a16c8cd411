/* What the checks of cuBLASLt, cuDNN and NCCL have in common. */
#ifndef ISO_LAUNCH_DOCTOR_CUDA_PART_H
#define ISO_LAUNCH_DOCTOR_CUDA_PART_H

#include "launch/doctor/list.h"
#include "runtime/backend/cuda_library.h"

/* The outcomes of these checks, as indices of their tables. */
enum { ISO_DOCTOR_PART_FOUND, ISO_DOCTOR_PART_MISSING };

/* Opens the library; not checked where there is no GPU. Returns ISO_OK. Local. */
iso_status iso_doctor_find_part(iso_cuda_part part, iso_doctor_finding *finding);

#endif
