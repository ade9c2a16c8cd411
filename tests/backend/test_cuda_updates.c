/* What the CUDA backend does besides the kernels of ops, run by the emulator: updates of the optimizers and
 * sums and the gathers of exchanges have the bits of the reference, copies of boxes and of bytes those of the CPU, in
 * order, backward and in random orders. Ranks: 1 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "runtime/backend/cuda/gather.h"
#include "runtime/backend/cuda/step_end.h"
#include "runtime/backend/fault.h"
#include "runtime/base/device.h"
#include "tests/backend/updates.h"
#include "tests/emulator/emulator.h"
#include "tests/support/run_tests.h"

enum { ORDERS = 4, CALLS = 3 };

static void set_order(int number)
{
    emulator_set_order(number == 0   ? EMULATOR_IN_ORDER
                       : number == 1 ? EMULATOR_BACKWARD
                                     : EMULATOR_RANDOM,
                       (uint64_t)number);
}

/* The table of the emulator is the host's. */
static void optimize(const iso_optimizer_call *calls, int n_calls)
{
    static _Alignas(16) char host[2 * CALLS * RUNS * ISO_CUDA_TABLE_ENTRY];
    iso_optimizer_table table = {.bytes = sizeof host / 2, .host = host};
    iso_cuda_optimize(calls, n_calls, &table, NULL);
}

static void check_rule(int which, iso_dtype dtype, int order)
{
    static bucket_memory want, got;
    iso_optimizer_run runs[RUNS];
    iso_rates rates = rates_of(which);
    begin(&want, dtype), begin(&got, dtype);
    update_plainly(which, dtype, &want);
    int count = make_runs(&got, dtype, settings[which].slots, runs);
    iso_optimizer_call call = {.rule = iso_cuda_optimizer(settings[which].kernel, dtype),
                               .rates = &rates,
                               .n_runs = count,
                               .runs = runs};
    set_order(order);
    optimize(&call, 1);
    ck_assert_ptr_null(emulator_error());
    ck_assert_msg(memcmp(&want, &got, sizeof want) == 0, "%s of setting %d, order %d: other bits",
                  settings[which].kernel, which, order);
}

START_TEST(updates_have_the_bits_of_the_reference)
{
    for (int which = 0; which < SETTINGS; which++)
        for (int order = 0; order < ORDERS; order++)
            check_rule(which, order % 2 ? ISO_F64 : ISO_F32, order);
    ck_assert_ptr_null(iso_cuda_optimizer("adamm", ISO_F32));
    ck_assert_ptr_null(iso_cuda_optimizer("adam", ISO_I32));
}
END_TEST

/* Buckets of different rules, rates and types; one of them only accumulates. */
START_TEST(buckets_are_updated_together)
{
    static const int which[CALLS] = {1, 4, 8};
    static const iso_dtype types[CALLS] = {ISO_F32, ISO_F64, ISO_F32};
    static bucket_memory want[CALLS], got[CALLS];
    static iso_optimizer_run runs[CALLS][RUNS];
    iso_rates rates[CALLS];
    iso_optimizer_call calls[CALLS];
    for (int idle = -1; idle < CALLS; idle++) {
        for (int i = 0; i < CALLS; i++) {
            begin(&want[i], types[i]), begin(&got[i], types[i]);
            if (i != idle)
                update_plainly(which[i], types[i], &want[i]);
            rates[i] = rates_of(which[i]);
            rates[i].apply = i != idle;
            int count = make_runs(&got[i], types[i], settings[which[i]].slots, runs[i]);
            calls[i] = (iso_optimizer_call){.rule = iso_cuda_optimizer(settings[which[i]].kernel, types[i]),
                                            .rates = &rates[i],
                                            .n_runs = count,
                                            .runs = runs[i]};
        }
        set_order(idle + 1);
        optimize(calls, CALLS);
        ck_assert_ptr_null(emulator_error());
        for (int i = 0; i < CALLS; i++)
            ck_assert_msg(memcmp(&want[i], &got[i], sizeof want[i]) == 0, "bucket %d: other bits", i);
    }
}
END_TEST

