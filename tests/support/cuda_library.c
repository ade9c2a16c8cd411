#include "tests/support/cuda_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const iso_cuda_library *test_cuda_library(void)
{
    const iso_cuda_library *library = NULL;
    const char *build = getenv("BUILD");
    char path[1000];
    snprintf(path, sizeof path, "%s/tests/standin/libisogrid_cuda.so", build ? build : "build");
    if (access(path, F_OK) != 0)
        return NULL;
    setenv("ISOGRID_CUDA_LIBRARY", path, 1);
    if (iso_cuda_library_open(&library, NULL) != ISO_OK) {
        fprintf(stderr, "%s\n", iso_error_message());
        abort();
    }
    return library;
}
