/* Chains of elementwise instructions. Thread i does all of them for element i, one after the other, and what one writes
 * the next reads from memory. So an array may be both read and written only where each thread meets its own elements. */
#include "runtime/backend/cuda/chain.h"

#include <cstring>

#include "runtime/backend/cuda/elements.h"
#include "runtime/backend/formulas.h"
#include "runtime/graph/ops/attrs.h"

namespace
{

using namespace iso_cuda;

enum { MOST_STAGES = 40, LARGEST = 1 << 16 /* elements */ };

enum stage_op {
    STAGE_COPY,
    STAGE_CAST,
    STAGE_AFFINE,
    STAGE_SQUARE,
    STAGE_COUNT,
    STAGE_ADD,
    STAGE_SUBTRACT,
    STAGE_MULTIPLY,
    STAGE_DIVIDE,
    STAGE_MAXIMUM,
    STAGE_MINIMUM,
};

/* z = op(x, y). An argument of less than 4096 bytes has all stages. */
struct stage {
    stage_op of;
    bool one_y; /* y is one number */
    reals x, y, z;
    double a, b;               /* settings of the op */
    const iso_step_info *info; /* scale_by_count: NULL unless it multiplies by the rows */
};

struct chain {
    int64_t n;
    int count;
    stage stages[MOST_STAGES];
};

/* ---- the kernel ---- */

#define FORMULA(NAME, EXPRESSION)                                                                            \
    template <class T> __device__ __forceinline__ T number_##NAME(T x, T y)                                  \
    {                                                                                                        \
        return EXPRESSION;                                                                                   \
    }
ISO_BINARY_NUMBERS(FORMULA)
#undef FORMULA

template <class C> __device__ C value_of(const stage &of, C x, C y)
{
    switch (of.of) {
    case STAGE_AFFINE:
        return static_cast<C>(of.a) * x + static_cast<C>(of.b);
    case STAGE_SQUARE:
        return x * x;
    case STAGE_COUNT:
        return static_cast<C>(static_cast<double>(x) /
                              (of.a * (of.info ? static_cast<double>(of.info->rows) : 1)));
    case STAGE_ADD:
        return number_add(x, y);
    case STAGE_SUBTRACT:
        return number_subtract(x, y);
    case STAGE_MULTIPLY:
        return number_multiply(x, y);
    case STAGE_DIVIDE:
        return x / y;
    case STAGE_MAXIMUM:
        return number_maximum(x, y);
    case STAGE_MINIMUM:
        return number_minimum(x, y);
    default:
        return x;
    }
}

/* C: the type in which x is computed. */
template <class C> __device__ void do_stage(const stage &of, int64_t i)
{
    C x = of.x.get<C>(i), y = of.y.or_else<C>(0, of.one_y ? 0 : i), z = value_of(of, x, y);
    if (of.of == STAGE_CAST && of.z.dtype == ISO_BF16)
        static_cast<uint16_t *>(of.z.data)[i] = of.x.dtype == ISO_F64
                                                    ? iso_bf16_of_double(static_cast<double>(z))
                                                    : iso_bf16_of_float(static_cast<float>(z));
    else
        of.z.put<C>(i, z);
}

__global__ void __launch_bounds__(BLOCK) chain_kernel(chain c)
{
    const int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
    for (int k = 0; k < c.count && i < c.n; k++)
        if (c.stages[k].x.dtype == ISO_F64)
            do_stage<double>(c.stages[k], i);
        else
            do_stage<float>(c.stages[k], i);
}

/* ---- what is a stage ---- */

const struct {
    const char *op;
    stage_op of;
} known[] = {{"cast", STAGE_CAST},         {"affine", STAGE_AFFINE},
             {"square", STAGE_SQUARE},     {"add", STAGE_ADD},
             {"subtract", STAGE_SUBTRACT}, {"multiply", STAGE_MULTIPLY},
             {"divide", STAGE_DIVIDE},     {"maximum", STAGE_MAXIMUM},
             {"minimum", STAGE_MINIMUM},   {"scale_by_count", STAGE_COUNT}};

bool are_floats(const iso_kernel_call *call)
{
    bool all = call->n_inputs <= 2;
    for (int k = 0; k < call->n_inputs && all; k++)
        all = iso_dtype_is_float(call->in[k].dtype);
    return all && iso_dtype_is_float(call->out[0].dtype);
}

void set_attrs(const iso_kernel_call *call, stage *made)
{
    if (made->of == STAGE_AFFINE) {
        const iso_affine_attrs *attrs = static_cast<const iso_affine_attrs *>(call->attrs);
        made->a = attrs->scale, made->b = attrs->shift;
    } else if (made->of == STAGE_COUNT) {
        const iso_count_attrs *attrs = static_cast<const iso_count_attrs *>(call->attrs);
        made->a = attrs->count, made->info = attrs->batch ? call->info : nullptr;
    }
}

/* The second operand may be one number; only a cast changes the type. */
bool fits(const iso_kernel_call *call, const stage *made, int64_t n)
{
    return iso_array_count(&call->in[0]) == n && (!made->one_y || iso_array_count(&call->in[1]) == 1) &&
           (!made->y.data || made->y.dtype == made->x.dtype) &&
           (made->of == STAGE_CAST || made->z.dtype == made->x.dtype);
}

/* The number of elements of a stage; 0: it is none. */
int64_t make_kernel_stage(const iso_kernel_call *call, const char *op, stage *made)
{
    int64_t n = iso_array_count(&call->out[0]);
    for (const auto &one : known)
        if (strcmp(one.op, op) == 0 && are_floats(call)) {
            *made = {};
            made->of = one.of;
            made->x = reals_of(call->in[0]), made->z = reals_of(call->out[0]);
            made->y = optional_input(call, call->n_inputs > 1, 1);
            made->one_y = call->n_inputs > 1 && iso_array_count(&call->in[1]) != n;
            set_attrs(call, made);
            return fits(call, made, n) ? n : 0;
        }
    return 0;
}

int64_t make_copy_stage(const iso_box_copy *copy, stage *made)
{
    int64_t n = 1;
    if (!copy->whole || copy->zero || (copy->element != sizeof(float) && copy->element != sizeof(double)))
        return 0;
    for (int d = 0; d < copy->to_box.rank; d++)
        n *= copy->to_box.extent[d];
    iso_dtype dtype = copy->element == sizeof(float) ? ISO_F32 : ISO_F64;
    *made = {};
    made->x = {const_cast<void *>(copy->from), dtype};
    made->z = {copy->to, dtype};
    return n;
}

int64_t make_stage(const iso_thunk *thunks, stage *made)
{
    int64_t n = thunks->copy ? make_copy_stage(thunks->copy, made)
                             : make_kernel_stage(thunks->call, thunks->kernel->op, made);
    return n <= LARGEST ? n : 0;
}

/* ---- what may be in one chain ---- */

/* Whether each thread meets its own elements in both arrays, or they have no bytes in common. one: a is one number. */
bool agree(const reals &a, int64_t n_a, const reals &b, int64_t n_b)
{
    size_t size_a = iso_dtype_size(a.dtype), size_b = iso_dtype_size(b.dtype);
    uintptr_t at_a = reinterpret_cast<uintptr_t>(a.data), at_b = reinterpret_cast<uintptr_t>(b.data);
    bool apart =
        at_a + static_cast<size_t>(n_a) * size_a <= at_b || at_b + static_cast<size_t>(n_b) * size_b <= at_a;
    return apart || (at_a == at_b && size_a == size_b && n_a == n_b);
}

bool is_apart(const stage &a, const stage &b, int64_t n)
{
    return agree(a.z, n, b.x, n) && agree(a.z, n, b.z, n) &&
           (!b.y.data || agree(a.z, n, b.y, b.one_y ? 1 : n));
}

bool can_join(const chain &c, const stage &next)
{
    bool can = is_apart(next, next, c.n);
    for (int k = 0; k < c.count && can; k++)
        can = is_apart(next, c.stages[k], c.n) && is_apart(c.stages[k], next, c.n);
    return can;
}

chain make_chain(const iso_thunk *thunks, int count)
{
    chain c = {};
    for (stage next; c.count < count && c.count < MOST_STAGES; c.count++) {
        int64_t n = make_stage(&thunks[c.count], &next);
        if (n == 0 || (c.count > 0 && n != c.n))
            break;
        c.n = n;
        if (!can_join(c, next))
            break;
        c.stages[c.count] = next;
    }
    return c;
}

} // namespace

int iso_cuda_chain_count(const iso_thunk *thunks, int count)
{
    chain c = make_chain(thunks, count);
    return c.count > 1 ? c.count : 1;
}

void iso_cuda_run_chain(const iso_thunk *thunks, int count, const iso_stream *stream)
{
    chain c = make_chain(thunks, count);
    launch(chain_kernel, blocks_of(c.n), BLOCK, 0, iso_cuda_stream_of(stream), c);
}
