/* Buckets of variables and the settings of optimizers' rules, for backends' updates. */
#ifndef ISO_TESTS_BACKEND_UPDATES_H
#define ISO_TESTS_BACKEND_UPDATES_H

#include <check.h>
#include <string.h>

#include "runtime/backend/backend.h"
#include "runtime/graph/optimizers/rule.h"

enum { RUNS = 70, MOST = 9000, ROOM = RUNS * 40 + 3 * MOST, SLOTS = 3 };

static const struct {
    const char *kernel;
    int slots;
    double hyper[ISO_MAX_HYPER]; /* rate, decay, the rule's own */
} settings[] = {
    {"sgd", 0, {0.1, 0.01, 0, 0}},
    {"sgd", 1, {0.1, 0, 0.9, 1}},
    {"rmsprop", 1, {0.01, 0.01, 0.9, 0, 1e-7, 0}},
    {"rmsprop", 3, {0.01, 0, 0.9, 0.5, 1e-3, 1}},
    {"adam", 2, {0.003, 0.004, 0.1, 0.001, 1e-7, 0}},
    {"adam", 3, {0.003, 0, 0.1, 0.001, 1e-7, 1}},
    {"adagrad", 1, {0.01, 0, 0, 1e-7}},
    {"nadam", 2, {0.003, 0.01, 0.1, 0.001, 1e-7, 0.7, 0.6, 1.5}},
    {"lion", 1, {0.003, 0.01, 0.9, 0.99, 0.1, 0.01}},
    {"adamax", 2, {0.003, 0.01, 0.1, 0.999, 1e-7, 0.19}},
    {"adadelta", 2, {0.3, 0.01, 0.95, 1e-7}},
    {"ftrl", 2, {0.03, 0.01, -0.5, 0.1, 0.1, 0.2, 0.3, 0.4}},
    {"ftrl", 2, {0.03, 0, -0.7, 0.1, 0, 0.1, 0, 0}},
    {"average", 1, {0.9, 0}},
    {"average", 1, {0.7, 1}},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* Weights, slots and a gradient, in float32 or float64. */
typedef struct bucket_memory {
    _Alignas(64) char bytes[2 + SLOTS][ROOM * sizeof(double)];
} bucket_memory;

static inline void begin(bucket_memory *m, iso_dtype dtype)
{
    uint64_t random = 9;
    for (int k = 0; k < 2 + SLOTS; k++)
        for (int64_t i = 0; i < ROOM; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            double value = (double)(random >> 40) * 0x1p-24;
            iso_element_set(m->bytes[k], dtype, i, k < 2 ? 2 * value - 1 : value);
        }
}

/* A bucket of many runs of different lengths: some of no elements, some that begin at odd addresses. */
static inline int make_runs(bucket_memory *m, iso_dtype dtype, int slots, iso_optimizer_run *runs)
{
    size_t size = iso_dtype_size(dtype), at = 0;
    for (int r = 0; r < RUNS; r++) {
        int64_t count = r == 20 ? MOST : r == 50 ? 4096 : r % 37;
        runs[r] = (iso_optimizer_run){count, m->bytes[0] + at * size, {NULL}, m->bytes[1] + at * size};
        for (int k = 0; k < slots; k++)
            runs[r].slots[k] = m->bytes[2 + k] + at * size;
        at += (size_t)count;
    }
    ck_assert_uint_le(at, ROOM);
    return RUNS;
}

static inline iso_rates rates_of(int which)
{
    iso_rates rates = {.apply = true};
    memcpy(rates.hyper, settings[which].hyper, sizeof rates.hyper);
    return rates;
}

/* The update by the reference. */
static inline void update_plainly(int which, iso_dtype dtype, bucket_memory *m)
{
    iso_optimizer_run runs[RUNS];
    iso_rates rates = rates_of(which);
    int count = make_runs(m, dtype, settings[which].slots, runs);
    iso_rule_run plain = iso_backend_reference()->optimizer(settings[which].kernel, dtype);
    for (int r = 0; r < count; r++)
        plain(runs[r].count, runs[r].weights, runs[r].slots, runs[r].gradient, rates.hyper);
}

#endif
