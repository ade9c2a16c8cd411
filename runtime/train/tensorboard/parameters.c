#include "runtime/train/tensorboard/parameters.h"

#include <inttypes.h>

#include "runtime/exec/value/value.h"
#include "runtime/graph/optimizers/rule.h"
#include "runtime/graph/schedules/rule.h"
#include "runtime/session/session.h"
#include "runtime/train/training_impl.h"

static void add_setting(iso_text *text, const char *name, double value)
{
    iso_text_add(text, "| %s | %g |\n", name, value);
}

static void add_schedule(iso_text *text, const iso_optimizer *optimizer)
{
    const iso_schedule *schedule = &optimizer->schedule;
    if (schedule->kind == ISO_SCHEDULE_CONSTANT) {
        add_setting(text, "learning_rate", optimizer->learning_rate);
        return;
    }
    iso_text_add(text, "| schedule | %s |\n", iso_schedule_rule_of(schedule)->row.name);
    add_setting(text, "initial_learning_rate", schedule->initial);
    if (schedule->decay_steps)
        add_setting(text, "decay_steps", (double)schedule->decay_steps);
}

static void add_optimizer(iso_text *text, const iso_optimizer *optimizer)
{
    const iso_setting *own = iso_optimizer_rule_find(optimizer->rule)->row.setting;
    iso_text_add(text, "| optimizer | %s |\n", optimizer->rule);
    add_schedule(text, optimizer);
    for (int i = 0; own[i].name; i++)
        add_setting(text, iso_setting_keras(&own[i]), optimizer->hyper[i]);
    for (const iso_setting *rest = iso_optimizer_settings + 1; rest->name; rest++)
        if (iso_setting_get(rest, optimizer) != rest->fallback)
            add_setting(text, iso_setting_keras(rest), iso_setting_get(rest, optimizer));
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
    iso_text_add(text, "| precision | %s |\n", iso_graph_precision_name(graph));
    iso_text_add(text, "| seed | %" PRIu64 " |\n", iso_graph_seed(graph));
    if (mesh)
        iso_text_add(text, "| mesh | %s |\n", iso_mesh_text(mesh));
    if (t->ctx)
        iso_text_add(text, "| ranks | %d |\n", iso_ranks(t->ctx));
}
