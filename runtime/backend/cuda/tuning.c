#include "runtime/backend/cuda/tuning.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/backend/cuda/cublaslt.h"
#include "runtime/backend/cuda/cudnn.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/functions.h"
#include "runtime/backend/cuda/gpu.h"
#include "runtime/backend/cuda/refusals.h"
#include "runtime/base/memory.h"

/* ---- ops and choices ---- */

typedef struct op {
    bool noted;                                        /* it was found here */
    char text[ISO_CUDA_WORK], choice[ISO_CUDA_CHOICE]; /* "": none */
} op;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static op **ops; /* in the order in which they came */
static int n_ops;

/* Called with the lock. NULL: no memory, if `add`; else it is unknown. */
static op *look_up(const char *text, bool add)
{
    for (int i = 0; i < n_ops; i++)
        if (strcmp(ops[i]->text, text) == 0)
            return ops[i];
    if (!add)
        return NULL;
    op **more = iso_grow(ops, (size_t)n_ops, (size_t)n_ops + 1, sizeof *ops);
    ops = more ? more : ops;
    op *fresh = more ? iso_new(sizeof *fresh) : NULL;
    if (fresh) {
        snprintf(fresh->text, sizeof fresh->text, "%s", text);
        ops[n_ops++] = fresh;
    }
    return fresh;
}

bool iso_cuda_choice_of(const char *text, char choice[ISO_CUDA_CHOICE])
{
    pthread_mutex_lock(&lock);
    const op *w = look_up(text, false);
    bool chosen = w && w->choice[0];
    if (chosen)
        memcpy(choice, w->choice, ISO_CUDA_CHOICE);
    pthread_mutex_unlock(&lock);
    return chosen;
}

void iso_cuda_forget_choice(const char *text)
{
    pthread_mutex_lock(&lock);
    op *w = look_up(text, false);
    if (w)
        w->choice[0] = 0;
    pthread_mutex_unlock(&lock);
}

void iso_cuda_note_op(const char *text)
{
    pthread_mutex_lock(&lock);
    op *w = look_up(text, true);
    if (w)
        w->noted = true;
    pthread_mutex_unlock(&lock);
}

static const char *noted_op(int number)
{
    const char *text = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_ops && !text; i++)
        if (ops[i]->noted && number-- == 0)
            text = ops[i]->text;
    pthread_mutex_unlock(&lock);
    return text;
}

static const char *choice_of(const char *text, bool *noted)
{
    pthread_mutex_lock(&lock);
    const op *w = look_up(text, false);
    const char *choice = w && w->choice[0] ? w->choice : NULL;
    *noted = w && w->noted;
    pthread_mutex_unlock(&lock);
    return choice;
}

static iso_status choose(const char *text, const char *choice)
{
    pthread_mutex_lock(&lock);
    op *w = look_up(text, true);
    bool noted = w && w->noted, chosen = w && w->choice[0];
    if (w && !chosen) /* plans that were captured have the first one */
        snprintf(w->choice, sizeof w->choice, "%s", choice);
    pthread_mutex_unlock(&lock);
    if (!w)
        return iso_no_memory("the choices of --tune");
    if (noted && !chosen && !iso_cuda_product_choose(text, choice) &&
        !iso_cuda_convolution_choose(text, choice))
        return iso_error(ISO_FAILED, "%s: '%s' cannot be done by '%s'", iso_cuda_entered_name(), text,
                         choice);
    return ISO_OK;
}

/* ---- the machine ---- */

static void version_text(iso_cuda_part part, char *text, size_t size)
{
    iso_cuda_part_facts facts;
    iso_cuda_find_opened(part, &facts);
    snprintf(text, size, "%s", facts.found ? facts.version : "none");
}

static bool machine(int member, const char **name, char *value, size_t size)
{
    static const char *const names[] = {"device", "driver", "cuda", "cublaslt", "cudnn"};
    int version = 0;
    if (member >= (int)(sizeof names / sizeof *names))
        return false;
    *name = names[member];
    if (member == 0)
        snprintf(value, size, "%s", iso_cuda_model_name(0));
    else if (member < 3) {
        if (member == 1)
            cudaDriverGetVersion(&version);
        else
            cudaRuntimeGetVersion(&version);
        snprintf(value, size, "%d.%d", version / 1000, version % 1000 / 10);
    } else if (member == 4 && !iso_cuda_uses_cudnn())
        snprintf(value, size, "none");
    else
        version_text(member == 3 ? ISO_CUDA_CUBLASLT : ISO_CUDA_CUDNN, value, size);
    return true;
}

