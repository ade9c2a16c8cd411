/* NVIDIA's cuDNN beside the stand-in (STANDIN_CUDNN=real). The library makes plans without a GPU if it is told
 * what GPU they are for: here an H200. So it, and not the stand-in, says which descriptors are wrong, which
 * engines there are for a convolution, which of them makes a plan, and how much memory that needs. Only executing
 * is the stand-in's. */
#if ISO_WITH_CUDNN
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/cudnn_impl.h"

static struct {
    bool tried, open;
    __typeof__(&cudnnBackendCreateDescriptor) create;
    __typeof__(&cudnnBackendDestroyDescriptor) destroy;
    __typeof__(&cudnnBackendSetAttribute) set;
    __typeof__(&cudnnBackendGetAttribute) get;
    __typeof__(&cudnnBackendFinalize) finalize;
    cudnnBackendDescriptor_t gpu;
} real;

/* In the words of the library's own record of a GPU (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). */
static const char h200[] =
    "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], "
    "\"regsPerBlock\": 65536, \"multiProcessorCount\": 132, \"warpSize\": 32, "
    "\"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": 232448, "
    "\"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, \"maxCtasPerSM\": 32, "
    "\"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"pciDeviceId\": 0, "
    "\"isTccDriver\": 0, \"supportCoopLaunch\": 1, \"totalGlobalMem\": 150109945856, "
    "\"smClockRateKHz\": 1980000, \"memClockRateKHz\": 3201000, \"l2CacheSize\": 62914560, "
    "\"cudaDeviceId\": 0, \"deviceVer\": 900, \"driverVer\": 13000, \"deviceName\": \"NVIDIA H200\"}";

static void load(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    if (!address)
        standin_stop("cuDNN has no function %s", name);
    memcpy(function, &address, sizeof address);
}

static bool make_gpu(void)
{
    return real.create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &real.gpu) == CUDNN_STATUS_SUCCESS &&
           real.set(real.gpu, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, sizeof h200,
                    h200) == CUDNN_STATUS_SUCCESS &&
           real.finalize(real.gpu) == CUDNN_STATUS_SUCCESS;
}

static void open_library(void)
{
    const char *wanted = getenv("STANDIN_CUDNN");
    real.tried = true;
    if (!wanted || strcmp(wanted, "real") != 0)
        return;
    void *library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        standin_stop("STANDIN_CUDNN=real: %s", dlerror());
    load(library, "cudnnBackendCreateDescriptor", &real.create);
    load(library, "cudnnBackendDestroyDescriptor", &real.destroy);
    load(library, "cudnnBackendSetAttribute", &real.set);
    load(library, "cudnnBackendGetAttribute", &real.get);
    load(library, "cudnnBackendFinalize", &real.finalize);
    if (!make_gpu())
        standin_stop("STANDIN_CUDNN=real: this cuDNN makes no plans without a GPU");
    real.open = true;
}

bool cudnn_real_is_used(void)
{
    if (!real.tried)
        open_library();
    return real.open;
}

cudnnStatus_t cudnn_real_create(cudnn_descriptor *of)
{
    return cudnn_real_is_used() ? real.create(of->type, &of->real) : CUDNN_STATUS_SUCCESS;
}

void cudnn_real_destroy(cudnn_descriptor *of)
{
    if (of->real)
        real.destroy(of->real);
}

cudnnStatus_t cudnn_real_set(cudnn_descriptor *of, const cudnn_attribute *attribute)
{
    enum { MOST = 3 };
    cudnnBackendDescriptor_t part[MOST];
    if (!cudnn_real_is_used() || attribute->name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
        return CUDNN_STATUS_SUCCESS;
    if (attribute->name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
        return real.set(of->real, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                        &real.gpu);
    if (attribute->type != CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return real.set(of->real, attribute->name, attribute->type, attribute->count, attribute->values);
    for (int64_t i = 0; i < attribute->count && i < MOST; i++)
        part[i] = ((cudnn_descriptor *const *)attribute->values)[i]->real;
    return real.set(of->real, attribute->name, attribute->type, attribute->count, part);
}

cudnnStatus_t cudnn_real_finalize(cudnn_descriptor *of)
{
    int64_t count;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (!cudnn_real_is_used())
        return status;
    if (of->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        status =
            real.set(of->real, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &real.gpu);
    if (status == CUDNN_STATUS_SUCCESS)
        status = real.finalize(of->real);
    if (status == CUDNN_STATUS_SUCCESS && of->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        status = real.get(of->real, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                          &of->engine.workspace);
    return status;
}

static void describe(cudnn_descriptor *config)
{
    int64_t count = 0;
    cudnnBackendDescriptor_t engine;
    cudnn_engine *e = &config->engine;
    cudnnStatus_t status = real.create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = real.get(config->real, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                          &engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = real.get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &e->number);
    if (status == CUDNN_STATUS_SUCCESS)
        status = real.get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                          CUDNN_MOST_NOTES, &count, e->notes);
    if (status != CUDNN_STATUS_SUCCESS || count > CUDNN_MOST_NOTES)
        standin_stop("cuDNN does not describe an engine that it proposes: %d", (int)status);
    e->n_notes = (int)count;
    real.destroy(engine);
}

cudnnStatus_t cudnn_real_propose(const cudnn_descriptor *heuristics, cudnn_descriptor *const *configs,
                                 int64_t room, int64_t *count)
{
    cudnnBackendDescriptor_t given[CUDNN_MOST_PROPOSALS];
    if (room > CUDNN_MOST_PROPOSALS)
        standin_stop("cuDNN proposes %lld engines", (long long)room);
    for (int64_t i = 0; i < room; i++)
        given[i] = configs[i]->real;
    cudnnStatus_t status = real.get(heuristics->real, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, room, count, room > 0 ? given : NULL);
    for (int64_t i = 0; status == CUDNN_STATUS_SUCCESS && i < room && i < *count; i++) {
        configs[i]->operation = heuristics->operation;
        configs[i]->finished = true;
        describe(configs[i]);
    }
    return status;
}
#endif
