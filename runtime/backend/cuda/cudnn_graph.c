#if ISO_WITH_CUDNN
#include "runtime/backend/cuda/cudnn_graph.h"

#include <stdio.h>
#include <string.h>

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

static void get(cudnnStatus_t *status, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t room, int64_t *count, void *values)
{
    if (*status == CUDNN_STATUS_SUCCESS)
        *status = iso_cuda_call.cudnnBackendGetAttribute(of, name, type, room, count, values);
}

static cudnnBackendDescriptor_t create(cudnnStatus_t *status, iso_cudnn_made *made,
                                       cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t fresh = iso_cudnn_create(status, type);
    if (fresh)
        made->descriptor[made->count++] = fresh;
    return fresh;
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
    const bool between = true; /* two operations: it is not stored */
    cudnnBackendDescriptor_t t = create(status, made, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    iso_cudnn_set(status, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number);
    iso_cudnn_set(status, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    iso_cudnn_set(status, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &multiple);
    iso_cudnn_set(status, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    iso_cudnn_set(status, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    if (number > ISO_CUDNN_BIAS)
        iso_cudnn_set(status, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &between);
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

/* y, or what is between it and an operation: of the type of sums. */
static cudnnBackendDescriptor_t make_result(cudnnStatus_t *status, iso_cudnn_made *made, int64_t number,
                                            const iso_cuda_convolution *v)
{
    const int64_t of_y[] = {v->n, v->p, v->q, v->f};
    int64_t dtype = number != ISO_CUDNN_Y && v->dtype == ISO_BF16 ? ISO_F32 : v->dtype;
    return make_tensor(status, made, number, dtype, of_y);
}

static cudnnBackendDescriptor_t make_convolution(cudnnStatus_t *status, iso_cudnn_made *made,
                                                 const iso_cuda_convolution *v, cudnnBackendDescriptor_t y)
{
    const int64_t of_x[] = {v->n, v->h, v->w, v->c}, of_kernel[] = {v->f, v->r, v->s, v->cg};
    cudnnBackendDescriptor_t x = make_tensor(status, made, ISO_CUDNN_X, v->dtype, of_x),
                             kernel = make_tensor(status, made, ISO_CUDNN_KERNEL, v->dtype, of_kernel),
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

/* y = mode(x), or of x and b. A relu of NaN is NaN, as in iso_op_relu. */
static cudnnBackendDescriptor_t make_pointwise(cudnnStatus_t *status, iso_cudnn_made *made,
                                               const iso_cuda_convolution *v, cudnnPointwiseMode_t mode,
                                               const cudnnBackendDescriptor_t of[3] /* x, b or NULL, y */)
{
    const cudnnDataType_t computes = v->dtype == ISO_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
    cudnnBackendDescriptor_t how = create(status, made, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    iso_cudnn_set(status, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    iso_cudnn_set(status, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &computes);
    if (mode == CUDNN_POINTWISE_RELU_FWD)
        iso_cudnn_set(status, how, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
    iso_cudnn_finalize(status, how);
    cudnnBackendDescriptor_t o = create(status, made, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    iso_cudnn_set(status, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                  &how);
    iso_cudnn_set(status, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &of[0]);
    if (of[1])
        iso_cudnn_set(status, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                      &of[1]);
    iso_cudnn_set(status, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &of[2]);
    iso_cudnn_finalize(status, o);
    return o;
}

/* The convolution, and what follows it, in order. Returns how many there are. */
static int64_t make_operations(cudnnStatus_t *status, iso_cudnn_made *made, const iso_cuda_convolution *v,
                               cudnnBackendDescriptor_t operation[3])
{
    const int64_t of_bias[] = {1, 1, 1, v->f};
    cudnnBackendDescriptor_t y = make_result(status, made, ISO_CUDNN_Y, v), sums = y, biased = y;
    if (v->epilogue)
        sums = make_result(status, made, ISO_CUDNN_SUMS, v);
    if (v->epilogue & ISO_CUDA_RELU)
        biased = make_result(status, made, ISO_CUDNN_BIASED, v);
    operation[0] = make_convolution(status, made, v, sums);
    if (!v->epilogue)
        return 1;
    cudnnBackendDescriptor_t bias = make_tensor(status, made, ISO_CUDNN_BIAS, v->dtype, of_bias);
    operation[1] = make_pointwise(status, made, v, CUDNN_POINTWISE_ADD,
                                  (const cudnnBackendDescriptor_t[]){sums, bias, biased});
    if (!(v->epilogue & ISO_CUDA_RELU))
        return 2;
    operation[2] = make_pointwise(status, made, v, CUDNN_POINTWISE_RELU_FWD,
                                  (const cudnnBackendDescriptor_t[]){biased, NULL, y});
    return 3;
}

static cudnnStatus_t make_graph(cudnnHandle_t handle, const iso_cuda_convolution *v, iso_cudnn_made *made)
{
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    cudnnBackendDescriptor_t operation[3];
    int64_t count = make_operations(&status, made, v, operation);
    made->graph = create(&status, made, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    iso_cudnn_set(&status, made->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                  operation);
    iso_cudnn_set(&status, made->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    iso_cudnn_finalize(&status, made->graph);
    return status;
}

/* ---- engines ---- */

/* Whether the status says that an engine, or all, do not do such a convolution on such a GPU. Some that the library
 * counts among these say that the installation lacks something. */
static bool is_unsupported(cudnnStatus_t status)
{
    return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED &&
           status != CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER &&
           status != CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART &&
           status != CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING &&
           status != CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE;
}

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

/* Reads the number and the notes of a proposal's engine; false: the engine is not allowed. */
static bool look_at(cudnnStatus_t *status, cudnnBackendDescriptor_t config, const iso_cuda_convolution *v,
                    int64_t *number)
{
    enum { NOTES = 64 };
    cudnnBackendNumericalNote_t notes[NOTES];
    int64_t count = 0, one = 0;
    cudnnBackendDescriptor_t engine = iso_cudnn_create(status, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    get(status, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &one, &engine);
    get(status, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &one, number);
    get(status, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &count, notes);
    bool allowed = *status == CUDNN_STATUS_SUCCESS && count <= NOTES;
    for (int64_t i = 0; allowed && i < count; i++)
        allowed = is_wanted(notes[i], v);
    if (engine)
        iso_cuda_call.cudnnBackendDestroyDescriptor(engine);
    return allowed;
}

/* Makes the plan of an engine. False: the engine refuses it, or needs too much memory. */
static bool make_plan(cudnnStatus_t *status, cudnnHandle_t handle, cudnnBackendDescriptor_t config,
                      iso_cudnn_made *made)
{
    int64_t count = 0, bytes = 0;
    cudnnBackendDescriptor_t plan = iso_cudnn_create(status, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    iso_cudnn_set(status, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    iso_cudnn_set(status, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                  &config);
    iso_cudnn_finalize(status, plan);
    get(status, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes);
    bool usable = *status == CUDNN_STATUS_SUCCESS && bytes >= 0 && bytes <= most_workspace;
    if (usable) {
        made->plan = plan;
        made->workspace = bytes;
    } else if (plan) {
        iso_cuda_call.cudnnBackendDestroyDescriptor(plan);
    }
    return usable;
}

/* The arguments of a visitor. */
typedef struct visit {
    cudnnHandle_t handle;
    const iso_cuda_convolution *convolution;
    const char *choice;
    iso_cudnn_visitor *visitor;
    void *argument;
    iso_cudnn_made *made;
} visit;

/* Whether the visitor takes the plan of a proposal, which is `made` then. */
static bool offer(cudnnStatus_t *status, const visit *v, const char *heuristic, int64_t number,
                  cudnnBackendDescriptor_t config)
{
    iso_cudnn_made *made = v->made;
    int64_t engine;
    if (!look_at(status, config, v->convolution, &engine))
        return false;
    snprintf(made->choice, sizeof made->choice, "heuristic %s, proposal %lld, engine %lld", heuristic,
             (long long)number, (long long)engine);
    if ((v->choice && strcmp(v->choice, made->choice) != 0) || !make_plan(status, v->handle, config, made))
        return false;
    made->config = config;
    if (v->visitor(v->argument, made))
        return true;
    iso_cuda_call.cudnnBackendDestroyDescriptor(made->plan);
    made->plan = made->config = NULL;
    return false;
}

/* What the heuristics propose: the descriptors must be there before the library fills them. It may fill fewer than
 * it has announced. */
typedef struct proposals {
    cudnnBackendDescriptor_t *config;
    int64_t announced, count;
} proposals;

static void create_configs(cudnnStatus_t *status, proposals *p)
{
    if (*status == CUDNN_STATUS_SUCCESS && p->announced > 0)
        p->config = iso_new((size_t)p->announced * sizeof *p->config);
    for (int64_t i = 0; p->config && i < p->announced; i++)
        p->config[i] = iso_cudnn_create(status, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
}

static proposals propose(cudnnStatus_t *status, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode)
{
    proposals p = {0};
    cudnnBackendDescriptor_t heuristics = iso_cudnn_create(status, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    iso_cudnn_set(status, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                  &graph);
    iso_cudnn_set(status, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    iso_cudnn_finalize(status, heuristics);
    get(status, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &p.announced,
        NULL);
    create_configs(status, &p);
    if (p.config)
        get(status, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, p.announced,
            &p.count, p.config);
    if (!p.config || *status != CUDNN_STATUS_SUCCESS)
        p.count = 0;
    p.count = p.count < p.announced ? p.count : p.announced;
    if (heuristics)
        iso_cuda_call.cudnnBackendDestroyDescriptor(heuristics);
    return p;
}

/* Offers what a heuristic proposes, until the visitor takes one. *status: the first failure, which ends it; what is
 * not supported is none. */
static bool offer_all(cudnnStatus_t *status, const visit *v, const char *heuristic,
                      cudnnBackendHeurMode_t mode)
{
    proposals p = propose(status, v->made->graph, mode);
    bool taken = false;
    for (int64_t i = 0; i < p.count && !taken && *status == CUDNN_STATUS_SUCCESS; i++) {
        taken = offer(status, v, heuristic, i, p.config[i]);
        if (taken)
            p.config[i] = NULL;
        *status = is_unsupported(*status) ? CUDNN_STATUS_SUCCESS : *status;
    }
    for (int64_t i = 0; p.config && i < p.announced; i++)
        if (p.config[i])
            iso_cuda_call.cudnnBackendDestroyDescriptor(p.config[i]);
    iso_free(p.config);
    *status = is_unsupported(*status) ? CUDNN_STATUS_SUCCESS : *status;
    return taken;
}

cudnnStatus_t iso_cudnn_make(cudnnHandle_t handle, const iso_cuda_convolution *convolution,
                             const char *choice, iso_cudnn_visitor *visitor, void *argument,
                             iso_cudnn_made *made)
{
    const visit v = {handle, convolution, choice, visitor, argument, made};
    *made = (iso_cudnn_made){.count = 0};
    cudnnStatus_t status = make_graph(handle, convolution, made);
    bool taken = status == CUDNN_STATUS_SUCCESS && offer_all(&status, &v, "A", CUDNN_HEUR_MODE_A);
    if (!taken && status == CUDNN_STATUS_SUCCESS)
        taken = offer_all(&status, &v, "fallback", CUDNN_HEUR_MODE_FALLBACK);
    if (!taken)
        iso_cudnn_destroy(made);
    return is_unsupported(status) ? CUDNN_STATUS_SUCCESS : status;
}

/* Destroys the objects in the opposite order of their creation. */
void iso_cudnn_destroy(iso_cudnn_made *made)
{
    if (made->plan)
        iso_cuda_call.cudnnBackendDestroyDescriptor(made->plan);
    if (made->config)
        iso_cuda_call.cudnnBackendDestroyDescriptor(made->config);
    while (made->count > 0)
        iso_cuda_call.cudnnBackendDestroyDescriptor(made->descriptor[--made->count]);
    *made = (iso_cudnn_made){.count = 0};
}
#endif
