/* Initializers and regularizers as the objects that Keras writes into a layer's config. */
#include <stdio.h>
#include <string.h>

#include "models/layers/layer_impl.h"
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

static void note_penalty(iso_layer *layer, const char *key, double l1, double l2)
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
    note_penalty(layer, iso_graph_keep_text(layer->graph, key), form->l1, form->l2);
}
