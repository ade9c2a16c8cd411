/* The kernels of the CUDA backend on the device itself, against the plain ones: every op over the shapes of the CPU's
 * kernels and more, in float32, float64 and bfloat16, at two addresses with the same bits; faults; updates of
 * optimizers, with the bits of the reference; sums and maxima. tests/gpu/run does this on a GPU; elsewhere the device
 * is the stand-in, which takes every 20th case, or all with ISOGRID_TEST_LONG. ISOGRID_TEST_EVERY=N: every Nth case;
 * ISOGRID_TEST_OPS=WORD: the ops whose names contain it; =NAME: this op and nothing else; `names`: print the names;
 * ISOGRID_TEST_SEPARATE: each array is an allocation. Ranks: 1 */
#include <stdio.h>

#include "runtime/graph/optimizer.h"
#include "tests/backend/faults.h"
#include "tests/backend/other_types.h"
#include "tests/backend/updates.h"
#include "tests/support/cuda_library.h"
#include "tests/support/run_tests.h"

static const iso_backend *gpu;
static iso_stream *stream;
static size_t shift; /* of the addresses on the device */
static int every;    /* which cases are tried */

/* ---- memory of the device ---- */

static void good(iso_status status)
{
    CHECK(status == ISO_OK, "%s", iso_error_message());
}

/* One allocation for all arrays of a trial, one behind the other; NULL: each has its own, so that compute-sanitizer
 * sees what is read or written beside it (ISOGRID_TEST_SEPARATE). */
enum { AREA = 64 << 20, ALIGN = 256 };
static char *area;
static size_t area_used;

static void *take(size_t bytes)
{
    void *memory = area + area_used;
    if (area) {
        area_used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
        CHECK(area_used <= AREA, "a trial needs more than %d bytes", AREA);
    } else {
        good(gpu->device(0)->allocate(gpu->device(0), bytes, "a test", &memory));
    }
    return memory;
}

static void *on_device(const void *host, size_t bytes)
{
    char *memory = (char *)take(bytes + shift) + shift;
    good(iso_device_write(stream, memory, host, bytes));
    return memory;
}

/* Gives memory back. host: where the bytes go before; may be NULL. */
static void back(void *host, void *memory, size_t bytes)
{
    if (host)
        good(iso_device_read(stream, host, memory, bytes));
    if (!area)
        gpu->device(0)->release(gpu->device(0), (char *)memory - shift);
}

/* ---- a kernel whose arrays are the host's: they travel to the device and back, with the bytes behind them ---- */

static const iso_kernel *real; /* the one that test_find found last */

static void *scratch_on_device(size_t bytes)
{
    unsigned char *pattern = malloc(bytes + GUARD);
    ck_assert_ptr_nonnull(pattern);
    memset(pattern, 0xa5, bytes + GUARD);
    void *memory = on_device(pattern, bytes + GUARD);
    free(pattern);
    return memory;
}

static void check_scratch(void *memory, size_t bytes)
{
    unsigned char guard[GUARD];
    good(iso_device_read(stream, guard, (char *)memory + bytes, GUARD));
    for (int i = 0; i < GUARD; i++)
        CHECK(guard[i] == 0xa5, "kernel %s of %s wrote past its %zu bytes of scratch", real->name, real->op,
              bytes);
    back(NULL, memory, 0);
}

