#include "runtime/train/tensorboard/parameters.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/exec/value.h"
#include "runtime/session/session.h"
#include "runtime/train/training_impl.h"

/* What a rule's own settings are called: in the order of iso_optimizer.hyper. */
static const struct {
    const char *rule;
    const char *names[4];
} settings[] = {
    {"sgd", {[ISO_SGD_MOMENTUM] = "momentum", [ISO_SGD_NESTEROV] = "nesterov"}},
    {"rmsprop",
     {[ISO_RMSPROP_RHO] = "rho",
      [ISO_RMSPROP_MOMENTUM] = "momentum",
      [ISO_RMSPROP_EPSILON] = "epsilon",
      [ISO_RMSPROP_CENTERED] = "centered"}},
    {"adam",
     {[ISO_ADAM_BETA_1] = "beta_1",
      [ISO_ADAM_BETA_2] = "beta_2",
      [ISO_ADAM_EPSILON] = "epsilon",
      [ISO_ADAM_AMSGRAD] = "amsgrad"}},
    {"adagrad", {[ISO_ADAGRAD_INITIAL] = "initial_accumulator_value", [ISO_ADAGRAD_EPSILON] = "epsilon"}},
};

static void add_setting(iso_text *text, const char *name, double value)
{
    iso_text_add(text, "| %s | %g |\n", name, value);
}

static void add_rule(iso_text *text, const iso_optimizer *optimizer)
{
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        bool same = strncmp(optimizer->rule, settings[i].rule, strlen(settings[i].rule)) == 0;
        bool adagrad = strcmp(settings[i].rule, "adagrad") == 0;
        if (!same || (strcmp(optimizer->rule, "adagrad") == 0) != adagrad)
            continue;
        for (int k = 0; k < 4 && settings[i].names[k]; k++)
            add_setting(text, settings[i].names[k], optimizer->hyper[k]);
    }
}

static void add_schedule(iso_text *text, const iso_optimizer *optimizer)
{
    static const char *const kinds[] = {[ISO_SCHEDULE_EXPONENTIAL] = "exponential",
                                        [ISO_SCHEDULE_COSINE] = "cosine",
                                        [ISO_SCHEDULE_PIECEWISE] = "piecewise"};
    const iso_schedule *schedule = &optimizer->schedule;
    if (schedule->kind == ISO_SCHEDULE_CONSTANT) {
        add_setting(text, "learning_rate", optimizer->learning_rate);
        return;
    }
    iso_text_add(text, "| schedule | %s |\n", kinds[schedule->kind]);
    add_setting(text, "initial_learning_rate", schedule->initial);
    if (schedule->decay_steps)
        add_setting(text, "decay_steps", (double)schedule->decay_steps);
}

static void add_optimizer(iso_text *text, const iso_optimizer *optimizer)
{
    const struct {
        const char *name;
        double value;
    } rest[] = {{"weight_decay", optimizer->weight_decay},
                {"clipnorm", optimizer->clip_norm},
                {"global_clipnorm", optimizer->global_clip_norm},
                {"clipvalue", optimizer->clip_value},
                {"gradient_accumulation_steps", optimizer->accumulation}};
    iso_text_add(text, "| optimizer | %s |\n", optimizer->rule);
    add_schedule(text, optimizer);
    add_rule(text, optimizer);
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
        if (rest[i].value != 0)
            add_setting(text, rest[i].name, rest[i].value);
}

static int64_t parameters_of(const iso_graph *graph)
{
    int64_t sum = 0, count = 0;
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        const iso_variable *variable = iso_graph_variable(graph, i);
        if (iso_variable_trainable(variable) &&
            iso_shape_count(iso_variable_shape(variable), &count) == ISO_OK)
            sum += count;
    }
    return sum;
}

void iso_parameters_text(const iso_fit_state *state, iso_text *text)
{
    const iso_training *t = state->training;
    const iso_graph *graph = t->model->graph;
    const iso_mesh *mesh = iso_graph_mesh(graph);
    iso_text_add(text, "| hyperparameter | value |\n|---|---|\n");
    add_optimizer(text, &t->model->optimizer);
    iso_text_add(text, "| batch_size | %" PRId64 " |\n", iso_dataset_batch_size(t->data));
    if (iso_dataset_knows_rows(t->data)) {
        iso_text_add(text, "| rows | %" PRId64 " |\n", iso_dataset_rows(t->data));
        iso_text_add(text, "| steps_per_epoch | %" PRId64 " |\n", t->steps);
    }
    iso_text_add(text, "| epochs | %d |\n", t->options.epochs);
    iso_text_add(text, "| parameters | %" PRId64 " |\n", parameters_of(graph));
    iso_text_add(text, "| precision | %s |\n", iso_dtype_name(iso_graph_precision(graph)));
    iso_text_add(text, "| seed | %" PRIu64 " |\n", iso_graph_seed(graph));
    if (mesh)
        iso_text_add(text, "| mesh | %s |\n", iso_mesh_text(mesh));
    if (t->ctx)
        iso_text_add(text, "| ranks | %d |\n", iso_ranks(t->ctx));
}
