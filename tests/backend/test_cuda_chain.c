/* Chains of elementwise instructions of the CUDA backend, run by the emulator: the bits of their own kernels, in
 * order, backward and in random orders, in float32, float64 and bfloat16, in place and with memory that is used
 * again; a chain ends where threads would meet each other's elements. Ranks: 1 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend/cuda/chain.h"
#include "runtime/backend/cuda/kernels.h"
#include "runtime/backend/cuda/step_end.h"
#include "runtime/graph/ops/attrs.h"
#include "tests/emulator/emulator.h"
#include "tests/support/run_tests.h"

enum { ORDERS = 4, MOST = 70000, WORDS = 8 * MOST, STEPS = 9 };

static double memory[WORDS], alone[WORDS], before[WORDS];
static iso_array arrays[STEPS][3];
static iso_kernel_call calls[STEPS];
static iso_box_copy copies[STEPS];
static iso_thunk thunks[STEPS];
static int n_thunks;
static const iso_affine_attrs kept = {.scale = 0.99, .shift = 0.125}, rest = {.scale = 0.01, .shift = 0};
static const iso_unary_attrs square = {.kind = ISO_UNARY_SQUARE};
static const iso_count_attrs rows = {.count = 3, .batch = true};
static const iso_step_info info = {.rows = 7};

static iso_array array_of(iso_dtype dtype, int64_t n, size_t offset)
{
    iso_array array = {.dtype = dtype, .rank = 1, .dim = {n}, .global = {n}};
    array.data = (char *)memory + offset;
    return array;
}

static void add(const char *op, const void *attrs, int n_inputs, iso_array x, iso_array y, iso_array z)
{
    iso_array *in = arrays[n_thunks];
    in[0] = x, in[1] = y, in[2] = z;
    calls[n_thunks] = (iso_kernel_call){
        .in = in, .n_inputs = n_inputs, .out = in + 2, .n_outputs = 1, .attrs = attrs, .info = &info};
    thunks[n_thunks] =
        (iso_thunk){.kernel = iso_cuda_kernel_find(op, &calls[n_thunks]), .call = &calls[n_thunks]};
    ck_assert_msg(thunks[n_thunks].kernel != NULL, "no kernel of %s", op);
    n_thunks++;
}

static void add_copy(iso_array x, iso_array z)
{
    iso_box box = {.rank = 1, .extent = {x.dim[0]}};
    copies[n_thunks] = (iso_box_copy){.whole = true,
                                      .region = box,
                                      .from_box = box,
                                      .to_box = box,
                                      .from = x.data,
                                      .to = z.data,
                                      .element = iso_dtype_size(x.dtype)};
    thunks[n_thunks] = (iso_thunk){.copy = &copies[n_thunks]};
    n_thunks++;
}

/* A moving statistic, as batch normalization computes it, then a norm; slots of memory are used again. */
static void make_statistic(iso_dtype stored, iso_dtype computed, int64_t n)
{
    size_t slot = MOST * sizeof(double);
    iso_array moving = array_of(stored, n, 0), wide = array_of(computed, n, slot),
              fresh = array_of(computed, n, 2 * slot), sum = array_of(computed, n, 3 * slot),
              one = array_of(computed, 1, 4 * slot), none = {0};
    n_thunks = 0;
    add("cast", NULL, 1, moving, none, wide);
    add("affine", &kept, 1, wide, none, wide);
    add("affine", &rest, 1, fresh, none, sum);
    add("add", NULL, 2, wide, sum, fresh);
    add("maximum", NULL, 2, fresh, one, fresh);
    add("scale_by_count", &rows, 1, fresh, none, sum);
    add("cast", NULL, 1, sum, none, moving);
    add("square", &square, 1, sum, none, sum);
    if (iso_dtype_size(computed) > 2)
        add_copy(sum, wide);
}

static void fill(iso_dtype stored, iso_dtype computed, int64_t n)
{
    uint64_t random = 5;
    memset(before, 0, sizeof before);
    for (int a = 0; a < 5; a++)
        for (int64_t i = 0; i < n; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            iso_element_set(before + (size_t)a * MOST, a ? computed : stored, i,
                            (double)(random >> 40) * 0x1p-23 - 1);
        }
}

