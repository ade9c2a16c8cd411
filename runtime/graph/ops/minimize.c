/* Minimising a loss: gradients of the trainable variables, clipping, accumulation over steps, and the
 * updates. */
#include <stdio.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/ops_impl.h"
#include "runtime/graph/optimizers/rule.h"
#include "runtime/graph/schedules/rule.h"

typedef struct minimizer {
    iso_graph *graph;
    const iso_optimizer *optimizer;
    char prefix[32]; /* "optimizer" */
    int count;       /* of variables that the loss depends on */
    iso_variable **variable;
    iso_tensor **gradient;
    iso_variable *iteration, *rate;
} minimizer;

/* ---- settings ---- */
static bool minimize_check(iso_graph *graph, const iso_optimizer *optimizer)
{
    const iso_descriptor *row;
    int clips =
        (optimizer->clip_norm != 0) + (optimizer->global_clip_norm != 0) + (optimizer->clip_value != 0);
    if (iso_descriptor_find(iso_optimizer_rows, "optimizer", optimizer->rule, &row) != ISO_OK)
        iso_graph_fail(graph, "%s", iso_error_message());
    else if (clips > 1)
        iso_graph_fail(
            graph, "optimizer: at most one of clip_norm %g, global_clip_norm %g and clip_value %g can be set",
            optimizer->clip_norm, optimizer->global_clip_norm, optimizer->clip_value);
    else if (optimizer->clip_norm < 0 || optimizer->global_clip_norm < 0 || optimizer->clip_value < 0)
        iso_graph_fail(
            graph,
            "optimizer: clipping to a negative value (clip_norm %g, global_clip_norm %g, clip_value %g)",
            optimizer->clip_norm, optimizer->global_clip_norm, optimizer->clip_value);
    else if (optimizer->accumulation < 0)
        iso_graph_fail(graph, "optimizer: accumulation over %d steps: it must not be negative",
                       optimizer->accumulation);
    return iso_graph_error(graph) == ISO_OK;
}

/* ---- which variables ---- */
static iso_tensor *scale_loss(const minimizer *m, iso_tensor *loss)
{
    double factor = m->optimizer->loss_scale_factor;
    return factor != 0 ? iso_affine(loss, factor, 0) : loss;
}

static iso_tensor *unscale(const minimizer *m, iso_tensor *gradient)
{
    double factor = m->optimizer->loss_scale_factor;
    return factor != 0 ? iso_affine(gradient, 1 / factor, 0) : gradient;
}

static bool find_gradients(minimizer *m, iso_tensor *loss)
{
    int all = iso_graph_variable_count(m->graph), trainable = 0;
    m->variable = iso_new((size_t)all * sizeof(void *) + 1);
    m->gradient = iso_new((size_t)all * sizeof(void *) + 1);
    iso_tensor **value = iso_new((size_t)all * sizeof(void *) + 1);
    if (!m->variable || !m->gradient || !value) {
        iso_free(value);
        iso_graph_fail_memory(m->graph, "the gradients of variables", 3 * (size_t)all * sizeof(void *));
        return false;
    }
    for (int i = 0; i < all; i++) {
        iso_variable *variable = iso_graph_variable(m->graph, i);
        if (!iso_variable_trainable(variable))
            continue;
        variable->trained = true;
        m->variable[trainable] = variable;
        value[trainable++] = iso_variable_value(variable);
    }
    iso_gradients(scale_loss(m, loss), value, trainable, m->gradient);
    iso_free(value);
    for (int i = 0; i < trainable; i++) {
        if (!m->gradient[i])
            continue;
        m->variable[m->count] = m->variable[i];
        m->gradient[m->count++] = unscale(m, m->gradient[i]);
    }
    return iso_graph_error(m->graph) == ISO_OK;
}

/* ---- the optimizer's own variables ---- */
static iso_variable *own_variable(minimizer *m, const char *name, iso_dtype dtype, double value)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", m->prefix, name);
    return iso_variable_create(m->graph, path, dtype, ISO_SCALAR,
                               (iso_initializer){.kind = ISO_INIT_CONSTANT, .value = value}, false);
}

static void make_variables(minimizer *m)
{
    char path[64];
    for (int i = 0;; i++) {
        snprintf(m->prefix, sizeof m->prefix, i ? "optimizer_%d" : "optimizer", i);
        snprintf(path, sizeof path, "%s/iteration", m->prefix);
        if (!iso_graph_find_variable(m->graph, path))
            break;
    }
    m->iteration = own_variable(m, "iteration", ISO_I64, 0);
    m->rate = own_variable(m, "learning_rate", ISO_F64, m->optimizer->learning_rate);
}

static iso_update *count_iteration(const minimizer *m)
{
    iso_tensor *now = iso_variable_value(m->iteration);
    return iso_assign(m->iteration, iso_add(now, iso_number(m->graph, ISO_I64, 1)));
}

/* ---- accumulation: the gradient becomes the mean over the steps that end with this one ---- */

/* Whether this step ends with an update: iteration + 1 is a multiple of the number of steps. Exact in
 * float64. */
