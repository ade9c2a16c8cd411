/* Every optimizer against Keras: three variables over seven steps with given gradients, for all cases of
 * tests/keras/optimizers.h5, in float64 and float32; their averages; constraints of the first one; and the learning
 * rates of schedules. Ranks: 1 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/constraints.h"
#include "runtime/graph/optimizer.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/oracle.h"
#include "tests/support/run_tests.h"

enum { VARIABLES = 3, LAST = 6 };
static const char *const paths[VARIABLES] = {"layer/kernel", "layer/bias", "layer/gamma"};

static iso_context *ctx;
static oracle *file;

/* A setting of a case: where zero itself was given, ISO_ZERO. */
static double setting(const oracle *from, const char *name, const char *key)
{
    double value;
    if (!oracle_numbers(from, name, key, &value, 1))
        return 0;
    return value == 0 ? ISO_ZERO : value;
}

static iso_schedule schedule_of(oracle *from, const char *name)
{
    const char *kind = oracle_text(from, name, "schedule");
    double first = setting(from, name, "initial_learning_rate");
    int64_t steps = (int64_t)oracle_number(from, name, "decay_steps", 0);
    if (!kind)
        return (iso_schedule){.kind = ISO_SCHEDULE_CONSTANT};
    if (strcmp(kind, "exponential") == 0)
        return iso_exponential_decay(first, steps, oracle_number(from, name, "decay_rate", 0),
                                     .staircase = oracle_number(from, name, "staircase", 0) != 0);
    if (strcmp(kind, "cosine") == 0)
        return iso_cosine_decay(first, steps, .alpha = oracle_number(from, name, "alpha", 0),
                                .warmup_target = oracle_number(from, name, "warmup_target", 0),
                                .warmup_steps = (int64_t)oracle_number(from, name, "warmup_steps", 0));
    if (strcmp(kind, "polynomial") == 0)
        return iso_polynomial_decay(first, steps, setting(from, name, "end_learning_rate"),
                                    setting(from, name, "power"),
                                    .cycle = oracle_number(from, name, "cycle", 0) != 0);
    if (strcmp(kind, "inverse_time") == 0)
        return iso_inverse_time_decay(first, steps, oracle_number(from, name, "decay_rate", 0),
                                      .staircase = oracle_number(from, name, "staircase", 0) != 0);
    if (strcmp(kind, "cosine_restarts") == 0)
        return iso_cosine_decay_restarts(first, (int64_t)oracle_number(from, name, "first_decay_steps", 0),
                                         setting(from, name, "t_mul"), setting(from, name, "m_mul"),
                                         .alpha = oracle_number(from, name, "alpha", 0));
    double number[8], values[9];
    int64_t boundaries[8];
    int count = oracle_numbers(from, name, "boundaries", number, 8);
    ck_assert_int_eq(oracle_numbers(from, name, "values", values, 9), count + 1);
    for (int i = 0; i < count; i++)
        boundaries[i] = (int64_t)number[i];
    return iso_piecewise_constant(count, boundaries, values);
}

/* ---- a case's optimizer through its own constructor ---- */

#define GIVEN(key) setting(file, name, key)
#define FLAG(key) (oracle_number(file, name, key, 0) != 0)
#define COMMON                                                                                               \
    .schedule = schedule_of(file, name), .weight_decay = oracle_number(file, name, "weight_decay", 0),       \
    .no_decay = oracle_text(file, name, "exclude_from_weight_decay"),                                        \
    .clip_norm = oracle_number(file, name, "clipnorm", 0),                                                   \
    .global_clip_norm = oracle_number(file, name, "global_clipnorm", 0),                                     \
    .clip_value = oracle_number(file, name, "clipvalue", 0),                                                 \
    .accumulation = (int)oracle_number(file, name, "gradient_accumulation_steps", 0),                        \
    .use_ema = FLAG("use_ema"), .ema_momentum = setting(file, name, "ema_momentum"),                         \
    .ema_overwrite_frequency = (int)oracle_number(file, name, "ema_overwrite_frequency", 0),                 \
    .loss_scale_factor = oracle_number(file, name, "loss_scale_factor", 0)

