/* The kernels of the CUDA backend, run by the emulator, against the plain ones: over the shapes of the CPU's
 * kernels and more, in float32, float64 and bfloat16, with threads and blocks in order, backward and in
 * random orders. All orders give the same bits. Ranks: 1 */
#include <malloc.h>
#include <stdlib.h>

#include "runtime/backend/cuda/kernels.h"
#include "tests/backend/cases_more.h"
#include "tests/backend/faults.h"
#include "tests/backend/other_types.h"
#include "tests/backend/upsampled.h"
#include "tests/emulator/emulator.h"
#include "tests/support/run_tests.h"

/* The first case of an op runs in every order and type; of the others every second runs in one more order, backward
 * and random in turn, and each in one more type. With ISOGRID_TEST_LONG all run in all. */
static bool runs_all(int index)
{
    return index == 0 || getenv("ISOGRID_TEST_LONG");
}

/* AddressSanitizer sees the same in every order, and takes its time. */
#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static const iso_backend *emulated(void)
{
    static const iso_backend backend = {.name = "cuda-emulated", .find = iso_cuda_kernel_find};
    return &backend;
}

static void check_no_error(const trial *t)
{
    const char *error = emulator_error();
    CHECK(error == NULL, "%s: %s", describe(t), error);
}

/* A run in another order of threads and blocks, at other addresses. Its bits are those of the first one. */
static void check_again(const trial *t, const result *first, emulator_order order, uint64_t seed)
{
    void *owner[MOST_ARRAYS];
    trial moved = *t;
    place_inputs(&moved, 8 * seed, t, owner);
    emulator_set_order(order, seed);
    result again = run_trial(&moved, emulated(), 8 + 8 * seed);
    compare_bits(t, first, &again);
    check_no_error(t);
    free_result(t, &again);
    free_all(owner, t->inputs);
}

static void check_orders(const trial *t, const result *want, int index)
{
    emulator_set_order(EMULATOR_IN_ORDER, 0);
    result got = run_trial(t, emulated(), 0);
    check_no_error(t);
    compare(t, want, &got);
    if (!SANITIZED) {
        const bool all = runs_all(index);
        if (all || index % 4 == 2)
            check_again(t, &got, EMULATOR_BACKWARD, 0);
        if (all || index % 4 == 3)
            check_again(t, &got, EMULATOR_RANDOM, 1);
        if (all)
            check_again(t, &got, EMULATOR_RANDOM, 2);
    }
    check_in_place(t, emulated(), &got);
    check_no_error(t);
    free_result(t, &got);
}

static void check_emulated_type(const trial *t, iso_dtype dtype)
{
    emulator_set_order(EMULATOR_RANDOM, 3);
    check_type(t, dtype, emulated());
    check_no_error(t);
}

/* Each type but float32. */
static void check_other_types(const trial *t, int index)
{
    const bool all = runs_all(index) && !SANITIZED;
    if (all || index / 2 % 2 == 1)
        check_emulated_type(t, ISO_F64);
    if (all || index / 2 % 2 == 0) {
        check_emulated_type(t, ISO_BF16);
        check_wide_sums(t, emulated());
        check_no_error(t);
    }
}

/* Ops with many cases have each shape with each type, transposition and the like: cycles of 2 to 7 cases. Of the
 * cases after the first 40, the first 5 of every 11 run, so that each member of a cycle still does. With
 * AddressSanitizer every other case runs, with ISOGRID_TEST_LONG all. */
enum { FIRST_CASES = 40 };
static bool is_left_out(int index)
{
    if (getenv("ISOGRID_TEST_LONG"))
        return false;
    return SANITIZED ? index % 2 == 1 : index >= FIRST_CASES && index % 11 > 4;
}

static void check_cases(const char *op, maker *make)
{
    random_state = 1;
    for (int index = 0;; index++) {
        trial t = {.op = op};
        void *owner[MOST_ARRAYS];
        if (!make(&t, index))
            return;
        if (is_left_out(index))
            continue;
        place_inputs(&t, 0, NULL, owner);
        result want = run_trial(&t, iso_backend_reference(), 0);
        check_orders(&t, &want, index);
        check_other_types(&t, index);
        free_result(&t, &want);
        free_all(owner, t.inputs);
    }
}

/* Every op of the list that has kernels on the CPU. */
START_TEST(kernels_agree)
{
    for (int i = 0; i < iso_op_type_count(); i++) {
        const iso_op_type *type = iso_op_type_at(i);
        if (!is_wanted(type))
            continue;
        maker *make = maker_of(type->name), *more = more_of(type->name);
        ck_assert_msg(iso_cuda_kernel_find(type->name, &(iso_kernel_call){0}) != NULL,
                      "op %s has no CUDA kernel", type->name);
        ck_assert_msg(make || more, "op %s has no case", type->name);
        if (make)
            check_cases(type->name, make);
        if (more)
            check_cases(type->name, more);
    }
}
END_TEST

START_TEST(equal_pixels_stay)
{
    random_state = 1;
    emulator_set_order(EMULATOR_IN_ORDER, 0);
    check_upsampled(emulated());
    check_no_error(&(trial){.op = "upsample_linear"});
}
END_TEST

/* ---- faults ---- */

/* The fault of the lowest element stays, in any order of threads; that of an earlier instruction too. */
START_TEST(faults_are_the_first)
{
    static const int wrong[] = {69, 33, 5, 41, -1}, none[] = {-1};
    for (int i = 0; i < FAULTY_OPS; i++)
        for (int order = 0; order < 6; order++) {
            iso_dtype dtype = order % 2 ? ISO_I64 : ISO_F32;
            emulator_set_order(order == 0   ? EMULATOR_IN_ORDER
                               : order == 1 ? EMULATOR_BACKWARD
                                            : EMULATOR_RANDOM,
                               (uint64_t)order);
            random_state = 1;
            iso_fault want = fault_of(faulty_ops[i], iso_backend_reference(), dtype, wrong, 0);
            random_state = 1;
            iso_fault got = fault_of(faulty_ops[i], emulated(), dtype, wrong, 0);
            ck_assert_int_eq(want.element, 5);
            ck_assert_msg(memcmp(&want, &got, sizeof want) == 0,
                          "%s, order %d: code %d, element %lld, %lld, %g of %lld", faulty_ops[i], order,
                          got.code, (long long)got.element, (long long)got.integer, got.real,
                          (long long)got.count);
            ck_assert_int_eq(fault_of(faulty_ops[i], emulated(), dtype, wrong, 4).instruction, 4);
            ck_assert_int_eq(fault_of(faulty_ops[i], emulated(), dtype, none, 0).code, ISO_FAULT_NONE);
            check_no_error(&(trial){.op = faulty_ops[i]});
        }
}
END_TEST

int main(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 28); /* arrays come and go: keep their pages */
    mallopt(M_TRIM_THRESHOLD, 1 << 28);
    return RUN_TESTS("CUDA kernels", 1400, kernels_agree, equal_pixels_stay, faults_are_the_first);
}
