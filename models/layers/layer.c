/* Shared by the layers: names, variables, options. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "models/layers/layer_impl.h"
#include "models/layers/masks.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"

iso_tensor *iso_layer_broken_in(const char *function, iso_tensor *x)
{
    if (!x)
        iso_null_argument(function, "x", 0);
    return x ? iso_graph_bad_tensor(iso_tensor_graph(x)) : NULL;
}

static bool begin_single(iso_layer *layer, iso_tensor *x, const char *type, const char *base,
                         const char *name)
{
    bool good = iso_layer_begin_several(layer, &x, 1, type, base, name);
    layer->single = x;
    layer->inputs = &layer->single;
    return good;
}

bool iso_layer_begin(iso_layer *layer, iso_tensor **x, const char *type, const char *base, const char *name)
{
    bool good = begin_single(layer, *x, type, base, name);
    if (good)
        *x = iso_layer_cast(layer, *x);
    return good;
}

bool iso_layer_begin_any(iso_layer *layer, iso_tensor **x, const char *type, const char *base,
                         const char *name)
{
    bool good = begin_single(layer, *x, type, base, name);
    if (good && iso_dtype_is_float(iso_tensor_dtype(*x)))
        *x = iso_layer_cast(layer, *x);
    return good;
}

bool iso_layer_begin_uncast(iso_layer *layer, iso_tensor *x, const char *type, const char *base,
                            const char *name)
{
    bool good = begin_single(layer, x, type, base, name);
    layer->uncast = true;
    return good;
}

/* x in this type, where layers compute in another type than that of variables, or other layers did. */
static iso_tensor *cast_in_mixed(const iso_layer *layer, iso_tensor *x, iso_dtype dtype)
{
    if (!iso_tensor_good(x) || !iso_dtype_is_float(iso_tensor_dtype(x)))
        return x;
    bool mixed = iso_graph_compute_type(layer->graph) != iso_graph_precision(layer->graph);
    return mixed || iso_tensor_dtype(x) == ISO_BF16 ? iso_cast(x, dtype) : x;
}

iso_tensor *iso_layer_cast(const iso_layer *layer, iso_tensor *x)
{
    iso_dtype dtype =
        layer->uncast ? iso_graph_precision(layer->graph) : iso_graph_compute_type(layer->graph);
    bool whole = iso_tensor_good(x) && !iso_dtype_is_float(iso_tensor_dtype(x));
    return whole ? iso_cast(x, dtype) : cast_in_mixed(layer, x, dtype);
}

iso_tensor *iso_layer_as_input(const iso_layer *layer, iso_tensor *y)
{
    return iso_tensor_good(y) && iso_tensor_dtype(layer->single) == ISO_BF16 ? iso_cast(y, ISO_BF16) : y;
}

bool iso_layer_begin_several(iso_layer *layer, iso_tensor *const *x, int count, const char *type,
                             const char *base, const char *name)
{
    *layer = (iso_layer){.type = type, .inputs = x, .n_inputs = count};
    if (!x[0] || !iso_tensor_good(x[0]))
        return false;
    layer->graph = iso_tensor_graph(x[0]);
    layer->name = name ? iso_graph_take_name(layer->graph, name) : iso_graph_unique_name(layer->graph, base);
    layer->config = iso_attribute_add(layer->graph, NULL, &(iso_attribute){.kind = ISO_ATTRIBUTE_OBJECT});
    return iso_tensor_good(x[0]);
}

static iso_attribute *layer_note(iso_layer *layer, iso_attribute value)
{
    return iso_attribute_add(layer->graph, layer->config, &value);
}

iso_attribute *iso_layer_note_call(iso_layer *layer, iso_attribute value)
{
    if (!layer->call)
        layer->call = iso_attribute_add(layer->graph, NULL, &(iso_attribute){.kind = ISO_ATTRIBUTE_OBJECT});
    return iso_attribute_add(layer->graph, layer->call, &value);
}

