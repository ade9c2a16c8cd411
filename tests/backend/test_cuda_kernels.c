/* The kernels of the CUDA backend, run by the emulator, against the plain ones: over the shapes of the CPU's
 * kernels and more, in float32, float64 and bfloat16, with threads and blocks in order, backward and in
 * random orders. All orders give the same bits. Ranks: 1 Sanitize: 1 */
#include <malloc.h>

#include "runtime/backend/cuda/kernels.h"
#include "tests/backend/cases_more.h"
#include "tests/emulator/emulator.h"
#include "tests/support/run_tests.h"

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

/* AddressSanitizer sees the same in every order, and takes its time. */
static void check_orders(const trial *t, const result *want)
{
    emulator_set_order(EMULATOR_IN_ORDER, 0);
    result got = run_trial(t, emulated(), 0);
    check_no_error(t);
    compare(t, want, &got);
#if !defined(__SANITIZE_ADDRESS__)
    check_again(t, &got, EMULATOR_BACKWARD, 0);
    check_again(t, &got, EMULATOR_RANDOM, 1);
#endif
    check_again(t, &got, EMULATOR_RANDOM, 2);
    check_in_place(t, emulated(), &got);
    check_no_error(t);
    free_result(t, &got);
}

/* The same with another type in place of float32. Sums and functions of float64 are exact to its roundings;
 * a result in bfloat16 is rounded once, so it may be the neighbour. */
static bool in_type(const trial *t, iso_dtype dtype, trial *other)
{
    bool any = false;
    *other = *t;
    for (int i = 0; i < t->inputs + t->outputs; i++) {
        iso_array *array = i < t->inputs ? &other->in[i] : &other->out[i - t->inputs];
        any |= array->dtype == ISO_F32;
        array->dtype = array->dtype == ISO_F32 ? dtype : array->dtype;
    }
    bool exactly = t->tolerance.relative == 0 && t->tolerance.absolute == 0;
    if (dtype == ISO_F64)
        other->tolerance = (tolerance){t->tolerance.relative * 1e-6, t->tolerance.absolute * 1e-6};
    else if (!exactly)
        other->tolerance.relative = 0x1p-7;
    return any && !t->fixed_types;
}

static void check_type(const trial *t, iso_dtype dtype)
{
    trial other;
    void *owner[MOST_ARRAYS];
    if (!in_type(t, dtype, &other))
        return;
    place_inputs(&other, 0, NULL, owner);
    result want = run_trial(&other, iso_backend_reference(), 0);
    emulator_set_order(EMULATOR_RANDOM, 3);
    result got = run_trial(&other, emulated(), 0);
    check_no_error(&other);
    compare(&other, &want, &got);
    free_result(&other, &want);
    free_result(&other, &got);
    free_all(owner, other.inputs);
}

static void check_cases(const char *op, maker *make)
{
    random_state = 1;
    for (int index = 0;; index++) {
        trial t = {.op = op};
        void *owner[MOST_ARRAYS];
        if (!make(&t, index))
            return;
        place_inputs(&t, 0, NULL, owner);
        result want = run_trial(&t, iso_backend_reference(), 0);
        check_orders(&t, &want);
        check_type(&t, ISO_F64);
        check_type(&t, ISO_BF16);
        free_result(&t, &want);
        free_all(owner, t.inputs);
    }
}

