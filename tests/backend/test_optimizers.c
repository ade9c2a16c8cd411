/* The vector loops of the optimizers and of sums between slots against the plain ones, for each instruction
 * set of this machine: and that an update cut into parts gives the bits of one in one shard. Ranks: 1 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "runtime/backend/backend.h"
#include "runtime/backend/cpu/isa.h"
#include "runtime/graph/optimizers/rule.h"
#include "tests/support/run_tests.h"

enum { MOST = 1000, SLOTS = 3, STEPS = 5, GUARDS = 32 };
/* As ck_assert_msg, which writes a file each time, but for loops. */
#define CHECK(condition, ...)                                                                                \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            ck_abort_msg(__VA_ARGS__);                                                                       \
    } while (0)

static const float GUARD = 12345.0f;

typedef struct state {
    float w[MOST + GUARDS], slot[SLOTS][MOST + GUARDS];
} state;

static const struct {
    const char *rule;
    double hyper[ISO_MAX_HYPER]; /* rate, decay, the rule's own */
} settings[] = {
    {"sgd", {0.1, 0, 0, 0}},
    {"sgd", {0.1, 0.01, 0.9, 0}},
    {"sgd", {0.1, 0, 0.9, 1}},
    {"rmsprop", {0.01, 0, 0.9, 0, 1e-7, 0}},
    {"rmsprop", {0.01, 0.01, 0.9, 0.5, 1e-7, 0}},
    {"rmsprop", {0.01, 0, 0.9, 0, 1e-3, 1}},
    {"rmsprop", {0.01, 0, 0.9, 0.5, 1e-3, 1}},
    {"adam", {0.003, 0, 0.1, 0.001, 1e-7, 0}},
    {"adam", {0.003, 0, 0.1, 0.001, 1e-7, 1}},
    {"adamw", {0.003, 0.004, 0.1, 0.001, 1e-7, 0}},
    {"adagrad", {0.01, 0, 0, 1e-7}},
    {"nadam", {0.003, 0.01, 0.1, 0.001, 1e-7, 0.7, 0.6, 1.5}},
    {"lion", {0.003, 0.01, 0.9, 0.99, 0.1, 0.01}},
    {"adamax", {0.003, 0.01, 0.1, 0.999, 1e-7, 0.19}},
    {"adadelta", {0.3, 0.01, 0.95, 1e-7}},
    {"ftrl", {0.03, 0.01, -0.5, 0.1, 0.1, 0.2, 0.3, 0.4}},
    {"ftrl", {0.03, 0, -0.7, 0.1, 0, 0.1, 0, 0}},
    {"average", {0.9, 0}},
    {"average", {0.7, 1}},
    {NULL, {0.01, 0, 0.9, 0, 1e-7, 0}},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static float number(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (float)(*random >> 40) * 0x1p-23f - 1;
}

/* Weights of some size; slots as an optimizer has them at first, zeros, but for adagrad's. */
static void begin(state *s, int64_t n)
{
    uint64_t random = 7;
    memset(s, 0, sizeof *s);
    for (int64_t i = 0; i < n; i++) {
        s->w[i] = number(&random);
        s->slot[0][i] = 0;
    }
    for (int i = 0; i < GUARDS; i++) {
        s->w[n + i] = GUARD;
        for (int k = 0; k < SLOTS; k++)
            s->slot[k][n + i] = GUARD;
    }
}

/* Gradients of very different size, zeros among them. */
static void gradient(int step, int64_t n, float *g)
{
    uint64_t random = (uint64_t)step + 1;
    for (int64_t i = 0; i < n; i++)
        g[i] = i % 7 == 0 ? 0 : number(&random) * (i % 3 == 0 ? 1e-6f : 1);
}

/* Several updates of n elements, each done in parts of `part`. */
static void train(state *s, iso_rule_run run, const double *hyper, int64_t n, int64_t part)
{
    static float g[MOST + GUARDS];
    for (int step = 0; step < STEPS; step++) {
        gradient(step, n, g);
        for (int64_t i = 0; i < n; i += part) {
            void *slots[] = {s->slot[0] + i, s->slot[1] + i, s->slot[2] + i};
            run(n - i < part ? n - i : part, s->w + i, slots, g + i, hyper);
        }
    }
}

static void check_near(const float *a, const float *b, int64_t n, const char *what, int setting)
{
    for (int64_t i = 0; i < n; i++)
        CHECK(fabsf(a[i] - b[i]) <= 2e-6f * fabsf(b[i]) + 3e-8f,
              "setting %d, %s, %s %lld of %lld: %.9g, reference %.9g", setting, iso_isa_name(iso_cpu_isa()),
              what, (long long)i, (long long)n, (double)a[i], (double)b[i]);
}

static void check_rule(int setting, int64_t n)
{
    static state fast, plain, parts;
    const char *rule = settings[setting].rule;
    const double *hyper = settings[setting].hyper;
    begin(&fast, n), begin(&plain, n), begin(&parts, n);
    train(&fast, iso_backend_cpu()->optimizer(rule, ISO_F32), hyper, n, MOST);
    train(&plain, iso_backend_reference()->optimizer(rule, ISO_F32), hyper, n, MOST);
    train(&parts, iso_backend_cpu()->optimizer(rule, ISO_F32), hyper, n, 13);
    check_near(fast.w, plain.w, n, "weight", setting);
    for (int k = 0; k < SLOTS; k++)
        check_near(fast.slot[k], plain.slot[k], n, "slot", setting);
    ck_assert_mem_eq(&fast, &parts, sizeof fast); /* with what lies behind the n elements */
    for (int i = 0; i < GUARDS; i++)
        ck_assert(memcmp(&fast.w[n + i], &GUARD, sizeof GUARD) == 0);
}

static void each_isa(void (*check)(void))
{
    iso_isa most = iso_cpu_isa();
    for (int isa = ISO_ISA_BASE; isa <= (int)most; isa++) {
        iso_cpu_limit_isa((iso_isa)isa);
        ck_assert_int_eq(iso_cpu_isa(), isa);
        check();
    }
    iso_cpu_limit_isa(most);
}

/* From weights of 0 with nothing remembered, an update is one quotient by a root: what is made of estimates
 * and a step of Newton's is exact to 4 units in the last place at every size of gradient, not only where the
 * weight hides it. */
static void check_quotients(void)
{
    static const struct {
        const char *rule;
        double hyper[ISO_MAX_HYPER];
    } quotients[] = {
        {"rmsprop", {1, 0, 0, 0, 1e-36, 0}}, {"adagrad", {1, 0, 0, 1e-36}}, {"adam", {1, 0, 1, 1, 0, 0}}};
    for (size_t i = 0; i < sizeof quotients / sizeof *quotients; i++)
        for (int power = -15; power <= 17; power++) {
            enum { N = 333 };
            float w[N] = {0}, slot[SLOTS][N] = {{0}}, g[N];
            void *slots[] = {slot[0], slot[1], slot[2]};
            for (int k = 0; k < N; k++)
                g[k] = (float)((k % 2 ? -1 : 1) * (1 + 9.0 * k / N) * pow(10, power));
            iso_backend_cpu()->optimizer(quotients[i].rule, ISO_F32)(N, w, slots, g, quotients[i].hyper);
            for (int k = 0; k < N; k++) {
                float square = g[k] * g[k];
                double want = -g[k] / sqrt((double)square + (i < 2 ? 1e-36 : 0));
                CHECK(fabs(w[k] - want) <= 0x1p-21 * fabs(want),
                      "%s, %s: of the gradient %.9g came %.9g, not %.9g", iso_isa_name(iso_cpu_isa()),
                      quotients[i].rule, (double)g[k], (double)w[k], want);
            }
        }
}

START_TEST(quotients_are_exact)
{
    each_isa(check_quotients);
}
END_TEST

static void check_rules(void)
{
    static const int64_t lengths[] = {0, 1, 3, 8, 15, 16, 17, 100, MOST};
    for (int i = 0; i < SETTINGS; i++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
            check_rule(i, lengths[k]);
}

START_TEST(optimizers_agree)
{
    each_isa(check_rules);
}
END_TEST

START_TEST(unknown_rules_are_none)
{
    ck_assert_ptr_null(iso_backend_cpu()->optimizer("adamm", ISO_F32));
    ck_assert_ptr_null(iso_backend_cpu()->optimizer("adam", ISO_I32));
    ck_assert_ptr_nonnull(iso_backend_cpu()->optimizer("adam", ISO_F64));
}
END_TEST

/* Sums and maxima of all types, in place and not, against what C says. */
static void check_combining(void)
{
    const iso_backend *cpu = iso_backend_cpu();
    float a[40], b[40], out[41];
    double da[40], db[40], dout[41];
    int32_t ia[40], ib[40];
    for (int n = 0; n <= 40; n++) {
        for (int i = 0; i < 40; i++) {
            a[i] = (float)(i * 7 % 11), b[i] = (float)(i * 5 % 13);
            da[i] = a[i], db[i] = b[i], ia[i] = i * 3, ib[i] = 50 - i;
        }
        a[3] = NAN, b[9] = NAN;
        out[n] = 77, dout[n] = 77;
        cpu->sum(ISO_F32, n, a, b, out, NULL);
        cpu->sum(ISO_F64, n, da, db, dout, NULL);
        cpu->sum(ISO_I32, n, ia, ib, ia, NULL);
        for (int i = 0; i < n; i++) {
            CHECK(out[i] == a[i] + b[i] || i == 3 || i == 9, "element %d of %d", i, n);
            CHECK(dout[i] == da[i] + db[i] && ia[i] == i * 3 + 50 - i, "element %d of %d", i, n);
        }
        ck_assert(out[n] == 77 && dout[n] == 77);
        cpu->maximum(ISO_F32, n, a, b, out, NULL);
        cpu->maximum(ISO_F64, n, da, db, dout, NULL);
        for (int i = 0; i < n; i++) {
            CHECK(i == 3 || i == 9 ? isnan(out[i]) : out[i] == (a[i] > b[i] ? a[i] : b[i]),
                  "element %d of %d", i, n);
            CHECK(dout[i] == (da[i] > db[i] ? da[i] : db[i]), "element %d of %d", i, n);
        }
    }
}

START_TEST(sums_and_maxima)
{
    each_isa(check_combining);
}
END_TEST

START_TEST(limits)
{
    iso_isa most = iso_cpu_isa();
    iso_cpu_limit_isa(ISO_ISA_BASE);
    ck_assert_int_eq(iso_cpu_isa(), ISO_ISA_BASE);
    iso_cpu_limit_isa(ISO_ISA_AMX); /* no more than there is */
    ck_assert_int_eq(iso_cpu_isa(), iso_cpu_highest_isa());
    iso_cpu_limit_isa(most);
    ck_assert_int_eq(iso_cpu_isa(), most);
    ck_assert_ptr_nonnull(strstr(iso_backend_cpu()->description(), "OpenBLAS"));
}
END_TEST

int main(void)
{
    return RUN_TESTS("optimizers", 60, optimizers_agree, quotients_are_exact, unknown_rules_are_none,
                     sums_and_maxima, limits);
}
