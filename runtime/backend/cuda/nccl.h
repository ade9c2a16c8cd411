/* Communicators of GPUs, by NCCL. */
#ifndef ISO_BACKEND_CUDA_NCCL_H
#define ISO_BACKEND_CUDA_NCCL_H

#include "runtime/base/device_comms.h"

/* The member of a device (iso_device.comms). Its functions are local; one thread at a time calls them. */
extern const iso_device_comms iso_cuda_comms;

#endif
