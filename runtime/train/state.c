/* The state of a training as JSON, for checkpoints. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/backend/backend.h"
#include "runtime/base/build.h"
#include "runtime/base/hash.h"
#include "runtime/exec/value/value.h"
#include "runtime/graph/layer.h"
#include "runtime/graph/lora.h"
#include "runtime/graph/optimizers/rule.h"
#include "runtime/graph/schedules/rule.h"
#include "runtime/session/tuning_choices.h"
#include "runtime/spmd/distribution_json.h"
#include "runtime/train/loss.h"
#include "runtime/train/state_impl.h"

/* ---- numbers ---- */

static json_t *numbers(const double *value, int count)
{
    json_t *array = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(array, iso_json_number(value[i]));
    return array;
}

/* Integers beyond 2^53 are stored as text. */
static json_t *hexadecimal(uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return json_string(text);
}

/* ---- the model ---- */

static void add_attributes(iso_text *text, const char *prefix, const iso_attribute *object)
{
    for (const iso_attribute *a = object ? object->first : NULL; a; a = a->next) {
        iso_json_key(text, NULL);
        iso_text_add(text, "\"%s%s\": ", prefix, a->name);
        iso_attribute_print(a, text);
    }
}

/* The hash is stored in files, so the text that is hashed must never change. */
static iso_status hash_layer(const iso_layer_record *layer, uint64_t *hash)
{
    iso_text text = {0};
    if (layer->config) {
        iso_text_add(&text, "{");
        add_attributes(&text, "", layer->config);
        add_attributes(&text, "call.", layer->call);
        iso_text_add(&text, "}");
    }
    *hash = iso_hash_text(*hash, layer->type);
    *hash = iso_hash_text(*hash, layer->name);
    *hash = iso_hash_text(*hash, iso_text_get(&text));
    iso_status status = text.failed ? iso_no_memory("the hash of layer '%s'", layer->name) : ISO_OK;
    iso_text_free(&text);
    return status;
}

iso_status iso_model_hash(const iso_model *model, bool functions, uint64_t *out)
{
    const iso_graph *graph = model->graph;
    uint64_t hash = 0;
    iso_status status = ISO_OK;
    for (int i = 0; i < iso_graph_layer_count(graph); i++)
        if (functions || !iso_graph_layer(graph, i)->function_of)
            ISO_TRY(hash_layer(iso_graph_layer(graph, i), &hash));
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        const iso_variable *variable = iso_graph_variable(graph, i);
        const iso_shape *shape = iso_variable_shape(variable);
        hash = iso_hash_text(hash, iso_variable_path(variable));
        hash = iso_hash_bytes(hash, shape->dim, (size_t)shape->rank * sizeof shape->dim[0]);
        const iso_adapter *adapter = model->merged ? NULL : iso_variable_adapter(variable);
        if (adapter)
            hash = iso_hash_bytes(hash, &adapter->scale, sizeof adapter->scale);
    }
    *out = hash;
done:
    return status;
}

json_t *iso_state_layouts(const iso_graph *graph)
{
    char text[512];
    json_t *object = json_object();
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        iso_variable *variable = iso_graph_variable(graph, i);
        const iso_layout *layout = iso_variable_layout(variable);
        if (!layout)
            continue;
        iso_layout_describe(layout, text, sizeof text);
        if (text[strspn(text, "-, ")])
            json_object_set_new(object, iso_variable_path(variable), json_string(text));
    }
    return object;
}

static void add_settings(json_t *object, const iso_setting *settings, const void *values)
{
    for (const iso_setting *s = settings; s->name; s++)
        json_object_set_new(object, s->name, iso_setting_json(s, iso_setting_get(s, values)));
}

static json_t *schedule(const iso_schedule *schedule)
{
    json_t *object = json_pack("{s:s}", "kind", iso_schedule_rule_of(schedule)->row.name);
    add_settings(object, iso_schedule_members, schedule);
    json_t *boundaries = json_array();
    for (int i = 0; i < schedule->n_boundaries; i++)
        json_array_append_new(boundaries, json_integer(schedule->boundaries[i]));
    json_object_set_new(object, "boundaries", boundaries);
    json_object_set_new(object, "values",
                        numbers(schedule->value, schedule->n_boundaries ? schedule->n_boundaries + 1 : 0));
    return object;
}

