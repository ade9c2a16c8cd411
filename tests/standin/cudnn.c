/* cuDNN's graph API, as its header and manual (9.19) describe it, for graphs of one convolution, perhaps with the
 * addition of a bias and a relu: descriptors that
 * get attributes, are finalized, and then may be read or be part of others. What the library refuses is refused,
 * with its status (which was seen with cuDNN 9.19). Proposals are strict, so that a caller who takes a wrong one
 * fails: engines whose results differ each time, that multiply as TF32, that want too much memory, and one that is
 * refused. */
#if ISO_WITH_CUDNN
#include <stdlib.h>
#include <string.h>

#include "tests/standin/cudnn_impl.h"
#include "tests/standin/streams_impl.h"

enum { PROPOSALS = 9, MAGIC = 0xd22, WORKSPACE_MULTIPLE = 256, OF_KIND = 5 };

/* STANDIN_FAIL may order one of the library's own numbers. */
static cudnnStatus_t ordered(const char *function)
{
    return (cudnnStatus_t)standin_ordered(function);
}

size_t cudnnGetVersion(void)
{
    return (size_t)standin_number("STANDIN_CUDNN_VERSION", CUDNN_VERSION);
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    switch (status) {
    case CUDNN_STATUS_NOT_INITIALIZED:
        return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
        return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
        return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED:
        return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
        return "another status";
    }
}

/* ---- handles ---- */

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    REFUSE_IF(ordered(__func__) != CUDNN_STATUS_SUCCESS || standin_enter("cudnnCreate") != cudaSuccess ||
                  standin_context(standin_gpu()) != cudaSuccess,
              CUDNN_STATUS_NOT_INITIALIZED);
    struct cudnnContext *fresh = calloc(1, sizeof *fresh);
    REFUSE_IF(!fresh, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    *fresh = (struct cudnnContext){.magic = MAGIC, .gpu = standin_gpu()};
    *handle = fresh;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    REFUSE_IF(!handle || handle->magic != MAGIC, CUDNN_STATUS_BAD_PARAM);
    REFUSE_IF(standin_stream_gpu(stream) != handle->gpu, CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- descriptors and attributes ---- */

static const struct {
    cudnnBackendDescriptorType_t type; /* of the descriptor */
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t of; /* or also double, of a scale */
    int64_t most;
    int child; /* the type of the descriptors that it is; OF_KIND + 1000: of an operation; -1: none */
} rules[] = {
#define MEMBER(descriptor, name, of, most)                                                                   \
    {                                                                                                        \
        CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##descriptor##_##name, CUDNN_TYPE_##of, most, -1 \
    }
    MEMBER(TENSOR, UNIQUE_ID, INT64, 1),
    MEMBER(TENSOR, DATA_TYPE, DATA_TYPE, 1),
    MEMBER(TENSOR, BYTE_ALIGNMENT, INT64, 1),
    MEMBER(TENSOR, DIMENSIONS, INT64, 4),
    MEMBER(TENSOR, STRIDES, INT64, 4),
    MEMBER(TENSOR, IS_VIRTUAL, BOOLEAN, 1),
    MEMBER(POINTWISE, MODE, POINTWISE_MODE, 1),
    MEMBER(POINTWISE, MATH_PREC, DATA_TYPE, 1),
    MEMBER(POINTWISE, NAN_PROPAGATION, NAN_PROPOGATION, 1),
    MEMBER(CONVOLUTION, COMP_TYPE, DATA_TYPE, 1),
    MEMBER(CONVOLUTION, CONV_MODE, CONVOLUTION_MODE, 1),
    MEMBER(CONVOLUTION, SPATIAL_DIMS, INT64, 1),
    MEMBER(CONVOLUTION, PRE_PADDINGS, INT64, 2),
    MEMBER(CONVOLUTION, POST_PADDINGS, INT64, 2),
    MEMBER(CONVOLUTION, DILATIONS, INT64, 2),
    MEMBER(CONVOLUTION, FILTER_STRIDES, INT64, 2),
#define OF_POINTWISE(name, child)                                                                            \
    {                                                                                                        \
        CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_##name,                 \
            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, CUDNN_BACKEND_##child##_DESCRIPTOR                             \
    }
    OF_POINTWISE(PW_DESCRIPTOR, POINTWISE),
    OF_POINTWISE(XDESC, TENSOR),
    OF_POINTWISE(BDESC, TENSOR),
    OF_POINTWISE(YDESC, TENSOR),
#define OPERATION(kind, kind_name, x, w, y)                                                                  \
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_##kind##_DESCRIPTOR,                                                \
     CUDNN_ATTR_OPERATION_CONVOLUTION_##kind_name##_##x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,                   \
     CUDNN_BACKEND_TENSOR_DESCRIPTOR},                                                                       \
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_##kind##_DESCRIPTOR,                                            \
         CUDNN_ATTR_OPERATION_CONVOLUTION_##kind_name##_##w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,               \
         CUDNN_BACKEND_TENSOR_DESCRIPTOR},                                                                   \
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_##kind##_DESCRIPTOR,                                            \
         CUDNN_ATTR_OPERATION_CONVOLUTION_##kind_name##_##y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,               \
         CUDNN_BACKEND_TENSOR_DESCRIPTOR},                                                                   \
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_##kind##_DESCRIPTOR,                                            \
         CUDNN_ATTR_OPERATION_CONVOLUTION_##kind_name##_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,         \
         CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR},                                                              \
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_##kind##_DESCRIPTOR,                                            \
         CUDNN_ATTR_OPERATION_CONVOLUTION_##kind_name##_ALPHA, CUDNN_TYPE_FLOAT, 1, -1},                     \
    {                                                                                                        \
        CUDNN_BACKEND_OPERATION_CONVOLUTION_##kind##_DESCRIPTOR,                                             \
            CUDNN_ATTR_OPERATION_CONVOLUTION_##kind_name##_BETA, CUDNN_TYPE_FLOAT, 1, -1                     \
    }
    OPERATION(FORWARD, FORWARD, X, W, Y),
    OPERATION(BACKWARD_DATA, BWD_DATA, DX, W, DY),
    OPERATION(BACKWARD_FILTER, BWD_FILTER, X, DW, DY),
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 3,
     OF_KIND + 1000},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, -1},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, -1},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, -1},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 4,
     -1},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 4, -1},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, -1},
};
enum { RULES = sizeof rules / sizeof *rules };

