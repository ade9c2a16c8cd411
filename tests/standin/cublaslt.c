/* cuBLASLt's functions, as its header and manual (13.1) describe them, by plain loops on the stream's thread. What
 * the library refuses is refused, with its status. Proposals are strict, so that a caller who asks for too little
 * fails: sums "in place" are added in random order, each algorithm needs the alignment that was promised and the
 * workspace that it names, and works for the product that it was proposed for alone.
 * Its descriptors are longer than the header's, as those of later versions are (a layout has 8 words in 13.1, and 14
 * in 13.2). One that Create makes is whole; a copy of the header's part of it is refused, unless zeros follow. One
 * that Init makes ends where its caller says. */
#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/elements.h"
#include "tests/standin/standin.h"

enum { MAGIC = 0x4c74, WORKSPACE_MULTIPLE = 256 };

/* What the opaque structures hold. */
enum { WHOLE = 0x4c77, MORE_WORDS = 6 };
typedef struct desc {
    int32_t magic, words, compute, scale, pointer_mode, trans[2], bias_type;
    uint32_t epilogue;
    const void *bias;
} desc;
typedef struct layout {
    int32_t magic, words, type, order, count;
    uint64_t rows, cols;
    int64_t ld, stride;
} layout;
/* The structures of this version: what follows the header's is 0. */
typedef struct long_desc {
    cublasLtMatmulDescOpaque_t first;
    uint64_t more[MORE_WORDS];
} long_desc;
typedef struct long_layout {
    cublasLtMatrixLayoutOpaque_t first;
    uint64_t more[MORE_WORDS];
} long_layout;
typedef struct preference {
    int32_t magic;
    uint32_t schemes, alignment[4];
    uint64_t workspace;
} preference;
typedef struct algorithm {
    int32_t magic;
    uint32_t scheme, splits, alignment[4];
    uint64_t workspace, product;
} algorithm;
_Static_assert(sizeof(desc) <= sizeof(cublasLtMatmulDescOpaque_t), "a desc");
_Static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "a layout");
_Static_assert(sizeof(preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "a preference");
_Static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm");

struct cublasLtContext {
    int magic, gpu;
};

/* STANDIN_FAIL may order one of the library's own numbers. */
static cublasStatus_t ordered(const char *function)
{
    return (cublasStatus_t)standin_ordered(function);
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
        return "another status";
    }
}

/* ---- handles and descriptors ---- */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    REFUSE_IF(standin_ordered(__func__) || standin_enter("cublas") || standin_context(standin_gpu()),
              CUBLAS_STATUS_NOT_INITIALIZED);
    struct cublasLtContext *fresh = malloc(sizeof *fresh);
    REFUSE_IF(!fresh, CUBLAS_STATUS_ALLOC_FAILED);
    *fresh = (struct cublasLtContext){MAGIC, standin_gpu()};
    *handle = fresh;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

