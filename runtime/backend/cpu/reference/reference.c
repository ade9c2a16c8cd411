/* The backend of reference kernels: the oracle of the fast ones, and their fallback. */
#include "runtime/backend/cpu/reference/reference.h"

#include <string.h>

#include "runtime/backend/cpu/host.h"
#include "runtime/backend/cpu/narrow.h"
#include "runtime/backend/cpu/reference/list.h"
#include "runtime/base/bf16.h"
#include "runtime/graph/registered.h"

static const iso_kernel *const kernels[] = {
#define KERNEL(name) &iso_reference_##name,
#include "runtime/backend/cpu/reference/list.h"
    NULL,
};

/* Finds a kernel of an op that the program registered. */
static const iso_kernel *find_registered(const char *op, const iso_kernel_call *call)
{
    const iso_registered_op *registered = iso_registered_op_find(op);
    bool narrow = iso_narrow_has(call); /* a kernel without fits was not written with bfloat16 in mind */
    for (int i = 0; registered && i < registered->n_kernels; i++)
        if (registered->kernels[i].fits ? registered->kernels[i].fits(call) : !narrow)
            return &registered->kernels[i];
    return NULL;
}

static const iso_kernel *ref_find(const char *op, const iso_kernel_call *call)
{
    if (iso_narrow_has(call)) {
        const iso_kernel *narrow = iso_narrow_find(op, call, ref_find);
        return narrow ? narrow : find_registered(op, call);
    }
    for (int i = 0; kernels[i]; i++)
        if (strcmp(kernels[i]->op, op) == 0 && (!kernels[i]->fits || kernels[i]->fits(call)))
            return kernels[i];
    return find_registered(op, call);
}

#define FOR_EACH(TYPE, EXPRESSION)                                                                           \
    do {                                                                                                     \
        const TYPE *x = a, *y = b;                                                                           \
        TYPE *z = out;                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                                      \
            z[i] = (TYPE)(EXPRESSION);                                                                       \
    } while (0)

/* The expression takes x[i] and y[i]. */
#define FOR_EACH_BF16(EXPRESSION)                                                                            \
    do {                                                                                                     \
        const uint16_t *x16 = a, *y16 = b;                                                                   \
        uint16_t *z = out;                                                                                   \
        for (int64_t k = 0, i = 0; k < n; k++) {                                                             \
            float x[] = {iso_bf16_to_float(x16[k])}, y[] = {iso_bf16_to_float(y16[k])};                      \
            z[k] = iso_bf16_of_float(EXPRESSION);                                                            \
        }                                                                                                    \
    } while (0)

#define COMBINE(EXPRESSION, BOOL_EXPRESSION)                                                                 \
    switch (dtype) {                                                                                         \
    case ISO_F32:                                                                                            \
        FOR_EACH(float, EXPRESSION);                                                                         \
        break;                                                                                               \
    case ISO_F64:                                                                                            \
        FOR_EACH(double, EXPRESSION);                                                                        \
        break;                                                                                               \
    case ISO_I32:                                                                                            \
        FOR_EACH(int32_t, EXPRESSION);                                                                       \
        break;                                                                                               \
    case ISO_I64:                                                                                            \
        FOR_EACH(int64_t, EXPRESSION);                                                                       \
        break;                                                                                               \
    case ISO_U8:                                                                                             \
        FOR_EACH(uint8_t, EXPRESSION);                                                                       \
        break;                                                                                               \
    case ISO_BOOL:                                                                                           \
        FOR_EACH(uint8_t, BOOL_EXPRESSION);                                                                  \
        break;                                                                                               \
    case ISO_BF16:                                                                                           \
        FOR_EACH_BF16(EXPRESSION);                                                                           \
        break;                                                                                               \
    case ISO_DTYPE_NONE:                                                                                     \
        break;                                                                                               \
    }

static void ref_sum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *stream)
{
    (void)stream;
    COMBINE(x[i] + y[i], x[i] | y[i])
}

/* NaN in either operand gives NaN, so that no slot hides another slot's NaN. */
static void ref_maximum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out,
                        iso_stream *stream)
{
    (void)stream;
    COMBINE(x[i] > y[i] || x[i] != x[i] ? x[i] : y[i], x[i] | y[i])
}

static const char *ref_description(void)
{
    return "reference: plain kernels on the CPU";
}

static const char *ref_kernels(void)
{
    return "reference";
}

const iso_backend *iso_backend_reference(void)
{
    static const iso_backend backend = {
        .name = "reference",
        .description = ref_description,
        .kernels = ref_kernels,
        ISO_HOST_BACKEND,
        .find = ref_find,
        .sum = ref_sum,
        .maximum = ref_maximum,
        .optimizer = iso_reference_optimizer,
    };
    return &backend;
}