static void run_on_device(const iso_kernel_call *call)
{
    iso_array in[MOST_ARRAYS], out[4];
    iso_kernel_call there = *call;
    area_used = 0;
    there.in = in, there.out = out, there.stream = stream;
    for (int i = 0; i < call->n_inputs; i++) {
        in[i] = call->in[i];
        in[i].data = on_device(call->in[i].data, bytes_of(&in[i]) + GUARD);
    }
    for (int i = 0; i < call->n_outputs; i++) {
        out[i] = call->out[i];
        out[i].data = NULL;
        for (int j = 0; j < call->n_inputs && i == 0; j++) /* in place */
            out[i].data = call->in[j].data == call->out[i].data ? in[j].data : out[i].data;
        out[i].data = out[i].data ? out[i].data : on_device(call->out[i].data, bytes_of(&out[i]) + GUARD);
    }
    size_t scratch = real->scratch ? real->scratch(&there) : 0;
    there.scratch = scratch_on_device(scratch);
    there.info = on_device(call->info, sizeof *call->info);
    there.fault = on_device(call->fault, sizeof *call->fault);
    real->run(&there);
    good(gpu->device(0)->wait(stream));
    for (int i = 0; i < call->n_outputs; i++)
        good(iso_device_read(stream, call->out[i].data, out[i].data, bytes_of(&out[i]) + GUARD));
    back(call->fault, there.fault, sizeof *call->fault);
    back(NULL, (void *)there.info, 0);
    check_scratch(there.scratch, scratch);
    for (int i = 0; i < call->n_outputs; i++) {
        bool shared = false;
        for (int j = 0; j < call->n_inputs; j++)
            shared |= in[j].data == out[i].data;
        if (!shared)
            back(NULL, out[i].data, 0);
    }
    for (int i = 0; i < call->n_inputs; i++)
        back(NULL, in[i].data, 0);
}

static const iso_kernel *test_find(const char *op, const iso_kernel_call *call)
{
    static iso_kernel shown;
    real = gpu->find(op, call);
    if (!real)
        return NULL;
    shown = *real;
    shown.run = run_on_device;
    return &shown;
}

static const iso_backend *travelling(void)
{
    static const iso_backend backend = {.name = "cuda, travelling", .find = test_find};
    return &backend;
}

/* ---- ops ---- */

static void check_case(trial *t)
{
    void *owner[MOST_ARRAYS];
    place_inputs(t, 0, NULL, owner);
    result want = run_trial(t, iso_backend_reference(), 0);
    result got = run_trial(t, travelling(), 0);
    compare(t, &want, &got);
    shift = 64;
    result again = run_trial(t, travelling(), 0);
    shift = 0;
    compare_bits(t, &got, &again);
    check_in_place(t, travelling(), &got);
    check_type(t, ISO_F64, travelling());
    check_type(t, ISO_BF16, travelling());
    free_result(t, &want);
    free_result(t, &got);
    free_result(t, &again);
    free_all(owner, t->inputs);
}

/* The number of cases that were tried. */
static int check_cases(const char *op, maker *make)
{
    int tried = 0;
    for (int index = 0; make; index++) {
        trial t = {.op = op};
        random_state = (uint64_t)index + 1;
        if (!make(&t, index))
            break;
        if (index % every == 0) {
            check_case(&t);
            tried++;
        }
    }
    return tried;
}

static bool is_wanted(const iso_op_type *type)
{
    const char *only = getenv("ISOGRID_TEST_OPS");
    if (type->no_kernel || !only)
        return !type->no_kernel;
    return only[0] == '=' ? strcmp(type->name, only + 1) == 0 : strstr(type->name, only) != NULL;
}

START_TEST(kernels_agree_on_the_device)
{
    const char *only = getenv("ISOGRID_TEST_OPS");
    int ops = 0, cases = 0;
    for (int i = 0; i < iso_op_type_count(); i++) {
        const iso_op_type *type = iso_op_type_at(i);
        if (!is_wanted(type))
            continue;
        int tried =
            check_cases(type->name, maker_of(type->name)) + check_cases(type->name, more_of(type->name));
        ck_assert_msg(tried > 0, "op %s has no case", type->name);
        ops++, cases += tried;
    }
    ck_assert_msg(ops > 0, "no op's name contains '%s'", only ? only : "");
    printf("%s: %d ops in %d cases\n", gpu->description(), ops, cases);
}
END_TEST