void iso_layer_note_none(iso_layer *layer, const char *key)
{
    layer_note(layer, (iso_attribute){.kind = ISO_ATTRIBUTE_NONE, .name = key});
}

void iso_layer_note_integer(iso_layer *layer, const char *key, int64_t value)
{
    layer_note(layer, (iso_attribute){.kind = ISO_ATTRIBUTE_INTEGER, .name = key, .integer = value});
}

void iso_layer_note_dimension(iso_layer *layer, const char *key, int64_t value, int from_end)
{
    layer_note(
        layer,
        (iso_attribute){.kind = ISO_ATTRIBUTE_INTEGER, .name = key, .integer = value, .from_end = from_end});
}

iso_layer iso_layer_note_list(iso_layer *layer, const char *key)
{
    iso_layer list = *layer;
    list.config = layer_note(layer, (iso_attribute){.kind = ISO_ATTRIBUTE_LIST, .name = key});
    return list;
}

void iso_layer_note_integers(iso_layer *layer, const char *key, const int64_t *value, int count)
{
    iso_layer list = iso_layer_note_list(layer, key);
    for (int i = 0; i < count; i++)
        iso_layer_note_integer(&list, NULL, value[i]);
}

void iso_layer_note_shape(iso_layer *layer, const char *key, const iso_shape *shape)
{
    iso_layer list = iso_layer_note_list(layer, key);
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] == ISO_BATCH)
            iso_layer_note_none(&list, NULL);
        else
            iso_layer_note_integer(&list, NULL, shape->dim[d]);
    }
}

void iso_layer_note_real(iso_layer *layer, const char *key, double value)
{
    layer_note(layer, (iso_attribute){.kind = ISO_ATTRIBUTE_REAL, .name = key, .real = value});
}

void iso_layer_note_flag(iso_layer *layer, const char *key, bool value)
{
    layer_note(layer, (iso_attribute){.kind = ISO_ATTRIBUTE_FLAG, .name = key, .integer = value});
}

void iso_layer_note_text(iso_layer *layer, const char *key, const char *value)
{
    layer_note(layer, (iso_attribute){.kind = ISO_ATTRIBUTE_TEXT, .name = key, .text = value});
}

iso_layer iso_layer_note_object(iso_layer *layer, const char *key, const char *module, const char *class_name)
{
    iso_layer object = *layer, config = *layer;
    object.config = layer_note(layer, (iso_attribute){.kind = ISO_ATTRIBUTE_OBJECT, .name = key});
    iso_layer_note_text(&object, "module", module);
    iso_layer_note_text(&object, "class_name", class_name);
    config.config = layer_note(&object, (iso_attribute){.kind = ISO_ATTRIBUTE_OBJECT, .name = "config"});
    iso_layer_note_none(&object, "registered_name");
    return config;
}

void iso_layer_note_part(iso_layer *layer, const char *argument, const char *attribute,
                         const iso_layer_record *part)
{
    const iso_layer_type *type = iso_layer_type_find(part->type);
    iso_layer config = iso_layer_note_object(
        layer, argument, type && type->registered ? type->module : "keras.layers", part->type);
    iso_layer_note_text(&config, "name", iso_file_name(part->name));
    for (const iso_attribute *a = part->config ? part->config->first : NULL; a && config.config; a = a->next)
        iso_attribute_add(layer->graph, config.config, a);
    layer->parts[layer->n_parts++] = (iso_layer_part){argument, attribute, part};
}

void iso_layer_note_padding(iso_layer *layer, iso_padding padding)
{
    iso_layer_note_text(layer, "padding", padding == ISO_SAME ? "same" : "valid");
}

/* The record of a shared layer's first call; -1: this is the first. */
static int first_call(const iso_layer *layer)
{
    for (int i = 0; iso_graph_shares(layer->graph) && i < iso_graph_layer_count(layer->graph); i++) {
        const iso_layer_record *record = iso_graph_layer(layer->graph, i);
        if (strcmp(record->name, layer->name) != 0)
            continue;
        if (strcmp(record->type, layer->type) != 0)
            iso_layer_fail(layer, "it is shared, but it was a %s", record->type);
        return i;
    }
    return -1;
}