static iso_tensor *updates_now(const minimizer *m)
{
    iso_tensor *steps = iso_number(m->graph, ISO_F64, m->optimizer->accumulation);
    iso_tensor *done = iso_affine(iso_cast(iso_variable_value(m->iteration), ISO_F64), 1, 1);
    iso_tensor *whole = iso_cast(iso_cast(iso_divide(done, steps), ISO_I64), ISO_F64);
    return iso_equal(iso_multiply(whole, steps), done);
}

/* The number of the update that this step makes or adds to, from 1, as a scalar of this type. */
static iso_tensor *update_number(const minimizer *m, iso_dtype dtype)
{
    int steps = m->optimizer->accumulation;
    iso_tensor *done = iso_variable_value(m->iteration);
    if (steps > 1)
        done = iso_cast(iso_divide(iso_cast(done, ISO_F64), iso_number(m->graph, ISO_F64, steps)), ISO_I64);
    return iso_affine(iso_cast(done, dtype), 1, 1);
}

/* A new value of a variable that changes in updates only. */
static iso_update *assign_in_update(const minimizer *m, iso_variable *variable, iso_tensor *next)
{
    bool always = m->optimizer->accumulation <= 1;
    return iso_assign(variable,
                      always ? next : iso_where(updates_now(m), next, iso_variable_value(variable)));
}

/* The variable that a rule has in addition to slots (iso_optimizer_scalar). */
static iso_update *update_scalar(minimizer *m, const iso_optimizer_scalar *scalar, iso_update *update)
{
    iso_dtype dtype = iso_graph_precision(m->graph);
    iso_variable *variable = own_variable(m, scalar->name, dtype, scalar->initial);
    iso_tensor *next = scalar->next(m->optimizer, iso_variable_value(variable), update_number(m, dtype));
    return iso_update_join(update, assign_in_update(m, variable, next));
}

static iso_update *accumulate(minimizer *m, iso_update *update)
{
    iso_tensor *now = updates_now(m);
    for (int i = 0; i < m->count; i++) {
        iso_variable *variable = m->variable[i];
        char path[ISO_MAX_SLOT_PATH];
        snprintf(path, sizeof path, "%s/%s/%s/gradient_accumulator", m->prefix, m->optimizer->rule,
                 iso_variable_path(variable));
        iso_variable *gathered =
            iso_variable_create(m->graph, path, iso_variable_dtype(variable), *iso_variable_shape(variable),
                                (iso_initializer){.kind = ISO_INIT_ZEROS}, false);
        gathered->state_of = variable;
        iso_tensor *sum = iso_add(m->gradient[i], iso_variable_value(gathered));
        iso_tensor *zero = iso_number(m->graph, iso_variable_dtype(variable), 0);
        update = iso_update_join(update, iso_assign(gathered, iso_where(now, zero, sum)));
        m->gradient[i] = iso_affine(sum, 1.0 / m->optimizer->accumulation, 0);
    }
    return update;
}

/* ---- clipping ---- */

/* limit / max(norm, limit) */
static iso_tensor *scale_to(iso_tensor *norm, double limit)
{
    iso_tensor *most = iso_number(norm->graph, ISO_F64, limit);
    return iso_divide(most, iso_maximum(norm, most));
}

static void clip_together(minimizer *m)
{
    iso_tensor *sum = iso_composed_squares(m->gradient[0]);
    for (int i = 1; i < m->count; i++)
        sum = iso_add(sum, iso_composed_squares(m->gradient[i]));
    iso_tensor *scale = scale_to(iso_sqrt(sum), m->optimizer->global_clip_norm), *of_type = scale;
    for (int i = 0; i < m->count; i++) {
        if (of_type->dtype != m->gradient[i]->dtype)
            of_type = iso_cast(scale, m->gradient[i]->dtype); /* nearly always once for all */
        m->gradient[i] = iso_multiply(m->gradient[i], of_type);
    }
}

static void clip_norm(iso_tensor **gradient, double limit)
{
    iso_tensor *scale = scale_to(iso_sqrt(iso_composed_squares(*gradient)), limit);
    *gradient = iso_multiply(*gradient, iso_cast(scale, (*gradient)->dtype));
}

static void clip_value(iso_tensor **gradient, double limit)
{
    iso_graph *graph = (*gradient)->graph;
    iso_dtype dtype = (*gradient)->dtype;
    *gradient = iso_minimum(iso_maximum(*gradient, iso_number(graph, dtype, -limit)),
                            iso_number(graph, dtype, limit));
}

static void clip(minimizer *m)
{
    if (m->optimizer->global_clip_norm != 0 && m->count > 0)
        clip_together(m);
    for (int i = 0; i < m->count; i++) {
        if (m->optimizer->clip_norm != 0)
            clip_norm(&m->gradient[i], m->optimizer->clip_norm);
        if (m->optimizer->clip_value != 0)
            clip_value(&m->gradient[i], m->optimizer->clip_value);
    }
}

static bool contains(const char *path, const char *name, size_t length)
{
    for (; strlen(path) >= length; path++)
        if (strncmp(path, name, length) == 0)
            return true;
    return false;
}