json_t *iso_state_optimizer(const iso_optimizer *optimizer)
{
    json_t *object = json_pack("{s:s}", "rule", optimizer->rule);
    int settings = ISO_MAX_HYPER;
    add_settings(object, iso_optimizer_settings, optimizer);
    while (settings > 0 && optimizer->hyper[settings - 1] == 0)
        settings--;
    json_object_set_new(object, "settings", numbers(optimizer->hyper, settings));
    json_object_set_new(object, "schedule", schedule(&optimizer->schedule));
    return object;
}

/* As --loss takes it: 0+2 of a set of numbers. */
static void add_setting(iso_text *text, const iso_setting *setting, double value)
{
    iso_text_add(text, "%s=", iso_setting_keras(setting));
    if (setting->kind != ISO_SETTING_BITS)
        iso_text_add(text, "%g", value);
    bool first = true;
    for (int i = 0; setting->kind == ISO_SETTING_BITS && i < ISO_SETTING_BITS_END; i++)
        if ((uint64_t)value >> i & 1) {
            iso_text_add(text, "%s%d", first ? "" : "+", i);
            first = false;
        }
}

/* "(alpha=0.25,gamma=2)": those settings that are not 0 by default and in fact. */
static void add_loss_settings(iso_text *text, const iso_setting *settings, const iso_output_options *o)
{
    bool any = false;
    for (const iso_setting *s = settings; s && s->name; s++)
        if (iso_setting_option(s, o) != 0 || s->fallback != 0) {
            iso_text_add(text, "%s", any ? "," : "(");
            add_setting(text, s, iso_setting_option(s, o));
            any = true;
        }
    iso_text_add(text, "%s", any ? ")" : "");
}

static void add_loss(iso_text *text, const iso_output_options *o)
{
    const char *name = o->loss_function ? "a function of the program" : iso_loss_name(o->loss);
    const iso_loss_type *type = iso_loss_type_of(o->loss);
    if (o->loss_weight != 1)
        iso_text_add(text, "%g * ", o->loss_weight);
    iso_text_add(text, "%s", name);
    add_loss_settings(text, type ? type->row.setting : NULL, o);
}

const char *iso_state_class_weights(const iso_model *model)
{
    return model->class_weights ? model->class_weights : "none";
}

json_t *iso_state_loss(const iso_model *model)
{
    iso_text text = {0};
    for (int i = 0; i < model->n_outputs; i++) {
        const iso_output_options *o = &model->objective[i];
        if (o->loss == ISO_LOSS_NONE && !o->loss_function)
            continue;
        iso_text_add(&text, "%s", text.length ? " + " : "");
        add_loss(&text, o);
        if (model->n_outputs > 1)
            iso_text_add(&text, " of output %d", i);
    }
    json_t *loss = json_string(iso_text_get(&text));
    iso_text_free(&text);
    return loss;
}

