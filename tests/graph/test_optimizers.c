/* Ranks: 1. Optimizers, schedules, clipping and accumulation against Keras (optimizers_keras.py), step by
 * step; iso_minimize. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "runtime/graph/optimizers/rule.h"
#include "tests/graph/optimizers_keras.h"
#include "tests/support/interpreter.h"
#include "tests/support/run_tests.h"

enum { VARIABLES = 2 };
static const int64_t sizes[VARIABLES] = {FIRST, TOTAL - FIRST};

typedef struct training {
    iso_graph *graph;
    iso_variable *weight[VARIABLES], *slope[VARIABLES];
    iso_update *update;
    interpreter *in;
    iso_array slot[VARIABLES][ISO_MAX_OPTIMIZER_SLOTS];
    int slots;
} training;

static iso_variable *vector(iso_graph *graph, const char *path, int64_t size, bool trainable)
{
    return iso_variable_create(graph, path, ISO_F32, ISO_SHAPE(size), (iso_initializer){0}, trainable);
}

/* The loss w0 . g0 + w1 . g1 has the gradients g0 and g1. */
static iso_tensor *make_loss(training *t)
{
    iso_tensor *loss = NULL;
    for (int i = 0; i < VARIABLES; i++) {
        t->weight[i] = vector(t->graph, i ? "w1" : "w0", sizes[i], true);
        t->slope[i] = vector(t->graph, i ? "g1" : "g0", sizes[i], false);
        iso_tensor *term =
            iso_sum(iso_multiply(iso_variable_value(t->weight[i]), iso_variable_value(t->slope[i])));
        loss = loss ? iso_add(loss, term) : term;
    }
    return loss;
}

static void set_initial(training *t)
{
    for (int i = 0; i < iso_graph_variable_count(t->graph); i++) {
        const iso_variable *variable = iso_graph_variable(t->graph, i);
        double values[TOTAL];
        for (int k = 0; k < TOTAL; k++)
            values[k] = variable->initializer.value;
        interpreter_set(t->in, variable->value, values);
    }
    interpreter_set(t->in, t->weight[0]->value, start);
    interpreter_set(t->in, t->weight[1]->value, start + FIRST);
}

static void begin(training *t, iso_optimizer optimizer, iso_dtype precision)
{
    const char *names[ISO_MAX_OPTIMIZER_SLOTS];
    double initial[ISO_MAX_OPTIMIZER_SLOTS];
    *t = (training){.graph = iso_graph_create(NULL)};
    iso_graph_set_precision(t->graph, precision);
    t->update = iso_minimize(make_loss(t), optimizer);
    ck_assert_msg(iso_graph_error(t->graph) == ISO_OK, "%s", t->graph->message);
    t->in = interpreter_create(t->graph, iso_backend_reference(), 1);
    set_initial(t);
    t->slots = iso_optimizer_slots(&optimizer, names, initial);
    for (int i = 0; i < VARIABLES; i++)
        for (int k = 0; k < t->slots; k++) {
            t->slot[i][k] = array_create(precision, 1, &sizes[i]);
            for (int64_t j = 0; j < sizes[i]; j++)
                array_set(&t->slot[i][k], j, initial[k]);
        }
}

static void end(training *t)
{
    for (int i = 0; i < VARIABLES; i++)
        for (int k = 0; k < t->slots; k++)
            array_free(&t->slot[i][k]);
    interpreter_destroy(t->in);
    iso_graph_destroy(t->graph);
}

static void read_values(training *t, const iso_tensor *tensor, double *values)
{
    const iso_array *array = interpreter_get(t->in, tensor);
    for (int64_t i = 0; i < array_count(array); i++)
        values[i] = array_get(array, i);
}

/* What becomes of one variable, into `values`. */
static void change(training *t, const iso_change *change, double *values)
{
    if (!change->apply) {
        read_values(t, change->value, values);
        return;
    }
    const iso_op *op = change->apply;
    const iso_optimizer *optimizer = &((const iso_apply_attrs *)op->attrs)->optimizer;
    int which = change->variable == t->weight[1];
    double hyper[ISO_MAX_HYPER];
    int64_t iterations = (int64_t)interpreter_number(t->in, op->inputs[2]);
    read_values(t, op->inputs[0], values);
    if (!iso_optimizer_prepare(iso_optimizer_rule_find(optimizer->rule), optimizer, op->inputs[0]->dtype,
                               iterations, interpreter_number(t->in, op->inputs[3]), hyper))
        return;
    void *slots[ISO_MAX_OPTIMIZER_SLOTS];
    for (int k = 0; k < t->slots; k++)
        slots[k] = t->slot[which][k].data;
    const iso_array *gradient = interpreter_get(t->in, op->inputs[1]);
    iso_array weights = array_create(gradient->dtype, 1, &sizes[which]);
    for (int64_t i = 0; i < sizes[which]; i++)
        array_set(&weights, i, values[i]);
    iso_backend_reference()->optimizer(optimizer->rule, weights.dtype)(sizes[which], weights.data, slots,
                                                                       gradient->data, hyper);
    for (int64_t i = 0; i < sizes[which]; i++)
        values[i] = array_get(&weights, i);
    array_free(&weights);
}

