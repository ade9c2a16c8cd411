/* Products of matrices; sums are of the type of the elements. */
#include "runtime/backend/cuda/product.h"
#include "runtime/graph/ops/attrs.h"

namespace
{

using namespace iso_cuda;

struct product {
    product_shape shape;
    steps a, b;
};

int64_t leading(const iso_array &x, int dims)
{
    int64_t count = 1;
    for (int d = 0; d < dims; d++)
        count *= x.dim[d];
    return count;
}

product product_of(const iso_kernel_call *call)
{
    const iso_matmul_attrs *attrs = static_cast<const iso_matmul_attrs *>(call->attrs);
    const iso_array &a = call->in[0], &b = call->in[1];
    int64_t columns_a = a.dim[a.rank - 1], columns_b = b.dim[b.rank - 1];
    if (attrs->contract)
        return {shape_of_product(1, columns_a, columns_b, leading(a, a.rank - 1)),
                {0, 1, columns_a},
                {0, 1, columns_b}};
    bool one_b = a.rank != b.rank; /* for all rows of a */
    int64_t batch = one_b ? 1 : leading(a, a.rank - 2);
    int64_t m = one_b ? leading(a, a.rank - 1) : a.dim[a.rank - (attrs->transpose_a ? 1 : 2)];
    int64_t n = b.dim[b.rank - (attrs->transpose_b ? 2 : 1)],
            k = a.dim[a.rank - (attrs->transpose_a ? 2 : 1)];
    return {shape_of_product(batch, m, n, k),
            {m * k, attrs->transpose_a ? 1 : columns_a, attrs->transpose_a ? columns_a : 1},
            {k * n, attrs->transpose_b ? columns_b : 1, attrs->transpose_b ? 1 : columns_b}};
}

template <class C> struct result {
    reals c;
    int64_t m, n;
    __device__ void put(int64_t batch, int64_t row, int64_t column, C value) const
    {
        c.put((batch * m + row) * n + column, value);
    }
};

template <class T, bool A_ALONG_K, bool B_ALONG_K>
void multiply(const iso_kernel_call *call, const product &p)
{
    strided<T, A_ALONG_K> a = {static_cast<const T *>(call->in[0].data), p.a};
    strided<T, B_ALONG_K> b = {static_cast<const T *>(call->in[1].data), p.b};
    run_product(call, p.shape, a, b, result<compute<T>>{reals_of(call->out[0]), p.shape.m, p.shape.n});
}

void run_matmul(const iso_kernel_call *call)
{
    product p = product_of(call);
    with_float(call->in[0].dtype, [&](auto zero) {
        typedef decltype(zero) T;
        if (p.a.k == 1 && p.b.k == 1)
            multiply<T, true, true>(call, p);
        else if (p.a.k == 1)
            multiply<T, true, false>(call, p);
        else if (p.b.k == 1)
            multiply<T, false, true>(call, p);
        else
            multiply<T, false, false>(call, p);
    });
}

size_t matmul_scratch(const iso_kernel_call *call)
{
    product_shape s = product_of(call).shape;
    return call->in[0].dtype == ISO_F64 ? product_scratch<double>(s) : product_scratch<float>(s);
}

} // namespace

ISO_CUDA_KERNEL_WITH(matmul, run_matmul, false, matmul_scratch)