START_TEST(faults_are_the_first)
{
    static const int wrong[] = {69, 33, 5, 41, -1}, none[] = {-1};
    for (int i = 0; i < FAULTY_OPS; i++)
        for (int which = 0; which < 2; which++) {
            iso_dtype dtype = which ? ISO_I64 : ISO_F32;
            random_state = 1;
            iso_fault want = fault_of(faulty_ops[i], iso_backend_reference(), dtype, wrong, 0);
            random_state = 1;
            iso_fault got = fault_of(faulty_ops[i], travelling(), dtype, wrong, 0);
            ck_assert_int_eq(want.element, 5);
            ck_assert_msg(memcmp(&want, &got, sizeof want) == 0,
                          "%s: code %d, element %lld, %lld, %g of %lld", faulty_ops[i], got.code,
                          (long long)got.element, (long long)got.integer, got.real, (long long)got.count);
            ck_assert_int_eq(fault_of(faulty_ops[i], travelling(), dtype, wrong, 4).instruction, 4);
            ck_assert_int_eq(fault_of(faulty_ops[i], travelling(), dtype, none, 0).code, ISO_FAULT_NONE);
        }
}
END_TEST

/* ---- the end of a step ---- */

static void check_rule(int which, iso_dtype dtype)
{
    static bucket_memory want, got;
    iso_optimizer_run runs[RUNS];
    iso_rates rates = rates_of(which);
    area_used = 0;
    begin(&want, dtype), begin(&got, dtype);
    update_plainly(which, dtype, &want);
    bucket_memory *there = on_device(&got, sizeof got);
    int count = make_runs(there, dtype, settings[which].slots, runs);
    void *rates_there = on_device(&rates, sizeof rates);
    iso_optimizer_call call = {.rule = gpu->optimizer(settings[which].kernel, dtype),
                               .rates = rates_there,
                               .n_runs = count,
                               .runs = runs};
    static _Alignas(16) char kept[2 * RUNS * 128];
    iso_optimizer_table table = {.bytes = RUNS * gpu->table_entry, .host = kept};
    CHECK(2 * table.bytes <= sizeof kept, "a table of %zu bytes", table.bytes);
    memset(kept, 0, sizeof kept);
    table.device = on_device(kept, table.bytes); /* arrays are not shifted here */
    gpu->optimize(&call, 1, &table, stream);
    good(gpu->device(0)->wait(stream));
    back(NULL, rates_there, 0);
    back(NULL, table.device, 0);
    back(&got, there, sizeof got);
    ck_assert_msg(memcmp(&want, &got, sizeof want) == 0, "%s of setting %d in %s: other bits",
                  settings[which].kernel, which, iso_dtype_name(dtype));
}

START_TEST(updates_have_the_bits_of_the_reference)
{
    for (int which = 0; which < SETTINGS; which++) {
        check_rule(which, ISO_F32);
        check_rule(which, ISO_F64);
    }
    for (int i = 0; i < iso_optimizer_count(); i++)
        ck_assert_msg(gpu->optimizer(iso_optimizer_kernel(iso_optimizer_name(i)), ISO_F32) != NULL,
                      "no kernel for the optimizer %s", iso_optimizer_name(i));
}
END_TEST

static iso_rates_call rates_call(const iso_optimizer *optimizer)
{
    return (iso_rates_call){
        .rule = iso_optimizer_rule_find(optimizer->rule), .optimizer = optimizer, .dtype = ISO_F32};
}

/* The host computes them when the stream comes to it. */
START_TEST(rates_that_are_queued_do_not_change_those_before)
{
    enum { QUEUED = 20 };
    const iso_optimizer optimizers[] = {iso_sgd(.momentum = 0.9), iso_adam()};
    const int64_t iteration = 3;
    const double rate = 0.5;
    iso_rates want[2] = {0};
    void *memory = NULL;
    area_used = 0;
    good(gpu->device(0)->allocate_pinned(gpu->device(0), QUEUED * sizeof(iso_rates), "a test", &memory));
    iso_rates *there = on_device(want, sizeof *want), *got = memory;
    void *iteration_there = on_device(&iteration, sizeof iteration),
         *rate_there = on_device(&rate, sizeof rate);
    for (int i = 0; i < QUEUED; i++) {
        iso_rates_call call = rates_call(&optimizers[i % 2]);
        call.iteration = iteration_there, call.rate = rate_there, call.rates = there;
        gpu->prepare(&call, stream);
        gpu->device(0)->copy(stream, &got[i], there, sizeof *there);
    }
    good(gpu->device(0)->wait(stream));
    for (int i = 0; i < 2; i++) {
        iso_rates_call call = rates_call(&optimizers[i]);
        call.iteration = &iteration, call.rate = &rate, call.rates = &want[i];
        iso_backend_reference()->prepare(&call, NULL);
    }
    for (int i = 0; i < QUEUED; i++)
        ck_assert_msg(memcmp(&want[i % 2], &got[i], sizeof *got) == 0, "the rates of call %d are not its own",
                      i);
    back(NULL, there, 0);
    back(NULL, iteration_there, 0);
    back(NULL, rate_there, 0);
    gpu->device(0)->release_pinned(gpu->device(0), memory);
}
END_TEST

