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
#include <stdio.h>

#include "runtime/backend/cuda/convolution_call.h"
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

/* ---- ops: all but the GPU ---- */

static bool is_possible(const iso_cuda_convolution *v)
{
    bool real = v->dtype == ISO_F32 || v->dtype == ISO_F64 || v->dtype == ISO_BF16;
    return real && (v->kind == ISO_CUDA_CONVOLVE || v->epilogue == 0) && v->n > 0 && v->h > 0 && v->w > 0 &&
           v->c > 0 && v->r > 0 && v->s > 0 && v->cg > 0 && v->f > 0 && v->p > 0 && v->q > 0 &&
           v->before[0] >= 0 && v->before[1] >= 0 && v->after[0] >= 0 && v->after[1] >= 0;
}

static const struct {
    const char *name;
    int64_t kind, epilogue;
} kinds[] = {{"convolution", ISO_CUDA_CONVOLVE, 0},
             {"convolution+bias", ISO_CUDA_CONVOLVE, ISO_CUDA_ADD_BIAS},
             {"convolution+bias+relu", ISO_CUDA_CONVOLVE, ISO_CUDA_ADD_BIAS | ISO_CUDA_RELU},
             {"convolution-input", ISO_CUDA_CONVOLVE_INPUT, 0},
             {"convolution-kernel", ISO_CUDA_CONVOLVE_KERNEL, 0}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const char *kind_of(const iso_cuda_convolution *v)
{
    int i = 0;
    while (kinds[i].kind != v->kind || kinds[i].epilogue != v->epilogue)
        i++;
    return kinds[i].name;
}

#define TWO "%lld,%lld"
#define NUMBERS                                                                                              \
    "x %lld,%lld,%lld,%lld kernel %lld,%lld,%lld,%lld y " TWO " stride " TWO " dilation " TWO " zeros " TWO  \
    " and " TWO " tf32 %lld"

/* The numbers of an op, in the order of its text. */
enum { MEMBERS = 19 };
static void list_members(iso_cuda_convolution *v, int64_t *list[MEMBERS])
{
    int64_t *const members[MEMBERS] = {&v->n,         &v->h,         &v->w,        &v->c,           &v->r,
                                       &v->s,         &v->cg,        &v->f,        &v->p,           &v->q,
                                       v->stride,     v->stride + 1, v->dilation,  v->dilation + 1, v->before,
                                       v->before + 1, v->after,      v->after + 1, &v->tf32};
    memcpy(list, members, sizeof members);
}

static void work_text(const iso_cuda_convolution *of, char text[ISO_CUDA_WORK])
{
    iso_cuda_convolution v = *of;
    int64_t *list[MEMBERS];
    long long n[MEMBERS];
    list_members(&v, list);
    for (int i = 0; i < MEMBERS; i++)
        n[i] = *list[i];
    snprintf(text, ISO_CUDA_WORK, "%s %s " NUMBERS, kind_of(&v), iso_dtype_name((iso_dtype)v.dtype), n[0],
             n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11], n[12], n[13], n[14], n[15],
             n[16], n[17], n[18]);
}

/* The number of a kind; -1: none has this name. */
static int kind_named(const char *name)
{
    int kind = KINDS - 1;
    while (kind >= 0 && strcmp(kinds[kind].name, name) != 0)
        kind--;
    return kind;
}

static bool read_op(const char *text, iso_cuda_convolution *v)
{
    char kind[32], type[32];
    int64_t *list[MEMBERS];
    long long n[MEMBERS];
    *v = (iso_cuda_convolution){.gpu = 0};
    list_members(v, list);
    int read =
        sscanf(text, "%31s %31s " NUMBERS, kind, type, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7,
               n + 8, n + 9, n + 10, n + 11, n + 12, n + 13, n + 14, n + 15, n + 16, n + 17, n + 18);
    for (int i = 0; i < MEMBERS && read == MEMBERS + 2; i++)
        *list[i] = n[i];
    if (read != MEMBERS + 2)
        return false;
    int named = kind_named(kind);
    v->kind = named < 0 ? -1 : kinds[named].kind;
    v->epilogue = named < 0 ? 0 : kinds[named].epilogue;
    v->dtype = iso_dtype_named(type);
    return named >= 0 && is_possible(v);
}

