/* Kernels for the tests of the stand-in. */
#include "tests/standin/kernels.h"

#include "runtime/backend/cuda/launch.h"

namespace
{

__global__ void scale(float *x, int n, float factor, float term)
{
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n)
        x[i] = x[i] * factor + term;
}

__global__ void add(float *sum, const float *x, int n)
{
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n)
        sum[i] += x[i];
}

} // namespace

static iso_cuda_stream stream_of(cudaStream_t cuda)
{
    iso_cuda_stream stream = {};
    stream.cuda = cuda;
    return stream;
}

cudaError_t test_scale(float *x, int n, float factor, float term, cudaStream_t stream)
{
    iso_cuda_stream of = stream_of(stream);
    return launch(scale, (n + 63) / 64, 64, 0, &of, x, n, factor, term);
}

cudaError_t test_add(float *sum, const float *x, int n, cudaStream_t stream)
{
    iso_cuda_stream of = stream_of(stream);
    return launch(add, (n + 63) / 64, 64, 0, &of, sum, x, n);
}