static void step(training *t, const double *slopes)
{
    double values[16][TOTAL];
    ck_assert_int_le(t->update->count, 16);
    interpreter_set(t->in, t->slope[0]->value, slopes);
    interpreter_set(t->in, t->slope[1]->value, slopes + FIRST);
    for (int i = 0; i < t->update->count; i++)
        change(t, &t->update->change[i], values[i]);
    for (int i = 0; i < t->update->count; i++)
        interpreter_set(t->in, t->update->change[i].variable->value, values[i]);
}

static void check_case(size_t k, iso_dtype precision, double tolerance)
{
    training t;
    begin(&t, cases[k].optimizer, precision);
    for (int s = 0; s < STEPS; s++) {
        double values[TOTAL];
        step(&t, gradients[s]);
        read_values(&t, t.weight[0]->value, values);
        read_values(&t, t.weight[1]->value, values + FIRST);
        for (int i = 0; i < TOTAL; i++)
            ck_assert_msg(fabs(values[i] - cases[k].after[s][i]) <= tolerance,
                          "%s: step %d, weight %d is %.9g, Keras has %.9g", cases[k].name, s, i, values[i],
                          cases[k].after[s][i]);
    }
    end(&t);
}

START_TEST(as_keras_in_float32)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        check_case(k, ISO_F32, 4e-7);
}
END_TEST

START_TEST(as_keras_in_float64)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        check_case(k, ISO_F64, 2e-6);
}
END_TEST

/* The variables an optimizer makes, and what they hold. */
START_TEST(variables)
{
    training t;
    begin(&t, (iso_optimizer){.rule = "sgd", .learning_rate = 0.25}, ISO_F32);
    iso_variable *iteration = iso_graph_find_variable(t.graph, "optimizer/iteration");
    iso_variable *rate = iso_graph_find_variable(t.graph, "optimizer/learning_rate");
    ck_assert_ptr_nonnull(iteration);
    ck_assert_ptr_nonnull(rate);
    ck_assert(!iteration->trainable && !rate->trainable);
    ck_assert_int_eq(iteration->dtype, ISO_I64);
    ck_assert_int_eq(rate->dtype, ISO_F64);
    ck_assert_int_eq(t.update->count, 3);
    step(&t, gradients[0]);
    step(&t, gradients[1]);
    ck_assert_double_eq(interpreter_number(t.in, iteration->value), 2);
    ck_assert_double_eq(interpreter_number(t.in, rate->value), 0.25);
    end(&t);
}
END_TEST

static void check_refused(iso_optimizer optimizer, const char *names)
{
    training t = {.graph = iso_graph_create(NULL)};
    iso_minimize(make_loss(&t), optimizer);
    ck_assert_int_eq(iso_graph_error(t.graph), ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), names) != NULL, "no '%s' in: %s", names, iso_error_message());
    iso_graph_destroy(t.graph);
}

START_TEST(refusals)
{
    check_refused((iso_optimizer){.rule = "adamm"}, "'adam'");
    check_refused((iso_optimizer){.rule = "sgd", .clip_norm = 1, .clip_value = 2}, "at most one");
    check_refused((iso_optimizer){.rule = "sgd", .clip_norm = -3}, "-3");
    check_refused((iso_optimizer){.rule = "sgd", .accumulation = -2}, "-2");
}
END_TEST

/* A loss that no trainable variable reaches; variables that it does not depend on stay as they are. */
START_TEST(only_what_the_loss_depends_on)
{
    iso_graph *graph = iso_graph_create(NULL);
    iso_variable *used = vector(graph, "used", 3, true), *fixed = vector(graph, "fixed", 3, false);
    vector(graph, "unused", 3, true);
    iso_optimizer sgd = {.rule = "sgd", .learning_rate = 0.1};
    iso_tensor *product = iso_multiply(iso_variable_value(used), iso_variable_value(fixed));
    iso_update *update = iso_minimize(iso_sum(product), sgd);
    ck_assert_int_eq(update->count, 2);
    ck_assert_ptr_eq(update->change[1].variable, used);
    iso_minimize(iso_sum(iso_variable_value(fixed)), sgd);
    ck_assert_int_eq(iso_graph_error(graph), ISO_INVALID);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "no trainable variable"));
    iso_graph_destroy(graph);
}
END_TEST

int main(void)
{
    return RUN_TESTS("optimizers", 60, as_keras_in_float32, as_keras_in_float64, variables, refusals,
                     only_what_the_loss_depends_on);
}