const char *iso_layer_text(const iso_layer *layer, const iso_text *text)
{
    if (text->failed)
        iso_graph_fail_memory(layer->graph, "a text of a layer", text->length);
    return iso_text_get(text);
}

iso_tensor *iso_layer_end(iso_layer *layer, iso_tensor *y)
{
    iso_text name = {0};
    if (!iso_tensor_good(y))
        return iso_graph_bad_tensor(layer->graph);
    const iso_dtype type = iso_graph_compute_type(layer->graph);
    for (int i = 0; i < layer->n_others; i++)
        layer->others[i] = cast_in_mixed(layer, layer->others[i], type);
    y = cast_in_mixed(layer, y, type);
    if (!y->name) { /* otherwise the layer returns its input */
        iso_text_add(&name, "%s/output", layer->name);
        iso_tensor_set_name(y, iso_layer_text(layer, &name));
        iso_text_free(&name);
    }
    iso_layer_end_masks(layer, y);
    iso_graph_add_layer(layer->graph, &(iso_layer_record){.type = layer->type,
                                                          .name = layer->name,
                                                          .config = layer->config,
                                                          .call = layer->call,
                                                          .n_parts = layer->n_parts,
                                                          .parts = layer->parts,
                                                          .n_inputs = layer->n_inputs,
                                                          .inputs = layer->inputs,
                                                          .output = y,
                                                          .n_others = layer->n_others,
                                                          .others = layer->others,
                                                          .again = first_call(layer)});
    return y;
}

iso_tensor *iso_layer_end_forms(iso_layer *layer, iso_tensor *y, bool no_bias,
                                const iso_weight_form *const *forms)
{
    iso_layer_note_flag(layer, "use_bias", !no_bias);
    for (; *forms; forms++)
        iso_layer_note_weight(layer, *forms);
    return iso_layer_end(layer, y);
}

void iso_layer_random_path(const iso_layer *layer, iso_text *path)
{
    const int calls = iso_graph_shares(layer->graph) ? iso_graph_count_calls(layer->graph, layer->name) : 0;
    iso_text_add(path, "%s", layer->name);
    if (calls)
        iso_text_add(path, ":%d", calls);
}

iso_tensor *iso_layer_fail(const iso_layer *layer, const char *format, ...)
{
    ISO_DEFAULT_MODES();
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    iso_graph_fail(layer->graph, "layer '%s' (%s): %s", layer->name, layer->type, message);
    return iso_graph_bad_tensor(layer->graph);
}

bool iso_layer_check_rank(const iso_layer *layer, iso_tensor *x, int rank, const char *form)
{
    char text[160];
    const iso_shape *shape = iso_tensor_shape(x);
    if (shape->rank == rank)
        return true;
    iso_layer_fail(layer, "its input has the shape %s, it must be %s",
                   iso_shape_text(shape, text, sizeof text), form);
    return false;
}

iso_variable *iso_layer_variable(const iso_layer *layer, const char *what, iso_shape shape,
                                 iso_initializer chosen, iso_initializer_kind default_value, bool trainable)
{
    iso_text path = {0};
    iso_text_add(&path, "%s/%s", layer->name, what);
    if (chosen.kind == ISO_INIT_DEFAULT)
        chosen = (iso_initializer){.kind = default_value};
    iso_variable *variable = iso_variable_create(layer->graph, iso_layer_text(layer, &path),
                                                 iso_graph_precision(layer->graph), shape, chosen, trainable);
    iso_text_free(&path);
    return variable;
}

