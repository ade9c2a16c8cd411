/* Checks that all ranks compile the same model in the same way; if not, finds the first layer, variable or
 * setting that differs. */
#include "runtime/graph/layer.h"
#include "runtime/train/loss.h"
#include "runtime/train/model_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/text.h"
#include "runtime/graph/optimizers/rule.h"
#include "runtime/graph/schedules/rule.h"
#include "runtime/session/session.h"

/* The lines of one text describe the model. It contains no pointers, which differ between ranks. */

/* One line for each attribute. */
static void add_attributes(iso_text *facts, const char *of, const char *prefix, const iso_attribute *object)
{
    for (const iso_attribute *a = object ? object->first : NULL; a; a = a->next) {
        iso_text_add(facts, "%s: %s%s = ", of, prefix, a->name);
        iso_attribute_print(a, facts);
        iso_text_add(facts, "\n");
    }
}

static void add_layers(iso_text *facts, const iso_graph *graph)
{
    for (int i = 0; i < iso_graph_layer_count(graph); i++) {
        const iso_layer_record *layer = iso_graph_layer(graph, i);
        iso_text of = {0};
        iso_text_add(&of, "layer '%s' (%s)", layer->name, layer->type);
        iso_text_add(facts, "%s\n", iso_text_get(&of));
        add_attributes(facts, iso_text_get(&of), "", layer->config);
        add_attributes(facts, iso_text_get(&of), "call.", layer->call);
        iso_text_free(&of);
    }
}

static void add_variables(iso_text *facts, const iso_graph *graph)
{
    char shape[160];
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        const iso_variable *variable = iso_graph_variable(graph, i);
        iso_text_add(facts, "variable '%s': %s %s%s\n", iso_variable_path(variable),
                     iso_dtype_name(iso_variable_dtype(variable)),
                     iso_shape_text(iso_variable_shape(variable), shape, sizeof shape),
                     iso_variable_trainable(variable) ? "" : ", not trainable");
    }
}

static void add_number(iso_text *facts, const char *of, const char *name, double value)
{
    iso_text_add(facts, "%s: %s = %.17g\n", of, name, value);
}

static void add_schedule(iso_text *facts, const iso_schedule *schedule)
{
    static const char of[] = "learning rate schedule";
    add_number(facts, of, "kind", schedule->kind);
    for (const iso_setting *member = iso_schedule_members; member->name; member++)
        add_number(facts, of, member->name, iso_setting_get(member, schedule));
    for (int i = 0; i < schedule->n_boundaries; i++)
        add_number(facts, of, "boundary", (double)schedule->boundaries[i]);
    for (int i = 0; schedule->n_boundaries && i <= schedule->n_boundaries; i++)
        add_number(facts, of, "value", schedule->value[i]);
}

static void add_optimizer(iso_text *facts, const iso_optimizer *optimizer)
{
    const iso_setting *own = iso_optimizer_rule_find(optimizer->rule)->row.setting;
    char of[64];
    snprintf(of, sizeof of, "optimizer %s", optimizer->rule);
    iso_text_add(facts, "%s\n", of);
    for (const iso_setting *setting = iso_optimizer_settings; setting->name; setting++)
        add_number(facts, of, setting->name, iso_setting_get(setting, optimizer));
    for (int i = 0; own[i].name; i++)
        add_number(facts, of, own[i].name, optimizer->hyper[i]);
    add_schedule(facts, &optimizer->schedule);
}

static void add_output(iso_text *facts, const iso_model *model, int output)
{
    const iso_output_options *o = &model->objective[output];
    char of[ISO_MAX_NAME + 16];
    snprintf(of, sizeof of, "output '%s'", iso_model_output_name((iso_model *)model, output));
    iso_text_add(facts, "%s: loss = %s\n", of,
                 o->loss_function           ? "a function of the program"
                 : o->loss == ISO_LOSS_NONE ? "none"
                                            : iso_loss_name(o->loss));
    add_number(facts, of, "loss_weight", o->loss_weight);
    if (model->class_weights)
        iso_text_add(facts, "%s: class weights = %s\n", of, model->class_weights);
#define ADD(member) add_number(facts, of, #member, o->member);
    ISO_OUTPUT_SETTINGS(ADD)
}

static void add_metric_settings(iso_text *facts, const iso_value_rule *rule)
{
    char of[ISO_MAX_NAME + 16];
    snprintf(of, sizeof of, "metric '%s'", rule->name);
    for (const iso_setting *s = rule->type ? rule->type->row.setting : NULL; s && s->name; s++)
        add_number(facts, of, s->name, iso_setting_option(s, &rule->settings));
}

static void same_model_describe(const iso_model *model, iso_text *facts)
{
    iso_text_add(facts, "the seed = %" PRIu64 "\n", iso_graph_seed(model->graph));
    iso_text_add(facts, "the model has %d inputs and %d outputs\n", model->n_inputs, model->n_outputs);
    add_layers(facts, model->graph);
    add_variables(facts, model->graph);
    add_optimizer(facts, &model->optimizer);
    for (int i = 0; i < model->n_outputs; i++)
        add_output(facts, model, i);
    iso_text_add(facts, "sample weights: %s\n", model->weighted ? "yes" : "no");
    iso_text_add(facts, "losses and metrics:");
    for (int i = 0; i < model->n_values; i++)
        iso_text_add(facts, " %s", model->values[i].name);
    iso_text_add(facts, "\n");
    for (int i = 0; i < model->n_values; i++)
        add_metric_settings(facts, &model->values[i]);
}

iso_status iso_model_agree_same(const iso_model *model)
{
    static const char what[] = "the model and what it is compiled with";
    iso_context *ctx = iso_graph_context(model->graph);
    iso_text facts = {0};
    if (iso_ranks(ctx) == 1)
        return ISO_OK;
    same_model_describe(model, &facts);
    iso_status status =
        iso_agree(ctx, facts.failed ? iso_error(ISO_NO_MEMORY, "no memory to compare the model") : ISO_OK);
    if (status == ISO_OK)
        status = iso_agree_same_lines(ctx, what, iso_text_get(&facts));
    iso_text_free(&facts);
    return status;
}