static void *make(size_t bytes)
{
    void *fresh = calloc(1, bytes);
    if (!fresh)
        standin_stop("no memory for a descriptor");
    return fresh;
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t of, size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale)
{
    REFUSE_IF(size < sizeof *of, CUBLAS_STATUS_ALLOC_FAILED);
    memset(of, 0, size < sizeof(long_desc) ? sizeof *of : sizeof(long_desc));
    *(desc *)of = (desc){.magic = MAGIC,
                         .words = size < sizeof(long_desc) ? 0 : WHOLE,
                         .compute = (int32_t)compute,
                         .scale = (int32_t)scale,
                         .bias_type = -1,
                         .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    *out = make(sizeof(long_desc));
    return cublasLtMatmulDescInit_internal(*out, sizeof(long_desc), compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t of)
{
    free(of);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t set(void *member, size_t size, const void *value, size_t given)
{
    REFUSE_IF(size != given, CUBLAS_STATUS_INVALID_VALUE);
    memcpy(member, value, size);
    return CUBLAS_STATUS_SUCCESS;
}
#define SET(member) set(&(member), sizeof(member), value, size)

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t of,
                                              cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t size)
{
    desc *d = (desc *)of;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
        return SET(d->pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return SET(d->trans[0]);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return SET(d->trans[1]);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return SET(d->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return SET(d->bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return SET(d->bias_type);
    default:
        standin_stop("cublasLtMatmulDescSetAttribute: the stand-in lacks attribute %d", (int)attribute);
    }
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t of, size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t cols, int64_t ld)
{
    REFUSE_IF(size < sizeof *of, CUBLAS_STATUS_ALLOC_FAILED);
    memset(of, 0, size < sizeof(long_layout) ? sizeof *of : sizeof(long_layout));
    *(layout *)of = (layout){.magic = MAGIC,
                             .words = size < sizeof(long_layout) ? 0 : WHOLE,
                             .type = (int32_t)type,
                             .order = CUBLASLT_ORDER_COL,
                             .count = 1,
                             .rows = rows,
                             .cols = cols,
                             .ld = ld};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    *out = make(sizeof(long_layout));
    return cublasLtMatrixLayoutInit_internal(*out, sizeof(long_layout), type, rows, cols, ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t of)
{
    free(of);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t of,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t size)
{
    layout *l = (layout *)of;
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
        return SET(l->order);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return SET(l->count);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return SET(l->stride);
    default:
        standin_stop("cublasLtMatrixLayoutSetAttribute: the stand-in lacks attribute %d", (int)attribute);
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = make(sizeof **out);
    *(preference *)*out = (preference){
        .magic = MAGIC, .schemes = CUBLASLT_REDUCTION_SCHEME_MASK, .alignment = {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t of)
{
    free(of);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t of,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size)
{
    preference *p = (preference *)of;
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return SET(p->workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return SET(p->schemes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return SET(p->alignment[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return SET(p->alignment[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return SET(p->alignment[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return SET(p->alignment[3]);
    default:
        standin_stop("cublasLtMatmulPreferenceSetAttribute: the stand-in lacks attribute %d", (int)attribute);
    }
}

/* ---- what may be multiplied ---- */

typedef struct product {
    desc d;
    layout l[4]; /* A, B, C, D */
} product;

static bool are_zero(const uint64_t more[MORE_WORDS])
{
    uint64_t any = 0;
    for (int i = 0; i < MORE_WORDS; i++)
        any |= more[i];
    return any == 0;
}

static desc desc_of(const cublasLtMatmulDescOpaque_t *at)
{
    desc d = *(const desc *)at;
    if (d.words == WHOLE && !are_zero(((const long_desc *)at)->more))
        d.magic = 0;
    return d;
}

static layout layout_of(const cublasLtMatrixLayoutOpaque_t *at)
{
    layout l = *(const layout *)at;
    if (l.words == WHOLE && !are_zero(((const long_layout *)at)->more))
        l.magic = 0;
    return l;
}

static product product_of(const cublasLtMatmulDescOpaque_t *d, const cublasLtMatrixLayoutOpaque_t *a,
                          const cublasLtMatrixLayoutOpaque_t *b, const cublasLtMatrixLayoutOpaque_t *c,
                          const cublasLtMatrixLayoutOpaque_t *to)
{
    return (product){desc_of(d), {layout_of(a), layout_of(b), layout_of(c), layout_of(to)}};
}

/* Rows and columns of op(A) and op(B). */
static uint64_t rows_of(const product *p, int i)
{
    return i < 2 && p->d.trans[i] != CUBLAS_OP_N ? p->l[i].cols : p->l[i].rows;
}
static uint64_t cols_of(const product *p, int i)
{
    return i < 2 && p->d.trans[i] != CUBLAS_OP_N ? p->l[i].rows : p->l[i].cols;
}

/* The types in the manual of cublasLtMatmul, as far as Isogrid needs them; those of 64 bits have no epilogue. */
static bool has_types(const product *p)
{
    bool wide = p->d.compute == CUBLAS_COMPUTE_64F;
    int32_t in = p->l[0].type, out = p->l[3].type;
    if (wide)
        return p->d.scale == CUDA_R_64F && in == CUDA_R_64F && out == CUDA_R_64F &&
               p->d.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
    bool fast = p->d.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    return (p->d.compute == CUBLAS_COMPUTE_32F || fast) && p->d.scale == CUDA_R_32F &&
           ((in == CUDA_R_32F && out == CUDA_R_32F) ||
            (!fast && in == CUDA_R_16BF && (out == CUDA_R_16BF || out == CUDA_R_32F)));
}

static cublasStatus_t check(const product *p)
{
    REFUSE_IF(p->d.magic != MAGIC, CUBLAS_STATUS_INVALID_VALUE);
    for (int i = 0; i < 4; i++) {
        const layout *l = &p->l[i];
        REFUSE_IF(l->magic != MAGIC || l->rows == 0 || l->cols == 0 || l->ld < (int64_t)l->rows ||
                      l->count < 1 || l->count != p->l[3].count,
                  CUBLAS_STATUS_INVALID_VALUE);
        REFUSE_IF(l->order != CUBLASLT_ORDER_COL, CUBLAS_STATUS_NOT_SUPPORTED);
    }
    REFUSE_IF(p->l[0].type != p->l[1].type || p->l[2].type != p->l[3].type || !has_types(p) ||
                  p->d.pointer_mode != CUBLASLT_POINTER_MODE_HOST,
              CUBLAS_STATUS_NOT_SUPPORTED);
    REFUSE_IF(rows_of(p, 0) != p->l[3].rows || cols_of(p, 1) != p->l[3].cols ||
                  cols_of(p, 0) != rows_of(p, 1) || p->l[2].rows != p->l[3].rows ||
                  p->l[2].cols != p->l[3].cols,
              CUBLAS_STATUS_INVALID_VALUE);
    bool known = p->d.epilogue == CUBLASLT_EPILOGUE_DEFAULT || p->d.epilogue == CUBLASLT_EPILOGUE_BIAS ||
                 p->d.epilogue == CUBLASLT_EPILOGUE_RELU || p->d.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    REFUSE_IF(!known || (p->d.bias_type >= 0 && p->d.bias_type != p->l[3].type), CUBLAS_STATUS_NOT_SUPPORTED);
    return CUBLAS_STATUS_SUCCESS;
}

/* Of all but the addresses. */
static uint64_t number_of(product p)
{
    uint64_t hash = 14695981039346656037u;
    p.d.bias = NULL;
    const uint32_t numbers[] = {(uint32_t)p.d.compute, (uint32_t)p.d.trans[0], (uint32_t)p.d.trans[1],
                                p.d.epilogue};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        hash = (hash ^ numbers[i]) * 1099511628211u;
    for (int i = 0; i < 4; i++)
        hash = (hash ^ (uint64_t)p.l[i].type) * 1099511628211u ^ p.l[i].rows * 31 ^ p.l[i].cols * 77 ^
               (uint64_t)p.l[i].ld * 991 ^ (uint64_t)p.l[i].stride * 7919 ^ (uint64_t)p.l[i].count << 40;
    return hash;
}

/* ---- proposals ---- */

static void propose(const product *p, const preference *wanted, uint32_t scheme, uint32_t splits,
                    cublasLtMatmulHeuristicResult_t *results, int room, int *count)
{
    uint64_t partial = p->l[3].rows * p->l[3].cols * (uint64_t)p->l[3].count * standin_size(p->d.scale);
    algorithm a = {.magic = MAGIC,
                   .scheme = scheme,
                   .splits = splits,
                   .workspace = splits > 1 ? splits * partial : 0,
                   .product = number_of(*p)};
    memcpy(a.alignment, wanted->alignment, sizeof a.alignment);
    if (*count == room || a.workspace > wanted->workspace || (scheme & ~wanted->schemes) != 0)
        return;
    results[*count] = (cublasLtMatmulHeuristicResult_t){
        .workspaceSize = a.workspace, .state = CUBLAS_STATUS_SUCCESS, .wavesCount = 1};
    memcpy(&results[(*count)++].algo, &a, sizeof a);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t A, cublasLtMatrixLayout_t B,
                                              cublasLtMatrixLayout_t C, cublasLtMatrixLayout_t D,
                                              cublasLtMatmulPreference_t wanted, int room,
                                              cublasLtMatmulHeuristicResult_t *results, int *count)
{
    product p = product_of(operation, A, B, C, D);
    const preference *of = (const preference *)wanted;
    *count = 0;
    REFUSE_IF(!handle || handle->magic != MAGIC || of->magic != MAGIC || room < 1,
              CUBLAS_STATUS_INVALID_VALUE);
    /* Its proposals depend on the alignment of a bias, which it knows from the address. */
    REFUSE_IF(p.d.epilogue & CUBLASLT_EPILOGUE_BIAS && !p.d.bias, CUBLAS_STATUS_INVALID_VALUE);
    cublasStatus_t status = ordered(__func__);
    status = status == CUBLAS_STATUS_SUCCESS ? check(&p) : status;
    REFUSE_IF(status != CUBLAS_STATUS_SUCCESS, status);
    if (cols_of(&p, 0) >= 16) {
        propose(&p, of, CUBLASLT_REDUCTION_SCHEME_INPLACE, 4, results, room, count);
        propose(&p, of, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 3, results, room, count);
    }
    propose(&p, of, CUBLASLT_REDUCTION_SCHEME_NONE, 1, results, room, count);
    return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* The number of an algorithm is that of its parts. */
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *of,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t size, size_t *written)
{
    const algorithm *a = (const algorithm *)of;
    REFUSE_IF((attribute != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME && attribute != CUBLASLT_ALGO_CONFIG_ID) ||
                  size != sizeof a->scheme || a->magic != MAGIC,
              CUBLAS_STATUS_INVALID_VALUE);
    memcpy(value, attribute == CUBLASLT_ALGO_CONFIG_ID ? &a->splits : &a->scheme, size);
    *written = size;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the product ---- */

typedef struct work {
    product p;
    algorithm algorithm;
    double alpha, beta;
    const void *in[3]; /* A, B, C */
    void *out, *workspace;
} work;

/* Matrix `i`, op(A) or op(B)': k lines, each with a number of each row. */
static double *packed(const work *w, int i, int64_t batch, uint64_t rows, uint64_t k)
{
    const layout *l = &w->p.l[i];
    bool along =
        (w->p.d.trans[i] == CUBLAS_OP_N) == (i == 1); /* a column of the matrix is a row of the result */
    bool fast = w->p.d.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    size_t bytes = ((size_t)(l->cols - 1) * (size_t)l->ld + l->rows) * standin_size(l->type);
    const char *from =
        standin_reach((const char *)w->in[i] + (size_t)(batch * l->stride) * standin_size(l->type), bytes);
    double *to = make(rows * k * sizeof *to);
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t at = 0; at < k; at++) {
            double x = standin_element(from, l->type,
                                       along ? (int64_t)(row * (uint64_t)l->ld + at)
                                             : (int64_t)(at * (uint64_t)l->ld + row));
            to[at * rows + row] = fast ? standin_shortened(x) : x;
        }
    return to;
}

/* The sums of the parts of a column: those of row r of part s are at s * rows + r. */
static void add_parts(double *restrict parts, const double *restrict a, const double *restrict b,
                      uint64_t rows, uint64_t k, uint64_t splits)
{
    memset(parts, 0, splits * rows * sizeof *parts);
    for (uint64_t s = 0; s < splits; s++)
        for (uint64_t i = s * k / splits; i < (s + 1) * k / splits; i++)
            for (uint64_t row = 0; row < rows; row++)
                parts[s * rows + row] += a[i * rows + row] * b[i];
}

/* The sum of the parts of a row, each rounded to the type in which the product is computed; in place in random
 * order. */
static double sum_of(const work *w, const double *parts, uint64_t rows, uint64_t row)
{
    uint64_t splits = w->algorithm.splits, first = 0;
    double sum = 0;
    if (w->algorithm.scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE)
        first = (uint64_t)random() % splits;
    for (uint64_t s = 0; s < splits; s++) {
        sum += parts[(s + first) % splits * rows + row];
        sum = w->p.d.scale == CUDA_R_32F ? (float)sum : sum;
    }
    return sum;
}

static double finished(const work *w, double value, uint64_t row)
{
    const desc *d = &w->p.d;
    int32_t type = w->p.l[3].type;
    if (d->epilogue & 4)
        value +=
            standin_element(standin_reach(d->bias, w->p.l[3].rows * standin_size(type)), type, (int64_t)row);
    return d->epilogue & 2 && value < 0 ? 0 : value;
}

static void multiply(const work *w, int64_t batch)
{
    const layout *c = &w->p.l[2], *d = &w->p.l[3];
    uint64_t k = cols_of(&w->p, 0);
    double *a = packed(w, 0, batch, d->rows, k), *b = packed(w, 1, batch, d->cols, k);
    size_t bytes = ((size_t)(d->cols - 1) * (size_t)d->ld + d->rows) * standin_size(d->type);
    size_t offset = (size_t)(batch * d->stride) * standin_size(d->type);
    const char *old = standin_reach((const char *)w->in[2] + offset, bytes);
    char *to = standin_reach((char *)w->out + offset, bytes);
    double *parts = make(w->algorithm.splits * d->rows * sizeof *parts);
    double *of_column = make(k * sizeof *of_column);
    for (uint64_t column = 0; column < d->cols; column++) {
        for (uint64_t i = 0; i < k; i++)
            of_column[i] = b[i * d->cols + column];
        add_parts(parts, a, of_column, d->rows, k, w->algorithm.splits);
        for (uint64_t row = 0; row < d->rows; row++) {
            double value = w->alpha * sum_of(w, parts, d->rows, row);
            if (w->beta != 0)
                value += w->beta * standin_element(old, c->type, (int64_t)(column * (uint64_t)c->ld + row));
            standin_store(to, d->type, (int64_t)(column * (uint64_t)d->ld + row), finished(w, value, row));
        }
    }
    free(of_column);
    free(parts);
    free(a);
    free(b);
}

/* The workspace is written, so that one that is in use, or too small, shows. */
static void run(void *argument)
{
    const work *w = argument;
    standin_spend(100000 * w->algorithm.splits);
    if (w->algorithm.workspace > 0)
        memset(standin_reach(w->workspace, w->algorithm.workspace), 0xff, w->algorithm.workspace);
    for (int64_t batch = 0; batch < w->p.l[3].count; batch++)
        multiply(w, batch);
}

static bool is_aligned(const void *address, uint32_t multiple)
{
    return (uintptr_t)address % multiple == 0;
}

static bool of_device(const void *address)
{
    return standin_kind_of(address, 0) != STANDIN_PAGEABLE;
}

static cublasStatus_t check_addresses(const work *w, size_t workspace_bytes)
{
    const algorithm *a = &w->algorithm;
    REFUSE_IF(a->magic != MAGIC || a->product != number_of(w->p), CUBLAS_STATUS_NOT_SUPPORTED);
    for (int i = 0; i < 3; i++)
        REFUSE_IF(!w->in[i] || !is_aligned(w->in[i], a->alignment[i]) || !of_device(w->in[i]),
                  CUBLAS_STATUS_INVALID_VALUE);
    REFUSE_IF(!w->out || !is_aligned(w->out, a->alignment[3]) || !of_device(w->out),
              CUBLAS_STATUS_INVALID_VALUE);
    REFUSE_IF(a->workspace > workspace_bytes ||
                  (a->workspace > 0 && (!w->workspace || !is_aligned(w->workspace, WORKSPACE_MULTIPLE) ||
                                        !of_device(w->workspace))),
              CUBLAS_STATUS_INVALID_VALUE);
    REFUSE_IF(w->p.d.epilogue & 4 && (!w->p.d.bias || !of_device(w->p.d.bias)), CUBLAS_STATUS_INVALID_VALUE);
    return CUBLAS_STATUS_SUCCESS;
}

static double scalar(const product *p, const void *at)
{
    return p->d.scale == CUDA_R_64F ? *(const double *)at : *(const float *)at;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t of_A, const void *B,
                              cublasLtMatrixLayout_t of_B, const void *beta, const void *C,
                              cublasLtMatrixLayout_t of_C, void *D, cublasLtMatrixLayout_t of_D,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream)
{
    static const standin_work queued = {.run = run, .what = "a product of cuBLASLt"};
    work w = {.p = product_of(operation, of_A, of_B, of_C, of_D),
              .in = {A, B, C},
              .out = D,
              .workspace = workspace};
    REFUSE_IF(!handle || handle->magic != MAGIC || handle->gpu != standin_gpu() || !algo,
              CUBLAS_STATUS_INVALID_VALUE);
    cublasStatus_t status = ordered(__func__);
    status = status == CUBLAS_STATUS_SUCCESS ? check(&w.p) : status;
    REFUSE_IF(status != CUBLAS_STATUS_SUCCESS, status);
    memcpy(&w.algorithm, algo, sizeof w.algorithm);
    w.alpha = scalar(&w.p, alpha);
    w.beta = scalar(&w.p, beta);
    status = check_addresses(&w, workspace_bytes);
    REFUSE_IF(status != CUBLAS_STATUS_SUCCESS, status);
    REFUSE_IF(standin_load(stream, w.algorithm.product * 64 + w.algorithm.scheme) != cudaSuccess,
              CUBLAS_STATUS_EXECUTION_FAILED);
    standin_note("product%s%s %llu x %llu x %llu of %d", w.p.d.epilogue & 4 ? "+bias" : "",
                 w.p.d.epilogue & 2 ? "+relu" : "", (unsigned long long)w.p.l[3].cols,
                 (unsigned long long)w.p.l[3].rows, (unsigned long long)cols_of(&w.p, 0), w.p.l[3].count);
    return standin_enqueue(stream, &queued, &w, sizeof w) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                         : CUBLAS_STATUS_EXECUTION_FAILED;
}