iso_variable *iso_layer_find_variable(const iso_layer *layer, const char *what)
{
    iso_text path = {0};
    iso_text_add(&path, "%s/%s", layer->name, what);
    iso_variable *variable = iso_graph_find_variable(layer->graph, iso_layer_text(layer, &path));
    iso_text_free(&path);
    return variable;
}

void iso_layer_set_fans(const iso_layer *layer, const char *what, double in, double out)
{
    iso_variable *variable = iso_layer_find_variable(layer, what);
    if (variable)
        iso_variable_set_fans(variable, in, out);
}

void iso_layer_set_layout(const iso_layer *layer, const char *what, const char *layout)
{
    if (!layout)
        return;
    iso_variable *variable = iso_layer_find_variable(layer, what);
    if (variable)
        iso_variable_set_layout(variable, layout);
    else
        iso_layer_fail(layer, "it has a layout for its %s and no such variable", what);
}

/* Adds the weight's penalty to the graph's losses. */
static void penalize(const iso_layer *layer, const iso_weight_form *form, iso_variable *variable)
{
    iso_tensor *weight = iso_variable_value(variable);
    const char *argument = form->argument ? form->argument : form->what;
    if (!(form->l1 >= 0) || !(form->l2 >= 0)) {
        iso_layer_fail(layer, "%s_l1 is %g, %s_l2 %g: they must not be negative", argument, form->l1,
                       argument, form->l2);
        return;
    }
    if (iso_graph_shares(layer->graph))
        return;
    if (form->l1 > 0)
        iso_graph_add_penalty(layer->graph, variable, iso_affine(iso_sum(iso_abs(weight)), form->l1, 0));
    if (form->l2 > 0)
        iso_graph_add_penalty(layer->graph, variable, iso_affine(iso_sum(iso_square(weight)), form->l2, 0));
}

iso_variable *iso_layer_make_weight(const iso_layer *layer, const iso_weight_form *form, iso_shape shape)
{
    iso_variable *variable =
        iso_layer_variable(layer, form->what, shape, form->initializer, form->default_value, true);
    iso_tensor *weight = iso_variable_value(variable);
    if (form->layout)
        iso_variable_set_layout(variable, form->layout);
    penalize(layer, form, variable);
    if (form->constraint.kind != ISO_CONSTRAINT_NONE && !iso_graph_shares(layer->graph))
        iso_variable_set_constraint(variable, iso_constrain(weight, &form->constraint));
    return variable;
}

iso_tensor *iso_layer_weight(const iso_layer *layer, const iso_weight_form *form, iso_shape shape)
{
    return iso_layer_cast(layer, iso_variable_value(iso_layer_make_weight(layer, form, shape)));
}

iso_tensor *iso_layer_weight_unless(const iso_layer *layer, bool left_out, const iso_weight_form *form,
                                    iso_shape shape)
{
    if (!left_out)
        return iso_layer_weight(layer, form, shape);
    if (form->layout)
        iso_layer_fail(layer, "it has a layout for its %s and no such variable", form->what);
    return NULL;
}

iso_tensor *iso_layer_bias(const iso_layer *layer, iso_tensor *y, bool left_out, const iso_weight_form *form,
                           iso_shape shape)
{
    iso_tensor *bias = iso_layer_weight_unless(layer, left_out, form, shape);
    return bias ? iso_add(y, bias) : y;
}

void iso_layer_sizes(int count, const int64_t *each, int64_t all, int64_t default_value, int64_t *out)
{
    bool given = false;
    for (int i = 0; i < count; i++)
        given |= each[i] != 0;
    for (int i = 0; i < count; i++)
        out[i] = given ? each[i] : all ? all : default_value;
}

void iso_layer_pad(iso_padding padding, int64_t n, int64_t window, int64_t stride, int64_t *before,
                   int64_t *after)
{
    int64_t outputs = (n + stride - 1) / stride;
    int64_t total = (outputs - 1) * stride + window - n;
    if (padding == ISO_VALID || total < 0)
        total = 0;
    *before = total / 2;
    *after = total - *before;
}
