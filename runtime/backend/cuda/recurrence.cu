/* Recurrences: for each step a product of the state with the kernel, or a convolution, then a thread for each unit of each
 * cell, here called row: without images, each row of the batch has one. States are carried from step to step in the type
 * of the computation. */
#include "runtime/backend/cuda/product.h"
#include "runtime/backend/recurrence.h"

namespace
{

using namespace iso_cuda;

template <class C> __device__ __forceinline__ C activate(iso_cell_activation kind, C x)
{
    switch (kind) {
    case ISO_CELL_TANH:
        return tanh_of(x);
    case ISO_CELL_SIGMOID:
        return C(1) / (C(1) + exp_of(-x));
    case ISO_CELL_HARD_SIGMOID:
        x = x * (C(1) / C(6)) + C(0.5);
        return x < C(0) ? C(0) : x > C(1) ? C(1) : x;
    case ISO_CELL_RELU:
        return x < C(0) ? C(0) : x;
    default:
        return x;
    }
}

/* The gradient before the function, from that after it and the value y. */
template <class C> __device__ __forceinline__ C through(iso_cell_activation kind, C y, C dy)
{
    switch (kind) {
    case ISO_CELL_TANH:
        return dy * (C(1) - y * y);
    case ISO_CELL_SIGMOID:
        return dy * (y * (C(1) - y));
    case ISO_CELL_HARD_SIGMOID:
        return y > C(0) && y < C(1) ? dy * (C(1) / C(6)) : C(0);
    case ISO_CELL_RELU:
        return y > C(0) ? dy : C(0);
    default:
        return dy;
    }
}

/* A step: its position in time, that of the step before (-1: there is none), and arrays of the call; nullptr: the call
 * does not have the array. */
template <class T> struct step {
    typedef compute<T> C;
    int64_t steps, pixels, units, columns, time, before;
    iso_cell_activation activation, recurrent;
    const T *x, *bias, *h0, *c0, *dh, *dc;
    const uint8_t *mask; /* [rows, steps] */
    T *h, *c, *gates, *dx, *dr;
    C *state_h,
        *state_c; /* [rows, units]: before the step, then after it; in the gradient, the carried gradients */
    C *product;   /* [rows, columns]: h' kernel; in the gradient, dr */
    bool has_product;

    /* Element j of a row, of an array with so many columns. */
    __device__ int64_t at(int64_t row, int64_t j, int64_t of) const
    {
        return iso_recurrence_index(steps, pixels, row, time) * of + j;
    }
    /* Whether the mask leaves out the step. */
    __device__ bool skips(int64_t row) const
    {
        return mask && !mask[row / pixels * steps + time];
    }
    /* h' kernel + bias */
    __device__ C r(int64_t row, int64_t j) const
    {
        const C product_of = has_product ? product[row * columns + j] : C(0);
        return bias ? product_of + wide(bias[j]) : product_of;
    }
    __device__ C x_of(int64_t row, int64_t j) const
    {
        return wide(x[at(row, j, columns)]);
    }
    __device__ C gate(int64_t row, int64_t j, int k) const
    {
        return wide(gates[at(row, k * units + j, 4 * units)]);
    }
    __device__ void put_gate(int64_t row, int64_t j, int k, C value) const
    {
        narrow(&gates[at(row, k * units + j, 4 * units)], value);
    }
    __device__ void put_h(int64_t row, int64_t j, C value) const
    {
        state_h[row * units + j] = value;
        narrow(&h[at(row, j, units)], value);
    }
    __device__ C stored_before(const T *states, const T *first, int64_t row, int64_t j) const
    {
        if (before >= 0)
            return wide(states[iso_recurrence_index(steps, pixels, row, before) * units + j]);
        return first ? wide(first[row * units + j]) : C(0);
    }
    /* The gradient of h after the step. */
    __device__ C dh_of(int64_t row, int64_t j) const
    {
        return wide(dh[at(row, j, units)]) + state_h[row * units + j];
    }
    /* The gradients of the parts of gate k in x and in r. */
    __device__ void put_gradients(int64_t row, int64_t j, int k, C of_x, C of_r) const
    {
        narrow(&dx[at(row, k * units + j, columns)], of_x);
        if (dr)
            narrow(&dr[at(row, k * units + j, columns)], of_r);
        product[row * columns + k * units + j] = of_r;
    }
};

/* ---- a step that the mask leaves out: the state stays as it is ---- */

template <class T> __device__ void skip_forward(const step<T> &s, int64_t row, int64_t j)
{
    const int64_t state = row * s.units + j, at = s.at(row, j, s.units);
    narrow(&s.h[at], s.state_h[state]);
    if (s.c)
        narrow(&s.c[at], s.state_c[state]);
    for (int k = 0; s.gates && k < 4; k++)
        s.put_gate(row, j, k, compute<T>(0));
}

template <class T> __device__ void skip_backward(const step<T> &s, int64_t row, int64_t j)
{
    const int64_t state = row * s.units + j;
    s.state_h[state] = s.dh_of(row, j);
    if (s.dc)
        s.state_c[state] += wide(s.dc[s.at(row, j, s.units)]);
    for (int k = 0; k * s.units < s.columns; k++)
        s.put_gradients(row, j, k, compute<T>(0), compute<T>(0));
}

/* ---- the cells, forward and backward: unit j of a row ---- */

template <class T> struct lstm {
    typedef T element;
    typedef compute<T> C;
    __device__ static void forward(const step<T> &s, int64_t row, int64_t j)
    {
        C gate[4], *cell = &s.state_c[row * s.units + j];
        for (int k = 0; k < 4; k++) {
            const int64_t column = k * s.units + j;
            gate[k] = activate(k == 2 ? s.activation : s.recurrent, s.x_of(row, column) + s.r(row, column));
            s.put_gate(row, j, k, gate[k]);
        }
        *cell = gate[1] * *cell + gate[0] * gate[2];
        narrow(&s.c[s.at(row, j, s.units)], *cell);
        s.put_h(row, j, gate[3] * activate(s.activation, *cell));
    }
    __device__ static void backward(const step<T> &s, int64_t row, int64_t j)
    {
        const int64_t at = s.at(row, j, s.units);
        const C i = s.gate(row, j, 0), f = s.gate(row, j, 1), g = s.gate(row, j, 2), o = s.gate(row, j, 3),
                shown = activate(s.activation, wide(s.c[at]));
        const C dh = s.dh_of(row, j);
        C *carried = &s.state_c[row * s.units + j];
        const C dc = *carried + (s.dc ? wide(s.dc[at]) : C(0)) + through(s.activation, shown, dh * o);
        const C c_before = s.stored_before(s.c, s.c0, row, j);
        const C dz[] = {through(s.recurrent, i, dc * g), through(s.recurrent, f, dc * c_before),
                        through(s.activation, g, dc * i), through(s.recurrent, o, dh * shown)};
        for (int k = 0; k < 4; k++)
            s.put_gradients(row, j, k, dz[k], dz[k]);
        *carried = dc * f;
        s.state_h[row * s.units + j] = C(0);
    }
};

template <class T> struct gru {
    typedef T element;
    typedef compute<T> C;
    __device__ static void forward(const step<T> &s, int64_t row, int64_t j)
    {
        const int64_t u = s.units;
        const C rn = s.r(row, 2 * u + j);
        const C z = activate(s.recurrent, s.x_of(row, j) + s.r(row, j));
        const C q = activate(s.recurrent, s.x_of(row, u + j) + s.r(row, u + j));
        const C n = activate(s.activation, s.x_of(row, 2 * u + j) + q * rn);
        const C saved[] = {z, q, n, rn};
        for (int k = 0; k < 4; k++)
            s.put_gate(row, j, k, saved[k]);
        s.put_h(row, j, z * s.state_h[row * u + j] + (C(1) - z) * n);
    }
    __device__ static void backward(const step<T> &s, int64_t row, int64_t j)
    {
        const C z = s.gate(row, j, 0), q = s.gate(row, j, 1), n = s.gate(row, j, 2), rn = s.gate(row, j, 3),
                dh = s.dh_of(row, j);
        const C dn = through(s.activation, n, dh * (C(1) - z));
        const C dz = through(s.recurrent, z, dh * (s.stored_before(s.h, s.h0, row, j) - n));
        const C dq = through(s.recurrent, q, dn * rn);
        s.put_gradients(row, j, 0, dz, dz);
        s.put_gradients(row, j, 1, dq, dq);
        s.put_gradients(row, j, 2, dn, dn * q);
        s.state_h[row * s.units + j] = dh * z;
    }
};

template <class T> struct simple {
    typedef T element;
    typedef compute<T> C;
    __device__ static void forward(const step<T> &s, int64_t row, int64_t j)
    {
        s.put_h(row, j, activate(s.activation, s.x_of(row, j) + s.r(row, j)));
    }
    __device__ static void backward(const step<T> &s, int64_t row, int64_t j)
    {
        const C h = wide(s.h[s.at(row, j, s.units)]);
        const C dx = through(s.activation, h, s.dh_of(row, j));
        s.put_gradients(row, j, 0, dx, dx);
        s.state_h[row * s.units + j] = C(0);
    }
};

template <class CELL> struct forward_units {
    step<typename CELL::element> s;
    __device__ void operator()(int64_t i) const
    {
        const int64_t row = quotient_of(i, s.units), j = i - row * s.units;
        if (s.skips(row))
            skip_forward(s, row, j);
        else
            CELL::forward(s, row, j);
    }
};
template <class CELL> struct backward_units {
    step<typename CELL::element> s;
    __device__ void operator()(int64_t i) const
    {
        const int64_t row = quotient_of(i, s.units), j = i - row * s.units;
        if (s.skips(row))
            skip_backward(s, row, j);
        else
            CELL::backward(s, row, j);
    }
};

/* ---- the walk ---- */

/* state = first, or zeros */
template <class T> struct begin_state {
    const T *first;
    compute<T> *state;
    __device__ void operator()(int64_t i) const
    {
        state[i] = first ? wide(first[i]) : compute<T>(0);
    }
};
template <class T> struct end_state {
    const compute<T> *state;
    T *result;
    __device__ void operator()(int64_t i) const
    {
        narrow(&result[i], state[i]);
    }
};

/* ---- convolutions of the state: products whose depth is over the elements of a window ---- */

struct windows {
    int64_t pixels, size[2], window[2], before[2]; /* before: zeros */
    /* The pixel that a tap of pixel p reads; -1: outside of the image. */
    __device__ int64_t read(int64_t p, int64_t tap) const
    {
        return beside(p, tap, 1);
    }
    /* The pixel whose tap reads pixel p. */
    __device__ int64_t reader(int64_t p, int64_t tap) const
    {
        return beside(p, tap, -1);
    }
    __device__ int64_t beside(int64_t p, int64_t tap, int64_t sign) const
    {
        const int64_t row = quotient_of(p, size[1]), a = quotient_of(tap, window[1]);
        const int64_t y = row + sign * (a - before[0]);
        const int64_t x = p - row * size[1] + sign * (tap - a * window[1] - before[1]);
        return y >= 0 && y < size[0] && x >= 0 && x < size[1] ? y * size[1] + x : -1;
    }
};

/* [cells, taps and features]: of the cells that the taps of a cell read, or of those whose taps read it. */
template <class TYPE> struct window_cells {
    typedef TYPE C;
    static constexpr bool ALONG_K = true;
    windows w;
    const C *x; /* [cells, features] */
    int64_t features;
    bool readers;
    __device__ __forceinline__ C get(int64_t, int64_t cell, int64_t k) const
    {
        const int64_t tap = quotient_of(k, features), image = quotient_of(cell, w.pixels) * w.pixels;
        const int64_t p = readers ? w.reader(cell - image, tap) : w.read(cell - image, tap);
        return p >= 0 ? x[(image + p) * features + k - tap * features] : C(0);
    }
};

/* The kernel [taps, units, columns] as [taps and columns, units]. */
template <class T> struct turned_kernel {
    typedef compute<T> C;
    static constexpr bool ALONG_K = true;
    const T *kernel;
    int64_t units, columns;
    __device__ __forceinline__ C get(int64_t, int64_t unit, int64_t k) const
    {
        const int64_t tap = quotient_of(k, columns);
        return wide(kernel[(tap * units + unit) * columns + k - tap * columns]);
    }
};

windows windows_of(const iso_recurrence &r)
{
    const iso_conv_geometry same = iso_recurrence_geometry(r.window);
    return {r.pixels,
            {r.size[0], r.size[1]},
            {r.window[0], r.window[1]},
            {same.pad_before[0], same.pad_before[1]}};
}

/* The result of a product, dense; add: to what is there. */
template <class C> struct put_product {
    C *c;
    int64_t columns;
    bool add;
    __device__ void put(int64_t, int64_t row, int64_t column, C value) const
    {
        C *to = &c[row * columns + column];
        *to = add ? *to + value : value;
    }
};

bool convolves(const iso_recurrence &r)
{
    return r.size[0] > 0;
}
int64_t taps_of(const iso_recurrence &r)
{
    return convolves(r) ? r.window[0] * r.window[1] : 1;
}

product_shape forward_shape(const iso_recurrence &r)
{
    return shape_of_product(1, iso_recurrence_cells(&r), r.columns, taps_of(r) * r.units);
}
product_shape backward_shape(const iso_recurrence &r)
{
    return shape_of_product(1, iso_recurrence_cells(&r), r.units, taps_of(r) * r.columns);
}

/* Before the scratch memory of the products: two states, and the product; 16 bytes divide it. */
int64_t own_elements(const iso_recurrence &r)
{
    return ceil_of(iso_recurrence_cells(&r) * (2 * r.units + r.columns), 4) * 4;
}

size_t scratch_of(const iso_recurrence &r, const product_shape &product)
{
    size_t bytes = 0;
    with_compute(r.h->dtype, [&](auto zero) {
        typedef decltype(zero) C;
        bytes = static_cast<size_t>(own_elements(r)) * sizeof(C) + product_scratch<C>(product);
    });
    return bytes;
}

size_t recurrence_scratch(const iso_kernel_call *call)
{
    const iso_recurrence r = iso_recurrence_of(call);
    return scratch_of(r, forward_shape(r));
}

size_t recurrence_grad_scratch(const iso_kernel_call *call)
{
    const iso_recurrence r = iso_recurrence_grad_of(call);
    return scratch_of(r, backward_shape(r));
}

template <class T> T *data_of(const iso_array *array)
{
    return array ? static_cast<T *>(array->data) : nullptr;
}

/* What all steps have in common. */
template <class T> step<T> step_of(const iso_kernel_call *call, const iso_recurrence &r)
{
    step<T> s = {};
    s.steps = r.steps;
    s.pixels = r.pixels;
    s.units = r.units;
    s.columns = r.columns;
    s.activation = r.form.activation;
    s.recurrent = r.form.recurrent;
    s.x = data_of<T>(r.x);
    s.bias = data_of<T>(r.bias);
    s.h0 = data_of<T>(r.h0);
    s.c0 = data_of<T>(r.c0);
    s.mask = data_of<uint8_t>(r.mask);
    s.dh = data_of<T>(r.dh);
    s.dc = data_of<T>(r.dc);
    s.h = data_of<T>(r.h);
    s.c = data_of<T>(r.c);
    s.gates = data_of<T>(r.gates);
    s.dx = data_of<T>(r.dx);
    s.dr = data_of<T>(r.dr);
    s.state_h = static_cast<compute<T> *>(call->scratch);
    s.state_c = s.state_h + iso_recurrence_cells(&r) * r.units;
    s.product = s.state_c + iso_recurrence_cells(&r) * r.units;
    return s;
}

template <class T> void set_time(step<T> *s, const iso_recurrence &r, int64_t i)
{
    s->time = iso_recurrence_time(&r, i);
    s->before = i > 0 ? iso_recurrence_time(&r, i - 1) : -1;
}

/* The call with the scratch memory of its products. */
template <class C> iso_kernel_call call_of_products(const iso_kernel_call *call, const iso_recurrence &r)
{
    iso_kernel_call products = *call;
    products.scratch = static_cast<C *>(call->scratch) + own_elements(r);
    return products;
}

template <class CELL> void run_forward(const iso_kernel_call *call, const iso_recurrence &r)
{
    typedef typename CELL::element T;
    typedef typename CELL::C C;
    step<T> s = step_of<T>(call, r);
    const int64_t states = iso_recurrence_cells(&r) * r.units;
    const iso_kernel_call products = call_of_products<C>(call, r);
    const strided<C, true> state = {s.state_h, {0, r.units, 1}};
    const T *kernel_data = data_of<T>(r.kernel);
    const strided<T, false> kernel = {kernel_data, {0, 1, r.columns}};
    for_each(call->stream, states, begin_state<T>{s.h0, s.state_h});
    for_each(call->stream, states, begin_state<T>{s.c0, s.state_c});
    for (int64_t i = 0; i < r.steps; i++) {
        set_time(&s, r, i);
        s.has_product = i > 0 || r.h0;
        if (s.has_product && convolves(r))
            run_product(&products, forward_shape(r),
                        window_cells<C>{windows_of(r), s.state_h, r.units, false}, kernel,
                        put_product<C>{s.product, r.columns, false});
        else if (s.has_product)
            run_product(&products, forward_shape(r), state, kernel,
                        put_product<C>{s.product, r.columns, false});
        for_each(call->stream, states, forward_units<CELL>{s});
    }
}

template <class CELL> void run_backward(const iso_kernel_call *call, const iso_recurrence &r)
{
    typedef typename CELL::element T;
    typedef typename CELL::C C;
    step<T> s = step_of<T>(call, r);
    const int64_t states = iso_recurrence_cells(&r) * r.units;
    const iso_kernel_call products = call_of_products<C>(call, r);
    const strided<C, true> dr = {s.product, {0, r.columns, 1}};
    const T *kernel_data = data_of<T>(r.kernel);
    const strided<T, true> kernel = {kernel_data, {0, r.columns, 1}};
    for_each(call->stream, 2 * states, begin_state<T>{nullptr, s.state_h});
    for (int64_t i = r.steps - 1; i >= 0; i--) {
        set_time(&s, r, i);
        for_each(call->stream, states, backward_units<CELL>{s});
        if ((i > 0 || r.dh0) && convolves(r))
            run_product(
                &products, backward_shape(r), window_cells<C>{windows_of(r), s.product, r.columns, true},
                turned_kernel<T>{kernel_data, r.units, r.columns}, put_product<C>{s.state_h, r.units, true});
        else if (i > 0 || r.dh0)
            run_product(&products, backward_shape(r), dr, kernel, put_product<C>{s.state_h, r.units, true});
    }
    if (r.dh0)
        for_each(call->stream, states, end_state<T>{s.state_h, data_of<T>(r.dh0)});
    if (r.dc0)
        for_each(call->stream, states, end_state<T>{s.state_c, data_of<T>(r.dc0)});
}

/* Calls run with a cell of the kind, of elements T. */
template <class T, class F> void with_cell(iso_cell kind, F run)
{
    if (kind == ISO_CELL_LSTM)
        run(lstm<T>());
    else if (kind == ISO_CELL_GRU)
        run(gru<T>());
    else
        run(simple<T>());
}

void run_recurrence(const iso_kernel_call *call)
{
    const iso_recurrence r = iso_recurrence_of(call);
    with_float(r.h->dtype, [&](auto zero) {
        typedef decltype(zero) T;
        with_cell<T>(r.form.cell, [&](auto cell) { run_forward<decltype(cell)>(call, r); });
    });
}

void run_recurrence_grad(const iso_kernel_call *call)
{
    const iso_recurrence r = iso_recurrence_grad_of(call);
    with_float(r.h->dtype, [&](auto zero) {
        typedef decltype(zero) T;
        with_cell<T>(r.form.cell, [&](auto cell) { run_backward<decltype(cell)>(call, r); });
    });
}

} // namespace

ISO_CUDA_KERNEL_WITH(recurrence, run_recurrence, false, recurrence_scratch)
ISO_CUDA_KERNEL_WITH(recurrence_grad, run_recurrence_grad, false, recurrence_grad_scratch)