START_TEST(nothing_changes_after_a_fault_or_between_updates)
{
    static bucket_memory before, after;
    for (int form = 0; form < 3; form++) {
        iso_optimizer_run runs[RUNS];
        iso_rates rates = {.apply = form != 0, .hyper = {0.1, 0.01}};
        double faults = form == 1 ? 3 : 2 * ISO_STOP_WEIGHT;
        char from[100], to[100];
        memset(from, 1, sizeof from), memset(to, 0, sizeof to);
        begin(&before, ISO_F32), begin(&after, ISO_F32);
        int count = make_runs(&after, ISO_F32, 0, runs);
        optimize(&(iso_optimizer_call){iso_cuda_optimizer("sgd", ISO_F32), &rates, &faults, count, runs}, 1);
        iso_cuda_copy_bytes(&(iso_bytes_copy){from, to, sizeof to}, 1, &faults, NULL);
        ck_assert_ptr_null(emulator_error());
        ck_assert_int_eq(memcmp(&before, &after, sizeof before) == 0, form != 2);
        for (size_t i = 0; i < sizeof to; i++)
            ck_assert_int_eq(to[i], form != 1);
    }
}
END_TEST

/* More copies than one kernel takes, of all alignments, some of no bytes and one of several blocks. */
START_TEST(lists_of_bytes_are_copied)
{
    enum { COPIES = 230, COPIED = 1 << 17 };
    _Alignas(64) static unsigned char from[COPIED], want[COPIED], got[COPIED];
    iso_bytes_copy list[COPIES], same[COPIES];
    for (size_t i = 0; i < COPIED; i++)
        from[i] = (unsigned char)(i * 7 + i / 251);
    for (int order = 0; order < ORDERS; order++) {
        size_t at = 0;
        memset(want, 0, sizeof want), memset(got, 0, sizeof got);
        for (int i = 0; i < COPIES; i++) {
            size_t bytes = i == 40 ? 50003 : (size_t)(i % 23) * (i % 3 ? 4 : 1), to = i % 5 ? at : at + 1;
            list[i] = (iso_bytes_copy){from + at, got + to, bytes};
            same[i] = (iso_bytes_copy){from + at, want + to, bytes};
            at += bytes + (i % 4 ? 16 - bytes % 16 : 3);
            ck_assert_uint_lt(at, COPIED);
        }
        set_order(order);
        iso_cuda_copy_bytes(list, COPIES, NULL, NULL);
        iso_backend_cpu()->copy_bytes(same, COPIES, NULL, NULL);
        ck_assert_ptr_null(emulator_error());
        ck_assert_int_eq(memcmp(want, got, sizeof want), 0);
    }
}
END_TEST

START_TEST(sums_and_maxima_have_the_bits_of_the_reference)
{
    static const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_I32, ISO_I64, ISO_U8, ISO_BOOL, ISO_BF16};
    enum { N = 300 };
    _Alignas(64) char a[N * 8 + 64], b[N * 8 + 64], want[N * 8], got[N * 8 + 64];
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        for (int64_t n = 0; n < N; n += n < 40 ? 1 : 97) {
            size_t shift = n % 3 == 0 ? 0 : iso_dtype_size(types[k]),
                   bytes = (size_t)n * iso_dtype_size(types[k]);
            for (int64_t i = 0; i < n; i++) {
                iso_element_set(a + shift, types[k], i, types[k] == ISO_BOOL ? i % 2 : (double)(i * 7 % 11));
                iso_element_set(b + shift, types[k], i,
                                types[k] == ISO_BOOL ? i % 3 == 0 : (double)(i * 5 % 13));
            }
            if (n > 9 && iso_dtype_is_float(types[k])) {
                iso_element_set(a + shift, types[k], 3, NAN);
                iso_element_set(b + shift, types[k], 9, NAN);
            }
            set_order((int)n % ORDERS);
            iso_backend_reference()->sum(types[k], n, a + shift, b + shift, want, NULL);
            iso_cuda_sum_slots(types[k], n, a + shift, b + shift, got + shift, NULL);
            ck_assert_msg(memcmp(want, got + shift, bytes) == 0, "sum of %lld %s", (long long)n,
                          iso_dtype_name(types[k]));
            iso_backend_reference()->maximum(types[k], n, a + shift, b + shift, want, NULL);
            iso_cuda_maximum_slots(types[k], n, a + shift, b + shift, a + shift, NULL);
            ck_assert_msg(memcmp(want, a + shift, bytes) == 0, "maximum of %lld %s", (long long)n,
                          iso_dtype_name(types[k]));
            ck_assert_ptr_null(emulator_error());
        }
}
END_TEST

