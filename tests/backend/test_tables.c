/* Functions of bfloat16 that are looked up: for every bfloat16 the bits of the loop that computes them, by kernels
 * that several threads run at first. Ranks: 1 */
#include <pthread.h>

#include "runtime/backend/cpu/functions.h"
#include "tests/backend/harness.h"
#include "tests/support/run_tests.h"

enum { VALUES = 1 << 16, THREADS = 4 };

static const struct {
    const char *op;
    iso_unary_kind kind;
} functions[] = {
    {"exp", ISO_UNARY_EXP},   {"log", ISO_UNARY_LOG},           {"sigmoid", ISO_UNARY_SIGMOID},
    {"tanh", ISO_UNARY_TANH}, {"gelu", ISO_UNARY_GELU},         {"gelu", ISO_UNARY_GELU_APPROXIMATE},
    {"silu", ISO_UNARY_SILU}, {"softplus", ISO_UNARY_SOFTPLUS}, {"relu", ISO_UNARY_RELU}};

/* All numbers, then some again, so that the last vector is not whole. */
typedef struct job {
    int function;
    bool gradient;
    uint16_t x[VALUES + 7], dy[VALUES + 7], got[VALUES + 7];
} job;

static void run_op(job *j)
{
    const int64_t n = VALUES + 7;
    trial t = {.op = j->gradient ? "unary_gradient" : functions[j->function].op};
    t.attrs.unary = (iso_unary_attrs){.kind = functions[j->function].kind};
    input(&t, ISO_BF16, 0, 1, DIMS(n));
    if (j->gradient)
        input(&t, ISO_BF16, 0, 1, DIMS(n));
    output(&t, ISO_BF16, DIMS(n));
    t.in[0].data = j->x;
    t.in[1].data = j->dy;
    result r = run_trial(&t, iso_backend_cpu(), 0);
    memcpy(j->got, r.out[0].data, sizeof j->got);
    free_result(&t, &r);
}

static void *run_thread(void *arg)
{
    run_op(arg);
    return NULL;
}

static void check(const job *j)
{
    static uint16_t want[VALUES + 7];
    const iso_cpu_functions_table *f = iso_cpu_functions();
    if (j->gradient)
        f->unary_gradient_bf16(functions[j->function].kind, 0, VALUES + 7, j->x, j->dy, want);
    else
        f->unary_bf16(functions[j->function].kind, 0, VALUES + 7, j->x, want);
    for (int i = 0; i < VALUES + 7; i++) {
        bool nan = isnan(iso_bf16_to_float(want[i])) && isnan(iso_bf16_to_float(j->got[i]));
        CHECK(nan || j->got[i] == want[i], "%s %s of %g (%g) is %g, not %g", iso_isa_name(iso_cpu_isa()),
              functions[j->function].op, iso_bf16_to_float(j->x[i]), iso_bf16_to_float(j->dy[i]),
              iso_bf16_to_float(j->got[i]), iso_bf16_to_float(want[i]));
    }
}

static void check_function(int function, bool gradient)
{
    static job jobs[THREADS];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        jobs[t].function = function;
        jobs[t].gradient = gradient;
        for (int i = 0; i < VALUES + 7; i++) {
            jobs[t].x[i] = (uint16_t)i;
            jobs[t].dy[i] = iso_bf16_of_double(uniform(-2, 2));
        }
        ck_assert_int_eq(pthread_create(&threads[t], NULL, run_thread, &jobs[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        ck_assert_int_eq(pthread_join(threads[t], NULL), 0);
        check(&jobs[t]);
    }
}

START_TEST(bits_of_the_loops)
{
    iso_isa most = iso_cpu_isa();
    for (int isa = (int)most; isa >= 0; isa--) {
        iso_cpu_limit_isa((iso_isa)isa);
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
            for (int gradient = 0; gradient < 2; gradient++)
                check_function((int)i, gradient);
    }
    iso_cpu_limit_isa(most);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tables");
    TCase *tests = tcase_create("tables");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, bits_of_the_loops);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