/* ---- convolutions that were found ---- */

/* The library's handle for the GPU that the thread has entered. Called with the lock. */
static cudnnStatus_t find_handle(int64_t gpu, cudnnHandle_t *handle)
{
    cudnnStatus_t status = handles[gpu] ? CUDNN_STATUS_SUCCESS : iso_cuda_call.cudnnCreate(&handles[gpu]);
    if (status != CUDNN_STATUS_SUCCESS)
        handles[gpu] = NULL;
    *handle = handles[gpu];
    return status;
}

static bool take(void *argument, const iso_cudnn_made *made)
{
    (void)argument, (void)made;
    return true;
}

/* Makes the plan by the choice, or by the first engine. Called with the lock. False: the library fails, and the error
 * is kept. */
static bool make(iso_cuda_found_convolution *f, const char *choice)
{
    cudnnHandle_t handle = NULL;
    cudnnStatus_t status = find_handle(f->convolution.gpu, &handle);
    f->usable = false;
    if (status == CUDNN_STATUS_SUCCESS)
        status = iso_cudnn_make(handle, &f->convolution, choice, take, NULL, &f->made);
    if (status == CUDNN_STATUS_SUCCESS)
        f->usable = f->made.plan != NULL;
    else
        keep_error(&f->convolution, status);
    return status == CUDNN_STATUS_SUCCESS;
}

static bool make_fresh(iso_cuda_found_convolution *f)
{
    char text[ISO_CUDA_WORK], choice[ISO_CUDA_CHOICE];
    work_text(&f->convolution, text);
    bool chosen = iso_cuda_choice_of(text, choice), good = !chosen || make(f, choice);
    if (good && chosen && !f->usable)
        iso_cuda_forget_choice(text);
    if (good && !f->usable)
        good = make(f, NULL);
    if (f->usable)
        iso_cuda_note_op(text);
    return good;
}

/* Called with the lock. What fails is tried again when it is asked for again. */
static iso_cuda_found_convolution *look_up(const iso_cuda_convolution *convolution)
{
    for (iso_cuda_found_convolution *f = all; f; f = f->next)
        if (memcmp(&f->convolution, convolution, sizeof *convolution) == 0)
            return f;
    iso_cuda_found_convolution *fresh = iso_new(sizeof *fresh);
    if (!fresh)
        return NULL;
    fresh->convolution = *convolution;
    if (!make_fresh(fresh)) {
        iso_free(fresh);
        return NULL;
    }
    fresh->next = all;
    all = fresh;
    return fresh;
}

