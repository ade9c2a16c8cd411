/* Initializers and regularizers as the objects that Keras writes into a layer's config. */
#include <stdio.h>

#include "models/layers/layer_impl.h"

/* The members of a "config", each with a ", " in front. */
static void add_real(iso_text *text, const char *key, double value)
{
    iso_text_add(text, "%s\"%s\": %.17g", text->length ? ", " : "", key, value);
}

static void add_seed(iso_text *text)
{
    iso_text_add(text, "%s\"seed\": null", text->length ? ", " : "");
}

void iso_layer_note_object(iso_layer *layer, const char *key, const char *module, const char *class_name,
                           const iso_text *config)
{
    iso_text text = {0};
    iso_text_add(&text,
                 "{\"module\": \"%s\", \"class_name\": \"%s\", \"config\": {%s}, \"registered_name\": null}",
                 module, class_name, config->length ? iso_text_get(config) : "");
    iso_layer_text(layer, config);
    iso_layer_note_json(layer, key, iso_layer_text(layer, &text));
    iso_text_free(&text);
}

/* The arguments of an initializer, Keras's defaults filled in. */
static void add_arguments(iso_text *text, const iso_initializer *init)
{
    double scale = init->scale == 0 ? 1 : init->scale;
    bool no_range = init->low == 0 && init->high == 0;
    switch (init->kind) {
    case ISO_INIT_ZEROS:
    case ISO_INIT_ONES:
        return;
    case ISO_INIT_CONSTANT:
        add_real(text, "value", init->value);
        return;
    case ISO_INIT_IDENTITY:
        add_real(text, "gain", scale);
        return;
    case ISO_INIT_RANDOM_UNIFORM:
        add_real(text, "minval", no_range ? -0.05 : init->low);
        add_real(text, "maxval", no_range ? 0.05 : init->high);
        break;
    case ISO_INIT_RANDOM_NORMAL:
    case ISO_INIT_TRUNCATED_NORMAL:
        add_real(text, "mean", init->mean);
        add_real(text, "stddev", init->stddev == 0 ? 0.05 : init->stddev);
        break;
    case ISO_INIT_ORTHOGONAL:
        add_real(text, "gain", scale);
        break;
    case ISO_INIT_VARIANCE_SCALING:
        add_real(text, "scale", scale);
        iso_text_add(text, ", \"mode\": \"%s\", \"distribution\": \"%s\"", iso_fan_modes[init->mode],
                     iso_fan_distributions[init->distribution]);
        break;
    default:
        break;
    }
    add_seed(text);
}

void iso_layer_note_initializer(iso_layer *layer, const char *key, const iso_initializer *initializer)
{
    iso_text config = {0};
    add_arguments(&config, initializer);
    iso_layer_note_object(layer, key, "keras.initializers", iso_initializer_class(initializer->kind),
                          &config);
    iso_text_free(&config);
}

static void note_penalty(iso_layer *layer, const char *key, double l1, double l2)
{
    iso_text config = {0};
    if (l1 > 0)
        add_real(&config, "l1", l1);
    if (l2 > 0)
        add_real(&config, "l2", l2);
    if (l1 <= 0 && l2 <= 0)
        iso_layer_note_json(layer, key, "null");
    else
        iso_layer_note_object(layer, key, "keras.regularizers",
                              l1 > 0 && l2 > 0 ? "L1L2"
                              : l1 > 0         ? "L1"
                                               : "L2",
                              &config);
    iso_text_free(&config);
}

void iso_layer_note_weight(iso_layer *layer, const iso_weight_form *form)
{
    char key[64];
    iso_initializer initializer = form->initializer;
    if (initializer.kind == ISO_INIT_DEFAULT)
        initializer.kind = form->default_value;
    const char *argument = form->argument ? form->argument : form->what;
    snprintf(key, sizeof key, "%s_initializer", argument);
    iso_layer_note_initializer(layer, key, &initializer);
    snprintf(key, sizeof key, "%s_regularizer", argument);
    note_penalty(layer, key, form->l1, form->l2);
}