static bool is_convolution(int type)
{
    return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

static bool is_operation(int type)
{
    return is_convolution(type) || type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
}

static size_t size_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
        return sizeof(bool);
    case CUDNN_TYPE_FLOAT:
        return sizeof(float);
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_POINTWISE_MODE:
    case CUDNN_TYPE_NAN_PROPOGATION:
        return sizeof(int);
    default:
        return 8;
    }
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
    bool known = type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || type == CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    for (int i = 0; i < RULES; i++)
        known = known || rules[i].type == type;
    if (!known)
        standin_stop("cudnnBackendCreateDescriptor: the stand-in lacks type %d", (int)type);
    cudnnStatus_t status = ordered(__func__);
    REFUSE_IF(status != CUDNN_STATUS_SUCCESS, status);
    cudnn_descriptor *fresh = calloc(1, sizeof *fresh);
    REFUSE_IF(!fresh, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    *fresh = (cudnn_descriptor){.magic = MAGIC, .type = type};
    *out = fresh;
    return cudnn_real_create(fresh);
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t of)
{
    cudnn_descriptor *d = of;
    REFUSE_IF(!d || d->magic != MAGIC, CUDNN_STATUS_BAD_PARAM);
    cudnn_real_destroy(d);
    for (int i = 0; i < d->n_attributes; i++)
        free(d->attribute[i].values);
    d->magic = 0;
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

static int rule_of(cudnnBackendDescriptorType_t type, cudnnBackendAttributeName_t name)
{
    for (int i = 0; i < RULES; i++)
        if (rules[i].type == type && rules[i].name == name)
            return i;
    return -1;
}

static bool has_type(int rule, const cudnn_descriptor *of, cudnnBackendAttributeType_t type)
{
    return type == rules[rule].of ||
           (is_convolution(of->type) && rules[rule].of == CUDNN_TYPE_FLOAT && type == CUDNN_TYPE_DOUBLE);
}

/* All must be finished: the library itself notices that only later, or not at all. */
static cudnnStatus_t check_children(int rule, const void *values, int64_t count)
{
    for (int64_t i = 0; rules[rule].child >= 0 && i < count; i++) {
        const cudnn_descriptor *child = ((cudnn_descriptor *const *)values)[i];
        REFUSE_IF(!child || child->magic != MAGIC, CUDNN_STATUS_BAD_PARAM);
        REFUSE_IF(!child->finished, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
        REFUSE_IF(rules[rule].child == OF_KIND + 1000 ? !is_operation(child->type)
                                                      : (int)child->type != rules[rule].child,
                  CUDNN_STATUS_BAD_PARAM);
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    cudnn_descriptor *d = of;
    REFUSE_IF(!d || d->magic != MAGIC || d->finished || !values, CUDNN_STATUS_BAD_PARAM);
    int rule = rule_of(d->type, name);
    REFUSE_IF(rule < 0 || count < 1 || count > rules[rule].most, CUDNN_STATUS_BAD_PARAM);
    REFUSE_IF(!has_type(rule, d, type), CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    cudnnStatus_t status = check_children(rule, values, count);
    REFUSE_IF(status != CUDNN_STATUS_SUCCESS, status);
    for (int i = 0; i < d->n_attributes; i++)
        REFUSE_IF(d->attribute[i].name == name, CUDNN_STATUS_BAD_PARAM); /* a mistake of the caller's */
    cudnn_attribute *a = &d->attribute[d->n_attributes++];
    size_t bytes = (size_t)count * size_of(type);
    *a = (cudnn_attribute){name, type, count, malloc(bytes)};
    if (!a->values)
        standin_stop("no memory for an attribute");
    memcpy(a->values, values, bytes);
    return cudnn_real_set(d, a);
}

/* ---- what finalizing checks ---- */

static const cudnn_attribute *find(const cudnn_descriptor *d, cudnnBackendAttributeName_t name)
{
    for (int i = 0; i < d->n_attributes; i++)
        if (d->attribute[i].name == name)
            return &d->attribute[i];
    return NULL;
}

/* Copies an attribute of so many values; false: it is not there. */
static bool take(const cudnn_descriptor *d, cudnnBackendAttributeName_t name, int64_t count, void *to)
{
    const cudnn_attribute *a = find(d, name);
    if (!a || a->count != count)
        return false;
    memcpy(to, a->values, (size_t)count * size_of(a->type));
    return true;
}

static cudnn_tensor tensor_of(const cudnn_descriptor *d)
{
    cudnn_tensor t = {0};
    take(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &t.number);
    take(d, CUDNN_ATTR_TENSOR_DATA_TYPE, 1, &t.type);
    take(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &t.alignment);
    take(d, CUDNN_ATTR_TENSOR_DIMENSIONS, 4, t.dim);
    take(d, CUDNN_ATTR_TENSOR_STRIDES, 4, t.stride);
    take(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 1, &t.between);
    return t;
}

static cudnnStatus_t finish_tensor(const cudnn_descriptor *d)
{
    REFUSE_IF(d->n_attributes != (find(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL) ? 6 : 5), CUDNN_STATUS_BAD_PARAM);
    cudnn_tensor t = tensor_of(d);
    bool dense = t.stride[1] == 1 && t.stride[3] == t.dim[1] && t.stride[2] == t.dim[3] * t.dim[1] &&
                 t.stride[0] == t.dim[2] * t.dim[3] * t.dim[1];
    for (int i = 0; i < 4; i++)
        REFUSE_IF(t.dim[i] < 1, CUDNN_STATUS_BAD_PARAM);
    REFUSE_IF(t.alignment < 1 || (t.alignment & (t.alignment - 1)), CUDNN_STATUS_BAD_PARAM);
    REFUSE_IF(!dense, CUDNN_STATUS_NOT_SUPPORTED_LAYOUT); /* the only one that the stand-in has */
    REFUSE_IF(t.type != CUDNN_DATA_FLOAT && t.type != CUDNN_DATA_DOUBLE && t.type != CUDNN_DATA_BFLOAT16,
              CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finish_geometry(const cudnn_descriptor *d)
{
    cudnnConvolutionMode_t mode;
    int64_t dimensions = 0, before[2], after[2], dilation[2], stride[2];
    REFUSE_IF(d->n_attributes != 7 || !take(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, 1, &mode) ||
                  !take(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &dimensions) || dimensions != 2 ||
                  !take(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 2, before) ||
                  !take(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 2, after) ||
                  !take(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, 2, dilation) ||
                  !take(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 2, stride),
              CUDNN_STATUS_BAD_PARAM);
    REFUSE_IF(mode != CUDNN_CROSS_CORRELATION, CUDNN_STATUS_NOT_SUPPORTED);
    for (int i = 0; i < 2; i++)
        REFUSE_IF(before[i] < 0 || after[i] < 0 || dilation[i] < 1 || stride[i] < 1, CUDNN_STATUS_BAD_PARAM);
    return CUDNN_STATUS_SUCCESS;
}

/* The rules of an operation's attributes stand in the order x, kernel, y, geometry, alpha, beta. */
static bool read_operation(const cudnn_descriptor *d, cudnn_operation *o)
{
    const cudnn_descriptor *child[4];
    double *const scale[] = {&o->alpha, &o->beta};
    int first = 0;
    while (rules[first].type != d->type)
        first++;
    for (int i = 0; i < 4; i++)
        if (!take(d, rules[first + i].name, 1, &child[i]))
            return false;
    o->kind = d->type;
    o->x = tensor_of(child[0]);
    o->kernel = tensor_of(child[1]);
    o->y = tensor_of(child[2]);
    take(child[3], CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 1, &o->sums);
    take(child[3], CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 2, o->before);
    take(child[3], CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 2, o->after);
    take(child[3], CUDNN_ATTR_CONVOLUTION_DILATIONS, 2, o->dilation);
    take(child[3], CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 2, o->stride);
    for (int i = 0; i < 2; i++) {
        const cudnn_attribute *a = find(d, rules[first + 4 + i].name);
        bool wide = o->sums == CUDNN_DATA_DOUBLE;
        if (!a || a->type != (wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT))
            return false;
        *scale[i] = wide ? *(double *)a->values : *(float *)a->values;
    }
    return true;
}

/* The operands are of one type, and the result is of that one or of the type of the sums. */
static bool has_types(const cudnn_operation *o)
{
    bool of_x = o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
         of_kernel = o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
    const cudnn_tensor *a = of_x ? &o->y : &o->x, *b = of_kernel ? &o->y : &o->kernel;
    const cudnn_tensor *result = of_x ? &o->x : of_kernel ? &o->kernel : &o->y;
    return a->type == b->type && (result->type == o->sums || (result->type == a->type && !result->between)) &&
           o->sums == (a->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
}

static cudnnStatus_t finish_operation(cudnn_descriptor *d)
{
    cudnn_operation *o = &d->operation;
    REFUSE_IF(!read_operation(d, o), CUDNN_STATUS_BAD_PARAM);
    REFUSE_IF(o->x.number == o->kernel.number || o->x.number == o->y.number ||
                  o->kernel.number == o->y.number,
              CUDNN_STATUS_BAD_PARAM);
    REFUSE_IF(!has_types(o), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    REFUSE_IF(o->y.dim[0] != o->x.dim[0] || o->y.dim[1] != o->kernel.dim[0] ||
                  o->x.dim[1] % o->kernel.dim[1] != 0 ||
                  o->kernel.dim[0] % (o->x.dim[1] / o->kernel.dim[1]) != 0,
              CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < 2; i++) {
        int64_t taps = (o->kernel.dim[2 + i] - 1) * o->dilation[i] + 1,
                room = o->x.dim[2 + i] + o->before[i] + o->after[i] - taps;
        REFUSE_IF(room < 0 || o->y.dim[2 + i] != room / o->stride[i] + 1, CUDNN_STATUS_BAD_PARAM);
    }
    return CUDNN_STATUS_SUCCESS;
}

static bool same_shape(const cudnn_tensor *a, const cudnn_tensor *b)
{
    return memcmp(a->dim, b->dim, sizeof a->dim) == 0;
}

/* The addition of a bias, or a relu that keeps NaN. */
static cudnnStatus_t finish_pointwise(cudnn_descriptor *d)
{
    const cudnn_descriptor *how, *x, *b = NULL, *y;
    cudnn_operation *o = &d->operation;
    cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
    REFUSE_IF(!take(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 1, &how) ||
                  !take(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 1, &x) ||
                  !take(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 1, &y) ||
                  !take(how, CUDNN_ATTR_POINTWISE_MODE, 1, &o->mode) ||
                  !take(how, CUDNN_ATTR_POINTWISE_MATH_PREC, 1, &o->sums),
              CUDNN_STATUS_BAD_PARAM);
    bool has_b = take(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 1, &b);
    take(how, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, 1, &nan);
    o->kind = d->type;
    o->x = tensor_of(x);
    o->y = tensor_of(y);
    o->relu = o->mode == CUDNN_POINTWISE_RELU_FWD;
    if (has_b)
        o->bias = tensor_of(b);
    REFUSE_IF(o->mode != CUDNN_POINTWISE_ADD && !o->relu, CUDNN_STATUS_NOT_SUPPORTED);
    REFUSE_IF(o->relu ? has_b || nan != CUDNN_PROPAGATE_NAN : !has_b, CUDNN_STATUS_BAD_PARAM);
    const int64_t of_bias[] = {1, o->y.dim[1], 1, 1};
    REFUSE_IF(!same_shape(&o->x, &o->y) || (has_b && memcmp(o->bias.dim, of_bias, sizeof of_bias) != 0),
              CUDNN_STATUS_BAD_PARAM);
    return CUDNN_STATUS_SUCCESS;
}

/* Adds a pointwise operation to those before it in a graph, whose result it takes. */
static bool join(cudnn_operation *o, const cudnn_operation *next)
{
    bool adds = next->mode == CUDNN_POINTWISE_ADD;
    if (!is_convolution(o->kind) || next->kind != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
        !o->y.between || next->x.number != o->y.number || next->x.type != o->sums || next->sums != o->sums ||
        o->relu || (adds && (o->bias.number || next->bias.type != o->x.type)))
        return false;
    o->y = next->y;
    o->relu = next->relu;
    if (adds)
        o->bias = next->bias;
    return true;
}

/* The last result alone has an address. */
static bool inherit_operations(cudnn_descriptor *d)
{
    const cudnn_attribute *all = find(d, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    const cudnn_descriptor *const *part = all ? all->values : NULL;
    if (!all)
        return false;
    d->operation = part[0]->operation;
    for (int64_t i = 1; i < all->count; i++)
        if (!join(&d->operation, &part[i]->operation))
            return false;
    return !d->operation.y.between && (all->count == 1 || d->operation.y.type == d->operation.x.type);
}

static bool handle_fits(const cudnn_descriptor *d, cudnnBackendAttributeName_t name)
{
    cudnnHandle_t handle = NULL;
    return take(d, name, 1, &handle) && handle && handle->magic == MAGIC && handle->gpu == standin_gpu();
}

/* Takes what a part of the descriptor was made of. */
static bool inherit(cudnn_descriptor *d, cudnnBackendAttributeName_t name)
{
    const cudnn_descriptor *part = NULL;
    if (!take(d, name, 1, &part))
        return false;
    d->operation = part->operation;
    d->engine = part->engine;
    return true;
}

static cudnnStatus_t finish_plan(cudnn_descriptor *d)
{
    pthread_mutex_lock(&standin_lock);
    bool captured = standin_refuse_capture() != cudaSuccess;
    pthread_mutex_unlock(&standin_lock);
    if (captured)
        standin_stop("a plan of cuDNN is made while a stream is captured");
    REFUSE_IF(!handle_fits(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE) ||
                  !inherit(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
              CUDNN_STATUS_BAD_PARAM);
    REFUSE_IF(d->engine.unable, CUDNN_STATUS_NOT_SUPPORTED);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finish_pack(const cudnn_descriptor *d)
{
    int64_t number[4], count = 0;
    const cudnn_attribute *addresses = find(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    count = addresses ? addresses->count : 0;
    REFUSE_IF(d->n_attributes != 3 || count < 3 ||
                  !take(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, count, number),
              CUDNN_STATUS_BAD_PARAM);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < i; k++)
            REFUSE_IF(number[i] == number[k], CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finish(cudnn_descriptor *d)
{
    switch (d->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return finish_tensor(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return finish_geometry(d);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return handle_fits(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE) && inherit_operations(d)
                   ? CUDNN_STATUS_SUCCESS
                   : CUDNN_STATUS_BAD_PARAM;
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
        return d->n_attributes >= 2 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return finish_pointwise(d);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return find(d, CUDNN_ATTR_ENGINEHEUR_MODE) && inherit(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
                   ? CUDNN_STATUS_SUCCESS
                   : CUDNN_STATUS_BAD_PARAM;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return finish_plan(d);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return finish_pack(d);
    default:
        return is_convolution(d->type) ? finish_operation(d) : CUDNN_STATUS_BAD_PARAM;
    }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t of)
{
    cudnn_descriptor *d = of;
    REFUSE_IF(!d || d->magic != MAGIC || d->finished, CUDNN_STATUS_BAD_PARAM);
    cudnnStatus_t status =
        d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ? ordered("cudnnPlan") : ordered(__func__);
    status = status == CUDNN_STATUS_SUCCESS ? finish(d) : status;
    status = status == CUDNN_STATUS_SUCCESS ? cudnn_real_finalize(d) : status;
    d->finished = status == CUDNN_STATUS_SUCCESS;
    return status;
}

/* ---- proposals ---- */

static int64_t bytes_of(const cudnn_tensor *t)
{
    int64_t size = t->type == CUDNN_DATA_DOUBLE ? 8 : t->type == CUDNN_DATA_FLOAT ? 4 : 2;
    return t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3] * size;
}

static bool is_symmetric(const cudnn_operation *o)
{
    return o->before[0] == o->after[0] && o->before[1] == o->after[1];
}

/* Mode A proposes engines that must not be taken before two that may be, for float32 and bfloat16; the second is
 * faster. That one does not take zeros on one side alone for gradients of kernels, and none does in float64. */
static int propose(const cudnn_operation *o, cudnnBackendHeurMode_t mode, cudnn_engine list[PROPOSALS])
{
    bool wide = o->x.type == CUDNN_DATA_DOUBLE, symmetric = is_symmetric(o);
    bool of_kernel = o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
    int64_t workspace = bytes_of(&o->x) + 13;
    int count = 0;
    if (mode == CUDNN_HEUR_MODE_FALLBACK && wide && symmetric)
        list[count++] = (cudnn_engine){0, 0, {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, 1, false};
    if (mode != CUDNN_HEUR_MODE_A)
        return count;
    list[count++] = (cudnn_engine){1, 0, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, 1, false};
    list[count++] = (cudnn_engine){
        2, 64, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}, 2, false};
    list[count++] = (cudnn_engine){3, 64, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 1, wide};
    list[count++] = (cudnn_engine){4, 0, {CUDNN_NUMERICAL_NOTE_WINOGRAD}, 1, false};
    list[count++] = (cudnn_engine){5, (int64_t)8 << 30, {0}, 0, false};
    list[count++] = (cudnn_engine){6, 0, {0}, 0, true};
    if (!wide && (symmetric || !of_kernel)) {
        list[count++] = (cudnn_engine){7, workspace, {0}, 0, false};
        list[count++] = (cudnn_engine){8, 0, {0}, 0, false};
    }
    return count;
}

/* One more is announced than is given, as cuDNN 9.19 may do. */
static cudnnStatus_t give_results(const cudnn_descriptor *d, int64_t room, int64_t *count, void *values)
{
    cudnn_engine list[PROPOSALS] = {{0}};
    cudnnBackendHeurMode_t mode;
    cudnn_descriptor *const *configs = values;
    take(d, CUDNN_ATTR_ENGINEHEUR_MODE, 1, &mode);
    if (cudnn_real_is_used())
        return cudnn_real_propose(d, configs, room, count);
    int known = propose(&d->operation, mode, list);
    *count = room == 0 ? known + 1 : known < room ? known : room;
    for (int i = 0; i < *count && room > 0; i++) {
        REFUSE_IF(!configs[i] || configs[i]->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                  CUDNN_STATUS_BAD_PARAM);
        configs[i]->operation = d->operation;
        configs[i]->engine = list[i];
        configs[i]->engine.unable |= list[i].number == standin_number("STANDIN_LACKS", -1);
        configs[i]->finished = true;
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t give_engine(const cudnn_descriptor *config, void *values)
{
    cudnn_descriptor *engine = *(cudnn_descriptor *const *)values;
    REFUSE_IF(!engine || engine->magic != MAGIC || engine->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR,
              CUDNN_STATUS_BAD_PARAM);
    engine->operation = config->operation;
    engine->engine = config->engine;
    engine->finished = true;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t give_notes(const cudnn_engine *engine, int64_t room, int64_t *count, void *values)
{
    *count = engine->n_notes;
    if (room > 0)
        memcpy(values, engine->notes, (size_t)(*count < room ? *count : room) * sizeof *engine->notes);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const of, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room, int64_t *count,
                                       void *values)
{
    cudnn_descriptor *d = of;
    REFUSE_IF(!d || d->magic != MAGIC || !count || (room > 0 && !values), CUDNN_STATUS_BAD_PARAM);
    REFUSE_IF(!d->finished, CUDNN_STATUS_NOT_INITIALIZED);
    *count = 1;
    if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && name == CUDNN_ATTR_ENGINEHEUR_RESULTS &&
        type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return give_results(d, room, count, values);
    if (d->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && name == CUDNN_ATTR_ENGINECFG_ENGINE &&
        type == CUDNN_TYPE_BACKEND_DESCRIPTOR && room == 1)
        return give_engine(d, values);
    if (d->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX &&
        type == CUDNN_TYPE_INT64 && room == 1) {
        *(int64_t *)values = d->engine.number;
        return CUDNN_STATUS_SUCCESS;
    }
    if (d->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE &&
        type == CUDNN_TYPE_NUMERICAL_NOTE)
        return give_notes(&d->engine, room, count, values);
    if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
        name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64 && room == 1) {
        *(int64_t *)values = d->engine.workspace;
        return CUDNN_STATUS_SUCCESS;
    }
    standin_stop("cudnnBackendGetAttribute: the stand-in lacks attribute %d of type %d", (int)name,
                 (int)d->type);
}

/* ---- executing ---- */

static bool of_device(const void *address, int64_t bytes)
{
    return standin_kind_of(address, (size_t)bytes) != STANDIN_PAGEABLE;
}

/* The addresses of x, kernel, y and the bias. */
static cudnnStatus_t addresses_of(const cudnn_descriptor *pack, const cudnn_operation *o,
                                  const void *address[4])
{
    const cudnn_tensor *const tensor[] = {&o->x, &o->kernel, &o->y, &o->bias};
    const void *given[4];
    int64_t number[4];
    int count = o->bias.number ? 4 : 3;
    address[3] = NULL;
    REFUSE_IF(!take(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, count, given) ||
                  !take(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, count, number),
              CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < count; i++) {
        address[i] = NULL;
        for (int k = 0; k < count; k++)
            address[i] = number[k] == tensor[i]->number ? given[k] : address[i];
        REFUSE_IF(!address[i], CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
        REFUSE_IF((uintptr_t)address[i] % (uintptr_t)tensor[i]->alignment != 0,
                  CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
        REFUSE_IF(!of_device(address[i], bytes_of(tensor[i])), CUDNN_STATUS_BAD_PARAM);
    }
    return CUDNN_STATUS_SUCCESS;
}

static const char *name_of(const cudnn_operation *o)
{
    return o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? "convolution"
           : o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? "convolution input"
                                                                                     : "convolution kernel";
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack)
{
    const cudnn_descriptor *p = plan, *pack = variant_pack;
    const void *address[4];
    void *workspace = NULL;
    REFUSE_IF(!handle || handle->magic != MAGIC || handle->gpu != standin_gpu() || !p || !pack ||
                  p->magic != MAGIC || pack->magic != MAGIC,
              CUDNN_STATUS_BAD_PARAM);
    REFUSE_IF(!p->finished || !pack->finished, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    REFUSE_IF(!handle_fits(p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE), CUDNN_STATUS_BAD_PARAM);
    cudnnStatus_t status = ordered(__func__);
    status = status == CUDNN_STATUS_SUCCESS ? addresses_of(pack, &p->operation, address) : status;
    REFUSE_IF(status != CUDNN_STATUS_SUCCESS, status);
    take(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1, &workspace);
    REFUSE_IF(p->engine.workspace > 0 && (!workspace || (uintptr_t)workspace % WORKSPACE_MULTIPLE != 0 ||
                                          !of_device(workspace, p->engine.workspace)),
              CUDNN_STATUS_BAD_PARAM);
    REFUSE_IF(standin_load(handle->stream, (uint64_t)(uintptr_t)p) != cudaSuccess,
              CUDNN_STATUS_EXECUTION_FAILED);
    const cudnn_operation *o = &p->operation;
    standin_note("%s%s%s engine %lld of %lld x %lld x %lld x %lld by %lld x %lld x %lld", name_of(o),
                 o->bias.number ? "+bias" : "", o->relu ? "+relu" : "", (long long)p->engine.number,
                 (long long)o->x.dim[0], (long long)o->x.dim[2], (long long)o->x.dim[3],
                 (long long)o->x.dim[1], (long long)o->kernel.dim[2], (long long)o->kernel.dim[3],
                 (long long)o->kernel.dim[0]);
    return cudnn_run(o, &p->engine, address, workspace, handle->stream) == cudaSuccess
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_EXECUTION_FAILED;
}
#endif