static iso_optimizer optimizer_of(const char *name)
{
    const char *kind = oracle_text(file, name, "optimizer");
    if (strcmp(kind, "sgd") == 0)
        return iso_sgd(GIVEN("learning_rate"), GIVEN("momentum"), FLAG("nesterov"), COMMON);
    if (strcmp(kind, "rmsprop") == 0)
        return iso_rmsprop(GIVEN("learning_rate"), GIVEN("rho"), GIVEN("momentum"), GIVEN("epsilon"),
                           FLAG("centered"), COMMON);
    if (strcmp(kind, "adam") == 0)
        return iso_adam(GIVEN("learning_rate"), GIVEN("beta_1"), GIVEN("beta_2"), GIVEN("epsilon"),
                        FLAG("amsgrad"), COMMON);
    if (strcmp(kind, "adamw") == 0)
        return iso_adamw(GIVEN("learning_rate"), GIVEN("beta_1"), GIVEN("beta_2"), GIVEN("epsilon"),
                         FLAG("amsgrad"), COMMON);
    if (strcmp(kind, "nadam") == 0)
        return iso_nadam(GIVEN("learning_rate"), GIVEN("beta_1"), GIVEN("beta_2"), GIVEN("epsilon"), COMMON);
    if (strcmp(kind, "lion") == 0)
        return iso_lion(GIVEN("learning_rate"), GIVEN("beta_1"), GIVEN("beta_2"), COMMON);
    if (strcmp(kind, "adamax") == 0)
        return iso_adamax(GIVEN("learning_rate"), GIVEN("beta_1"), GIVEN("beta_2"), GIVEN("epsilon"), COMMON);
    if (strcmp(kind, "adadelta") == 0)
        return iso_adadelta(GIVEN("learning_rate"), GIVEN("rho"), GIVEN("epsilon"), COMMON);
    if (strcmp(kind, "ftrl") == 0)
        return iso_ftrl(GIVEN("learning_rate"), GIVEN("learning_rate_power"),
                        GIVEN("initial_accumulator_value"), GIVEN("l1_regularization_strength"),
                        GIVEN("l2_regularization_strength"), GIVEN("l2_shrinkage_regularization_strength"),
                        GIVEN("beta"), COMMON);
    if (strcmp(kind, "lamb") == 0)
        return iso_lamb(GIVEN("learning_rate"), GIVEN("beta_1"), GIVEN("beta_2"), GIVEN("epsilon"), COMMON);
    if (strcmp(kind, "adafactor") == 0)
        return iso_adafactor(GIVEN("learning_rate"), GIVEN("beta_2_decay"), GIVEN("epsilon_1"),
                             GIVEN("epsilon_2"), GIVEN("clip_threshold"), !FLAG("relative_step"), COMMON);
    if (strcmp(kind, "muon") == 0)
        return iso_muon(GIVEN("learning_rate"), GIVEN("adam_beta_1"), GIVEN("adam_beta_2"), GIVEN("epsilon"),
                        GIVEN("muon_a"), GIVEN("muon_b"), GIVEN("muon_c"), GIVEN("adam_lr_ratio"),
                        GIVEN("momentum"), (int)oracle_number(file, name, "ns_steps", 0), !FLAG("nesterov"),
                        !FLAG("exclude_embeddings"), GIVEN("adam_weight_decay"), GIVEN("rms_rate"), COMMON);
    ck_assert_str_eq(kind, "adagrad");
    return iso_adagrad(GIVEN("learning_rate"), GIVEN("initial_accumulator_value"), GIVEN("epsilon"), COMMON);
}

/* ---- seven steps ---- */

