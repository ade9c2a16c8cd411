/* Layer normalisation that reads and writes bfloat16, against the casts, additions and kernels of float32 that it
 * stands for: the same bits, for each instruction set of this machine, and for the CUDA kernels, run by the emulator.
 * Ranks: 1 */
#include "runtime/backend/cuda/kernels.h"
#include "tests/backend/cases.h"
#include "tests/emulator/emulator.h"
#include "tests/support/run_tests.h"

/* Numbers of a trial's operands. */
enum { X = 0, DY = 1 };

/* Whose kernels are tried. */
static const iso_backend *backend;

static iso_array copy_in(const iso_array *array, iso_dtype dtype, void **owner)
{
    iso_array copy = *array;
    copy.dtype = dtype;
    copy.data = room_for(&copy, 0, owner);
    return copy;
}

/* Element by element: conversions, and sums in bfloat16 of a and b. */
static void widen(const iso_array *from, iso_array *to)
{
    for (int64_t i = 0; i < iso_array_count(from); i++)
        ((float *)to->data)[i] = iso_bf16_to_float(((const uint16_t *)from->data)[i]);
}

static void narrow(const iso_array *from, iso_array *to)
{
    for (int64_t i = 0; i < iso_array_count(from); i++)
        ((uint16_t *)to->data)[i] = iso_bf16_of_float(((const float *)from->data)[i]);
}

static void add(const iso_array *a, const iso_array *b, iso_array *sum)
{
    const uint16_t *x = a->data, *y = b->data;
    for (int64_t i = 0; i < iso_array_count(a); i++)
        ((uint16_t *)sum->data)[i] = iso_bf16_of_float(iso_bf16_to_float(x[i]) + iso_bf16_to_float(y[i]));
}

static void check_bits(const trial *t, const result *got, int k, const iso_array *want)
{
    ck_assert_int_eq(got->out[k].dtype, want->dtype);
    CHECK(memcmp(got->out[k].data, want->data, bytes_of(want)) == 0,
          "%s: kernel %s: output %d has other bits", describe(t), got->kernel, k);
}

/* The trial in float32 without the residual, x being `x` as floats: what the op of bfloat16 stands for. */
static result run_wide(const trial *t, const iso_array *x)
{
    void *owner[2] = {NULL, NULL};
    trial wide = *t;
    wide.attrs.layer_norm.residual = false;
    wide.inputs -= t->attrs.layer_norm.residual;
    wide.in[X] = copy_in(x, ISO_F32, &owner[0]);
    widen(x, &wide.in[X]);
    if (t->in[DY].dtype == ISO_BF16 && wide.inputs > DY) {
        wide.in[DY] = copy_in(&t->in[DY], ISO_F32, &owner[1]);
        widen(&t->in[DY], &wide.in[DY]);
    }
    wide.outputs = strcmp(t->op, "layer_norm_grad_sums") == 0 ? 2 : 1;
    wide.out[0].dtype = ISO_F32;
    result r = run_trial(&wide, backend, 0);
    free_all(owner, 2);
    return r;
}

static void check_norm(const trial *t, const result *got)
{
    void *owner[2] = {NULL, NULL};
    iso_array x = t->in[X];
    if (t->attrs.layer_norm.residual) {
        x = copy_in(&x, ISO_BF16, &owner[0]);
        add(&t->in[X], &t->in[t->inputs - 1], &x);
        check_bits(t, got, 1, &x);
    }
    result want = run_wide(t, &x);
    iso_array y = want.out[0];
    if (t->out[0].dtype == ISO_BF16) {
        y = copy_in(&y, ISO_BF16, &owner[1]);
        narrow(&want.out[0], &y);
    }
    check_bits(t, got, 0, &y);
    free_result(&(trial){.outputs = 1}, &want);
    free_all(owner, 2);
}

