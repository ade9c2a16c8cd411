#if ISO_WITH_CUDNN
#include "runtime/backend/cuda/cudnn_graph.h"

#include "runtime/backend/cuda/functions.h"
#include "runtime/base/memory.h"

/* More would take memory from the network: the engines that want it keep copies of x and y in another layout. */
static const int64_t most_workspace = (int64_t)1 << 30;

/* ---- descriptors ---- */

cudnnBackendDescriptor_t iso_cudnn_create(cudnnStatus_t *status, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t fresh = NULL;
    if (*status == CUDNN_STATUS_SUCCESS)
        *status = iso_cuda_call.cudnnBackendCreateDescriptor(type, &fresh);
    return *status == CUDNN_STATUS_SUCCESS ? fresh : NULL;
}

void iso_cudnn_set(cudnnStatus_t *status, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (*status == CUDNN_STATUS_SUCCESS)
        *status = iso_cuda_call.cudnnBackendSetAttribute(of, name, type, count, values);
}

void iso_cudnn_finalize(cudnnStatus_t *status, cudnnBackendDescriptor_t of)
{
    if (*status == CUDNN_STATUS_SUCCESS)
        *status = iso_cuda_call.cudnnBackendFinalize(of);
}

static cudnnBackendDescriptor_t create(cudnnStatus_t *status, iso_cudnn_made *made,
                                       cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t fresh = iso_cudnn_create(status, type);
    if (fresh)
        made->descriptor[made->count++] = fresh;
    return fresh;
}

static void destroy_all(iso_cudnn_made *made)
{
    while (made->count > 0)
        iso_cuda_call.cudnnBackendDestroyDescriptor(made->descriptor[--made->count]);
}

