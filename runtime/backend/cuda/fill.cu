/* Fills with elements of several bytes: CUDA's own fills repeat one byte. */
#include <cstdint>
#include <cstring>

#include "runtime/backend/cuda/launch.h"

namespace
{

const unsigned THREADS = 256;
const size_t MOST_BLOCKS = 1024;

template <class T> __global__ void fill(T *to, T value, size_t count)
{
    size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
        to[i] = value;
}

template <class T> void queue(void *to, const void *element, size_t count, const iso_stream *stream)
{
    T value;
    std::memcpy(&value, element, sizeof value);
    size_t blocks = (count + THREADS - 1) / THREADS;
    launch(fill<T>, static_cast<unsigned>(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), THREADS, 0,
           iso_cuda_stream_of(stream), static_cast<T *>(to), value, count);
}

} // namespace

/* Declared in device.h. */
extern "C" void iso_cuda_fill(void *to, const void *element, size_t size, size_t count, iso_stream *stream)
{
    if (size == 2)
        queue<uint16_t>(to, element, count, stream);
    else if (size == 4)
        queue<uint32_t>(to, element, count, stream);
    else
        queue<uint64_t>(to, element, count, stream);
}
