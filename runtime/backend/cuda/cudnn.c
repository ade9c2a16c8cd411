#include "runtime/backend/cuda/cudnn.h"

#include <string.h>

#include "runtime/backend/cuda/cublaslt.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/functions.h"
#include "runtime/backend/cuda/gpu.h"

static bool allowed = true;

void iso_cuda_allow_cudnn(bool allow)
{
    allowed = allow;
}

bool iso_cuda_uses_cudnn(void)
{
    return allowed && iso_cuda_open_part(ISO_CUDA_CUDNN) == ISO_OK;
}

#if ISO_WITH_CUDNN
#include <pthread.h>

#include "runtime/backend/cuda/cudnn_graph.h"
#include "runtime/backend/cuda/refusals.h"
#include "runtime/base/memory.h"

enum { WORKSPACE_MULTIPLE = 256 };

struct iso_cuda_found_convolution {
    iso_cuda_convolution convolution;
    bool usable; /* false: no engine does it */
    iso_cudnn_made made;
    struct iso_cuda_found_convolution *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows, and of the handles' use */
static iso_cuda_found_convolution *all;
static cudnnHandle_t handles[ISO_CUDA_GPUS]; /* one for each GPU that this process uses */

/* ---- errors ---- */

static void keep_error(const iso_cuda_convolution *v, cudnnStatus_t status)
{
    static const char *const what[] = {[ISO_CUDA_CONVOLVE] = "convolution",
                                       [ISO_CUDA_CONVOLVE_INPUT] = "gradient of the input of a convolution",
                                       [ISO_CUDA_CONVOLVE_KERNEL] =
                                           "gradient of the kernel of a convolution"};
    iso_cuda_refused(
        "cuDNN refuses the %s of %s [%lld, %lld, %lld, %lld] and kernel [%lld, %lld, %lld, %lld]: %s (%d)",
        what[v->kind], iso_dtype_name((iso_dtype)v->dtype), (long long)v->n, (long long)v->h, (long long)v->w,
        (long long)v->c, (long long)v->r, (long long)v->s, (long long)v->cg, (long long)v->f,
        iso_cuda_call.cudnnGetErrorString(status), (int)status);
}

/* ---- convolutions that were found ---- */

static bool is_possible(const iso_cuda_convolution *v)
{
    bool real = v->dtype == ISO_F32 || v->dtype == ISO_F64 || v->dtype == ISO_BF16;
    return real && v->n > 0 && v->h > 0 && v->w > 0 && v->c > 0 && v->r > 0 && v->s > 0 && v->cg > 0 &&
           v->f > 0 && v->p > 0 && v->q > 0 && v->before[0] >= 0 && v->before[1] >= 0 && v->after[0] >= 0 &&
           v->after[1] >= 0;
}

/* Of the GPU that the thread has entered. Called with the lock. NULL: there is none. */
static cudnnHandle_t handle_of(int64_t gpu)
{
    if (!handles[gpu] && iso_cuda_call.cudnnCreate(&handles[gpu]) != CUDNN_STATUS_SUCCESS)
        handles[gpu] = NULL;
    return handles[gpu];
}

/* Called with the lock. */
static iso_cuda_found_convolution *look_up(const iso_cuda_convolution *convolution)
{
    for (iso_cuda_found_convolution *f = all; f; f = f->next)
        if (memcmp(&f->convolution, convolution, sizeof *convolution) == 0)
            return f;
    iso_cuda_found_convolution *fresh = iso_new(sizeof *fresh);
    if (!fresh)
        return NULL;
    cudnnHandle_t handle = handle_of(convolution->gpu);
    fresh->convolution = *convolution;
    fresh->usable = handle && iso_cudnn_make(handle, convolution, &fresh->made);
    fresh->next = all;
    all = fresh;
    return fresh;
}

const iso_cuda_found_convolution *iso_cuda_convolution_find(iso_cuda_convolution convolution,
                                                            const iso_stream *stream)
{
    int gpu = 0;
    if (!is_possible(&convolution) || !iso_cuda_uses_cudnn() ||
        (stream && iso_cuda_enter_stream(stream) != cudaSuccess) || cudaGetDevice(&gpu) != cudaSuccess ||
        gpu >= ISO_CUDA_GPUS)
        return NULL;
    convolution.gpu = gpu;
    convolution.tf32 = convolution.dtype == ISO_F32 && iso_cuda_allows_tf32();
    pthread_mutex_lock(&lock);
    const iso_cuda_found_convolution *found = look_up(&convolution);
    pthread_mutex_unlock(&lock);
    return found && found->usable ? found : NULL;
}

size_t iso_cuda_convolution_workspace(const iso_cuda_found_convolution *found)
{
    return found->made.workspace > 0 ? (size_t)found->made.workspace + WORKSPACE_MULTIPLE : 0;
}

/* ---- running ---- */

static cudnnBackendDescriptor_t make_pack(cudnnStatus_t *status, const iso_cuda_convolved *arrays,
                                          void *workspace)
{
    static const int64_t numbers[] = {ISO_CUDNN_X, ISO_CUDNN_KERNEL, ISO_CUDNN_Y};
    const void *addresses[] = {arrays->x, arrays->kernel, arrays->y};
    cudnnBackendDescriptor_t pack = iso_cudnn_create(status, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    iso_cudnn_set(status, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, addresses);
    iso_cudnn_set(status, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, numbers);
    iso_cudnn_set(status, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    iso_cudnn_finalize(status, pack);
    return pack;
}

static cudnnStatus_t execute(const iso_cuda_found_convolution *found, cudnnBackendDescriptor_t pack,
                             const iso_stream *stream)
{
    pthread_mutex_lock(&lock);
    cudnnHandle_t handle = handles[found->convolution.gpu];
    cudnnStatus_t status = iso_cuda_call.cudnnSetStream(handle, ((const iso_cuda_queue *)stream)->cuda);
    if (status == CUDNN_STATUS_SUCCESS)
        status = iso_cuda_call.cudnnBackendExecute(handle, found->made.plan, pack);
    pthread_mutex_unlock(&lock);
    return status;
}

void iso_cuda_convolution_run(const iso_cuda_found_convolution *found, const iso_cuda_convolved *arrays,
                              const iso_stream *stream)
{
    uintptr_t workspace = (uintptr_t)arrays->workspace;
    workspace = (workspace + WORKSPACE_MULTIPLE - 1) / WORKSPACE_MULTIPLE * WORKSPACE_MULTIPLE;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    cudnnBackendDescriptor_t pack =
        make_pack(&status, arrays, found->made.workspace > 0 ? (void *)workspace : NULL);
    if (status == CUDNN_STATUS_SUCCESS)
        status = execute(found, pack, stream);
    if (pack)
        iso_cuda_call.cudnnBackendDestroyDescriptor(pack);
    if (status != CUDNN_STATUS_SUCCESS)
        keep_error(&found->convolution, status);
}

#else

/* Built without cuDNN's header: no convolution is found. */
const iso_cuda_found_convolution *iso_cuda_convolution_find(iso_cuda_convolution convolution,
                                                            const iso_stream *stream)
{
    (void)convolution, (void)stream;
    return NULL;
}

size_t iso_cuda_convolution_workspace(const iso_cuda_found_convolution *found)
{
    (void)found;
    return 0;
}

void iso_cuda_convolution_run(const iso_cuda_found_convolution *found, const iso_cuda_convolved *arrays,
                              const iso_stream *stream)
{
    (void)found, (void)arrays, (void)stream;
}
#endif
