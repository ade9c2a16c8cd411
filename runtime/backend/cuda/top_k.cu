/* The largest elements of rows, and the gradient: which elements of a row were taken. */
#include "runtime/backend/cuda/faults.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

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