/* ---- gathers: the tree over operands ---- */

enum { OPERANDS = 21, ELEMENTS = 6 * 70 };

typedef struct gathering {
    iso_dtype dtype;
    bool maximum;
    int n_operands;
    unsigned char folds[OPERANDS];
    _Alignas(64) char data[OPERANDS][ELEMENTS * 8 + 64];
} gathering;

/* Combines operands [begin, begin + count) in the order of the fixed tree, by the reference's sums, into `out`; lists
 * the folds in postfix order. */
static void combine_by_reference(gathering *g, int begin, int count, size_t shift, char *out)
{
    char right[ELEMENTS * 8];
    if (count == 1) {
        memcpy(out, g->data[begin] + shift, ELEMENTS * iso_dtype_size(g->dtype));
        return;
    }
    int left = 1;
    while (left * 2 < count)
        left *= 2;
    combine_by_reference(g, begin, left, shift, out);
    combine_by_reference(g, begin + left, count - left, shift, right);
    g->folds[begin + count - 1]++;
    (g->maximum ? iso_backend_reference()->maximum : iso_backend_reference()->sum)(g->dtype, ELEMENTS, out,
                                                                                   right, out, NULL);
}

static void fill_operands(gathering *g, size_t shift)
{
    uint64_t random = 17;
    memset(g->folds, 0, sizeof g->folds);
    for (int k = 0; k < g->n_operands; k++)
        for (int64_t i = 0; i < ELEMENTS; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            double value = (double)(random >> 40) * 0x1p-20 - 8;
            iso_element_set(g->data[k] + shift, g->dtype, i,
                            iso_dtype_is_float(g->dtype) ? value : (int)value & 1);
        }
}

/* A stream of the device, as launch.h has it. */
typedef struct stream_of_tests {
    iso_stream base;
    void *cuda;
    int error;
} stream_of_tests;

/* As loops over runs of whole packs, where the addresses are multiples of 16: every second run of 16 elements. */
static void check_gathered_runs(gathering *g, size_t shift, const char *want)
{
    enum { PARTS = ELEMENTS / 32, RUN = 16 };
    _Alignas(64) char dense[ELEMENTS * 8 + 64];
    const void *operand[OPERANDS];
    const int64_t size = (int64_t)iso_dtype_size(g->dtype), extent[] = {PARTS, RUN};
    int64_t stride[OPERANDS + 1];
    stream_of_tests stream = {{iso_device_cpu()}, NULL, 0};
    for (int k = 0; k < g->n_operands; k++) {
        operand[k] = g->data[k] + shift;
        stride[k] = 2 * RUN * size;
    }
    stride[g->n_operands] = RUN * size;
    const iso_device_gather gather = {.dtype = g->dtype,
                                      .maximum = g->maximum,
                                      .n_operands = g->n_operands,
                                      .operand = operand,
                                      .folds = g->folds,
                                      .rank = 2,
                                      .extent = extent,
                                      .stride = stride,
                                      .out = dense + shift};
    iso_cuda_gather(&stream.base, &gather);
    for (int64_t run = 0; run < PARTS; run++)
        ck_assert_mem_eq(dense + shift + run * RUN * size, want + run * 2 * RUN * size, RUN * size);
    ck_assert_ptr_null(emulator_error());
}

/* As one run with a copy elsewhere, in place of the first operand; and as loops whose target has its columns
 * first. */
