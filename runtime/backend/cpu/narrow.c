#include "runtime/backend/cpu/narrow.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/list.h"
#include "runtime/backend/cpu/reference/list.h"
#include "runtime/backend/cpu/reference/reference.h"

enum { LINE = 64 };

/* A call in float32, and where its operands are in the scratch memory of the call in bfloat16. */
typedef struct widened {
    iso_kernel_call call;
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    size_t bytes; /* of the operands */
} widened;

bool iso_narrow_has(const iso_kernel_call *call)
{
    for (int i = 0; i < call->n_inputs; i++)
        if (call->in[i].dtype == ISO_BF16)
            return true;
    for (int i = 0; i < call->n_outputs; i++)
        if (call->out[i].dtype == ISO_BF16)
            return true;
    return false;
}

/* Kernels may read a line past the end of an input. */
static void widen_array(const iso_array *array, char *scratch, iso_array *wide, size_t *bytes)
{
    *wide = *array;
    if (array->dtype != ISO_BF16)
        return;
    wide->dtype = ISO_F32;
    wide->data = scratch ? scratch + *bytes : NULL;
    *bytes += ((size_t)iso_array_count(array) * sizeof(float) + 2 * LINE - 1) / LINE * LINE;
}

static void widen_call(const iso_kernel_call *call, widened *w)
{
    w->call = *call;
    w->call.in = w->in;
    w->call.out = w->out;
    w->bytes = 0;
    for (int i = 0; i < call->n_inputs; i++)
        widen_array(&call->in[i], call->scratch, &w->in[i], &w->bytes);
    for (int i = 0; i < call->n_outputs; i++)
        widen_array(&call->out[i], call->scratch, &w->out[i], &w->bytes);
    w->call.scratch = call->scratch ? (char *)call->scratch + w->bytes : NULL;
}

static void to_float(const iso_array *narrow, const iso_array *wide)
{
    iso_cpu_functions()->f32_of_bf16(iso_array_count(narrow), narrow->data, wide->data);
}

static void round_off(const iso_array *wide, const iso_array *narrow)
{
    iso_cpu_functions()->bf16_of_f32(iso_array_count(narrow), wide->data, narrow->data);
}

static void run_whole(const iso_kernel *kernel, const iso_kernel_call *call)
{
    widened w;
    widen_call(call, &w);
    for (int i = 0; i < call->n_inputs; i++)
        if (call->in[i].dtype == ISO_BF16)
            to_float(&call->in[i], &w.in[i]);
    kernel->run(&w.call);
    for (int i = 0; i < call->n_outputs; i++)
        if (call->out[i].dtype == ISO_BF16)
            round_off(&w.out[i], &call->out[i]);
}

static size_t whole_scratch(const iso_kernel *kernel, const iso_kernel_call *call)
{
    widened w;
    widen_call(call, &w);
    return w.bytes + (kernel->scratch ? kernel->scratch(&w.call) : 0);
}

/* ---- one function of each kind for each kernel: a kernel's functions are not given the kernel ---- */

#define KERNEL(name)                                                                                         \
    static void run_cpu_##name(const iso_kernel_call *call)                                                  \
    {                                                                                                        \
        run_whole(&iso_cpu_##name, call);                                                                    \
    }                                                                                                        \
    static size_t scratch_cpu_##name(const iso_kernel_call *call)                                            \
    {                                                                                                        \
        return whole_scratch(&iso_cpu_##name, call);                                                         \
    }
#include "runtime/backend/cpu/list.h"

#define KERNEL(name)                                                                                         \
    static void run_reference_##name(const iso_kernel_call *call)                                            \
    {                                                                                                        \
        run_whole(&iso_reference_##name, call);                                                              \
    }                                                                                                        \
    static size_t scratch_reference_##name(const iso_kernel_call *call)                                      \
    {                                                                                                        \
        return whole_scratch(&iso_reference_##name, call);                                                   \
    }
#include "runtime/backend/cpu/reference/list.h"

typedef struct narrowed {
    const iso_kernel *wide;
    void (*run)(const iso_kernel_call *call);
    size_t (*scratch)(const iso_kernel_call *call);
} narrowed;

static const narrowed list[] = {
#define KERNEL(name) {&iso_cpu_##name, run_cpu_##name, scratch_cpu_##name},
#include "runtime/backend/cpu/list.h"
#define KERNEL(name) {&iso_reference_##name, run_reference_##name, scratch_reference_##name},
#include "runtime/backend/cpu/reference/list.h"
};
enum { KERNELS = sizeof list / sizeof *list };

static iso_kernel kernels[KERNELS];
static char names[KERNELS][48];

static void fill_in(void)
{
    for (int i = 0; i < KERNELS; i++) {
        snprintf(names[i], sizeof names[i], "%s in float32", list[i].wide->name);
        kernels[i] = (iso_kernel){
            .op = list[i].wide->op,
            .name = names[i],
            .scratch = list[i].scratch,
            .run = list[i].run,
            .in_place = true, /* the inputs are copied first */
            .by_rows = list[i].wide->by_rows,
        };
    }
}

const iso_kernel *iso_narrow_own(const char *op, const iso_kernel_call *call)
{
    static const iso_kernel *const own[] = {
        &iso_cpu_cast,
        &iso_cpu_add,
        &iso_cpu_subtract,
        &iso_cpu_multiply,
        &iso_cpu_divide,
        &iso_cpu_maximum,
        &iso_cpu_minimum,
        &iso_cpu_affine,
        &iso_cpu_unary_gradient,
        &iso_cpu_reduce_sum,
        &iso_cpu_layer_norm_bf16,
        &iso_cpu_layer_norm_grad_bf16,
        &iso_cpu_layer_norm_grad_sums_bf16,
        &iso_cpu_matmul_amx_few_bf16,
        &iso_cpu_matmul_amx_bf16,
        &iso_cpu_matmul_few_bf16,
        &iso_cpu_matmul_bf16,
        &iso_cpu_attention_bf16,
        &iso_cpu_attention_grad_bf16,
#define UNARY(name, KIND, gradient, linear) &iso_cpu_##name,
#include "runtime/graph/ops/unary.h"
    };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i]->op, op) == 0 && own[i]->fits(call))
            return own[i];
    return NULL;
}

const iso_kernel *iso_narrow_find(const char *op, const iso_kernel_call *call, iso_kernel_find find)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    widened w;
    pthread_once(&once, fill_in);
    widen_call(call, &w);
    const iso_kernel *wide = find(op, &w.call);
    if (wide == &iso_reference_cast)
        return wide; /* the one that has bfloat16 itself, to round from any type once */
    for (int i = 0; wide && i < KERNELS; i++)
        if (list[i].wide == wide)
            return &kernels[i];
    return NULL;
}