static iso_status write_model(json_t *state, iso_model *model, uint64_t hash)
{
    const iso_mesh *mesh = iso_graph_mesh(model->graph);
    json_object_set_new(state, "isogrid", json_string(ISO_VERSION));
    json_object_set_new(state, "build", json_string(iso_build_id()));
    json_object_set_new(state, "instruction_set",
                        json_string(iso_context_backend(iso_graph_context(model->graph))->kernels()));
    json_object_set_new(state, "model", hexadecimal(hash));
    json_object_set_new(state, "precision", json_string(iso_graph_precision_name(model->graph)));
    json_object_set_new(state, "seed", hexadecimal(iso_graph_seed(model->graph)));
    json_object_set_new(state, "random_step", json_integer((json_int_t)iso_graph_steps(model->graph)));
    json_object_set_new(state, "mesh", json_string(mesh ? iso_mesh_text(mesh) : ""));
    json_object_set_new(state, "layouts", iso_state_layouts(model->graph));
    json_object_set_new(state, "distribution", iso_distribution_json(model->graph));
    json_t *tuned = iso_tuning_choices_state(iso_graph_context(model->graph));
    if (tuned)
        json_object_set_new(state, "tuning", tuned);
    if (model->optimizer.rule)
        json_object_set_new(state, "optimizer", iso_state_optimizer(&model->optimizer));
    if (model->compiled) {
        json_object_set_new(state, "loss", iso_state_loss(model));
        json_object_set_new(state, "sample_weights", json_boolean(model->sample_weights));
        json_object_set_new(state, "class_weights", json_string(iso_state_class_weights(model)));
    }
    json_t *layers = NULL;
    iso_status status = iso_state_layers(model, &layers);
    if (status == ISO_OK)
        json_object_set_new(state, "layers", layers);
    return status;
}

/* ---- the training ---- */

static json_t *data_of(const iso_training *t)
{
    json_t *object = json_pack("{s:s, s:I, s:I, s:I}", "source", iso_dataset_source(t->data), "rows",
                               (json_int_t)iso_dataset_rows(t->data), "batch_size",
                               (json_int_t)iso_dataset_batch_size(t->data), "position",
                               (json_int_t)t->cursor.epoch * t->steps + t->cursor.batch);
    json_object_set_new(object, "order", hexadecimal(iso_dataset_order(t->data)));
    return object;
}

/* Between two epochs: zeros. A value with several sums has a list of them. */
static json_t *sums_of(const iso_training *t)
{
    json_t *names = json_array(), *sums = json_array(), *weights = json_array();
    bool begun = t->cursor.batch > 0;
    for (int i = 0; i < t->model->n_values; i++) {
        const iso_value_rule *rule = &t->model->values[i];
        json_array_append_new(names, json_string(rule->name));
        json_t *of = json_array();
        for (int64_t k = 0; k < rule->count; k++)
            json_array_append_new(of, iso_json_number(begun ? t->totals.sum[rule->at + k] : 0));
        json_array_append_new(sums, rule->count > 1 ? json_incref(of) : json_incref(json_array_get(of, 0)));
        json_decref(of);
        json_array_append_new(weights, iso_json_number(begun ? t->totals.weight[i] : 0));
    }
    return json_pack("{s:o, s:o, s:o}", "names", names, "sums", sums, "weights", weights);
}

static iso_status write_callbacks(json_t *state, const iso_training *t)
{
    json_t *list;
    iso_status status = iso_callbacks_save(t->callbacks, &list);
    if (status == ISO_OK)
        json_object_set_new(state, "callbacks", list);
    return status;
}

static iso_status write_training(json_t *state, const iso_training *t)
{
    json_object_set_new(state, "step", json_integer(t->cursor.trained));
    if (t->earlier > 0)
        json_object_set_new(state, "earlier_steps", json_integer(t->earlier));
    json_object_set_new(state, "epoch", json_integer(t->cursor.epoch));
    json_object_set_new(state, "batch", json_integer(t->cursor.batch));
    json_object_set_new(state, "steps_per_epoch", json_integer(t->steps));
    json_object_set_new(state, "epochs", json_integer(t->options.epochs));
    json_object_set_new(state, "data", data_of(t));
    json_object_set_new(state, "running", sums_of(t));
    return write_callbacks(state, t);
}

iso_status iso_state_write(iso_model *model, const iso_training *training, iso_text *text)
{
    uint64_t hash;
    iso_status status = iso_model_hash(model, true, &hash);
    if (status != ISO_OK)
        return status;
    json_t *state = json_object();
    status = write_model(state, model, hash);
    if (status == ISO_OK && training)
        status = write_training(state, training);
    if (status == ISO_OK)
        iso_json_add(text, json_incref(state), JSON_INDENT(1));
    json_decref(state);
    return status == ISO_OK && text->failed ? iso_no_memory("the state") : status;
}
