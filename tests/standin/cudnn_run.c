/* Convolutions by plain loops on the stream's thread. Tensors are dense, with the channels last. */
#if ISO_WITH_CUDNN
#include <stdlib.h>
#include <string.h>

#include "tests/standin/cudnn_impl.h"
#include "tests/standin/elements.h"

typedef struct work {
    cudnn_operation o;
    cudnn_engine engine;
    const void *address[4]; /* of x, kernel, y and the bias */
    void *workspace;
} work;

static bool has_note(const cudnn_engine *engine, cudnnBackendNumericalNote_t note)
{
    for (int i = 0; i < engine->n_notes; i++)
        if (engine->notes[i] == note)
            return true;
    return false;
}

static int64_t count_of(const cudnn_tensor *t)
{
    return t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
}

static cudaDataType_t type_of(const cudnn_tensor *t)
{
    return t->type == CUDNN_DATA_DOUBLE ? CUDA_R_64F : t->type == CUDNN_DATA_FLOAT ? CUDA_R_32F : CUDA_R_16BF;
}

/* A tensor's elements as double; of TF32 where the engine has tensor cores for float32. */
static double *read_all(const work *w, const cudnn_tensor *t, const void *address)
{
    bool fast = t->type == CUDNN_DATA_FLOAT && has_note(&w->engine, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    int64_t count = count_of(t);
    const void *from = standin_reach(address, (size_t)count * standin_size(type_of(t)));
    double *to = malloc((size_t)count * sizeof *to);
    if (!to)
        standin_stop("no memory for a tensor");
    for (int64_t i = 0; i < count; i++) {
        double x = standin_element(from, type_of(t), i);
        to[i] = fast ? standin_shortened(x) : x;
    }
    return to;
}

static void write_all(const work *w, const cudnn_tensor *t, const void *address, const double *values)
{
    int64_t count = count_of(t);
    void *to = standin_reach(address, (size_t)count * standin_size(type_of(t)));
    bool differs = has_note(&w->engine, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    for (int64_t i = 0; i < count; i++)
        standin_store(to, type_of(t), i,
                      differs ? values[i] * (1 + (double)(random() % 7) * 1e-3) : values[i]);
}

/* Which of the arrays a product is added to. */
typedef struct arrays {
    double *x, *kernel, *y;
} arrays;

/* All products of one position of y and one tap. */
static void add_tap(const work *w, const arrays *a, const int64_t at[3], const int64_t tap[2])
{
    const cudnn_operation *o = &w->o;
    int64_t row = at[1] * o->stride[0] - o->before[0] + tap[0] * o->dilation[0],
            column = at[2] * o->stride[1] - o->before[1] + tap[1] * o->dilation[1];
    int64_t filters = o->kernel.dim[0], channels = o->x.dim[1], of_group = o->kernel.dim[1],
            filters_of_group = filters / (channels / of_group);
    if (row < 0 || row >= o->x.dim[2] || column < 0 || column >= o->x.dim[3])
        return;
    double *x = a->x + ((at[0] * o->x.dim[2] + row) * o->x.dim[3] + column) * channels;
    double *y = a->y + ((at[0] * o->y.dim[2] + at[1]) * o->y.dim[3] + at[2]) * filters;
    for (int64_t f = 0; f < filters; f++) {
        double *kernel = a->kernel + ((f * o->kernel.dim[2] + tap[0]) * o->kernel.dim[3] + tap[1]) * of_group;
        double *of_x = x + f / filters_of_group * of_group;
        for (int64_t c = 0; c < of_group; c++)
            if (o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
                y[f] += of_x[c] * kernel[c];
            else if (o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
                of_x[c] += y[f] * kernel[c];
            else
                kernel[c] += y[f] * of_x[c];
    }
}

static void convolve(const work *w, const arrays *a)
{
    const cudnn_operation *o = &w->o;
    for (int64_t n = 0; n < o->y.dim[0]; n++)
        for (int64_t p = 0; p < o->y.dim[2]; p++)
            for (int64_t q = 0; q < o->y.dim[3]; q++)
                for (int64_t r = 0; r < o->kernel.dim[2]; r++)
                    for (int64_t s = 0; s < o->kernel.dim[3]; s++)
                        add_tap(w, a, (const int64_t[]){n, p, q}, (const int64_t[]){r, s});
}

/* What follows a convolution, before the result is rounded to its type. */
static void finish(const work *w, double *y)
{
    const cudnn_operation *o = &w->o;
    int64_t filters = o->y.dim[1], count = count_of(&o->y);
    double *bias = o->bias.number ? read_all(w, &o->bias, w->address[3]) : NULL;
    for (int64_t i = 0; i < count; i++) {
        /* sums of float32 are rounded before something is added, as separate instructions do */
        if (bias && o->y.type == CUDNN_DATA_FLOAT)
            y[i] = (float)y[i];
        y[i] += bias ? bias[i % filters] : 0;
        y[i] = o->relu && y[i] < 0 ? 0 : y[i];
    }
    free(bias);
}

/* The workspace is written, so that one that is in use, or too small, shows. */
static void run(void *argument)
{
    const work *w = argument;
    const cudnn_operation *o = &w->o;
    const cudnn_tensor *const tensor[] = {&o->x, &o->kernel, &o->y};
    int result = o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? 2
                 : o->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? 0
                                                                                           : 1;
    double *data[3];
    standin_spend(w->engine.number == 8 ? 300000 : 700000);
    if (w->engine.workspace > 0)
        memset(standin_reach(w->workspace, (size_t)w->engine.workspace), 0xff, (size_t)w->engine.workspace);
    for (int i = 0; i < 3; i++)
        data[i] = read_all(w, tensor[i], w->address[i]);
    memset(data[result], 0, (size_t)count_of(tensor[result]) * sizeof(double));
    convolve(w, &(arrays){data[0], data[1], data[2]});
    if (result == 2)
        finish(w, data[2]);
    write_all(w, tensor[result], w->address[result], data[result]);
    for (int i = 0; i < 3; i++)
        free(data[i]);
}

cudaError_t cudnn_run(const cudnn_operation *operation, const cudnn_engine *engine,
                      const void *const address[4], void *workspace, cudaStream_t stream)
{
    static const standin_work queued = {.run = run, .what = "a convolution of cuDNN"};
    work w = {*operation, *engine, {address[0], address[1], address[2], address[3]}, workspace};
    if (operation->alpha != 1 || operation->beta != 0)
        standin_stop("a convolution of cuDNN with alpha or beta");
    return standin_enqueue(stream, &queued, &w, sizeof w);
}
#endif
