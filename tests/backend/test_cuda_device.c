/* The kernels of the CUDA backend on the device itself, against the plain ones: every op over the shapes of the CPU's
 * kernels and more, in float32, float64 and bfloat16, at two addresses and as a graph with the same bits; products
 * and convolutions with a bias and a relu; faults; updates of optimizers, with the bits of the reference; sums and
 * maxima. tests/gpu/run does this on a GPU; elsewhere the device is the stand-in, which takes every 20th case, or all
 * with ISOGRID_TEST_LONG. ISOGRID_TEST_EVERY=N: every Nth case; ISOGRID_TEST_OPS=WORD: ops whose names contain it;
 * =NAME: this op and nothing else; `names`: print the names; ISOGRID_TEST_SEPARATE: each array is an allocation.
 * Ranks: 1 */
#include <stdio.h>

#include "runtime/graph/optimizer.h"
#include "tests/backend/cases_more.h"
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

/* One allocation for all arrays of a trial, one behind the other, but for the largest, such as workspaces of
 * libraries; NULL: each has its own, so that compute-sanitizer sees what is read or written beside it
 * (ISOGRID_TEST_SEPARATE). */
enum { AREA = 64 << 20, MOST_OF_AREA = 16 << 20, ALIGN = 256 };
static char *area;
static size_t area_used;

