/* GPUs: libisogrid_cuda.so, the driver, and the GPUs that each rank sees. */
#include <string.h>

#include "collectives/control/control.h"
#include "launch/doctor/list.h"
#include "runtime/backend/cuda_library.h"
#include "runtime/base/memory.h"

enum { NONE, LIBRARY, NO_DRIVER, OLD_DRIVER, DRIVER_FAILS, NO_GPU, OLD_GPU, SHARED, FOUND };
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
    [OLD_GPU] = {"old-gpu", ISO_DOCTOR_WARNING,
                 "networks run on the CPU: hide this GPU by CUDA_VISIBLE_DEVICES, or use a newer one"},
    [SHARED] = {"shared", ISO_DOCTOR_WARNING, "these ranks wait for each other: start one rank for each GPU"},
    [FOUND] = {"found", ISO_DOCTOR_OK, NULL},
};

static const int outcome_of[] = {[ISO_CUDA_NO_LIBRARY] = NONE,           [ISO_CUDA_WRONG_LIBRARY] = LIBRARY,
                                 [ISO_CUDA_NO_DRIVER] = NO_DRIVER,       [ISO_CUDA_OLD_DRIVER] = OLD_DRIVER,
                                 [ISO_CUDA_DRIVER_FAILS] = DRIVER_FAILS, [ISO_CUDA_NO_GPU] = NO_GPU,
                                 [ISO_CUDA_OLD_GPU] = OLD_GPU,           [ISO_CUDA_FOUND] = FOUND};

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

/* "8 x NVIDIA H200 (sm_90, 138.9 GiB of 139.7 GiB free); driver for CUDA 13.0, Isogrid with CUDA 13.0; networks run
 * on the CPU unless --backend cuda is given" */
static void add_gpus(const iso_cuda_facts *facts, iso_text *text)
{
    for (int i = 0; i < facts->n_gpus;)
        i += add_alike(facts, i, text);
    iso_text_add(text,
                 "; driver for CUDA %d.%d, Isogrid with CUDA %d.%d; networks run on the CPU unless "
                 "--backend cuda is given",
                 facts->driver / 1000, facts->driver % 1000 / 10, facts->runtime / 1000,
                 facts->runtime % 1000 / 10);
}

/* The UUID of the GPU that each rank would use; zeros: none. */
typedef struct used_gpu {
    unsigned char uuid[ISO_CUDA_UUID];
} used_gpu;

/* This rank's number among those of its host. */
static int number_on_host(const iso_doctor *doctor)
{
    int number = 0;
    for (int rank = 0; rank < iso_rank(doctor->ctx); rank++)
        number += iso_host_of_rank(doctor->ctx, rank) == iso_doctor_host(doctor);
    return number;
}

/* Adds the ranks that use the same GPU as this one: "rank 0 and rank 2 use one of "; nothing if it is alone. */
static iso_status add_sharers(const iso_doctor *doctor, const iso_cuda_facts *facts, iso_text *text)
{
    int ranks = iso_ranks(doctor->ctx), sharers = 0;
    used_gpu none = {{0}}, mine = none, *all = iso_new((size_t)ranks * sizeof *all);
    iso_status status;
    if (facts->state == ISO_CUDA_FOUND)
        memcpy(mine.uuid, facts->gpu[number_on_host(doctor) % facts->n_gpus].uuid, sizeof mine.uuid);
    ISO_TRY(iso_agree(doctor->ctx, all ? ISO_OK : iso_no_memory("the GPUs of %d ranks", ranks)));
    ISO_TRY(iso_gather_all(doctor->ctx, &mine, sizeof mine, all));
    for (int rank = 0; rank < ranks && memcmp(&mine, &none, sizeof mine) != 0; rank++)
        sharers += memcmp(&mine, &all[rank], sizeof mine) == 0;
    for (int rank = 0, named = 0; sharers > 1 && rank < ranks; rank++)
        if (memcmp(&mine, &all[rank], sizeof mine) == 0) {
            named++;
            iso_text_add(text, "%srank %d%s", named > 1 ? " and " : "", rank,
                         named == sharers ? " use the same one of " : "");
        }
done:
    iso_free(all);
    return status;
}

static iso_status run(const iso_doctor *doctor, iso_doctor_finding *finding)
{
    iso_cuda_facts facts;
    iso_text text = {0};
    iso_cuda_find(true, &facts);
    iso_status status;
    ISO_TRY(add_sharers(doctor, &facts, &text));
    bool shared = text.length > 0;
    if (facts.state == ISO_CUDA_FOUND)
        add_gpus(&facts, &text);
    status = iso_doctor_find(finding, shared ? SHARED : outcome_of[facts.state], 0, "%s",
                             text.length ? iso_text_get(&text) : facts.text);
done:
    iso_text_free(&text);
    return status;
}

const iso_doctor_check iso_doctor_check_gpu = {
    .name = "gpu",
    .looks_at = "the CUDA backend, the driver and the GPUs of each rank",
    .scope = ISO_DOCTOR_RANKS,
    .run = run,
    .collective = true,
    ISO_DOCTOR_OUTCOMES(outcomes),
};
