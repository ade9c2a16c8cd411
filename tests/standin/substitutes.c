/* The functions of NVIDIA's libraries that the stand-in has: they fill the CUDA backend's table. */
#include <stdlib.h>
#include <string.h>

#include "runtime/backend/cuda/functions.h"
#include "tests/standin/standin.h"

typedef struct substitute {
    const char *name;
    void (*function)(void);
} substitute;

#define SUBSTITUTE(name) {#name, (void (*)(void))name},
static const substitute all[] = {ISO_CUBLASLT_FUNCTIONS(SUBSTITUTE) ISO_CUDNN_FUNCTIONS(SUBSTITUTE)
                                     ISO_NCCL_FUNCTIONS(SUBSTITUTE)};
#undef SUBSTITUTE

void *iso_cuda_substitute(const char *name)
{
    void *address = NULL;
    const char *wanted = getenv("STANDIN_LIBRARIES");
    if (wanted && strcmp(wanted, "0") == 0)
        return NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all && !address; i++)
        if (strcmp(all[i].name, name) == 0)
            memcpy(&address, &all[i].function, sizeof address);
    return address;
}
