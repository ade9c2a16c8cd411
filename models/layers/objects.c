/* Initializers and regularizers as the objects that Keras writes into a layer's config. */
#include <stdio.h>

#include "models/layers/layer_impl.h"

/* The arguments of an initializer, Keras's defaults filled in. */
static void note_arguments(iso_layer *config, const iso_initializer *init)
{
    double scale = init->scale == 0 ? 1 : init->scale;
    bool no_range = init->low == 0 && init->high == 0;
    switch (init->kind) {
    case ISO_INIT_ZEROS:
    case ISO_INIT_ONES:
        return;
    case ISO_INIT_CONSTANT:
        iso_layer_note_real(config, "value", init->value);
        return;
    case ISO_INIT_IDENTITY:
        iso_layer_note_real(config, "gain", scale);
        return;
    case ISO_INIT_RANDOM_UNIFORM:
        iso_layer_note_real(config, "minval", no_range ? -0.05 : init->low);
        iso_layer_note_real(config, "maxval", no_range ? 0.05 : init->high);
        break;
    case ISO_INIT_RANDOM_NORMAL:
    case ISO_INIT_TRUNCATED_NORMAL:
        iso_layer_note_real(config, "mean", init->mean);
        iso_layer_note_real(config, "stddev", init->stddev == 0 ? 0.05 : init->stddev);
        break;
    case ISO_INIT_ORTHOGONAL:
        iso_layer_note_real(config, "gain", scale);
        break;
    case ISO_INIT_VARIANCE_SCALING:
        iso_layer_note_real(config, "scale", scale);
        iso_layer_note_text(config, "mode", iso_fan_modes[init->mode]);
        iso_layer_note_text(config, "distribution", iso_fan_distributions[init->distribution]);
        break;
    default:
        break;
    }
    iso_layer_note_none(config, "seed");
}

void iso_layer_note_initializer(iso_layer *layer, const char *key, const iso_initializer *initializer)
{
    iso_layer config =
        iso_layer_note_object(layer, key, "keras.initializers", iso_initializer_class(initializer->kind));
    note_arguments(&config, initializer);
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
