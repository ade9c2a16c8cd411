/* Bits of enlarged images: what is interpolated between equal elements equals them. */
#ifndef ISO_TESTS_BACKEND_UPSAMPLED_H
#define ISO_TESTS_BACKEND_UPSAMPLED_H

#include "tests/backend/harness.h"

enum { UPSAMPLED_HIGH = 4, UPSAMPLED_WIDE = 3 };

/* The element that element `at` of an enlarged dimension equals: it lies on it, or beyond the first or last one;
 * -1: it lies between two. */
static inline int64_t upsampled_source(int64_t at, int64_t times, int64_t elements)
{
    int64_t halves =
        2 * at + 1 - times; /* from the centre of the first element, in halves of an enlarged one */
    if (halves <= 0)
        return 0;
    if (halves >= 2 * times * (elements - 1))
        return elements - 1;
    return halves % (2 * times) == 0 ? halves / (2 * times) : -1;
}

static inline trial upsampled_trial(const char *op, iso_dtype dtype, const int64_t times[2])
{
    trial t = {.op = op, .attrs.upsample = {{times[0], times[1]}}};
    const int64_t small[] = {1, UPSAMPLED_HIGH, UPSAMPLED_WIDE, 1};
    const int64_t large[] = {1, UPSAMPLED_HIGH, times[0], UPSAMPLED_WIDE, times[1], 1};
    bool gradient = strstr(op, "grad");
    input(&t, dtype, 0.1, 0.3, gradient ? 6 : 4, gradient ? large : small);
    output(&t, dtype, gradient ? 4 : 6, gradient ? small : large);
    return t;
}

/* Elements that lie between no two equal their source; of a constant image, all do. */
static inline void check_upsampled_image(const iso_backend *backend, iso_dtype dtype, const int64_t times[2],
                                         bool constant)
{
    trial t = upsampled_trial("upsample_linear", dtype, times);
    void *owner[MOST_ARRAYS];
    int64_t height = UPSAMPLED_HIGH * times[0], width = UPSAMPLED_WIDE * times[1];
    place_inputs(&t, 0, NULL, owner);
    for (int64_t i = 0; constant && i < iso_array_count(&t.in[0]); i++)
        iso_element_set(t.in[0].data, dtype, i, 0.7);
    result r = run_trial(&t, backend, 0);
    for (int64_t i = 0; i < height * width; i++) {
        int64_t row = upsampled_source(i / width, times[0], UPSAMPLED_HIGH);
        int64_t column = upsampled_source(i % width, times[1], UPSAMPLED_WIDE);
        if (!constant && (row < 0 || column < 0))
            continue;
        double got = iso_index_element(&r.out[0], i);
        double want = iso_index_element(&t.in[0], constant ? 0 : row * UPSAMPLED_WIDE + column);
        CHECK(got == want, "%s: element %lld is %.17g, its source %.17g", describe(&t), (long long)i, got,
              want);
    }
    free_result(&t, &r);
    free_all(owner, t.inputs);
}

/* The whole gradient of a corner goes to its source. */
static inline void check_upsampled_gradient(const iso_backend *backend, iso_dtype dtype,
                                            const int64_t times[2])
{
    trial t = upsampled_trial("upsample_linear_grad", dtype, times);
    void *owner[MOST_ARRAYS];
    place_inputs(&t, 0, NULL, owner);
    for (int64_t i = 1; i < iso_array_count(&t.in[0]); i++)
        iso_element_set(t.in[0].data, dtype, i, 0);
    result r = run_trial(&t, backend, 0);
    for (int64_t i = 0; i < iso_array_count(&r.out[0]); i++) {
        double got = iso_index_element(&r.out[0], i), want = i ? 0 : iso_index_element(&t.in[0], 0);
        CHECK(got == want, "%s: element %lld is %.17g, not %.17g", describe(&t), (long long)i, got, want);
    }
    free_result(&t, &r);
    free_all(owner, t.inputs);
}

static inline void check_upsampled(const iso_backend *backend)
{
    static const int64_t times[][2] = {{1, 1}, {1, 7}, {6, 1}, {2, 2}, {3, 5}, {10, 6}};
    static const iso_dtype types[] = {ISO_F32, ISO_F64};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        for (int k = 0; k < 2; k++) {
            check_upsampled_image(backend, types[k], times[i], false);
            check_upsampled_image(backend, types[k], times[i], true);
            check_upsampled_gradient(backend, types[k], times[i]);
        }
}

#endif
