/* Mixtures of experts: the choices are ordered by expert, and the rows of each expert are multiplied by its matrices.
 * Sums over the choices of a row go in their order. */
#include "runtime/backend/cuda/grouped.h"
#include "runtime/backend/cuda/lines.h"
#include "runtime/backend/cuda/packs.h"
#include "runtime/backend/cuda/unary.h"

namespace
{

using namespace iso_cuda;

/* The arrays in the scratch memory of a call. Those by position have a row for each; the last one has two uses, one
 * after the other. */
template <class T> struct work {
    iso_experts e;
    grouped_order order;
    T *g;             /* [positions, hidden] what the activation takes: x gate; without a gate x up */
    T *u;             /* [positions, hidden] x up; nullptr without a gate */
    T *da;            /* [positions, hidden] of the gradient: what dy gives to the activations */
    compute<T> *part; /* [positions, d] what a position adds to its row */
};

template <class T> work<T> lay_out(const iso_kernel_call *call, char *&memory)
{
    work<T> w = {};
    w.e = iso_experts_of(call);
    const int64_t features = w.e.choice_count * w.e.hidden * static_cast<int64_t>(sizeof(T)),
                  parts = w.e.choice_count * w.e.d * static_cast<int64_t>(sizeof(compute<T>));
    w.order = lay_out_order(w.e, grouped_tile(call->in[0].dtype), memory);
    w.g = reinterpret_cast<T *>(take<char>(memory, features));
    const bool before_part = w.e.gate || w.e.dy; /* features are there until the parts are */
    if (w.e.gate && w.e.dy)
        w.u = reinterpret_cast<T *>(take<char>(memory, features));
    char *last = take<char>(memory, before_part && features > parts ? features : parts);
    w.part = reinterpret_cast<compute<T> *>(last);
    if (w.e.dy)
        w.da = reinterpret_cast<T *>(last);
    else if (w.e.gate)
        w.u = reinterpret_cast<T *>(last);
    return w;
}

size_t experts_scratch(const iso_kernel_call *call)
{
    size_t bytes = 0;
    with_float(call->in[0].dtype, [&](auto zero) {
        char *memory = nullptr;
        lay_out<decltype(zero)>(call, memory);
        bytes = static_cast<size_t>(memory - static_cast<char *>(nullptr));
    });
    return bytes;
}

/* ---- operands of products ---- */

/* The rows that chose the experts, of an array [rows, d]. */
template <class T> grouped_operand chosen_rows(const work<T> &w, const iso_array *of)
{
    return {of->data, w.e.d, 0, w.order.row};
}
/* An array [positions, hidden]. */
template <class T> grouped_operand features_of(const work<T> &w, const T *of)
{
    return {of, w.e.hidden, 0, nullptr};
}
/* Kernels [experts, rows, columns]. */
inline grouped_operand kernels_of(const iso_array *of)
{
    return {of->data, of->dim[2], of->dim[1] * of->dim[2], nullptr};
}
inline grouped_result kernel_result(const iso_array *of)
{
    return {reals_of(*of), of->dim[2], of->dim[1] * of->dim[2]};
}
template <class T> grouped_result position_result(iso_dtype dtype, T *to, int64_t columns)
{
    return {reals{to, dtype}, columns, 0};
}

template <class T>
void multiply(const iso_kernel_call *call, const work<T> &w, const grouped_product &product)
{
    multiply_groups(call->stream, call->in[0].dtype, w.order, product);
}

/* c [positions, hidden] = x kernels */
template <class T>
void multiply_up(const iso_kernel_call *call, const work<T> &w, const iso_array *kernels, T *c)
{
    multiply(call, w,
             {BY_MATRIX,
              1,
              {chosen_rows(w, w.e.x)},
              {kernels_of(kernels)},
              position_result(call->in[0].dtype, c, w.e.hidden),
              0,
              w.e.hidden,
              w.e.d});
}

iso_dtype compute_dtype(iso_dtype dtype)
{
    return dtype == ISO_F64 ? ISO_F64 : ISO_F32;
}

/* ---- forward ---- */

/* g becomes the activations. */
template <class T> struct activate {
    enum { WIDTH = 16 / sizeof(T) };
    typedef compute<T> C;
    T *g;
    const T *u;
    const int32_t *positions;
    int64_t hidden;
    iso_unary_kind kind;
    __device__ __forceinline__ T of(T g_, T u_) const
    {
        const C f = unary_function<C>{kind, 0}(wide(g_));
        T a;
        narrow(&a, u ? f * wide(u_) : f);
        return a;
    }
    __device__ void one(int64_t i) const
    {
        if (i < *positions * hidden)
            g[i] = of(g[i], u ? u[i] : g[i]);
    }
    __device__ void pack(int64_t i) const
    {
        if (i >= *positions * hidden)
            return;
        auto gs = load_pack<WIDTH>(g + i);
        const auto us = u ? load_pack<WIDTH>(u + i) : gs;
        for (int j = 0; j < WIDTH; j++)
            gs.at[j] = of(gs.at[j], us.at[j]);
        store_pack(g + i, gs);
    }
};

/* Adds the parts of each row, times their shares or as they are. */
template <class T> struct add_parts {
    const compute<T> *part;
    const int32_t *position;
    const T *share; /* nullptr: none */
    reals to;
    int64_t per_row;
    template <int L> __device__ void run(line at) const
    {
        typedef compute<T> C;
        ISO_CUDA_ALONG(L, at)
        {
            C sum = 0;
            for (int64_t choice = at.row * per_row; choice < (at.row + 1) * per_row; choice++)
                if (position[choice] >= 0) {
                    const C own = part[position[choice] * at.count + k];
                    sum += share ? wide(share[choice]) * own : own;
                }
            to.put(i, sum);
        }
    }
};

template <class T>
void add_up(const iso_kernel_call *call, const work<T> &w, const T *share, const iso_array *to)
{
    const int64_t rows = w.e.d > 0 ? iso_array_count(to) / w.e.d : 0;
    for_lines(call->stream, lines{rows, w.e.d, 1},
              add_parts<T>{w.part, w.order.position, share, reals_of(*to), w.e.k});
}

template <class T> void multiply_inputs(const iso_kernel_call *call, const work<T> &w)
{
    find_order(call, w.e, w.order);
    multiply_up(call, w, w.e.gate ? w.e.gate : w.e.up, w.g);
    if (w.e.gate)
        multiply_up(call, w, w.e.up, w.u);
}

void run_experts(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [&](auto zero) {
        typedef decltype(zero) T;
        char *memory = static_cast<char *>(call->scratch);
        const work<T> w = lay_out<T>(call, memory);
        const iso_dtype sums = compute_dtype(call->in[0].dtype);
        multiply_inputs(call, w);
        for_packs(call->stream, w.e.choice_count * w.e.hidden, w.e.hidden % activate<T>::WIDTH == 0,
                  activate<T>{w.g, w.u, w.order.begin + w.e.locally, w.e.hidden, w.e.activation});
        multiply(call, w,
                 {BY_MATRIX,
                  1,
                  {features_of(w, w.g)},
                  {kernels_of(w.e.down)},
                  position_result(sums, w.part, w.e.d),
                  0,
                  w.e.d,
                  w.e.hidden});
        add_up(call, w, static_cast<const T *>(w.e.share->data), &call->out[0]);
    });
}

