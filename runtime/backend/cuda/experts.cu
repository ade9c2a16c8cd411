/* Mixtures of experts: a thread for each hidden feature of each choice, then one for each element of the results. A sum
 * goes along one thread, in order; those over choices go along the list of the choices of an expert. */
#include "runtime/backend/cuda/faults.h"
#include "runtime/backend/cuda/unary.h"
#include "runtime/backend/experts.h"

namespace
{

using namespace iso_cuda;

/* The arrays of a call, and those in its scratch memory. */
template <class T> struct work {
    typedef compute<T> C;
    int64_t d, hidden, k, choices, locally;
    iso_unary_kind activation;
    const T *x, *share, *gate, *up, *down, *dy; /* gate: nullptr: none */
    C *g, *u, *a, *da;                          /* [choices, hidden] */
    int32_t *local; /* [choices] the number of the expert in the slot; -1: none of it */
    int32_t *begin; /* [locally + 1] where the list of each expert begins, */
    int32_t *list;  /* [choices] and the lists, in order; of the gradient */

    __device__ C function(C value) const
    {
        return unary_function<C>{activation, 0}(value);
    }
    __device__ C slope(C value) const
    {
        return unary_slope<C>{activation, 0}.of(value);
    }
};

template <class T> const T *data_of(const iso_array *array)
{
    return array ? static_cast<const T *>(array->data) : nullptr;
}

/* Arrays of whole cache lines. */
template <class E> E *take(char *&memory, int64_t count)
{
    E *taken = reinterpret_cast<E *>(memory);
    memory += ceil_of(count * static_cast<int64_t>(sizeof(E)), 64) * 64;
    return taken;
}

template <class T> work<T> lay_out(const iso_kernel_call *call, char *&memory)
{
    typedef compute<T> C;
    const iso_experts e = iso_experts_of(call);
    const int64_t features = e.choice_count * e.hidden;
    work<T> w = {};
    w.d = e.d, w.hidden = e.hidden, w.k = e.k, w.choices = e.choice_count, w.locally = e.locally;
    w.activation = e.activation;
    w.x = data_of<T>(e.x), w.share = data_of<T>(e.share), w.gate = data_of<T>(e.gate);
    w.up = data_of<T>(e.up), w.down = data_of<T>(e.down), w.dy = data_of<T>(e.dy);
    w.a = take<C>(memory, features);
    w.local = take<int32_t>(memory, e.choice_count);
    if (e.dy) {
        w.g = take<C>(memory, features);
        w.u = take<C>(memory, features);
        w.da = take<C>(memory, features);
        w.begin = take<int32_t>(memory, e.locally + 1);
        w.list = take<int32_t>(memory, e.choice_count);
    }
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

struct find_experts {
    indices index;
    int64_t first, locally;
    int32_t *local;
    __device__ void operator()(int64_t i) const
    {
        int64_t expert = index.get(i);
        if (expert < 0)
            index.raise(i);
        expert -= first;
        local[i] = expert >= 0 && expert < locally ? static_cast<int32_t>(expert) : -1;
    }
};

/* x gate and x up, and what the activation makes of them. */
template <class T> struct activate {
    work<T> w;
    __device__ void operator()(int64_t number) const
    {
        typedef compute<T> C;
        const int64_t i = number / w.hidden, j = number - i * w.hidden, expert = w.local[i];
        if (expert < 0)
            return;
        const T *x = w.x + i / w.k * w.d;
        const int64_t kernel = expert * w.d * w.hidden + j;
        C gate = 0, up = 0;
        for (int64_t c = 0; c < w.d; c++)
            up += wide(x[c]) * wide(w.up[kernel + c * w.hidden]);
        for (int64_t c = 0; w.gate && c < w.d; c++)
            gate += wide(x[c]) * wide(w.gate[kernel + c * w.hidden]);
        w.a[number] = w.gate ? w.function(gate) * up : w.function(up);
        if (w.g) {
            w.g[number] = gate;
            w.u[number] = up;
        }
    }
};

template <class T> struct add_experts {
    work<T> w;
    reals y;
    __device__ void operator()(int64_t number) const
    {
        typedef compute<T> C;
        const int64_t row = number / w.d, c = number - row * w.d;
        C sum = 0;
        for (int64_t i = row * w.k; i < (row + 1) * w.k; i++) {
            const int64_t expert = w.local[i];
            C part = 0;
            for (int64_t j = 0; expert >= 0 && j < w.hidden; j++)
                part += w.a[i * w.hidden + j] * wide(w.down[(expert * w.hidden + j) * w.d + c]);
            sum += wide(w.share[i]) * part;
        }
        y.put(number, sum);
    }
};

template <class T> void find_and_activate(const iso_kernel_call *call, const work<T> &w)
{
    const iso_experts e = iso_experts_of(call);
    for_each(call->stream, w.choices,
             find_experts{indices_of(call, ISO_EXPERTS_CHOICE, e.experts), e.first, e.locally, w.local});
    for_each(call->stream, w.choices * w.hidden, activate<T>{w});
}

void run_experts(const iso_kernel_call *call)
{
    with_float(call->in[0].dtype, [&](auto zero) {
        typedef decltype(zero) T;
        char *memory = static_cast<char *>(call->scratch);
        const work<T> w = lay_out<T>(call, memory);
        find_and_activate(call, w);
        for_each(call->stream, iso_array_count(&call->out[0]), add_experts<T>{w, reals_of(call->out[0])});
    });
}

/* ---- the gradient ---- */

/* Where the list of each expert begins: thread e counts the choices of the experts before. */
template <class T> struct begin_lists {
    work<T> w;
    __device__ void operator()(int64_t expert) const
    {
        int32_t count = 0;
        for (int64_t i = 0; i < w.choices; i++)
            count += w.local[i] >= 0 && w.local[i] < expert;
        w.begin[expert] = count;
    }
};

template <class T> struct make_lists {
    work<T> w;
    __device__ void operator()(int64_t expert) const
    {
        int32_t *to = w.list + w.begin[expert];
        for (int64_t i = 0; i < w.choices; i++)
            if (w.local[i] == expert)
                *to++ = static_cast<int32_t>(i);
    }
};

/* What dy gives to a, before the share. */
template <class T> struct down_product {
    work<T> w;
    __device__ void operator()(int64_t number) const
    {
        const int64_t i = number / w.hidden, j = number - i * w.hidden, expert = w.local[i];
        if (expert < 0)
            return;
        const T *dy = w.dy + i / w.k * w.d, *down = w.down + (expert * w.hidden + j) * w.d;
        compute<T> sum = 0;
        for (int64_t c = 0; c < w.d; c++)
            sum += wide(dy[c]) * wide(down[c]);
        w.da[number] = sum;
    }
};

template <class T> struct share_gradient {
    work<T> w;
    reals dshare;
    __device__ void operator()(int64_t i) const
    {
        compute<T> sum = 0;
        for (int64_t j = i * w.hidden; w.local[i] >= 0 && j < (i + 1) * w.hidden; j++)
            sum += w.a[j] * w.da[j];
        dshare.put(i, sum);
    }
};

/* The gradients of x gate and x up take their places, and a is multiplied by its share. */
template <class T> struct pass_activation {
    work<T> w;
    __device__ void operator()(int64_t number) const
    {
        typedef compute<T> C;
        const int64_t i = number / w.hidden;
        if (w.local[i] < 0)
            return;
        const C share = wide(w.share[i]), da = w.da[number] * share, gate = w.g[number], up = w.u[number];
        w.a[number] *= share;
        w.g[number] = w.gate ? da * up * w.slope(gate) : C(0);
        w.u[number] = w.gate ? da * w.function(gate) : da * w.slope(up);
    }
};

template <class T> struct row_gradient {
    work<T> w;
    reals dx;
    __device__ void operator()(int64_t number) const
    {
        typedef compute<T> C;
        const int64_t row = number / w.d, c = number - row * w.d;
        C sum = 0;
        for (int64_t i = row * w.k; i < (row + 1) * w.k; i++) {
            const int64_t expert = w.local[i], kernel = (expert * w.d + c) * w.hidden;
            for (int64_t j = 0; expert >= 0 && j < w.hidden; j++) {
                const int64_t at = i * w.hidden + j;
                sum += w.u[at] * wide(w.up[kernel + j]);
                sum += w.gate ? w.g[at] * wide(w.gate[kernel + j]) : C(0);
            }
        }
        dx.put(number, sum);
    }
};

/* The gradient of a kernel [d, hidden]: dh is that of x times the kernel. */
template <class T> struct up_gradient {
    work<T> w;
    const compute<T> *dh;
    reals dkernel;
    __device__ void operator()(int64_t number) const
    {
        const int64_t j = number % w.hidden, c = number / w.hidden % w.d, expert = number / w.hidden / w.d;
        compute<T> sum = 0;
        for (int32_t i = w.begin[expert]; i < w.begin[expert + 1]; i++) {
            const int64_t choice = w.list[i];
            sum += wide(w.x[choice / w.k * w.d + c]) * dh[choice * w.hidden + j];
        }
        dkernel.put(number, sum);
    }
};

template <class T> struct down_gradient {
    work<T> w;
    reals ddown;
    __device__ void operator()(int64_t number) const
    {
        const int64_t c = number % w.d, j = number / w.d % w.hidden, expert = number / w.d / w.hidden;
        compute<T> sum = 0;
        for (int32_t i = w.begin[expert]; i < w.begin[expert + 1]; i++) {
            const int64_t choice = w.list[i];
            sum += w.a[choice * w.hidden + j] * wide(w.dy[choice / w.k * w.d + c]);
        }
        ddown.put(number, sum);
    }
};

void run_experts_gradient(const iso_kernel_call *call)
{
    const iso_experts e = iso_experts_of(call);
    with_float(call->in[0].dtype, [&](auto zero) {
        typedef decltype(zero) T;
        char *memory = static_cast<char *>(call->scratch);
        const work<T> w = lay_out<T>(call, memory);
        const int64_t kernel = iso_array_count(e.up);
        find_and_activate(call, w);
        for_each(call->stream, e.locally + 1, begin_lists<T>{w});
        for_each(call->stream, e.locally, make_lists<T>{w});
        for_each(call->stream, e.choice_count * e.hidden, down_product<T>{w});
        for_each(call->stream, e.choice_count, share_gradient<T>{w, reals_of(*e.dshare)});
        for_each(call->stream, e.choice_count * e.hidden, pass_activation<T>{w});
        for_each(call->stream, iso_array_count(e.dx), row_gradient<T>{w, reals_of(*e.dx)});
        if (e.gate)
            for_each(call->stream, kernel, up_gradient<T>{w, w.g, reals_of(*e.dgate)});
        for_each(call->stream, kernel, up_gradient<T>{w, w.u, reals_of(*e.dup)});
        for_each(call->stream, kernel, down_gradient<T>{w, reals_of(*e.ddown)});
    });
}

/* ---- the largest elements ---- */

/* A thread takes a row, and goes along it for each of the k largest. */
struct largest {
    reals x, values;
    int32_t *index;
    int64_t classes, k;
    __device__ void operator()(int64_t row) const
    {
        int64_t last = -1;
        double last_value = 0;
        for (int64_t n = 0; n < k; n++) {
            int64_t best = -1;
            double best_value = 0;
            for (int64_t i = 0; i < classes; i++) {
                const double value = x.get<double>(row * classes + i);
                if (last >= 0 && !iso_top_k_before(last_value, last, value, i))
                    continue;
                if (best < 0 || iso_top_k_before(value, i, best_value, best)) {
                    best = i;
                    best_value = value;
                }
            }
            values.put(row * k + n, best_value);
            index[row * k + n] = static_cast<int32_t>(best);
            last = best;
            last_value = best_value;
        }
    }
};

int64_t rows_of(const iso_array &array)
{
    const int64_t last = array.dim[array.rank - 1];
    return last > 0 ? iso_array_count(&array) / last : 0;
}

void run_top_k(const iso_kernel_call *call)
{
    const iso_array &x = call->in[0], &values = call->out[0];
    for_each(call->stream, rows_of(values),
             largest{reals_of(x), reals_of(values), static_cast<int32_t *>(call->out[1].data),
                     x.dim[x.rank - 1], values.dim[values.rank - 1]});
}

/* A thread for each element of dx: indices may be equal. */
struct scatter {
    indices index;
    reals dy, dx;
    int64_t classes, k;
    __device__ void operator()(int64_t number) const
    {
        const int64_t row = number / classes, own = number - row * classes;
        double sum = 0;
        for (int64_t i = row * k; i < (row + 1) * k; i++) {
            const int64_t to = index.get(i);
            if (to < 0 && own == 0)
                index.raise(i);
            sum += to == own ? dy.get<double>(i) : 0;
        }
        dx.put(number, sum);
    }
};

void run_top_k_gradient(const iso_kernel_call *call)
{
    const iso_array &index = call->in[0], &dx = call->out[0];
    const int64_t classes = dx.dim[dx.rank - 1];
    for_each(call->stream, iso_array_count(&dx),
             scatter{indices_of(call, 0, classes), reals_of(call->in[1]), reals_of(dx), classes,
                     index.dim[index.rank - 1]});
}

} // namespace

ISO_CUDA_KERNEL(top_k, run_top_k, false)
ISO_CUDA_KERNEL(top_k_grad, run_top_k_gradient, false)
ISO_CUDA_KERNEL_WITH(experts, run_experts, false, experts_scratch)
ISO_CUDA_KERNEL_WITH(experts_grad, run_experts_gradient, false, experts_scratch)
