/* GPUs: libisogrid_cuda.so, the driver, and the GPUs that each rank sees. */
#include <string.h>

#include "launch/doctor/list.h"
#include "runtime/backend/cuda_library.h"

enum { NONE, LIBRARY, NO_DRIVER, OLD_DRIVER, DRIVER_FAILS, NO_GPU, FOUND };
static const iso_doctor_outcome outcomes[] = {
    [NONE] = {"none", ISO_DOCTOR_OK, NULL},
    [LIBRARY] = {"library", ISO_DOCTOR_WARNING,
                 "networks run on the CPU: build and install Isogrid and libisogrid_cuda.so by one make, and "
                 "unset ISOGRID_CUDA_LIBRARY"},
    [NO_DRIVER] = {"no-driver", ISO_DOCTOR_OK, NULL},
    [OLD_DRIVER] = {"old-driver", ISO_DOCTOR_WARNING,
                    "networks run on the CPU: install a newer driver, or build with an older CUDA"},
    [DRIVER_FAILS] = {"driver-fails", ISO_DOCTOR_WARNING,
                      "networks run on the CPU: see what nvidia-smi and the kernel's log say"},
    [NO_GPU] = {"no-gpu", ISO_DOCTOR_OK, NULL},
    [FOUND] = {"found", ISO_DOCTOR_OK, NULL},
};

static const int outcome_of[] = {[ISO_CUDA_NO_LIBRARY] = NONE,
                                 [ISO_CUDA_WRONG_LIBRARY] = LIBRARY,
                                 [ISO_CUDA_NO_DRIVER] = NO_DRIVER,
                                 [ISO_CUDA_OLD_DRIVER] = OLD_DRIVER,
                                 [ISO_CUDA_DRIVER_FAILS] = DRIVER_FAILS,
                                 [ISO_CUDA_NO_GPU] = NO_GPU,
                                 [ISO_CUDA_FOUND] = FOUND};

static bool alike(const iso_cuda_gpu *a, const iso_cuda_gpu *b)
{
    return strcmp(a->name, b->name) == 0 && a->total_bytes == b->total_bytes && a->major == b->major &&
           a->minor == b->minor;
}

/* Adds the GPUs from number `first` on that are alike, and returns their count. */
static int add_alike(const iso_cuda_facts *facts, int first, iso_text *text)
{
    char least[32], total[32];
    const iso_cuda_gpu *gpu = &facts->gpu[first];
    size_t free_bytes = gpu->free_bytes;
    int count = 1;
    for (; first + count < facts->n_gpus && alike(gpu, &gpu[count]); count++)
        free_bytes = gpu[count].free_bytes < free_bytes ? gpu[count].free_bytes : free_bytes;
    iso_text_add(text, "%s%d x %s (sm_%d%d, %s of %s free)", first ? ", " : "", count, gpu->name, gpu->major,
                 gpu->minor, iso_doctor_bytes((double)free_bytes, least, sizeof least),
                 iso_doctor_bytes((double)gpu->total_bytes, total, sizeof total));
    return count;
}

/* "8 x NVIDIA H200 (sm_90, 138.9 GiB of 139.7 GiB free); driver for CUDA 13.0, Isogrid with CUDA 13.0" */
static void add_gpus(const iso_cuda_facts *facts, iso_text *text)
{
    for (int i = 0; i < facts->n_gpus;)
        i += add_alike(facts, i, text);
    iso_text_add(text, "; driver for CUDA %d.%d, Isogrid with CUDA %d.%d", facts->driver / 1000,
                 facts->driver % 1000 / 10, facts->runtime / 1000, facts->runtime % 1000 / 10);
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    iso_cuda_facts facts;
    iso_text text = {0};
    (void)doctor;
    iso_cuda_find(true, &facts);
    if (facts.state == ISO_CUDA_FOUND)
        add_gpus(&facts, &text);
    iso_status status = iso_doctor_find(finding, outcome_of[facts.state], 0, "%s",
                                        text.length ? iso_text_get(&text) : facts.text);
    iso_text_free(&text);
    return status;
}

const iso_doctor_check iso_doctor_check_gpu = {
    .name = "gpu",
    .looks_at = "the CUDA backend, the driver and the GPUs of each rank",
    .scope = ISO_DOCTOR_RANKS,
    .run = run,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
