/* Sums of exponentials along lines, in one pass. */
#ifndef ISO_BACKEND_CUDA_EXPONENTIALS_H
#define ISO_BACKEND_CUDA_EXPONENTIALS_H

#include "runtime/backend/cuda/lines.h"

namespace iso_cuda
{

/* The largest element of a line, and the sum of exp(x - largest). */
template <class C> struct exponentials {
    C largest;
    double sum;
    __device__ double log_sum() const /* log(sum(exp(x))) */
    {
        return log_of(sum) + largest;
    }
};

/* Each member sums around the largest element so far; where a larger one comes, the sum so far shrinks. */
template <int L, class T> __device__ exponentials<compute<T>> exponentials_of(const T *x, line at)
{
    typedef compute<T> C;
    C largest = -INFINITY;
    double sum = 0;
    for (int64_t k = member<L>(); k < at.count; k += READS * L) {
        T read[READS];
        ISO_UNROLL()
        for (int j = 0; j < READS; j++) {
            const int64_t own = k + j * L < at.count ? k + j * L : k;
            read[j] = x[at.begin + own * at.step];
        }
        C top = largest, part = 0;
        ISO_UNROLL()
        for (int j = 0; j < READS; j++)
            top = max_of::join(top, wide(read[j]));
        const C around = top == -INFINITY ? C(0) : top;
        ISO_UNROLL()
        for (int j = 0; j < READS; j++)
            part += k + j * L < at.count ? exp_of(wide(read[j]) - around) : C(0);
        if (top > largest)
            sum *= exp_of(largest - top);
        sum += part;
        largest = top;
    }
    const C all = join<L, max_of>(largest);
    if (largest < all)
        sum *= exp_of(largest - all);
    return {all, join<L, sum_of>(sum)};
}

} // namespace iso_cuda

#endif