typedef struct steps {
    const char *name;
    iso_graph *graph;
    iso_shape shape[VARIABLES];
    iso_variable *variable[VARIABLES];
    iso_tensor *gradient[VARIABLES]; /* inputs: [1, shape...] */
    iso_function *function;
} steps;

static double *data_of(const char *name, const char *pattern, int i, iso_shape *shape)
{
    char dataset[40];
    snprintf(dataset, sizeof dataset, pattern, i);
    double *values = oracle_data(file, name, dataset, shape);
    ck_assert_msg(values, "%s: no %s", name, dataset);
    return values;
}

/* The constraint of the first variable; kind ISO_CONSTRAINT_NONE: it has none. */
static iso_weight_constraint constraint_of(const char *name)
{
    const char *kind = oracle_text(file, name, "constraint");
    iso_weight_constraint constraint = {.max_value = setting(file, name, "max_value"),
                                        .min_value = setting(file, name, "min_value"),
                                        .rate = setting(file, name, "rate"),
                                        .all_axes = FLAG("all_axes")};
    double axis[ISO_MAX_RANK];
    constraint.axis_count = oracle_numbers(file, name, "axis", axis, ISO_MAX_RANK);
    for (int i = 0; i < constraint.axis_count; i++)
        constraint.axis[i] = (int)axis[i];
    if (kind)
        ck_assert_msg(iso_constraint_find(kind, &constraint.kind), "%s: no constraint '%s'", name, kind);
    return constraint;
}

/* With loss = sum(v * g) over one row, the gradient of v is the input g. */
static void build(steps *s, iso_dtype precision)
{
    iso_tensor *loss = NULL;
    s->graph = iso_graph_create(ctx);
    iso_graph_set_precision(s->graph, precision);
    for (int i = 0; i < VARIABLES; i++) {
        data_of(s->name, "v%d", i, &s->shape[i]);
        s->variable[i] = iso_variable_create(s->graph, paths[i], ISO_F32, s->shape[i],
                                             (iso_initializer){.kind = ISO_INIT_ZEROS}, true);
        s->gradient[i] = iso_input(s->graph, "g", ISO_F32, s->shape[i]);
        iso_tensor *term = iso_sum(iso_multiply(s->gradient[i], iso_variable_value(s->variable[i])));
        loss = loss ? iso_add(loss, term) : term;
    }
    iso_weight_constraint constraint = constraint_of(s->name);
    if (constraint.kind != ISO_CONSTRAINT_NONE)
        iso_variable_set_constraint(s->variable[0],
                                    iso_constrain(iso_variable_value(s->variable[0]), &constraint));
    iso_optimizer optimizer = optimizer_of(s->name);
    check_ok(iso_optimizer_check(&optimizer));
    iso_update *update = iso_minimize(loss, optimizer);
    check_ok(iso_graph_error(s->graph));
    check_ok(iso_function_create(s->graph, &s->function,
                                 .inputs = {s->gradient[0], s->gradient[1], s->gradient[2]},
                                 .outputs = {loss}, .updates = {update}, .training = true));
}

static void compare(const steps *s, int step, double tolerance)
{
    for (int i = 0; i < VARIABLES; i++) {
        char what[200];
        double values[64];
        int64_t count = oracle_elements(&s->shape[i]);
        double *expected = data_of(s->name, "v%d_after", i, NULL) + step * count;
        check_ok(iso_variable_read(s->variable[i], values, count));
        snprintf(what, sizeof what, "%s, %s after step %d", s->name, paths[i], step + 1);
        check_near(what, values, expected, count, tolerance);
    }
}

static void check_averages_of(const steps *s, double tolerance)
{
    for (int i = 0; i < VARIABLES; i++) {
        char what[200];
        double values[64];
        int64_t count = oracle_elements(&s->shape[i]);
        check_ok(iso_variable_read(s->variable[i], values, count));
        snprintf(what, sizeof what, "%s, the average of %s", s->name, paths[i]);
        check_near(what, values, data_of(s->name, "v%d_average", i, NULL), count, tolerance);
    }
}