const iso_cuda_found_convolution *iso_cuda_convolution_find(iso_cuda_convolution convolution, int gpu)
{
    if (gpu < 0 || !is_possible(&convolution) || !iso_cuda_uses_cudnn() || iso_cuda_enter(gpu) != cudaSuccess)
        return NULL;
    convolution.gpu = gpu;
    convolution.tf32 = convolution.dtype == ISO_F32 && (convolution.tf32 || iso_cuda_allows_tf32());
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

static cudnnBackendDescriptor_t make_pack(cudnnStatus_t *status, const iso_cuda_convolution *v,
                                          const iso_cuda_convolved *arrays, void *workspace)
{
    static const int64_t numbers[] = {ISO_CUDNN_X, ISO_CUDNN_KERNEL, ISO_CUDNN_Y, ISO_CUDNN_BIAS};
    const void *addresses[] = {arrays->x, arrays->kernel, arrays->y, arrays->bias};
    const int64_t count = v->epilogue ? 4 : 3;
    cudnnBackendDescriptor_t pack = iso_cudnn_create(status, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    iso_cudnn_set(status, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses);
    iso_cudnn_set(status, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, numbers);
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
        make_pack(&status, &found->convolution, arrays, found->made.workspace > 0 ? (void *)workspace : NULL);
    if (status == CUDNN_STATUS_SUCCESS)
        status = execute(found, pack, stream);
    if (pack)
        iso_cuda_call.cudnnBackendDestroyDescriptor(pack);
    if (status != CUDNN_STATUS_SUCCESS)
        keep_error(&found->convolution, status);
}

/* ---- measuring ---- */

bool iso_cuda_convolution_choose(const char *op, const char *choice)
{
    char text[ISO_CUDA_WORK];
    bool any = false, all_usable = true;
    pthread_mutex_lock(&lock);
    for (iso_cuda_found_convolution *f = all; f; f = f->next) {
        work_text(&f->convolution, text);
        if (!f->usable || strcmp(text, op) != 0)
            continue;
        iso_cudnn_destroy(&f->made); /* no step has used it */
        any = true;
        all_usable = iso_cuda_enter((int)f->convolution.gpu) == cudaSuccess && make(f, choice) && f->usable &&
                     all_usable;
    }
    pthread_mutex_unlock(&lock);
    return any && all_usable;
}

/* The convolution that is timed. */
typedef struct timed {
    iso_cuda_found_convolution found;
    iso_cuda_convolved arrays;
    iso_stream *stream;
    iso_tuning_result *tuned;
} timed;

static void queue_timed(void *argument)
{
    const timed *t = argument;
    iso_cuda_convolution_run(&t->found, &t->arrays, t->stream);
}

static bool time_engine(void *argument, const iso_cudnn_made *made)
{
    timed *t = argument;
    double seconds;
    t->found.made = *made;
    if (made->workspace > 0 &&
        cudaMalloc(&t->arrays.workspace, iso_cuda_convolution_workspace(&t->found)) != cudaSuccess) {
        cudaGetLastError(); /* there is no room for this one */
        return false;
    }
    if (iso_cuda_time(t->stream, queue_timed, t, &seconds))
        iso_cuda_add_timed(t->tuned, made->choice, seconds);
    cudaFree(t->arrays.workspace);
    t->arrays.workspace = NULL;
    return false;
}

static void measure_on(const iso_cuda_convolution *v, timed *t)
{
    iso_cudnn_made made;
    cudnnHandle_t handle = NULL;
    pthread_mutex_lock(&lock);
    cudnnStatus_t status = find_handle(v->gpu, &handle);
    pthread_mutex_unlock(&lock);
    t->found.convolution = *v;
    if (status == CUDNN_STATUS_SUCCESS)
        status = iso_cudnn_make(handle, v, NULL, time_engine, t, &made);
    if (status != CUDNN_STATUS_SUCCESS)
        keep_error(v, status);
}

iso_status iso_cuda_convolution_measure(const char *op, iso_stream *stream, iso_tuning_result *tuned)
{
    iso_cuda_convolution v;
    int gpu = 0;
    if (!read_op(op, &v) || !iso_cuda_uses_cudnn())
        return iso_error(ISO_INVALID, "'%s' is no op of cuDNN's", op);
    iso_status status = iso_cuda_status(cudaGetDevice(&gpu), "a convolution cannot be timed");
    v.gpu = gpu;
    const int64_t size = (int64_t)iso_dtype_size((iso_dtype)v.dtype);
    size_t x = iso_cuda_conv_round((size_t)(v.n * v.h * v.w * v.c * size)),
           kernel = iso_cuda_conv_round((size_t)(v.f * v.r * v.s * v.cg * size)),
           y = iso_cuda_conv_round((size_t)(v.n * v.p * v.q * v.f * size)), bias = (size_t)(v.f * size);
    char *memory = NULL;
    if (status == ISO_OK)
        status = iso_cuda_timed_memory(stream, x + kernel + y + bias, (void **)&memory);
    timed t = {.stream = stream, .tuned = tuned};
    t.arrays = (iso_cuda_convolved){memory, memory + x, memory + x + kernel, memory + x + kernel + y, NULL};
    if (status == ISO_OK)
        measure_on(&v, &t);
    cudaFree(memory);
    return status;
}

#else

bool iso_cuda_convolution_choose(const char *op, const char *choice)
{
    (void)op, (void)choice;
    return false;
}

iso_status iso_cuda_convolution_measure(const char *op, iso_stream *stream, iso_tuning_result *tuned)
{
    (void)stream, (void)tuned;
    return iso_error(ISO_INVALID, "'%s' is no op of this build's", op);
}

/* Built without cuDNN's header: no convolution is found. */
const iso_cuda_found_convolution *iso_cuda_convolution_find(iso_cuda_convolution convolution, int gpu)
{
    (void)convolution, (void)gpu;
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
