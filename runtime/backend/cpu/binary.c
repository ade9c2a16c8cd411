/* Kernels of ops with two operands, in float32 or bfloat16, with broadcasting. */
#include <string.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"

/* The operands' dimensions; neighbours that are contiguous in both operands are merged. A step of 0:
 * broadcast. */
typedef struct loops {
    int rank;
    int64_t extent[ISO_MAX_RANK], a[ISO_MAX_RANK], b[ISO_MAX_RANK];
} loops;

/* The step of an operand in dimension i of the output. *behind: the product of its extents after dimension i;
 * that of i is multiplied in. */
static int64_t step_of(const iso_array *x, const iso_array *out, int i, int64_t *behind)
{
    int own = i - (out->rank - x->rank);
    if (own < 0 || x->dim[own] != out->dim[i] || x->dim[own] == 1)
        return 0;
    int64_t step = *behind;
    *behind *= x->dim[own];
    return step;
}

static loops loops_of(const iso_kernel_call *call)
{
    const iso_array *out = &call->out[0];
    loops l = {0};
    int64_t behind_a = 1, behind_b = 1;
    for (int i = out->rank - 1; i >= 0; i--) { /* l lists the innermost loop first */
        int64_t a = step_of(&call->in[0], out, i, &behind_a), b = step_of(&call->in[1], out, i, &behind_b);
        int last = l.rank - 1;
        if (out->dim[i] == 1)
            continue;
        if (last >= 0 && a == l.a[last] * l.extent[last] && b == l.b[last] * l.extent[last]) {
            l.extent[last] *= out->dim[i];
            continue;
        }
        l.extent[l.rank] = out->dim[i];
        l.a[l.rank] = a;
        l.b[l.rank++] = b;
    }
    if (l.rank == 0)
        l = (loops){.rank = 1, .extent = {1}, .a = {1}, .b = {1}};
    return l;
}

/* A short row that is repeated (a bias of few channels) is copied several times, so that loops are long. */
enum { LONG_ROW = 256 };

static int64_t repeats_of(const loops *l)
{
    bool repeats = l->rank == 2 && l->a[0] == 1 && l->b[0] == 1 && (l->a[1] == 0 || l->b[1] == 0);
    return repeats && l->extent[0] < LONG_ROW ? LONG_ROW / l->extent[0] + 1 : 1;
}

static size_t binary_scratch(const iso_kernel_call *call)
{
    loops l = loops_of(call);
    return l.rank > 0 ? (size_t)(repeats_of(&l) * l.extent[0]) * iso_dtype_size(call->out[0].dtype) + 64 : 0;
}

static void run_loop(iso_dtype dtype, iso_cpu_binary kind, int64_t n, const void *a, int64_t a_step,
                     const void *b, int64_t b_step, void *y)
{
    const iso_cpu_functions_table *f = iso_cpu_functions();
    if (dtype == ISO_BF16)
        f->binary_bf16(kind, n, a, (int)a_step, b, (int)b_step, y);
    else
        f->binary_f32(kind, n, a, (int)a_step, b, (int)b_step, y);
}

static void run_repeated(const iso_kernel_call *call, iso_cpu_binary kind, const loops *l, int64_t repeats)
{
    const bool repeated_a = l->a[1] == 0;
    const iso_dtype dtype = call->out[0].dtype;
    const int64_t row = l->extent[0] * (int64_t)iso_dtype_size(dtype);
    const char *other = call->in[repeated_a ? 1 : 0].data;
    char *rows = call->scratch, *out = call->out[0].data;
    for (int64_t i = 0; i < repeats; i++)
        memcpy(rows + i * row, call->in[repeated_a ? 0 : 1].data, (size_t)row);
    for (int64_t i = 0; i < l->extent[1]; i += repeats) {
        int64_t left = l->extent[1] - i, n = (left < repeats ? left : repeats) * l->extent[0];
        const char *x = other + i * row;
        run_loop(dtype, kind, n, repeated_a ? rows : x, 1, repeated_a ? x : rows, 1, out + i * row);
    }
}

/* The general case: the innermost loop for each index of the outer ones. */
static void run_rows(const iso_kernel_call *call, iso_cpu_binary kind, const loops *l)
{
    const iso_dtype dtype = call->out[0].dtype;
    const int64_t size = (int64_t)iso_dtype_size(dtype);
    const char *a = call->in[0].data, *b = call->in[1].data;
    char *out = call->out[0].data, *end = out + iso_array_bytes(&call->out[0]);
    int64_t index[ISO_MAX_RANK] = {0};
    while (out < end) {
        run_loop(dtype, kind, l->extent[0], a, l->a[0], b, l->b[0], out);
        out += l->extent[0] * size;
        for (int i = 1; i < l->rank; i++) {
            a += l->a[i] * size;
            b += l->b[i] * size;
            if (++index[i] < l->extent[i])
                break;
            index[i] = 0;
            a -= l->a[i] * l->extent[i] * size;
            b -= l->b[i] * l->extent[i] * size;
        }
    }
}

static void binary_run(const iso_kernel_call *call, iso_cpu_binary kind)
{
    if (iso_array_count(&call->out[0]) == 0)
        return;
    loops l = loops_of(call);
    int64_t repeats = repeats_of(&l);
    if (repeats > 1)
        run_repeated(call, kind, &l, repeats);
    else
        run_rows(call, kind, &l);
}

#define BINARY(NAME, KIND)                                                                                   \
    static void run_##NAME(const iso_kernel_call *call)                                                      \
    {                                                                                                        \
        binary_run(call, KIND);                                                                              \
    }                                                                                                        \
    const iso_kernel iso_cpu_##NAME = {.op = #NAME,                                                          \
                                       .name = "vector",                                                     \
                                       .fits = iso_cpu_is_f32_or_bf16,                                       \
                                       .scratch = binary_scratch,                                            \
                                       .run = run_##NAME,                                                    \
                                       .in_place = true,                                                     \
                                       .by_rows = true};
BINARY(add, ISO_CPU_ADD)
BINARY(subtract, ISO_CPU_SUBTRACT)
BINARY(multiply, ISO_CPU_MULTIPLY)
BINARY(divide, ISO_CPU_DIVIDE)
BINARY(maximum, ISO_CPU_MAXIMUM)
BINARY(minimum, ISO_CPU_MINIMUM)