/* ---- timing ---- */

enum { ROUNDS = 3, MOST_TIMES = 20 };
static const double seconds_of_round = 2e-3;

typedef struct stopwatch {
    iso_cuda_queue *stream;
    cudaEvent_t begin, end;
} stopwatch;

/* The seconds of so many times; negative: something failed. */
static double time_round(const stopwatch *c, void (*queue)(void *argument), void *argument, int times)
{
    float milliseconds = 0;
    cudaStream_t stream = c->stream->cuda;
    cudaError_t error = cudaEventRecord(c->begin, stream);
    for (int i = 0; i < times && error == cudaSuccess; i++) {
        queue(argument);
        error = c->stream->error;
    }
    if (error == cudaSuccess)
        error = cudaEventRecord(c->end, stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(stream);
    if (error == cudaSuccess)
        error = cudaEventElapsedTime(&milliseconds, c->begin, c->end);
    return error != cudaSuccess || iso_cuda_refusal() ? -1 : 1e-3 * milliseconds / times;
}

/* Once to load what the library loads, once to see how long it takes. */
static double time_all(const stopwatch *c, void (*queue)(void *argument), void *argument)
{
    double best = time_round(c, queue, argument, 1),
           one = best < 0 ? best : time_round(c, queue, argument, 1);
    int times = one > 0 && one < seconds_of_round ? (int)(seconds_of_round / one) : 1;
    times = times < MOST_TIMES ? times : MOST_TIMES;
    best = one;
    for (int i = 0; i < ROUNDS && best >= 0; i++) {
        double seconds = time_round(c, queue, argument, times);
        best = seconds < best ? seconds : best;
    }
    return best;
}

/* What cannot be queued is no candidate, and no error of the stream. */
bool iso_cuda_time(iso_stream *stream, void (*queue)(void *argument), void *argument, double *seconds)
{
    stopwatch c = {.stream = (iso_cuda_queue *)stream};
    const cudaError_t before = c.stream->error;
    c.stream->error = cudaSuccess;
    *seconds = -1;
    if (cudaEventCreateWithFlags(&c.begin, cudaEventDefault) == cudaSuccess) {
        if (cudaEventCreateWithFlags(&c.end, cudaEventDefault) == cudaSuccess) {
            *seconds = time_all(&c, queue, argument);
            cudaEventDestroy(c.end);
        }
        cudaEventDestroy(c.begin);
    }
    c.stream->error = before;
    return *seconds >= 0;
}

/* Bytes 0x3c make 0.011 of float32 and of bfloat16, and 1.5e-18 of float64. */
iso_status iso_cuda_timed_memory(iso_stream *stream, size_t bytes, void **memory)
{
    *memory = NULL;
    cudaError_t error = cudaMalloc(memory, bytes);
    if (error == cudaErrorMemoryAllocation)
        return iso_cuda_no_memory(bytes, "the arrays of an op that --tune measures");
    if (error == cudaSuccess)
        error = cudaMemsetAsync(*memory, 0x3c, bytes, ((const iso_cuda_queue *)stream)->cuda);
    return iso_cuda_status(error, "an op cannot be timed");
}

void iso_cuda_add_timed(iso_tuning_result *tuned, const char *choice, double seconds)
{
    if (tuned->candidates++ == 0)
        tuned->by_rule = seconds;
    if (tuned->candidates > 1 && seconds >= tuned->seconds)
        return;
    tuned->seconds = seconds;
    snprintf(tuned->choice, sizeof tuned->choice, "%s", choice);
}

static iso_status measure(const char *text, iso_stream *stream, iso_tuning_result *tuned)
{
    *tuned = (iso_tuning_result){.candidates = 0};
    iso_status status = iso_cuda_status(iso_cuda_enter_stream(stream), "an op cannot be timed");
    if (status == ISO_OK)
        status = text[0] == 'p' ? iso_cuda_product_measure(text, stream, tuned)
                                : iso_cuda_convolution_measure(text, stream, tuned);
    const char *refusal = iso_cuda_refusal();
    if (status == ISO_OK && tuned->candidates == 0)
        status = iso_error(ISO_FAILED, "%s: no algorithm does the op '%s'%s%s", iso_cuda_entered_name(), text,
                           refusal ? ": " : "", refusal ? refusal : "");
    return status;
}

const iso_backend_tuning iso_cuda_tuning = {
    .machine = machine, .op = noted_op, .choice = choice_of, .choose = choose, .measure = measure};
