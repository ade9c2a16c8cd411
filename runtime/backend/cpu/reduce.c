/* Kernels of sums over axes, from float32 to float32 or float64. Dimensions are merged until reduced and kept
 * ones alternate; sums are accumulated in double. */
#include <string.h>

#include "runtime/backend/cpu/channels.h"
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/graph/ops/attrs.h"

/* x as [outer, rows, c]: summed over rows to [outer, c]. */
typedef struct view {
    int64_t outer, rows, c;
    bool good; /* x has this form */
} view;

static view view_of(const iso_kernel_call *call)
{
    const iso_reduce_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0];
    view v = {1, 1, 1, true};
    int part = 0; /* 0: outer, 1: rows, 2: c */
    for (int i = 0; i < x->rank; i++) {
        bool reduced = attrs->axes >> i & 1;
        if (x->dim[i] == 1)
            continue;
        if (reduced && part == 2)
            v.good = false;
        part = reduced ? 1 : part == 0 ? 0 : 2;
        *(part == 0 ? &v.outer : part == 1 ? &v.rows : &v.c) *= x->dim[i];
    }
    if (v.rows == 1) { /* for example a batch of one row: every sum has one term */
        v.c *= v.outer;
        v.outer = 1;
    }
    return v;
}

static bool sum_fits(const iso_kernel_call *call)
{
    view v = view_of(call);
    iso_dtype to = call->out[0].dtype;
    return call->in[0].dtype == ISO_F32 && (to == ISO_F32 || to == ISO_F64) && v.good;
}

/* Bytes of the lanes and the sums. */
static size_t reduce_sum_scratch(const iso_kernel_call *call)
{
    view v = view_of(call);
    return v.c > 0 ? (size_t)(2 * iso_pattern(v.c) + v.c) * sizeof(double) + 64 : 0;
}

static void reduce_run_sum(const iso_kernel_call *call)
{
    const iso_reduce_attrs *attrs = call->attrs;
    view v = view_of(call);
    if (v.c == 0)
        return;
    double *sums = (double *)call->scratch + 2 * iso_pattern(v.c);
    const float *x = call->in[0].data;
    for (int64_t i = 0; i < v.outer; i++, x += v.rows * v.c) {
        iso_cpu_functions()->channel_sums(v.rows, v.c, x, sums, call->scratch);
        if (call->out[0].dtype == ISO_F32)
            for (int64_t j = 0; j < v.c; j++)
                ((float *)call->out[0].data)[i * v.c + j] = (float)(sums[j] * attrs->scale);
        else
            for (int64_t j = 0; j < v.c; j++)
                ((double *)call->out[0].data)[i * v.c + j] = sums[j] * attrs->scale;
    }
}

const iso_kernel iso_cpu_reduce_sum = {.op = "reduce_sum",
                                       .name = "vector",
                                       .fits = sum_fits,
                                       .scratch = reduce_sum_scratch,
                                       .run = reduce_run_sum};
