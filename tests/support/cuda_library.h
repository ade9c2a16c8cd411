/* The CUDA backend on the stand-in for the CUDA runtime (tests/standin). */
#ifndef ISO_TESTS_CUDA_LIBRARY_H
#define ISO_TESTS_CUDA_LIBRARY_H

#include "runtime/backend/cuda_library.h"

/* Opens the libisogrid_cuda.so of the build folder's tests/standin, whatever else there is. NULL: this build has
 * none, since there are no headers of CUDA. To be called before the library is used otherwise. */
const iso_cuda_library *test_cuda_library(void);

#endif