/* Nadam's own variable: beta_1 (1 - 0.96^t / 2) multiplied over the updates, which accumulation makes fewer. */
static void check_product(const steps *s, int count, double tolerance)
{
    iso_variable *variable = iso_graph_find_variable(s->graph, "optimizer/u_product");
    bool nadam = strcmp(oracle_text(file, s->name, "optimizer"), "nadam") == 0;
    int over = (int)oracle_number(file, s->name, "gradient_accumulation_steps", 1);
    double value, expected = 1;
    ck_assert_int_eq(variable != NULL, nadam);
    if (!nadam)
        return;
    for (int t = 1; t <= count / over; t++)
        expected *= oracle_number(file, s->name, "beta_1", 0) * (1 - 0.5 * pow(0.96, t));
    check_ok(iso_variable_read(variable, &value, 1));
    check_near(s->name, &value, &expected, 1, tolerance);
}

/* The weights become the averages, as at the end of Keras's fit; and by exchanging both twice nothing changes. */
static void check_averages(const steps *s, double tolerance)
{
    if (oracle_number(file, s->name, "use_ema", 0) == 0)
        return;
    check_ok(iso_function_swap_averages(s->function));
    check_averages_of(s, tolerance);
    check_ok(iso_function_swap_averages(s->function));
    compare(s, LAST, tolerance);
    check_ok(iso_function_take_averages(s->function));
    check_averages_of(s, tolerance);
}

static void check_case(const char *name, iso_dtype precision, double tolerance)
{
    steps s = {.name = name};
    int count = (int)oracle_number(file, name, "steps", 0);
    build(&s, precision);
    for (int i = 0; i < VARIABLES; i++)
        check_ok(
            iso_variable_assign(s.variable[i], data_of(name, "v%d", i, NULL), oracle_elements(&s.shape[i])));
    ck_assert_int_eq(count, LAST + 1);
    for (int step = 0; step < count; step++) {
        memory_batch batch;
        double loss;
        memory_batch_begin(&batch, 1);
        for (int i = 0; i < VARIABLES; i++)
            memory_batch_add(&batch, s.shape[i],
                             data_of(name, "g%d", i, NULL) + step * oracle_elements(&s.shape[i]));
        check_ok(iso_function_run(s.function, &batch.batch, &loss));
        compare(&s, step, tolerance);
    }
    check_product(&s, count, tolerance);
    check_averages(&s, tolerance);
    iso_function_destroy(s.function);
    iso_graph_destroy(s.graph);
}

START_TEST(in_float64)
{
    for (int i = 0; i < oracle_cases(file); i++)
        check_case(oracle_case(file, i), ISO_F64, 1e-12);
}
END_TEST

START_TEST(in_float32)
{
    for (int i = 0; i < oracle_cases(file); i++)
        check_case(oracle_case(file, i), ISO_F32, 3e-6);
}
END_TEST

START_TEST(schedules)
{
    oracle *rates = oracle_open("schedules.h5");
    for (int i = 0; i < oracle_cases(rates); i++) {
        const char *name = oracle_case(rates, i);
        iso_shape shape;
        double *steps_of = oracle_data(rates, name, "steps", &shape),
               *expected = oracle_data(rates, name, "rates", NULL);
        iso_optimizer optimizer = iso_sgd(.schedule = schedule_of(rates, name));
        ck_assert_int_ge(shape.dim[0], 20);
        for (int64_t k = 0; k < shape.dim[0]; k++) {
            double rate = iso_schedule_rate(&optimizer, (int64_t)steps_of[k], optimizer.learning_rate);
            ck_assert_msg(fabs(rate - expected[k]) <= 1e-7 * fabs(expected[k]),
                          "%s, step %g: %.17g, Keras has %.17g", name, steps_of[k], rate, expected[k]);
        }
    }
    oracle_close(rates);
}
END_TEST