static void check_sums(iso_dtype dtype, int64_t n)
{
    enum { N = 5000 };
    _Alignas(64) static char a[N * 8], b[N * 8], want[N * 8], got[N * 8];
    size_t bytes = (size_t)n * iso_dtype_size(dtype);
    area_used = 0;
    for (int64_t i = 0; i < n; i++) {
        iso_element_set(a, dtype, i, (double)(i * 7 % 11));
        iso_element_set(b, dtype, i, (double)(i * 5 % 13));
    }
    void *x = on_device(a, bytes + GUARD), *y = on_device(b, bytes + GUARD), *z = on_device(b, bytes + GUARD);
    iso_backend_reference()->sum(dtype, n, a, b, want, NULL);
    gpu->sum(dtype, n, x, y, z, stream);
    back(got, z, bytes);
    ck_assert_msg(memcmp(want, got, bytes) == 0, "sum of %lld %s", (long long)n, iso_dtype_name(dtype));
    iso_backend_reference()->maximum(dtype, n, a, b, want, NULL);
    gpu->maximum(dtype, n, x, y, x, stream);
    back(got, x, bytes);
    back(NULL, y, 0);
    ck_assert_msg(memcmp(want, got, bytes) == 0, "maximum of %lld %s", (long long)n, iso_dtype_name(dtype));
}

START_TEST(sums_and_maxima_have_the_bits_of_the_reference)
{
    static const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_I32, ISO_I64, ISO_U8, ISO_BF16};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        for (int64_t n = 1; n < 5000; n = n * 3 + 1)
            check_sums(types[k], n);
}
END_TEST

/* The library that the environment names, on a GPU; else the stand-in of this build. */
static bool begin_device(void)
{
    if (!getenv("ISOGRID_CUDA_LIBRARY") && !test_cuda_library()) {
        report_skipped("the backend cuda", "this build has no CUDA");
        return false;
    }
    if (iso_backend_find("cuda", &gpu) != ISO_OK) {
        report_skipped("the backend cuda", iso_error_message());
        return false;
    }
    good(gpu->device(0)->create_stream(gpu->device(0), &stream));
    void *memory = NULL;
    if (!getenv("ISOGRID_TEST_SEPARATE"))
        good(gpu->device(0)->allocate(gpu->device(0), AREA, "all trials", &memory));
    area = memory;
    const char *wanted = getenv("ISOGRID_TEST_EVERY");
    every = wanted ? atoi(wanted) : getenv("ISOGRID_TEST_LONG") ? 1 : 20;
    every = every > 0 ? every : 1;
    return true;
}

static int print_names(void)
{
    for (int i = 0; i < iso_op_type_count(); i++)
        if (!iso_op_type_at(i)->no_kernel)
            puts(iso_op_type_at(i)->name);
    return 0;
}

int main(void)
{
    const char *only = getenv("ISOGRID_TEST_OPS");
    if (only && strcmp(only, "names") == 0)
        return print_names();
    if (!begin_device())
        return 77;
    int code = only && only[0] == '='
                   ? RUN_TESTS("CUDA device", 1400, kernels_agree_on_the_device)
                   : RUN_TESTS("CUDA device", 1400, kernels_agree_on_the_device, faults_are_the_first,
                               updates_have_the_bits_of_the_reference,
                               rates_that_are_queued_do_not_change_those_before,
                               sums_and_maxima_have_the_bits_of_the_reference);
    gpu->device(0)->release(gpu->device(0), area);
    gpu->device(0)->destroy_stream(stream);
    return code;
}
