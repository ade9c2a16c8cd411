/* Matrix products, each element's sum in double. */
#include <string.h>

#include "runtime/backend/cpu/reference/list.h"
#include "runtime/backend/cpu/reference/reference.h"
#include "runtime/backend/cpu/reference/walk.h"
#include "runtime/graph/ops/attrs.h"

/* batch products c [m, n] = sum over k of a [m, k] b [k, n], with steps in elements of each index in each
 * operand */
typedef struct shape {
    int64_t batch, m, n, k;
    int64_t a_batch, a_m, a_k;
    int64_t b_batch, b_k, b_n;
} shape;

static int64_t leading(const iso_array *x, int dims)
{
    int64_t count = 1;
    for (int d = 0; d < dims; d++)
        count *= x->dim[d];
    return count;
}

static shape ref_product_shape_of(const iso_kernel_call *call)
{
    const iso_matmul_attrs *attrs = call->attrs;
    const iso_array *a = &call->in[0], *b = &call->in[1];
    int64_t columns_a = a->dim[a->rank - 1], columns_b = b->dim[b->rank - 1];
    if (attrs->contract)
        return (shape){.batch = 1,
                       .m = columns_a,
                       .n = columns_b,
                       .k = leading(a, a->rank - 1),
                       .a_m = 1,
                       .a_k = columns_a,
                       .b_k = columns_b,
                       .b_n = 1};
    shape s = {.b_k = attrs->transpose_b ? 1 : columns_b, .b_n = attrs->transpose_b ? columns_b : 1};
    s.n = b->dim[b->rank - (attrs->transpose_b ? 2 : 1)];
    if (a->rank != b->rank) { /* one b for all rows of a */
        s.batch = 1;
        s.m = leading(a, a->rank - 1);
    } else {
        s.batch = leading(a, a->rank - 2);
        s.m = a->dim[a->rank - (attrs->transpose_a ? 1 : 2)];
    }
    s.k = a->dim[a->rank - (attrs->transpose_a ? 2 : 1)];
    s.a_m = attrs->transpose_a ? 1 : columns_a;
    s.a_k = attrs->transpose_a ? columns_a : 1;
    s.a_batch = s.m * s.k;
    s.b_batch = s.k * s.n;
    return s;
}

/* One row of c, accumulated in `row` (n doubles). b is read by rows if they are contiguous, else by
 * columns. */
#define ROW(NAME, T)                                                                                         \
    static void NAME(const shape *s, const T *a, const T *b, T *c, double *row)                              \
    {                                                                                                        \
        memset(row, 0, (size_t)s->n * sizeof(*row));                                                         \
        if (s->b_n == 1)                                                                                     \
            for (int64_t k = 0; k < s->k; k++)                                                               \
                for (int64_t j = 0; j < s->n; j++)                                                           \
                    row[j] += (double)a[k * s->a_k] * b[k * s->b_k + j];                                     \
        else                                                                                                 \
            for (int64_t j = 0; j < s->n; j++)                                                               \
                for (int64_t k = 0; k < s->k; k++)                                                           \
                    row[j] += (double)a[k * s->a_k] * b[k + j * s->b_n];                                     \
        for (int64_t j = 0; j < s->n; j++)                                                                   \
            c[j] = (T)row[j];                                                                                \
    }

ROW(row_f32, float)
ROW(row_f64, double)

static size_t ref_product_scratch(const iso_kernel_call *call)
{
    return (size_t)ref_product_shape_of(call).n * sizeof(double);
}

static void ref_product_run(const iso_kernel_call *call)
{
    shape s = ref_product_shape_of(call);
    const float *a = call->in[0].data, *b = call->in[1].data;
    const double *a64 = call->in[0].data, *b64 = call->in[1].data;
    float *c = call->out[0].data;
    double *c64 = call->out[0].data;
    for (int64_t l = 0; l < s.batch; l++)
        for (int64_t i = 0; i < s.m; i++) {
            int64_t at_a = l * s.a_batch + i * s.a_m, at_b = l * s.b_batch, at_c = (l * s.m + i) * s.n;
            if (call->out[0].dtype == ISO_F32)
                row_f32(&s, a + at_a, b + at_b, c + at_c, call->scratch);
            else
                row_f64(&s, a64 + at_a, b64 + at_b, c64 + at_c, call->scratch);
        }
}

const iso_kernel iso_reference_matmul = {
    .op = "matmul", .name = "reference", .scratch = ref_product_scratch, .run = ref_product_run};