static void check_gather(gathering *g, size_t shift, const char *want)
{
    char copy[ELEMENTS * 8 + 64], turned[ELEMENTS * 8 + 64];
    const void *operand[OPERANDS];
    void *copies[] = {copy + shift};
    int64_t size = (int64_t)iso_dtype_size(g->dtype), extent[] = {70, 6, 1}, stride[2 * (OPERANDS + 1)];
    stream_of_tests stream = {{iso_device_cpu()}, NULL, 0};
    for (int k = 0; k < g->n_operands; k++) {
        operand[k] = g->data[k] + shift;
        stride[k] = 6 * size, stride[g->n_operands + 1 + k] = size;
    }
    stride[g->n_operands] = size, stride[2 * g->n_operands + 1] = 70 * size;
    iso_device_gather gather = {.dtype = g->dtype,
                                .maximum = g->maximum,
                                .n_operands = g->n_operands,
                                .operand = operand,
                                .folds = g->folds,
                                .rank = 3,
                                .extent = extent,
                                .stride = stride,
                                .out = turned + shift};
    iso_cuda_gather(&stream.base, &gather);
    for (int64_t row = 0; row < 70; row++)
        for (int64_t column = 0; column < 6; column++)
            ck_assert_mem_eq(turned + shift + (column * 70 + row) * size, want + (row * 6 + column) * size,
                             size);
    gather.rank = 1;
    extent[0] = ELEMENTS;
    gather.out = g->data[0] + shift;
    gather.n_copies = 1;
    gather.copies = copies;
    iso_cuda_gather(&stream.base, &gather);
    ck_assert_mem_eq(g->data[0] + shift, want, ELEMENTS * size);
    ck_assert_mem_eq(copy + shift, want, ELEMENTS * size);
    ck_assert_ptr_null(emulator_error());
}

START_TEST(gathers_have_the_bits_of_the_tree_of_the_reference)
{
    static const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_I32, ISO_I64, ISO_U8, ISO_BOOL, ISO_BF16};
    static const int counts[] = {1, 2, 3, 8, 9, OPERANDS};
    static gathering g;
    char want[ELEMENTS * 8];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            size_t shift = c % 2 ? iso_dtype_size(types[t]) : 0;
            g = (gathering){.dtype = types[t], .maximum = (t + c) % 3 == 0, .n_operands = counts[c]};
            fill_operands(&g, shift);
            combine_by_reference(&g, 0, g.n_operands, shift, want);
            set_order((int)(t + c) % ORDERS);
            check_gathered_runs(&g, shift, want);
            check_gather(&g, shift, want);
        }
}
END_TEST

/* A box of [6, 9, 5] in another one, and the forms without a region. */
START_TEST(boxes_are_copied)
{
    static const size_t sizes[] = {1, 2, 4, 8};
    for (int form = 0; form < 4; form++)
        for (int s = 0; s < 4; s++) {
            char from[8 * 500], want[8 * 500], got[8 * 500];
            for (size_t i = 0; i < sizeof from; i++)
                from[i] = (char)(i * 31 % 127), want[i] = got[i] = 77;
            iso_box_copy copy = {.whole = form == 1,
                                 .zero = form == 2 || form == 3,
                                 .empty = form == 3,
                                 .region = {3, {2, 3, 1}, {3, 2, 4}},
                                 .from_box = {3, {1, 2, 0}, {5, 6, 5}},
                                 .to_box = {3, {2, 0, 1}, {3, 9, 4}},
                                 .from = from,
                                 .to = want,
                                 .element = sizes[s]};
            iso_box_copy_run(&copy);
            copy.to = got;
            set_order(form);
            struct {
                iso_stream base;
                void *cuda;
            } stream = {{iso_device_cpu()}, NULL}; /* begins as those of the device */
            iso_cuda_copy_box(&copy, &stream.base);
            ck_assert_ptr_null(emulator_error());
            ck_assert_mem_eq(want, got, sizeof got);
        }
}
END_TEST

START_TEST(faults_are_counted)
{
    iso_fault fault = {.code = ISO_FAULT_NONE};
    const double host = 5;
    double count = -1;
    iso_cuda_count_fault(&fault, &host, &count, NULL);
    ck_assert(count == 5);
    fault.code = ISO_FAULT_REAL;
    iso_cuda_count_fault(&fault, &host, &count, NULL);
    ck_assert(count == 6);
}
END_TEST

int main(void)
{
    return RUN_TESTS(
        "CUDA updates", 250, updates_have_the_bits_of_the_reference, buckets_are_updated_together,
        lists_of_bytes_are_copied, nothing_changes_after_a_fault_or_between_updates,
        sums_and_maxima_have_the_bits_of_the_reference, gathers_have_the_bits_of_the_tree_of_the_reference,
        boxes_are_copied, faults_are_counted);
}