/* ---- the gradient ---- */

/* For each choice: the gradient of its share. g and u become their gradients, and da the activations times the
 * share. */
template <class T> struct pass_activation {
    T *g, *u, *da;
    const int32_t *position;
    const T *share;
    reals dshare;
    iso_unary_kind kind;
    template <int L> __device__ void run(line at) const
    {
        typedef compute<T> C;
        const int64_t first = position[at.row] * at.count;
        const C own = wide(share[at.row]);
        C sum = 0;
        if (position[at.row] >= 0)
            for (int64_t i = first + member<L>(); i < first + at.count; i += L) {
                const C gate = wide(g[i]), up = u ? wide(u[i]) : C(1), f = unary_function<C>{kind, 0}(gate);
                const C passed = wide(da[i]), slope = unary_slope<C>{kind, 0}.of(gate);
                sum += f * up * passed;
                narrow(&g[i], passed * own * up * slope);
                if (u)
                    narrow(&u[i], passed * own * f);
                narrow(&da[i], f * up * own);
            }
        sum = join<L, sum_of>(sum);
        if (member<L>() == 0)
            dshare.put(at.row, sum);
    }
};

/* The gradients of the kernels: for each expert, the sum over its rows. */
template <class T> void kernel_gradients(const iso_kernel_call *call, const work<T> &w)
{
    const iso_experts &e = w.e;
    multiply(call, w,
             {OVER_ROWS,
              1,
              {features_of(w, w.da)},
              {chosen_rows(w, e.dy)},
              kernel_result(e.ddown),
              e.hidden,
              e.d,
              0});
    multiply(call, w,
             {OVER_ROWS,
              1,
              {chosen_rows(w, e.x)},
              {features_of(w, w.g)},
              kernel_result(e.gate ? e.dgate : e.dup),
              e.d,
              e.hidden,
              0});
    if (e.gate)
        multiply(call, w,
                 {OVER_ROWS,
                  1,
                  {chosen_rows(w, e.x)},
                  {features_of(w, w.u)},
                  kernel_result(e.dup),
                  e.d,
                  e.hidden,
                  0});
}

template <class T> void row_gradient(const iso_kernel_call *call, const work<T> &w)
{
    const iso_experts &e = w.e;
    grouped_product product = {BY_TRANSPOSED,
                               1,
                               {features_of(w, w.g)},
                               {kernels_of(e.gate ? e.gate : e.up)},
                               position_result(compute_dtype(call->in[0].dtype), w.part, e.d),
                               0,
                               e.d,
                               e.hidden};
    if (e.gate) {
        product.pairs = 2;
        product.a[1] = features_of(w, w.u);
        product.b[1] = kernels_of(e.up);
    }
    multiply(call, w, product);
    add_up<T>(call, w, nullptr, e.dx);
}

void run_experts_gradient(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [&](auto zero) {
        typedef decltype(zero) T;
        char *memory = static_cast<char *>(call->scratch);
        const work<T> w = lay_out<T>(call, memory);
        const iso_experts &e = w.e;
        multiply_inputs(call, w);
        multiply(call, w,
                 {BY_TRANSPOSED,
                  1,
                  {chosen_rows(w, e.dy)},
                  {kernels_of(e.down)},
                  position_result(call->in[0].dtype, w.da, e.hidden),
                  0,
                  e.hidden,
                  e.d});
        for_lines(call->stream, lines{e.choice_count, e.hidden, 1},
                  pass_activation<T>{w.g, w.u, w.da, w.order.position, static_cast<const T *>(e.share->data),
                                     reals_of(*e.dshare), e.activation});
        kernel_gradients(call, w);
        row_gradient(call, w); /* after the last use of da, whose memory it takes */
    });
}

} // namespace

ISO_CUDA_KERNEL_WITH(experts, run_experts, false, experts_scratch)
ISO_CUDA_KERNEL_WITH(experts_grad, run_experts_gradient, false, experts_scratch)