static void check_gradient(const trial *t, const result *got)
{
    void *owner = NULL;
    result want = run_wide(t, &t->in[X]);
    iso_array dx = want.out[0];
    const iso_array *residual = t->attrs.layer_norm.residual ? &t->in[t->inputs - 1] : NULL;
    if (t->out[0].dtype == ISO_BF16) {
        dx = copy_in(&dx, ISO_BF16, &owner);
        narrow(&want.out[0], &dx);
        if (residual)
            add(&dx, residual, &dx);
    } else if (residual) {
        for (int64_t i = 0; i < iso_array_count(&dx); i++)
            ((float *)dx.data)[i] += ((const float *)residual->data)[i];
    }
    check_bits(t, got, 0, &dx);
    free_result(&(trial){.outputs = 1}, &want);
    free(owner);
}

/* The sums of blocks of rows are added in another order. */
static void check_sums(const trial *t, const result *got)
{
    result want = run_wide(t, &t->in[X]);
    compare(t, &want, got);
    free_result(&(trial){.outputs = 2}, &want);
}

/* Gives the operands their types: bit 0 of `types` makes the result float32, bit 1 dy. The vectors stay float32. */
static void set_types(trial *t, int types)
{
    const iso_layer_norm_attrs *attrs = &t->attrs.layer_norm;
    const bool gradient = strstr(t->op, "grad");
    t->in[X].dtype = ISO_BF16;
    if (gradient)
        t->in[DY].dtype = types & 2 ? ISO_F32 : ISO_BF16;
    if (strcmp(t->op, "layer_norm_grad_sums") == 0)
        return;
    t->out[0].dtype = types & 1 ? ISO_F32 : ISO_BF16;
    if (attrs->residual)
        t->in[t->inputs - 1].dtype = gradient ? t->out[0].dtype : ISO_BF16;
    if (attrs->residual && !gradient)
        t->out[1].dtype = ISO_BF16;
}

static int divided; /* cases that threads divided */

/* False behind the last case. */
static bool check_case(const char *op, int index, int types)
{
    trial t = {.op = op};
    void *owner[MOST_ARRAYS];
    if (!maker_of(op)(&t, index))
        return false;
    set_types(&t, types);
    place_inputs(&t, 0, NULL, owner);
    result got = run_trial(&t, backend, 0);
    if (backend == iso_backend_cpu()) {
        ck_assert_str_eq(got.kernel, "vector in bfloat16");
        divided += check_division(&t, &got);
    }
    if (strcmp(op, "layer_norm") == 0)
        check_norm(&t, &got);
    else if (strcmp(op, "layer_norm_grad") == 0)
        check_gradient(&t, &got);
    else
        check_sums(&t, &got);
    free_result(&t, &got);
    free_all(owner, t.inputs);
    return true;
}

static const char *const ops[] = {"layer_norm", "layer_norm_grad", "layer_norm_grad_sums"};

/* In all types; or each case in one of them, as by default for all instruction sets but the last. */
static void check_cases(const char *op, bool all)
{
    for (int types = 0; types < 4; types++)
        for (int index = all ? 0 : types; check_case(op, index, types); index += all ? 1 : 4)
            continue;
}

START_TEST(bits_of_the_casts)
{
    iso_isa most = iso_cpu_isa();
    backend = iso_backend_cpu();
    for (int isa = 0; isa <= (int)most; isa++) {
        iso_cpu_limit_isa((iso_isa)isa);
        check_cases(ops[_i], isa == (int)most || getenv("ISOGRID_TEST_LONG"));
    }
    iso_cpu_limit_isa(most);
    ck_assert_int_gt(divided, 0);
}
END_TEST

START_TEST(bits_of_the_casts_on_a_gpu)
{
    static const iso_backend emulated = {.name = "cuda-emulated", .find = iso_cuda_kernel_find};
    backend = &emulated;
    emulator_set_order(EMULATOR_RANDOM, 1);
    check_cases(ops[_i], false);
    ck_assert_ptr_null(emulator_error());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layer_norm_bf16");
    TCase *tests = tcase_create("layer_norm_bf16");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, bits_of_the_casts, 0, sizeof ops / sizeof *ops);
    tcase_add_loop_test(tests, bits_of_the_casts_on_a_gpu, 0, sizeof ops / sizeof *ops);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