static cudnnDataType_t type_of(int64_t dtype)
{
    return dtype == ISO_F64 ? CUDNN_DATA_DOUBLE : dtype == ISO_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/* A tensor that is stored as [n, h, w, c]; the library names its dimensions n, c, h, w. */
static cudnnBackendDescriptor_t make_tensor(cudnnStatus_t *status, iso_cudnn_made *made, int64_t number,
                                            int64_t dtype, const int64_t nhwc[4])
{
    const int64_t n = nhwc[0], h = nhwc[1], w = nhwc[2], c = nhwc[3], multiple = ISO_CUDA_CONVOLVED_MULTIPLE;
    const int64_t dim[] = {n, c, h, w}, stride[] = {h * w * c, 1, w * c, c};
    const cudnnDataType_t type = type_of(dtype);
    cudnnBackendDescriptor_t t = create(status, made, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    iso_cudnn_set(status, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number);
    iso_cudnn_set(status, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    iso_cudnn_set(status, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &multiple);
    iso_cudnn_set(status, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    iso_cudnn_set(status, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    iso_cudnn_finalize(status, t);
    return t;
}

static cudnnBackendDescriptor_t make_geometry(cudnnStatus_t *status, iso_cudnn_made *made,
                                              const iso_cuda_convolution *v)
{
    const int64_t dimensions = 2;
    const cudnnDataType_t sums = v->dtype == ISO_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    cudnnBackendDescriptor_t g = create(status, made, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    iso_cudnn_set(status, g, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    iso_cudnn_set(status, g, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    iso_cudnn_set(status, g, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dimensions);
    iso_cudnn_set(status, g, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, v->before);
    iso_cudnn_set(status, g, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, v->after);
    iso_cudnn_set(status, g, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, v->dilation);
    iso_cudnn_set(status, g, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, v->stride);
    iso_cudnn_finalize(status, g);
    return g;
}

/* The names of an operation and its attributes. */
static const struct {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t x, kernel, y, geometry, alpha, beta;
} names[] = {
    [ISO_CUDA_CONVOLVE] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [ISO_CUDA_CONVOLVE_INPUT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [ISO_CUDA_CONVOLVE_KERNEL] = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

/* alpha and beta are of the type of sums. */
static void set_scale(cudnnStatus_t *status, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                      int64_t dtype, double value)
{
    const float narrow = (float)value;
    if (dtype == ISO_F64)
        iso_cudnn_set(status, of, name, CUDNN_TYPE_DOUBLE, 1, &value);
    else
        iso_cudnn_set(status, of, name, CUDNN_TYPE_FLOAT, 1, &narrow);
}

static cudnnBackendDescriptor_t make_operation(cudnnStatus_t *status, iso_cudnn_made *made,
                                               const iso_cuda_convolution *v)
{
    const int64_t of_x[] = {v->n, v->h, v->w, v->c}, of_kernel[] = {v->f, v->r, v->s, v->cg},
                  of_y[] = {v->n, v->p, v->q, v->f};
    cudnnBackendDescriptor_t x = make_tensor(status, made, ISO_CUDNN_X, v->dtype, of_x),
                             kernel = make_tensor(status, made, ISO_CUDNN_KERNEL, v->dtype, of_kernel),
                             y = make_tensor(status, made, ISO_CUDNN_Y, v->dtype, of_y),
                             geometry = make_geometry(status, made, v),
                             operation = create(status, made, names[v->kind].operation);
    iso_cudnn_set(status, operation, names[v->kind].x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
    iso_cudnn_set(status, operation, names[v->kind].kernel, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &kernel);
    iso_cudnn_set(status, operation, names[v->kind].y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
    iso_cudnn_set(status, operation, names[v->kind].geometry, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &geometry);
    set_scale(status, operation, names[v->kind].alpha, v->dtype, 1);
    set_scale(status, operation, names[v->kind].beta, v->dtype, 0);
    iso_cudnn_finalize(status, operation);
    return operation;
}

static cudnnStatus_t make_graph(cudnnHandle_t handle, const iso_cuda_convolution *v, iso_cudnn_made *made)
{
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    cudnnBackendDescriptor_t operation = make_operation(&status, made, v);
    made->graph = create(&status, made, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    iso_cudnn_set(&status, made->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                  &operation);
    iso_cudnn_set(&status, made->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    iso_cudnn_finalize(&status, made->graph);
    return status;
}

/* ---- engines ---- */

/* Products and sums of other types than the operands', and transforms that round differently, are not wanted; nor
 * tensor cores for float32, which multiply as TF32. */
static bool is_wanted(cudnnBackendNumericalNote_t note, const iso_cuda_convolution *v)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
        return true;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return v->dtype != ISO_F32 || v->tf32;
    default: /* of results that differ each time, of other types inside, of FFT and Winograd, and unknown ones */
        return false;
    }
}

static bool is_allowed(cudnnBackendDescriptor_t config, const iso_cuda_convolution *v)
{
    enum { NOTES = 64 };
    cudnnBackendNumericalNote_t notes[NOTES];
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    int64_t count = 0;
    cudnnBackendDescriptor_t engine = iso_cudnn_create(&status, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (status == CUDNN_STATUS_SUCCESS)
        status = iso_cuda_call.cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = iso_cuda_call.cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                        CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &count, notes);
    bool allowed = status == CUDNN_STATUS_SUCCESS && count <= NOTES;
    for (int64_t i = 0; allowed && i < count; i++)
        allowed = is_wanted(notes[i], v);
    if (engine)
        iso_cuda_call.cudnnBackendDestroyDescriptor(engine);
    return allowed;
}

/* Makes the plan of an engine. False: the engine refuses it, or needs too much memory. */
static bool make_plan(cudnnHandle_t handle, cudnnBackendDescriptor_t config, iso_cudnn_made *made)
{
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    int64_t count = 0, bytes = 0;
    cudnnBackendDescriptor_t plan = iso_cudnn_create(&status, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    iso_cudnn_set(&status, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    iso_cudnn_set(&status, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                  &config);
    iso_cudnn_finalize(&status, plan);
    if (status == CUDNN_STATUS_SUCCESS)
        status = iso_cuda_call.cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                        CUDNN_TYPE_INT64, 1, &count, &bytes);
    bool usable = status == CUDNN_STATUS_SUCCESS && bytes >= 0 && bytes <= most_workspace;
    if (usable) {
        made->config = config;
        made->plan = plan;
        made->workspace = bytes;
    } else if (plan) {
        iso_cuda_call.cudnnBackendDestroyDescriptor(plan);
    }
    return usable;
}

/* Takes the first of these that is allowed and whose plan can be made. The others are destroyed. */
static void take_first(cudnnHandle_t handle, const iso_cuda_convolution *v, cudnnBackendDescriptor_t *configs,
                       int64_t count, iso_cudnn_made *made)
{
    for (int64_t i = 0; i < count; i++)
        if (configs[i] && (made->plan || !is_allowed(configs[i], v) || !make_plan(handle, configs[i], made)))
            iso_cuda_call.cudnnBackendDestroyDescriptor(configs[i]);
}

/* What the heuristics propose in one of their modes: the descriptors must be there before the library fills them.
 * It may fill fewer than it has announced, and leaves the others unfinished. */
static void take_proposed(cudnnHandle_t handle, const iso_cuda_convolution *v, cudnnBackendHeurMode_t mode,
                          iso_cudnn_made *made)
{
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    int64_t announced = 0, count = 0;
    cudnnBackendDescriptor_t heuristics = iso_cudnn_create(&status, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    iso_cudnn_set(&status, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  1, &made->graph);
    iso_cudnn_set(&status, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    iso_cudnn_finalize(&status, heuristics);
    if (status == CUDNN_STATUS_SUCCESS)
        status = iso_cuda_call.cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &announced, NULL);
    cudnnBackendDescriptor_t *configs = NULL;
    if (status == CUDNN_STATUS_SUCCESS && announced > 0)
        configs = iso_new((size_t)announced * sizeof *configs);
    for (int64_t i = 0; configs && i < announced; i++)
        configs[i] = iso_cudnn_create(&status, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (configs && status == CUDNN_STATUS_SUCCESS)
        status =
            iso_cuda_call.cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, announced, &count, configs);
    if (configs) {
        count = status == CUDNN_STATUS_SUCCESS && count < announced ? count
                : status == CUDNN_STATUS_SUCCESS                    ? announced
                                                                    : 0;
        for (int64_t i = count; i < announced; i++)
            if (configs[i])
                iso_cuda_call.cudnnBackendDestroyDescriptor(configs[i]);
        take_first(handle, v, configs, count, made);
    }
    iso_free(configs);
    if (heuristics)
        iso_cuda_call.cudnnBackendDestroyDescriptor(heuristics);
}

bool iso_cudnn_make(cudnnHandle_t handle, const iso_cuda_convolution *v, iso_cudnn_made *made)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    *made = (iso_cudnn_made){.count = 0};
    cudnnStatus_t status = make_graph(handle, v, made);
    for (size_t i = 0; i < sizeof modes / sizeof *modes && status == CUDNN_STATUS_SUCCESS && !made->plan; i++)
        take_proposed(handle, v, modes[i], made);
    if (!made->plan)
        destroy_all(made);
    return made->plan != NULL;
}
#endif
