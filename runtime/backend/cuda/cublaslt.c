/* cuBLASLt's matrices are column-major, so a row-major c = a b is computed as the transpose: c' = b' a'. */
#include "runtime/backend/cuda/cublaslt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/functions.h"
#include "runtime/backend/cuda/gpu.h"
#include "runtime/backend/cuda/refusals.h"
#include "runtime/backend/cuda/tuning.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"

/* NVIDIA recommends 32 MiB on Hopper (cuBLAS 13, "cublasSetWorkspace"); earlier GPUs ask for less. */
enum { ADDRESS_MULTIPLE = 16, WORKSPACE_MULTIPLE = 256, MOST_WORKSPACE = 32 << 20, PROPOSALS = 16 };

/* a, b, c: of the row-major product; the library's A is b, and its B is a. */
struct iso_cuda_found_product {
    iso_cuda_product product;
    bool usable; /* false: the library has no algorithm */
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
    struct iso_cuda_found_product *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static iso_cuda_found_product *all;
static cublasLtHandle_t handles[ISO_CUDA_GPUS]; /* one for each GPU that this process uses */
static bool tf32;

void iso_cuda_allow_tf32(bool allow)
{
    tf32 = allow;
}

bool iso_cuda_allows_tf32(void)
{
    return tf32;
}

/* ---- errors ---- */

/* "float32 [8, 128, 784]" */
static void matrix_text(int32_t dtype, int64_t batch, int64_t rows, int64_t columns, char text[120])
{
    if (batch > 1)
        snprintf(text, 120, "%s [%lld, %lld, %lld]", iso_dtype_name((iso_dtype)dtype), (long long)batch,
                 (long long)rows, (long long)columns);
    else
        snprintf(text, 120, "%s [%lld, %lld]", iso_dtype_name((iso_dtype)dtype), (long long)rows,
                 (long long)columns);
}

static void keep_error(const iso_cuda_product *p, cublasStatus_t status)
{
    char a[120], b[120];
    matrix_text(p->dtype, p->batch, p->m, p->k, a);
    matrix_text(p->dtype, p->batch, p->k, p->n, b);
    iso_cuda_refused("cuBLASLt refuses the product of %s and %s: %s (%d)", a, b,
                     iso_cuda_call.cublasLtGetStatusString(status), (int)status);
}

/* ---- descriptors ---- */

#define KEEP(status, call)                                                                                   \
    do {                                                                                                     \
        if ((status) == CUBLAS_STATUS_SUCCESS)                                                               \
            (status) = (call);                                                                               \
    } while (0)

static cudaDataType_t type_of(int32_t dtype)
{
    return dtype == ISO_F64 ? CUDA_R_64F : dtype == ISO_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static bool is_real(int32_t dtype)
{
    return dtype == ISO_F32 || dtype == ISO_F64 || dtype == ISO_BF16;
}

static cublasStatus_t set_desc(cublasLtMatmulDescOpaque_t *desc, cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t size)
{
    return iso_cuda_call.cublasLtMatmulDescSetAttribute(desc, attribute, value, size);
}

static cublasLtEpilogue_t epilogue_of(int32_t epilogue)
{
    static const cublasLtEpilogue_t of[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                                            CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS};
    return of[epilogue & (ISO_CUDA_ADD_BIAS | ISO_CUDA_RELU)];
}

/* Descriptors are plain data, which the code copies, so they are made in the structures of its own header: those that
 * the library's Create makes are longer in other versions. The functions are those of the header's inline Init. */
static cublasStatus_t make_desc(const iso_cuda_product *p, cublasLtMatmulDescOpaque_t *desc)
{
    cublasComputeType_t compute = p->dtype == ISO_F64 ? CUBLAS_COMPUTE_64F
                                  : p->tf32           ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                      : CUBLAS_COMPUTE_32F;
    cublasOperation_t of_a = p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                      of_b = p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(p->epilogue);
    const void *bias = (const void *)(uintptr_t)ADDRESS_MULTIPLE; /* the heuristic takes its alignment */
    cublasStatus_t status = iso_cuda_call.cublasLtMatmulDescInit_internal(
        desc, sizeof *desc, compute, p->dtype == ISO_F64 ? CUDA_R_64F : CUDA_R_32F);
    KEEP(status, set_desc(desc, CUBLASLT_MATMUL_DESC_TRANSA, &of_a, sizeof of_a));
    KEEP(status, set_desc(desc, CUBLASLT_MATMUL_DESC_TRANSB, &of_b, sizeof of_b));
    KEEP(status, set_desc(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    if (p->epilogue & ISO_CUDA_ADD_BIAS)
        KEEP(status, set_desc(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    return status;
}

/* An operand, row-major: [batch, rows, columns]. */
typedef struct matrices {
    int32_t dtype;
    int64_t batch, rows, columns;
    iso_cuda_layout at;
} matrices;

static matrices matrices_of(int32_t dtype, int64_t batch, int64_t rows, int64_t columns, iso_cuda_layout at)
{
    if (at.row == 0)
        at = (iso_cuda_layout){.row = columns, .matrix = rows * columns};
    return (matrices){dtype, batch, rows, columns, at};
}

static matrices matrices_a(const iso_cuda_product *p)
{
    bool t = p->transpose_a;
    return matrices_of(p->dtype, p->batch, t ? p->k : p->m, t ? p->m : p->k, p->of_a);
}

static matrices matrices_b(const iso_cuda_product *p)
{
    bool t = p->transpose_b;
    return matrices_of(p->dtype, p->batch, t ? p->n : p->k, t ? p->k : p->n, p->of_b);
}

static matrices matrices_c(const iso_cuda_product *p)
{
    return matrices_of(p->out_dtype, p->batch, p->m, p->n, p->of_c);
}

/* Column-major it is [columns, rows]. */
static cublasStatus_t make_layout(matrices of, cublasLtMatrixLayoutOpaque_t *layout)
{
    int32_t count = (int32_t)of.batch;
    cublasStatus_t status = iso_cuda_call.cublasLtMatrixLayoutInit_internal(
        layout, sizeof *layout, type_of(of.dtype), (uint64_t)of.columns, (uint64_t)of.rows, of.at.row);
    KEEP(status, iso_cuda_call.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                                &count, sizeof count));
    KEEP(status,
         iso_cuda_call.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                        &of.at.matrix, sizeof of.at.matrix));
    return status;
}

static cublasStatus_t make_layouts(iso_cuda_found_product *f)
{
    cublasStatus_t status = make_layout(matrices_a(&f->product), &f->a);
    KEEP(status, make_layout(matrices_b(&f->product), &f->b));
    KEEP(status, make_layout(matrices_c(&f->product), &f->c));
    return status;
}

/* ---- the algorithm ---- */

/* The largest power of two, up to that of addresses, of which all rows and matrices begin at a multiple. */
static uint32_t alignment(matrices of)
{
    int64_t size = (int64_t)iso_dtype_size((iso_dtype)of.dtype);
    uint32_t multiple = ADDRESS_MULTIPLE;
    while (of.at.row * size % multiple || of.at.unit * size % multiple ||
           (of.batch > 1 && of.at.matrix * size % multiple))
        multiple /= 2;
    return multiple;
}

/* Parts of a sum may be added in a step of their own: its order is always the same. In place it need not be. */
static const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

static cublasStatus_t make_preference(const iso_cuda_product *p, cublasLtMatmulPreference_t *preference)
{
    const uint64_t workspace = MOST_WORKSPACE;
    const uint32_t a = alignment(matrices_b(p)), b = alignment(matrices_a(p)), c = alignment(matrices_c(p));
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t size;
    } set[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
               {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c}};
    cublasStatus_t status = iso_cuda_call.cublasLtMatmulPreferenceCreate(preference);
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        KEEP(status, iso_cuda_call.cublasLtMatmulPreferenceSetAttribute(*preference, set[i].attribute,
                                                                        set[i].value, set[i].size));
    return status;
}

/* The library's mask filters the proposals; this makes sure. */
static bool has_fixed_order(const cublasLtMatmulAlgo_t *algorithm)
{
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;
    size_t written;
    return iso_cuda_call.cublasLtMatmulAlgoConfigGetAttribute(
               algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme, &written) ==
               CUBLAS_STATUS_SUCCESS &&
           (scheme & ~schemes) == 0;
}

/* "proposal 3, algorithm 20" */
static void choice_text(const cublasLtMatmulAlgo_t *algorithm, int number, char choice[ISO_CUDA_CHOICE])
{
    int32_t id = -1;
    size_t written;
    iso_cuda_call.cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id,
                                                       &written);
    snprintf(choice, ISO_CUDA_CHOICE, "proposal %d, algorithm %d", number, (int)id);
}

/* Proposals whose sums have one order. */
typedef struct candidates {
    int count, number[PROPOSALS];
    cublasLtMatmulHeuristicResult_t proposal[PROPOSALS];
} candidates;

static void use(iso_cuda_found_product *f, const cublasLtMatmulHeuristicResult_t *proposal)
{
    f->algorithm = proposal->algo;
    f->workspace = proposal->workspaceSize;
    f->usable = true;
}

/* The choice, or the first. */
static void take_algorithm(iso_cuda_found_product *f, const candidates *c, const char *choice)
{
    char text[ISO_CUDA_CHOICE];
    for (int i = 0; i < c->count && !f->usable; i++) {
        choice_text(&c->proposal[i].algo, c->number[i], text);
        if (!choice || strcmp(choice, text) == 0)
            use(f, &c->proposal[i]);
    }
}

/* The library's handle for the GPU that the thread has entered. Called with the lock. */
static cublasStatus_t find_handle(cublasLtHandle_t *handle)
{
    int gpu = 0;
    if (cudaGetDevice(&gpu) != cudaSuccess || gpu >= ISO_CUDA_GPUS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    cublasStatus_t status =
        handles[gpu] ? CUBLAS_STATUS_SUCCESS : iso_cuda_call.cublasLtCreate(&handles[gpu]);
    if (status != CUBLAS_STATUS_SUCCESS)
        handles[gpu] = NULL;
    *handle = handles[gpu];
    return status;
}

/* The library's proposals; none if it says that the product is not supported. */
static cublasStatus_t propose(iso_cuda_found_product *f, cublasLtHandle_t handle,
                              cublasLtMatmulPreference_t preference,
                              cublasLtMatmulHeuristicResult_t proposal[PROPOSALS], int *count)
{
    *count = 0;
    cublasStatus_t status = iso_cuda_call.cublasLtMatmulAlgoGetHeuristic(
        handle, &f->desc, &f->b, &f->a, &f->c, &f->c, preference, PROPOSALS, proposal, count);
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? CUBLAS_STATUS_SUCCESS : status;
}

/* Makes the descriptors. Called with the lock. False: the library fails, and the error is kept. */
static bool find_candidates(iso_cuda_found_product *f, candidates *c)
{
    cublasLtHandle_t handle = NULL;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t proposal[PROPOSALS];
    int count = 0;
    cublasStatus_t status = find_handle(&handle);
    KEEP(status, make_desc(&f->product, &f->desc));
    KEEP(status, make_layouts(f));
    KEEP(status, make_preference(&f->product, &preference));
    KEEP(status, propose(f, handle, preference, proposal, &count));
    c->count = 0;
    for (int i = 0; i < count && status == CUBLAS_STATUS_SUCCESS; i++)
        if (proposal[i].state == CUBLAS_STATUS_SUCCESS && proposal[i].workspaceSize <= MOST_WORKSPACE &&
            has_fixed_order(&proposal[i].algo)) {
            c->number[c->count] = i;
            c->proposal[c->count++] = proposal[i];
        }
    if (preference)
        iso_cuda_call.cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS)
        keep_error(&f->product, status);
    return status == CUBLAS_STATUS_SUCCESS;
}

/* ---- ops ---- */

#define NUMBERS "%lld x %lld,%lld by %lld,%lld transposed %d,%d epilogue %d tf32 %d"
#define LAYOUTS " rows %lld,%lld,%lld matrices %lld,%lld,%lld units %lld,%lld,%lld"

static bool is_dense(const iso_cuda_product *p)
{
    return p->of_a.row == 0 && p->of_b.row == 0 && p->of_c.row == 0;
}

static void work_text(const iso_cuda_product *p, char text[ISO_CUDA_WORK])
{
    const iso_cuda_layout *a = &p->of_a, *b = &p->of_b, *c = &p->of_c;
    int length = snprintf(text, ISO_CUDA_WORK, "product %s %s " NUMBERS, iso_dtype_name((iso_dtype)p->dtype),
                          iso_dtype_name((iso_dtype)p->out_dtype), (long long)p->batch, (long long)p->m,
                          (long long)p->k, (long long)p->k, (long long)p->n, p->transpose_a, p->transpose_b,
                          p->epilogue, p->tf32);
    if (!is_dense(p))
        snprintf(text + length, ISO_CUDA_WORK - (size_t)length, LAYOUTS, (long long)a->row, (long long)b->row,
                 (long long)c->row, (long long)a->matrix, (long long)b->matrix, (long long)c->matrix,
                 (long long)a->unit, (long long)b->unit, (long long)c->unit);
}

static bool read_op(const char *text, iso_cuda_product *p)
{
    char in[32], out[32];
    long long batch, m, k, again, n, at[9];
    *p = (iso_cuda_product){.batch = 0};
    int read = sscanf(text, "product %31s %31s " NUMBERS LAYOUTS, in, out, &batch, &m, &k, &again, &n,
                      &p->transpose_a, &p->transpose_b, &p->epilogue, &p->tf32, &at[0], &at[1], &at[2],
                      &at[3], &at[4], &at[5], &at[6], &at[7], &at[8]);
    if (read != 11 && read != 20)
        return false;
    p->batch = batch, p->m = m, p->n = n, p->k = k;
    p->dtype = (int32_t)iso_dtype_named(in);
    p->out_dtype = (int32_t)iso_dtype_named(out);
    for (int i = 0; i < 3 && read == 20; i++)
        *(i == 0 ? &p->of_a : i == 1 ? &p->of_b : &p->of_c) = (iso_cuda_layout){at[i], at[3 + i], at[6 + i]};
    return p->epilogue >= 0 && p->epilogue <= (ISO_CUDA_ADD_BIAS | ISO_CUDA_RELU | ISO_CUDA_ADD_TO);
}

/* ---- products that were found ---- */

static bool is_possible(const iso_cuda_product *p)
{
    return p->batch > 0 && p->m > 0 && p->n > 0 && p->k > 0 && p->batch <= INT32_MAX && is_real(p->dtype) &&
           (p->out_dtype == p->dtype || (p->dtype == ISO_BF16 && p->out_dtype == ISO_F32));
}

static void warn_once(const char *product)
{
    static bool warned;
    if (!warned)
        iso_warn(
            "%s: cuBLASLt has no algorithm with a fixed order of summation for '%s': slower kernels with "
            "other bits compute it",
            iso_cuda_gpu_names(), product);
    warned = true;
}

/* Called with the lock. False: the library fails. */
static bool find_algorithm(iso_cuda_found_product *f)
{
    char text[ISO_CUDA_WORK], choice[ISO_CUDA_CHOICE];
    candidates c;
    if (!find_candidates(f, &c))
        return false;
    work_text(&f->product, text);
    bool chosen = iso_cuda_choice_of(text, choice);
    if (chosen)
        take_algorithm(f, &c, choice);
    if (chosen && !f->usable)
        iso_cuda_forget_choice(text);
    take_algorithm(f, &c, NULL);
    if (f->usable)
        iso_cuda_note_op(text);
    else if (f->product.epilogue == 0) /* else it is done without the epilogue */
        warn_once(text);
    return true;
}

/* Called with the lock. What fails is tried again when it is asked for again. */
static iso_cuda_found_product *look_up(const iso_cuda_product *product)
{
    for (iso_cuda_found_product *f = all; f; f = f->next)
        if (memcmp(&f->product, product, sizeof *product) == 0)
            return f;
    iso_cuda_found_product *fresh = iso_new(sizeof *fresh);
    if (!fresh)
        return NULL;
    fresh->product = *product;
    if (!find_algorithm(fresh)) {
        iso_free(fresh);
        return NULL;
    }
    fresh->next = all;
    all = fresh;
    return fresh;
}

static bool assumed;

/* A product that is assumed, with the largest workspace. */
static const iso_cuda_found_product *assume(void)
{
    static const iso_cuda_found_product any = {.usable = true, .workspace = MOST_WORKSPACE};
    const char *given = getenv("ISOGRID_CUBLASLT_LIBRARY");
    return given && strcmp(given, "none") == 0 ? NULL : &any;
}

void iso_cuda_assume_products(void)
{
    assumed = true;
}

const iso_cuda_found_product *iso_cuda_product_find(iso_cuda_product product, int gpu)
{
    if (!is_possible(&product))
        return NULL;
    if (assumed || gpu < 0)
        return assume();
    if (iso_cuda_open_part(ISO_CUDA_CUBLASLT) != ISO_OK)
        return NULL;
    iso_cuda_enter(gpu); /* the library tells an error too */
    product.tf32 = tf32 && product.dtype == ISO_F32;
    pthread_mutex_lock(&lock);
    const iso_cuda_found_product *found = look_up(&product);
    pthread_mutex_unlock(&lock);
    return found && found->usable ? found : NULL;
}

size_t iso_cuda_product_workspace(const iso_cuda_found_product *found)
{
    return found->workspace > 0 ? found->workspace + WORKSPACE_MULTIPLE : 0;
}

/* ---- running ---- */

bool iso_cuda_product_aligned(const iso_cuda_operands *operands)
{
    return ((uintptr_t)operands->a | (uintptr_t)operands->b | (uintptr_t)operands->c |
            (uintptr_t)operands->bias) %
               ADDRESS_MULTIPLE ==
           0;
}

void iso_cuda_product_run(const iso_cuda_found_product *found, const iso_cuda_operands *operands,
                          const iso_stream *stream)
{
    static const float one_f32 = 1, zero_f32 = 0;
    static const double one_f64 = 1, zero_f64 = 0;
    bool wide = found->product.dtype == ISO_F64;
    const void *one = wide ? (const void *)&one_f64 : &one_f32,
               *zero = wide ? (const void *)&zero_f64 : &zero_f32,
               *of_c = found->product.epilogue & ISO_CUDA_ADD_TO ? one : zero;
    iso_cuda_found_product f = *found; /* the descriptors are the caller's: another thread may run the same */
    uintptr_t workspace = (uintptr_t)operands->workspace;
    workspace = (workspace + WORKSPACE_MULTIPLE - 1) / WORKSPACE_MULTIPLE * WORKSPACE_MULTIPLE;
    pthread_mutex_lock(&lock);
    cublasLtHandle_t handle = NULL;
    cublasStatus_t status = find_handle(&handle);
    pthread_mutex_unlock(&lock);
    if (f.product.epilogue & ISO_CUDA_ADD_BIAS)
        KEEP(status,
             set_desc(&f.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &operands->bias, sizeof operands->bias));
    KEEP(status, iso_cuda_call.cublasLtMatmul(handle, &f.desc, one, operands->b, &f.b, operands->a, &f.a,
                                              of_c, operands->c, &f.c, operands->c, &f.c, &f.algorithm,
                                              f.workspace > 0 ? (void *)workspace : NULL, f.workspace,
                                              ((const iso_cuda_queue *)stream)->cuda));
    if (status != CUBLAS_STATUS_SUCCESS)
        keep_error(&f.product, status);
}

/* ---- measuring ---- */

bool iso_cuda_product_choose(const char *op, const char *choice)
{
    char text[ISO_CUDA_WORK];
    bool chosen = false;
    pthread_mutex_lock(&lock);
    for (iso_cuda_found_product *f = all; f && !chosen; f = f->next) {
        work_text(&f->product, text);
        if (!f->usable || strcmp(text, op) != 0)
            continue;
        candidates c;
        f->usable = false;
        if (find_candidates(f, &c))
            take_algorithm(f, &c, choice);
        chosen = f->usable;
    }
    pthread_mutex_unlock(&lock);
    return chosen;
}

/* The product that is timed. */
typedef struct timed {
    iso_cuda_found_product found;
    iso_cuda_operands operands;
    iso_stream *stream;
} timed;

static void queue_timed(void *argument)
{
    const timed *t = argument;
    iso_cuda_product_run(&t->found, &t->operands, t->stream);
}

static void time_candidates(timed *t, const candidates *c, iso_tuning_result *tuned)
{
    char choice[ISO_CUDA_CHOICE];
    double seconds;
    for (int i = 0; i < c->count; i++) {
        use(&t->found, &c->proposal[i]);
        choice_text(&c->proposal[i].algo, c->number[i], choice);
        if (iso_cuda_time(t->stream, queue_timed, t, &seconds))
            iso_cuda_add_timed(tuned, choice, seconds);
    }
}

/* The bytes from the first element to the last, padded. */
static size_t reach(matrices of)
{
    int64_t last = (of.batch - 1) * of.at.matrix + (of.rows - 1) * of.at.row + of.columns;
    return iso_padded((size_t)last * iso_dtype_size((iso_dtype)of.dtype));
}

iso_status iso_cuda_product_measure(const char *op, iso_stream *stream, iso_tuning_result *tuned)
{
    timed t = {.stream = stream};
    iso_cuda_product *p = &t.found.product;
    char *memory = NULL;
    if (!read_op(op, p) || !is_possible(p))
        return iso_error(ISO_INVALID, "'%s' is no op of cuBLASLt's", op);
    size_t a = reach(matrices_a(p)), b = reach(matrices_b(p)), c = reach(matrices_c(p)),
           bias = iso_padded((size_t)p->n * iso_dtype_size((iso_dtype)p->out_dtype));
    iso_status status = iso_cuda_timed_memory(stream, a + b + c + bias + MOST_WORKSPACE + WORKSPACE_MULTIPLE,
                                              (void **)&memory);
    if (status == ISO_OK) {
        t.operands = (iso_cuda_operands){memory, memory + a, memory + a + b, memory + a + b + bias,
                                         memory + a + b + bias + c};
        candidates found;
        pthread_mutex_lock(&lock);
        find_candidates(&t.found, &found);
        pthread_mutex_unlock(&lock);
        time_candidates(&t, &found, tuned);
    }
    cudaFree(memory);
    return status;
}