static void check_statistic(iso_dtype stored, iso_dtype computed, int64_t n)
{
    make_statistic(stored, computed, n);
    fill(stored, computed, n);
    memcpy(memory, before, sizeof memory);
    emulator_set_order(EMULATOR_IN_ORDER, 0);
    for (int i = 0; i < n_thunks; i++)
        if (thunks[i].copy)
            memcpy(thunks[i].copy->to, thunks[i].copy->from, (size_t)n * thunks[i].copy->element);
        else
            thunks[i].kernel->run(thunks[i].call);
    memcpy(alone, memory, sizeof alone);
    ck_assert_int_eq(iso_cuda_chain_count(thunks, n_thunks), n_thunks);
    for (int order = 0; order < ORDERS; order++) {
        memcpy(memory, before, sizeof memory);
        emulator_set_order(order == 0   ? EMULATOR_IN_ORDER
                           : order == 1 ? EMULATOR_BACKWARD
                                        : EMULATOR_RANDOM,
                           (uint64_t)order);
        iso_cuda_run_chain(thunks, n_thunks, NULL);
        ck_assert_ptr_null(emulator_error());
        ck_assert_msg(memcmp(alone, memory, sizeof memory) == 0,
                      "%s in %s, %lld elements, order %d: other bits", iso_dtype_name(stored),
                      iso_dtype_name(computed), (long long)n, order);
    }
}

START_TEST(chains_have_the_bits_of_their_kernels)
{
    static const int64_t lengths[] = {1, 5, 32, 257, 5000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        check_statistic(ISO_F32, ISO_F64, lengths[i]);
        check_statistic(ISO_F64, ISO_F32, lengths[i]);
        check_statistic(ISO_BF16, ISO_F32, lengths[i]);
        check_statistic(ISO_BF16, ISO_F64, lengths[i]);
        check_statistic(ISO_F32, ISO_BF16, lengths[i]);
        check_statistic(ISO_F32, ISO_F32, lengths[i]);
    }
}
END_TEST

/* Two instructions on float32, the second with z at this byte and this many elements. */
static int joined(int64_t n, int64_t n_next, size_t z)
{
    iso_array none = {0};
    n_thunks = 0;
    add("affine", &kept, 1, array_of(ISO_F32, n, 0), none, array_of(ISO_F32, n, 1 << 20));
    add("square", &square, 1, array_of(ISO_F32, n_next, 1 << 20), none, array_of(ISO_F32, n_next, z));
    return iso_cuda_chain_count(thunks, n_thunks);
}

START_TEST(chains_end_where_elements_of_others_are_met)
{
    iso_array none = {0};
    ck_assert_int_eq(joined(100, 100, 2 << 20), 2);
    ck_assert_int_eq(joined(100, 100, 0), 2);  /* in the place of what the first reads */
    ck_assert_int_eq(joined(100, 100, 64), 1); /* beside it */
    ck_assert_int_eq(joined(100, 100, (1 << 20) + 4), 1);
    ck_assert_int_eq(joined(100, 99, 2 << 20), 1);      /* of another length */
    ck_assert_int_eq(joined(70000, 70000, 2 << 20), 1); /* too long */
    ck_assert_int_eq(joined(65536, 65536, 2 << 20), 2);
    ck_assert_int_eq(joined(0, 0, 2 << 20), 1);
    add("cast", NULL, 1, array_of(ISO_F32, 8, 0), none, array_of(ISO_I32, 8, 1 << 20)); /* no float */
    ck_assert_int_eq(iso_cuda_chain_count(thunks + 2, 1), 1);
    n_thunks = 0; /* a number for all elements, which the instruction before it has written for one of them */
    add("affine", &kept, 1, array_of(ISO_F32, 8, 0), none, array_of(ISO_F32, 8, 1 << 20));
    add("multiply", NULL, 2, array_of(ISO_F32, 8, 0), array_of(ISO_F32, 1, 1 << 20),
        array_of(ISO_F32, 8, 2 << 20));
    ck_assert_int_eq(iso_cuda_chain_count(thunks, n_thunks), 1);
}
END_TEST

int main(void)
{
    return RUN_TESTS("CUDA chains", 250, chains_have_the_bits_of_their_kernels,
                     chains_end_where_elements_of_others_are_met);
}