/* Every op of the list that has kernels on the CPU. */
START_TEST(kernels_agree)
{
    for (int i = 0; i < iso_op_type_count(); i++) {
        const iso_op_type *type = iso_op_type_at(i);
        if (type->no_kernel)
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

/* ---- faults ---- */

enum { ROWS = 70, CLASSES_OF_FAULTS = 9 };

/* Runs an op of labels [ROWS] on the reference or the emulator; the labels at `wrong` are none. */
static iso_fault fault_of(const char *op, bool reference, iso_dtype dtype, const int *wrong, int32_t earlier)
{
    trial t = {.op = op};
    bool gradient = strstr(op, "grad"), table = strstr(op, "embedding"), part = strstr(op, "class_");
    t.attrs.embedding.rows = CLASSES_OF_FAULTS;
    if (part)
        t.attrs.classes = (iso_class_attrs){1, 0};
    if (table && !gradient)
        input(&t, ISO_F32, -1, 1, DIMS(CLASSES_OF_FAULTS, 3));
    int labels = t.inputs;
    input(&t, dtype, 0, CLASSES_OF_FAULTS, DIMS(ROWS));
    t.whole = 1u << labels;
    if (!table)
        input(&t, ISO_F32, -1, 1, DIMS(ROWS, CLASSES_OF_FAULTS));
    if (table ? gradient : gradient && !part)
        input(&t, ISO_F32, -1, 1, 1 + table, (int64_t[]){ROWS, 3});
    for (int i = 0; part && gradient && i < 3; i++) /* max, sum, dloss */
        input(&t, ISO_F32, 2, 3, 2 - (i == 2), (int64_t[]){ROWS, 1});
    output(&t, ISO_F32, 2,
           table ? gradient ? (int64_t[]){CLASSES_OF_FAULTS, 3} : (int64_t[]){ROWS, 3}
                 : (int64_t[]){ROWS, gradient ? CLASSES_OF_FAULTS : 1});
    void *owner[MOST_ARRAYS];
    place_inputs(&t, 0, NULL, owner);
    for (int i = 0; wrong[i] >= 0; i++)
        iso_element_set(t.in[labels].data, dtype, wrong[i], dtype == ISO_I64 ? -7 - i : 2.5 + i);
    void *memory;
    t.out[0].data = room_for(&t.out[0], 0, &memory);
    iso_fault fault = {.code = earlier ? ISO_FAULT_INTEGER : ISO_FAULT_NONE, .instruction = earlier};
    iso_kernel_call call = {.attrs = &t.attrs,
                            .n_inputs = t.inputs,
                            .n_outputs = 1,
                            .in = t.in,
                            .out = t.out,
                            .info = &step_info,
                            .fault = &fault,
                            .instruction = 12};
    const iso_kernel *kernel = (reference ? iso_backend_reference() : emulated())->find(op, &call);
    call.scratch = kernel->scratch ? aligned_alloc(64, (kernel->scratch(&call) + 63) / 64 * 64) : NULL;
    kernel->run(&call);
    check_no_error(&t);
    free(call.scratch);
    free(memory);
    free_all(owner, t.inputs);
    return fault;
}

/* The fault of the lowest element stays, in any order of threads; that of an earlier instruction too. */
START_TEST(faults_are_the_first)
{
    static const char *const ops[] = {"sparse_crossentropy", "sparse_crossentropy_grad",
                                      "class_pick",          "class_sparse_grad",
                                      "embedding",           "embedding_grad"};
    static const int wrong[] = {69, 33, 5, 41, -1}, none[] = {-1};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (int order = 0; order < 6; order++) {
            iso_dtype dtype = order % 2 ? ISO_I64 : ISO_F32;
            emulator_set_order(order == 0   ? EMULATOR_IN_ORDER
                               : order == 1 ? EMULATOR_BACKWARD
                                            : EMULATOR_RANDOM,
                               (uint64_t)order);
            random_state = 1;
            iso_fault want = fault_of(ops[i], true, dtype, wrong, 0);
            random_state = 1;
            iso_fault got = fault_of(ops[i], false, dtype, wrong, 0);
            ck_assert_int_eq(want.element, 5);
            ck_assert_msg(memcmp(&want, &got, sizeof want) == 0,
                          "%s, order %d: code %d, element %lld, %lld, %g of %lld", ops[i], order, got.code,
                          (long long)got.element, (long long)got.integer, got.real, (long long)got.count);
            ck_assert_int_eq(fault_of(ops[i], false, dtype, wrong, 4).instruction, 4);
            ck_assert_int_eq(fault_of(ops[i], false, dtype, none, 0).code, ISO_FAULT_NONE);
        }
}
END_TEST

int main(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 28); /* arrays come and go: keep their pages */
    mallopt(M_TRIM_THRESHOLD, 1 << 28);
    return RUN_TESTS("CUDA kernels", 1400, kernels_agree, faults_are_the_first);
}