/* Whether one of the names, separated by commas, is part of a variable's path. */
static bool is_named(const char *names, const char *path)
{
    while (names && *names) {
        size_t length = strcspn(names, ",");
        if (length > 0 && contains(path, names, length))
            return true;
        names += length + (names[length] == ',');
    }
    return false;
}

/* ---- updates ---- */

/* The share of a variable that its weight decay leaves, an ISO_F64 scalar; NULL: all of it. */
static iso_tensor *share_kept(const minimizer *m, const iso_optimizer *optimizer)
{
    if (optimizer->weight_decay == 0)
        return NULL;
    iso_tensor *done = iso_cast(iso_variable_value(m->iteration), ISO_F64);
    iso_tensor *rate = iso_schedule_value(&optimizer->schedule, done, iso_variable_value(m->rate));
    return iso_affine(rate, -optimizer->weight_decay, 1);
}

/* Replaces a gradient by the direction of a rule that is built from ops, and adds the changes of its slots. */
static iso_update *compose(const minimizer *m, const iso_optimizer *optimizer, int i, iso_tensor **direction)
{
    const iso_optimizer_rule *rule = iso_optimizer_rule_find(optimizer->rule);
    iso_composed_update composed = {.optimizer = optimizer,
                                    .variable = m->variable[i],
                                    .gradient = m->gradient[i],
                                    .number = update_number(m, ISO_F64),
                                    .kept = share_kept(m, optimizer)};
    iso_composed_slots slots;
    iso_update *update = NULL;
    iso_composed_make_slots(m->prefix, &composed, &slots);
    if (iso_graph_error(m->graph) != ISO_OK)
        return NULL;
    *direction = rule->direction(&composed);
    for (int k = 0; k < ISO_MAX_OPTIMIZER_SLOTS; k++)
        if (slots.variable[k])
            update = iso_update_join(update, assign_in_update(m, slots.variable[k], composed.slot[k]));
    return update;
}

/* The update of variable i. */
static iso_update *apply(const minimizer *m, int i)
{
    iso_optimizer optimizer = *m->optimizer;
    const iso_optimizer_rule *rule = iso_optimizer_rule_find(optimizer.rule);
    iso_tensor *gradient = m->gradient[i];
    iso_update *slots = NULL;
    if (rule->decay_of)
        optimizer.weight_decay = rule->decay_of(&optimizer, m->variable[i]);
    if (is_named(optimizer.no_decay, iso_variable_path(m->variable[i])))
        optimizer.weight_decay = 0;
    optimizer.no_decay = NULL; /* lent */
    if (rule->direction)
        slots = compose(m, &optimizer, i, &gradient);
    return iso_update_join(slots,
                           iso_update_apply(m->variable[i], gradient, m->iteration, m->rate, &optimizer));
}

/* Sets the rule's own name, which lives as long as the program. Without a rule: Keras's default. Settings
 * that are 0 get Keras's defaults. */
static void name_rule(iso_optimizer *optimizer)
{
    const iso_optimizer_rule *rule = iso_optimizer_rule_find(optimizer->rule);
    if (!optimizer->rule) {
        for (int i = 0; rule->row.setting[i].name; i++)
            optimizer->hyper[i] = iso_option_number(optimizer->hyper[i], rule->row.setting[i].fallback);
        optimizer->learning_rate = iso_option_number(optimizer->learning_rate, rule->learning_rate);
    }
    optimizer->rule = rule ? rule->row.name : optimizer->rule;
}

iso_update *iso_minimize_trainable(iso_tensor *loss, iso_optimizer optimizer, bool *trains)
{
    iso_graph *graph = iso_tensor_graph(loss);
    name_rule(&optimizer);
    minimizer m = {.graph = graph, .optimizer = &optimizer};
    iso_update *update = NULL;
    if (iso_tensor_good(loss) && minimize_check(graph, &optimizer) && find_gradients(&m, loss)) {
        make_variables(&m);
        update = count_iteration(&m);
        const iso_optimizer_scalar *scalar = &iso_optimizer_rule_find(optimizer.rule)->scalar;
        if (scalar->name)
            update = update_scalar(&m, scalar, update);
        if (optimizer.accumulation > 1)
            update = accumulate(&m, update);
        clip(&m);
        for (int i = 0; i < m.count; i++)
            update = iso_update_join(update, apply(&m, i));
    }
    *trains = m.count > 0;
    iso_free(m.variable);
    iso_free(m.gradient);
    return iso_graph_error(graph) == ISO_OK ? update : &graph->bad_update;
}

iso_update *iso_minimize(iso_tensor *loss, iso_optimizer optimizer)
{
    ISO_DEFAULT_MODES();
    bool trains;
    if (ISO_ANY_NULL(loss))
        return NULL;
    iso_update *update = iso_minimize_trainable(loss, optimizer, &trains);
    iso_graph *graph = iso_tensor_graph(loss);
    if (trains || iso_graph_error(graph) != ISO_OK)
        return update;
    iso_graph_fail(graph, "the loss '%s' depends on no trainable variable", iso_tensor_name(loss));
    return &graph->bad_update;
}
