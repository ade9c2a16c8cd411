#include "runtime/backend/cpu/tables.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/isa.h"
#include "runtime/base/bf16.h"

enum { VALUES = 1 << 16, BEHIND = 64 /* bytes that may be read past the end */ };

#define UNARY(name, KIND, gradient, linear) +1
#define UNARY_KIND(KIND) +1
enum {
    KINDS =
#include "runtime/graph/ops/unary.h"
};

/* NULL: not made yet. */
static _Atomic(void *) functions[ISO_ISA_AMX + 1][KINDS], slopes[ISO_ISA_AMX + 1][KINDS];

/* Functions that take an exponential; those with a parameter have no table. */
static bool has_table(iso_unary_kind kind)
{
    return kind == ISO_UNARY_EXP || kind == ISO_UNARY_LOG || kind == ISO_UNARY_SIGMOID ||
           kind == ISO_UNARY_TANH || kind == ISO_UNARY_GELU || kind == ISO_UNARY_GELU_APPROXIMATE ||
           kind == ISO_UNARY_SILU || kind == ISO_UNARY_SOFTPLUS;
}

/* Those whose gradient is computed from the argument; that of the others takes the result, and is cheap. */
static bool has_slopes(iso_unary_kind kind)
{
    return kind == ISO_UNARY_GELU || kind == ISO_UNARY_GELU_APPROXIMATE || kind == ISO_UNARY_SILU ||
           kind == ISO_UNARY_SOFTPLUS;
}

static void *make_function(iso_unary_kind kind)
{
    uint16_t *table = malloc(VALUES * sizeof *table + BEHIND);
    for (int i = 0; table && i < VALUES; i++)
        table[i] = (uint16_t)i;
    if (table)
        iso_cpu_functions()->unary_bf16(kind, 0, VALUES, table, table);
    return table;
}

/* The gradient for a dy of 1. */
static void *make_slopes(iso_unary_kind kind)
{
    float *table = malloc(VALUES * sizeof *table + BEHIND), *ones = malloc(VALUES * sizeof *ones + BEHIND);
    for (int i = 0; table && ones && i < VALUES; i++) {
        table[i] = iso_bf16_to_float((uint16_t)i);
        ones[i] = 1;
    }
    if (table && ones) {
        iso_cpu_functions()->unary_gradient_f32(kind, 0, VALUES, table, ones, ones);
        free(table);
        return ones;
    }
    free(table);
    free(ones);
    return NULL;
}

/* Of threads that make a table at the same time, the first one's is kept. */
static void *table_of(_Atomic(void *) *table, void *(*make)(iso_unary_kind kind), iso_unary_kind kind)
{
    void *kept = atomic_load(table), *made = kept ? NULL : make(kind);
    if (!made || atomic_compare_exchange_strong(table, &kept, made))
        return made ? made : kept;
    free(made);
    return kept;
}

const uint16_t *iso_table_of_function(iso_unary_kind kind)
{
    return has_table(kind) ? table_of(&functions[iso_cpu_isa()][kind], make_function, kind) : NULL;
}

const float *iso_table_of_slope(iso_unary_kind kind)
{
    return has_slopes(kind) ? table_of(&slopes[iso_cpu_isa()][kind], make_slopes, kind) : NULL;
}