static void check_not_constrained(iso_weight_constraint constraint, const char *message)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_variable *v = iso_variable_create(graph, "v", ISO_F32, ISO_SHAPE(3, 2), (iso_initializer){0}, true);
    iso_variable_set_constraint(v, iso_constrain(iso_variable_value(v), &constraint));
    ck_assert_int_eq(iso_graph_error(graph), ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), message), "no '%s' in: %s", message, iso_error_message());
    iso_graph_destroy(graph);
}

START_TEST(constraints_that_are_refused)
{
    check_not_constrained((iso_weight_constraint){.kind = (iso_constraint_kind)9}, "kind 9");
    check_not_constrained((iso_weight_constraint){.kind = ISO_CONSTRAINT_MAX_NORM, .max_value = -2}, "-2");
    check_not_constrained((iso_weight_constraint){.kind = ISO_CONSTRAINT_MIN_MAX_NORM, .rate = NAN}, "rate");
    check_not_constrained(
        (iso_weight_constraint){.kind = ISO_CONSTRAINT_UNIT_NORM, .axis = {2}, .axis_count = 1}, "2");
    check_not_constrained((iso_weight_constraint){.kind = ISO_CONSTRAINT_MAX_NORM, .axis_count = 99},
                          "99 axes");
    iso_graph *graph = iso_graph_create(ctx);
    iso_variable *v = iso_variable_create(graph, "v", ISO_F32, ISO_SHAPE(3, 2), (iso_initializer){0}, true);
    iso_variable_set_constraint(v, iso_sum(iso_variable_value(v)));
    ck_assert_int_eq(iso_graph_error(graph), ISO_INVALID);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "its constraint makes it"));
    iso_graph_destroy(graph);
}
END_TEST

START_TEST(nonsense_is_refused)
{
    iso_optimizer wrong[] = {iso_adam(-1.0),
                             iso_adam(NAN),
                             iso_adam(.beta_1 = 1),
                             iso_adamw(.beta_2 = 1.5),
                             iso_nadam(.beta_2 = 1),
                             iso_adamax(.beta_1 = 2),
                             iso_lamb(.beta_2 = 1),
                             iso_muon(.adam_beta_1 = 1),
                             iso_lion(.beta_1 = ISO_ZERO),
                             iso_lion(.beta_1 = 1.5),
                             iso_ftrl(.learning_rate_power = 0.5),
                             iso_ftrl(.l2_shrinkage = -1),
                             iso_lamb(.epsilon = -1),
                             iso_adafactor(.beta_2_decay = 0.5),
                             iso_adafactor(.clip_threshold = ISO_ZERO),
                             iso_muon(.ns_steps = 101),
                             iso_muon(.ns_steps = -1),
                             iso_sgd(.clip_norm = 1, .clip_value = 1),
                             iso_sgd(.clip_norm = -1),
                             iso_sgd(.accumulation = -2),
                             iso_sgd(.use_ema = true, .ema_momentum = 1.5),
                             iso_sgd(.use_ema = true, .ema_overwrite_frequency = -1),
                             iso_sgd(.schedule = iso_exponential_decay(0.1, 0, 0.5)),
                             iso_sgd(.schedule = iso_piecewise_constant(ISO_MAX_PIECES + 1, NULL, NULL))};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_msg(iso_optimizer_check(&wrong[i]) == ISO_INVALID, "optimizer %zu is accepted", i);
    iso_optimizer found;
    ck_assert_int_eq(iso_optimizer_find("adma", &found), ISO_INVALID);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "adam"));
    for (int i = 0; i < iso_optimizer_count(); i++) {
        check_ok(iso_optimizer_find(iso_optimizer_name(i), &found));
        check_ok(iso_optimizer_check(&found));
    }
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    file = oracle_open("optimizers.h5");
    int failed = RUN_TESTS("optimizers against Keras", 0, schedules, nonsense_is_refused,
                           constraints_that_are_refused, in_float64, in_float32);
    oracle_close(file);
    return iso_finish(ctx, ISO_OK) || failed;
}
