/* Initializers, regularizers and constraints as the objects that Keras writes into a layer's config. */
#include <stdio.h>
#include <string.h>

#include "models/layers/layer_impl.h"
#include "runtime/graph/constraints.h"
#include "runtime/graph/initializers.h"

/* An initializer's arguments, Keras's defaults filled in. */
static void note_settings(iso_layer *config, const iso_initializer *init, const iso_initializer_type *type)
{
    iso_initializer full = iso_initializer_filled(init);
    for (int i = 0; type->row.setting && type->row.setting[i].name; i++) {
        const iso_setting *setting = &type->row.setting[i];
        double value = iso_setting_get(setting, &full);
        const char *choice = type->choice[i] ? type->choice[i][(int)value] : NULL;
        if (choice && strcmp(choice, ISO_NO_CHOICE) == 0)
            iso_layer_note_none(config, iso_setting_keras(setting));
        else if (choice)
            iso_layer_note_text(config, iso_setting_keras(setting), choice);
        else if (setting->kind == ISO_SETTING_FLAG)
            iso_layer_note_flag(config, iso_setting_keras(setting), value != 0);
        else
            iso_layer_note_real(config, iso_setting_keras(setting), value);
    }
    if (type->seeded)
        iso_layer_note_none(config, "seed");
}

void iso_layer_note_initializer(iso_layer *layer, const char *key, const iso_initializer *initializer)
{
    const iso_initializer_type *type = iso_initializer_type_of(initializer->kind);
    if (!type) /* the variable reports the error */
        return;
    iso_layer config = iso_layer_note_object(layer, key, "keras.initializers", type->row.keras);
    note_settings(&config, initializer, type);
}

void iso_layer_note_penalty(iso_layer *layer, const char *key, double l1, double l2)
{
    const char *type = l1 > 0 && l2 > 0 ? "L1L2" : l1 > 0 ? "L1" : "L2";
    if (l1 <= 0 && l2 <= 0) {
        iso_layer_note_none(layer, key);
        return;
    }
    iso_layer config = iso_layer_note_object(layer, key, "keras.regularizers", type);
    if (l1 > 0)
        iso_layer_note_real(&config, "l1", l1);
    if (l2 > 0)
        iso_layer_note_real(&config, "l2", l2);
}

static void note_axes(iso_layer *config, const iso_weight_constraint *constraint)
{
    int64_t axes[ISO_MAX_RANK] = {0};
    int count = 0;
    for (; count < constraint->axis_count && count < ISO_MAX_RANK; count++)
        axes[count] = constraint->axis[count];
    iso_layer_note_integers(config, "axis", axes, count);
}

static void note_constraint(iso_layer *layer, const char *key, const iso_weight_constraint *constraint)
{
    const iso_constraint_type *type = iso_constraint_type_of(constraint->kind);
    if (!type) /* iso_constrain reports the error */
        return;
    iso_layer config = iso_layer_note_object(layer, key, "keras.constraints", type->row.keras);
    for (const iso_setting *s = type->row.setting; s && s->name; s++)
        iso_layer_note_real(&config, s->name, iso_setting_option(s, constraint));
    if (type->norm && constraint->all_axes)
        iso_layer_note_none(&config, "axis");
    else if (type->norm && constraint->axis_count > 1)
        note_axes(&config, constraint);
    else if (type->norm)
        iso_layer_note_integer(&config, "axis", constraint->axis_count ? constraint->axis[0] : 0);
}

void iso_layer_note_weight(iso_layer *layer, const iso_weight_form *form)
{
    char key[64];
    iso_initializer initializer = form->initializer;
    if (initializer.kind == ISO_INIT_DEFAULT)
        initializer.kind = form->default_value;
    const char *argument = form->argument ? form->argument : form->what;
    snprintf(key, sizeof key, "%s_initializer", argument);
    iso_layer_note_initializer(layer, iso_graph_keep_text(layer->graph, key), &initializer);
    snprintf(key, sizeof key, "%s_regularizer", argument);
    iso_layer_note_penalty(layer, iso_graph_keep_text(layer->graph, key), form->l1, form->l2);
    snprintf(key, sizeof key, "%s_constraint", argument);
    if (form->constraint.kind != ISO_CONSTRAINT_NONE)
        note_constraint(layer, iso_graph_keep_text(layer->graph, key), &form->constraint);
}