static void *take(size_t bytes)
{
    void *memory = area + area_used;
    if (area && bytes <= MOST_OF_AREA) {
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

static bool is_in_area(const char *memory)
{
    return area && memory >= area && memory < area + AREA;
}

/* Gives memory back. host: where the bytes go before; may be NULL. */
static void back(void *host, void *memory, size_t bytes)
{
    if (host)
        good(iso_device_read(stream, host, memory, bytes));
    if (!is_in_area(memory))
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

static void check_scratch(const iso_kernel *kernel, void *memory, size_t bytes)
{
    unsigned char guard[GUARD];
    good(iso_device_read(stream, guard, (char *)memory + bytes, GUARD));
    for (int i = 0; i < GUARD; i++)
        CHECK(guard[i] == 0xa5, "kernel %s of %s wrote past its %zu bytes of scratch", kernel->name,
              kernel->op, bytes);
    back(NULL, memory, 0);
}

/* A call with arrays on the device. */
typedef struct device_call {
    iso_kernel_call call;
    iso_array in[MOST_ARRAYS], out[ISO_MAX_OUTPUTS];
    size_t scratch;
} device_call;

/* The input over which output i is written; -1: none. */
static int input_below(const iso_kernel_call *call, int i)
{
    int j = call->n_inputs - 1;
    while (j >= 0 && call->in[j].data != call->out[i].data)
        j--;
    return j;
}

static void send_call(const iso_kernel *kernel, const iso_kernel_call *call, device_call *there)
{
    there->call = *call;
    there->call.in = there->in, there->call.out = there->out, there->call.stream = stream;
    for (int i = 0; i < call->n_inputs; i++) {
        there->in[i] = call->in[i];
        there->in[i].data = on_device(call->in[i].data, bytes_of(&call->in[i]) + GUARD);
    }
    for (int i = 0; i < call->n_outputs; i++) {
        int below = input_below(call, i);
        there->out[i] = call->out[i];
        there->out[i].data = below >= 0 ? there->in[below].data
                                        : on_device(call->out[i].data, bytes_of(&call->out[i]) + GUARD);
    }
    there->scratch = kernel->scratch ? kernel->scratch(&there->call) : 0;
    there->call.scratch = scratch_on_device(there->scratch);
    there->call.info = on_device(call->info, sizeof *call->info);
    there->call.fault = on_device(call->fault, sizeof *call->fault);
}

static void read_outputs(const iso_kernel_call *call, const device_call *there)
{
    for (int i = 0; i < call->n_outputs; i++)
        good(iso_device_read(stream, call->out[i].data, there->out[i].data, bytes_of(&call->out[i]) + GUARD));
}

static void release_call(const iso_kernel *kernel, const iso_kernel_call *call, device_call *there)
{
    back(call->fault, there->call.fault, sizeof *call->fault);
    back(NULL, (void *)there->call.info, 0);
    check_scratch(kernel, there->call.scratch, there->scratch);
    for (int i = 0; i < call->n_outputs; i++)
        if (input_below(call, i) < 0)
            back(NULL, there->out[i].data, 0);
    for (int i = 0; i < call->n_inputs; i++)
        back(NULL, there->in[i].data, 0);
}

static void finish(const iso_kernel *kernel)
{
    CHECK(gpu->device(0)->wait(stream) == ISO_OK, "kernel %s of %s: %s", kernel->name, kernel->op,
          iso_error_message());
}

/* Launches the graph, where the outputs are no longer what the instructions wrote. */
static void replay(const iso_sequence *sequence, int count, const iso_kernel_call *call,
                   const device_call *there, const iso_kernel *kernel)
{
    void *got[4];
    for (int i = 0; i < call->n_outputs; i++) {
        size_t bytes = bytes_of(&call->out[i]);
        ck_assert_ptr_nonnull(got[i] = malloc(bytes + 1));
        memset(got[i], 0xa5, bytes);
        good(iso_device_write(stream, there->out[i].data, got[i], bytes));
    }
    good(gpu->launch(sequence, 0, count));
    finish(kernel);
    for (int i = 0; i < call->n_outputs; i++) {
        size_t bytes = bytes_of(&call->out[i]);
        good(iso_device_read(stream, got[i], there->out[i].data, bytes));
        CHECK(memcmp(got[i], call->out[i].data, bytes) == 0, "kernel %s of %s: its graph gave other bits",
              kernel->name, kernel->op);
        free(got[i]);
    }
}

/* As the executor does: the instructions are queued one by one; then they are captured, and the graph is launched,
 * which gives the same bits. (Not if the first one is done in place: the graph would read what it has written.) */
static void launch(const iso_thunk *thunks, int count, const iso_kernel_call *call, const device_call *there)
{
    const iso_kernel *kernel = thunks->kernel;
    iso_sequence *sequence;
    good(gpu->sequence(thunks, count, stream, &sequence));
    good(gpu->launch(sequence, 0, count));
    finish(kernel);
    read_outputs(call, there);
    if (input_below(call, 0) < 0) {
        good(gpu->capture(sequence));
        replay(sequence, count, call, there, kernel);
    }
    gpu->discard(sequence);
}

static void run_on_device(const iso_kernel_call *call)
{
    device_call there;
    const iso_kernel *kernel = real;
    area_used = 0;
    send_call(kernel, call, &there);
    launch(&(iso_thunk){.kernel = kernel, .call = &there.call}, 1, call, &there);
    release_call(kernel, call, &there);
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
    check_wide_sums(t, travelling());
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

/* ---- a product or convolution, a bias and a relu, which a library may do as one ---- */

/* y = relu(y + bias) as two instructions in place, after the one that computes y on the device. */
static void add_epilogue(const iso_array *y, const iso_array *bias, device_call *add, device_call *relu,
                         iso_thunk *thunks)
{
    static const iso_unary_attrs attrs = {.kind = ISO_UNARY_RELU};
    device_call *calls[] = {add, relu};
    for (int i = 0; i < 2; i++) {
        device_call *c = calls[i];
        c->call = *thunks->call;
        c->call.attrs = i == 0 ? NULL : &attrs;
        c->call.n_inputs = 2 - i, c->call.n_outputs = 1, c->call.in = c->in, c->call.out = c->out;
        c->in[0] = c->out[0] = *y, c->in[1] = *bias;
        const iso_kernel *kernel = gpu->find(i == 0 ? "add" : "relu", &c->call);
        ck_assert_msg(kernel && kernel->in_place && !kernel->scratch, "no such kernel");
        thunks[1 + i] = (iso_thunk){.kernel = kernel, .call = &c->call};
    }
}

/* Whether the result of the device is max(product + bias, 0), where a NaN stays one. Where bias and relu are separate
 * kernels, the product and the sum are rounded too. */
static void check_epilogue(const trial *t, const result *product, const iso_array *bias, const iso_array *got)
{
    const tolerance near_enough = tolerance_of(t, 0, "");
    double largest = 0;
    int64_t n = iso_array_count(got);
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(iso_index_element(&product->out[0], i)));
    for (int64_t i = 0; i < n; i++) {
        double y = iso_index_element(&product->out[0], i), a = iso_index_element(got, i),
               b = iso_index_element(bias, i % bias->dim[0]), want = y + b < 0 ? 0 : y + b;
        double bound =
            near_enough.relative * (fabs(y) + fabs(b)) + near_enough.absolute * (largest + fabs(b));
        CHECK(fabs(a - want) <= bound || (isnan(a) && isnan(want)),
              "%s, a bias and a relu: %.9g for element %lld, not %.9g", describe(t), a, (long long)i, want);
    }
}

/* The product of a trial in bfloat16 is that of the reference before it is rounded. */
static result reference_product(const trial *t)
{
    trial whole = *t;
    whole.out[0].dtype = t->out[0].dtype == ISO_BF16 ? ISO_F32 : t->out[0].dtype;
    return run_trial(&whole, iso_backend_reference(), 0);
}

static void check_fused(trial *t, bool with_nan)
{
    void *owner[MOST_ARRAYS], *bias_owner, *out_owner;
    device_call there, add, relu;
    iso_thunk thunks[3];
    iso_fault fault = {0};
    iso_array out = t->out[0], bias = make_array(out.dtype, 1, &out.dim[out.rank - 1]);
    place_inputs(t, 0, NULL, owner);
    if (with_nan)
        iso_element_set(t->in[0].data, t->in[0].dtype, 0, NAN);
    bias.data = room_for(&bias, 0, &bias_owner);
    fill(&bias, false, -1, 1);
    out.data = room_for(&out, 0, &out_owner);
    iso_kernel_call call = {.attrs = &t->attrs,
                            .n_inputs = t->inputs,
                            .n_outputs = 1,
                            .in = t->in,
                            .out = &out,
                            .info = &step_info,
                            .fault = &fault};
    result want = reference_product(t);
    area_used = 0;
    thunks[0] = (iso_thunk){.kernel = gpu->find(t->op, &call), .call = &there.call};
    ck_assert_ptr_nonnull(thunks[0].kernel);
    send_call(thunks[0].kernel, &call, &there);
    iso_array bias_there = bias;
    bias_there.data = on_device(bias.data, bytes_of(&bias) + GUARD);
    add_epilogue(&there.out[0], &bias_there, &add, &relu, thunks);
    launch(thunks, 3, &call, &there);
    release_call(thunks[0].kernel, &call, &there);
    back(NULL, bias_there.data, 0);
    check_epilogue(t, &want, &bias, &out);
    free(bias_owner);
    free(out_owner);
    free_result(t, &want);
    free_all(owner, t->inputs);
}

/* A case of float32 with a result, in each type. */
static void check_fused_types(const trial *t, bool with_nan)
{
    static const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_BF16};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        trial typed;
        if (in_type(t, types[k], &typed))
            check_fused(&typed, with_nan);
    }
}

static void check_fused_cases(const char *op, bool with_nan)
{
    int count = 0;
    for (int index = 0;; index++) {
        trial t = {.op = op};
        random_state = (uint64_t)index + 1;
        if (!maker_of(op)(&t, index))
            break;
        if (t.in[0].dtype == ISO_F32 && iso_array_count(&t.in[0]) > 0 && iso_array_count(&t.out[0]) > 0 &&
            count++ % every == 0)
            check_fused_types(&t, with_nan);
    }
}

START_TEST(a_bias_and_a_relu_follow_a_product)
{
    check_fused_cases("matmul", false);
    check_fused_cases("conv2d", false);
}
END_TEST

/* cuBLASLt's manual says of its relu only that it is max(x, 0). */
START_TEST(a_nan_passes_a_relu)
{
    check_fused_cases("matmul", true);
    check_fused_cases("conv2d", true);
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
    iso_step_rates want[2] = {0};
    void *memory = NULL;
    area_used = 0;
    good(gpu->device(0)->allocate_pinned(gpu->device(0), QUEUED * sizeof(iso_step_rates), "a test", &memory));
    iso_step_rates *there = on_device(want, sizeof *want), *got = memory;
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
    int code =
        only && only[0] == '='
            ? RUN_TESTS("CUDA device", 1400, kernels_agree_on_the_device)
            : RUN_TESTS("CUDA device", 1400, kernels_agree_on_the_device, a_bias_and_a_relu_follow_a_product,
                        a_nan_passes_a_relu, faults_are_the_first, updates_have_the_bits_of_the_reference,
                        rates_that_are_queued_do_not_change_those_before,
                        sums_and_maxima_have_the_bits_of_the_reference);
    gpu->device(0)->release(gpu->device(0), area);
    gpu->device(0)->destroy_stream(stream);
    return code;
}
