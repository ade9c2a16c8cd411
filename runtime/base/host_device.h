/* Functions that all backends share: they compile as C, and as CUDA for the host and the device. */
#ifndef ISO_BASE_HOST_DEVICE_H
#define ISO_BASE_HOST_DEVICE_H

/* Before `static inline`, or before a function in a header that is included for several types. */
#ifdef __CUDACC__
#define ISO_HOST_DEVICE __host__ __device__
#else
#define ISO_HOST_DEVICE
#endif

#endif
