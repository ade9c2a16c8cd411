/* Bidirectional: two recurrent layers, of which the second reads in the opposite order. */
#include <string.h>

#include "models/layers/list.h"
#include "models/layers/masks.h"
#include "models/layers/recurrent_impl.h"
#include "models/layers/wrappers.h"

enum { FORWARD, BACKWARD, PARTS, MOST_STATES = 2 };

/* A layer while it is being built. */
typedef struct bidirectional {
    iso_layer *layer;
    const iso_cell_kind *kind;
    const iso_bidirectional_options *options;
    iso_recurrent_options part[PARTS];
    bool frozen[PARTS];
    iso_tensor *state[PARTS][MOST_STATES]; /* where the parts put their last states */
    iso_tensor *inputs[2 + PARTS * MOST_STATES];
    int n_inputs;
} bidirectional;

/* ---- the two layers ---- */

/* "<prefix><name>", unless the name begins with the prefix. */
static const char *name_of_part(const bidirectional *b, const char *prefix, const char *name)
{
    iso_text text = {0};
    const char *base = name ? name : b->kind->base;
    iso_text_add(&text, "%s%s", strncmp(base, prefix, strlen(prefix)) == 0 ? "" : prefix, base);
    const char *kept = iso_graph_keep_text(b->layer->graph, iso_layer_text(b->layer, &text));
    iso_text_free(&text);
    return kept;
}

/* The options of the backward layer. */
static iso_recurrent_options backward_of(const bidirectional *b)
{
    const iso_recurrent_options *layer = &b->options->layer, *own = &b->options->backward;
    iso_recurrent_options out = own->units ? *own : *layer;
    out.initial_h = own->initial_h;
    out.initial_c = own->initial_c;
    out.mask = layer->mask;
    out.final_h = own->final_h;
    out.final_c = own->final_c;
    out.return_sequences = layer->return_sequences;
    out.go_backwards = !layer->go_backwards;
    out.name = own->name || own->units ? own->name : name_of_part(b, "backward_", layer->name);
    return out;
}

static bool returns_state(const bidirectional *b)
{
    const iso_recurrent_options *layer = &b->options->layer, *backward = &b->options->backward;
    return layer->final_h || layer->final_c || backward->final_h || backward->final_c;
}

static void set_parts(bidirectional *b)
{
    const bool masked = b->options->layer.mask || iso_layer_mask(b->layer, b->options->x);
    b->part[FORWARD] = b->options->layer;
    b->part[FORWARD].name = name_of_part(b, "forward_", b->options->layer.name);
    b->part[BACKWARD] = backward_of(b);
    for (int i = 0; i < PARTS; i++) {
        b->part[i].x = b->options->x;
        b->part[i].zero_output_for_mask = masked && b->options->layer.return_sequences;
        b->part[i].final_h = returns_state(b) ? &b->state[i][0] : NULL;
        b->part[i].final_c = returns_state(b) && b->kind->states == 2 ? &b->state[i][1] : NULL;
    }
}

static bool bidirectional_fits(const bidirectional *b)
{
    const iso_bidirectional_options *o = b->options;
    const int64_t units = o->layer.units, of_backward = o->backward.units ? o->backward.units : units;
    if ((unsigned)o->merge_mode > ISO_MERGE_NONE)
        iso_layer_fail(b->layer, "there is no merge_mode %d", (int)o->merge_mode);
    else if (!o->layer.initial_h != !o->backward.initial_h)
        iso_layer_fail(b->layer, "initial_h is given to both layers, or to none");
    else if (o->backward.mask)
        iso_layer_fail(b->layer, "backward.mask is given; layer.mask is that of both layers");
    else if (b->kind->states == 1 && (o->layer.final_c || o->backward.final_c))
        iso_layer_fail(b->layer, "final_c is of LSTM");
    else if (o->merge_mode != ISO_MERGE_NONE && o->backward_result)
        iso_layer_fail(b->layer, "backward_result is of merge_mode ISO_MERGE_NONE");
    else if (units != of_backward)
        iso_layer_fail(b->layer, "its layers have %lld and %lld units; they must have the same number",
                       (long long)units, (long long)of_backward);
    else
        return true;
    return false;
}

static iso_tensor *build_part(const bidirectional *b, int i)
{
    /* The result of the backward layer is flipped: then it is in the order of the other one. */
    const bool flipped = i == BACKWARD && b->part[i].return_sequences, in_order = b->part[i].go_backwards;
    if (b->frozen[i])
        iso_freeze_begin(b->layer->graph);
    iso_tensor *y = iso_recurrent_build(b->kind, &b->part[i], flipped && in_order, NULL);
    if (b->frozen[i])
        iso_freeze_end(b->layer->graph);
    return flipped && !in_order ? iso_flip(y, 1) : y;
}

/* ---- results ---- */

static iso_tensor *join(const bidirectional *b, iso_tensor *y, iso_tensor *z)
{
    switch (b->options->merge_mode) {
    case ISO_MERGE_SUM:
        return iso_add(y, z);
    case ISO_MERGE_MUL:
        return iso_multiply(y, z);
    case ISO_MERGE_AVE:
        return iso_affine(iso_add(y, z), 0.5, 0);
    case ISO_MERGE_CONCAT:
        return iso_concat((iso_tensor *const[]){y, z}, 2, -1);
    case ISO_MERGE_NONE:
        break;
    }
    b->layer->others[b->layer->n_others++] = z;
    return y;
}

static void add_states(const bidirectional *b)
{
    for (int i = 0; returns_state(b) && i < PARTS; i++)
        for (int k = 0; k < b->kind->states; k++)
            b->layer->others[b->layer->n_others++] = b->state[i][k];
}

/* Gives the caller what it asks for of the layer's results. */
static void give(const bidirectional *b, iso_tensor *y)
{
    const iso_bidirectional_options *o = b->options;
    const int first = b->layer->n_others > 0 && o->merge_mode == ISO_MERGE_NONE;
    const int states = b->kind ? b->kind->states : 0;
    const iso_recurrent_options *of[PARTS] = {&o->layer, &o->backward};
    if (o->backward_result)
        *o->backward_result = first ? b->layer->others[0] : y;
    for (int i = 0; i < PARTS; i++) {
        const int at = first + i * states;
        if (of[i]->final_h)
            *of[i]->final_h = at < b->layer->n_others ? b->layer->others[at] : y;
        if (of[i]->final_c)
            *of[i]->final_c = at + 1 < b->layer->n_others ? b->layer->others[at + 1] : y;
    }
}

/* ---- the layer ---- */

/* Keras's names; None has none. */
static const char *const merge_modes[] = {"concat", "sum", "mul", "ave", NULL};

static void list_inputs(bidirectional *b)
{
    const iso_recurrent_options *of[PARTS] = {&b->options->layer, &b->options->backward};
    b->inputs[b->n_inputs++] = b->options->x;
    for (int i = 0; i < PARTS; i++) {
        if (of[i]->initial_h)
            b->inputs[b->n_inputs++] = of[i]->initial_h;
        if (of[i]->initial_c)
            b->inputs[b->n_inputs++] = of[i]->initial_c;
    }
    if (b->options->layer.mask)
        b->inputs[b->n_inputs++] = b->options->layer.mask;
}

static void note(const bidirectional *b, const iso_layer_record *const *parts)
{
    if (b->options->merge_mode == ISO_MERGE_NONE)
        iso_layer_note_none(b->layer, "merge_mode");
    else
        iso_layer_note_text(b->layer, "merge_mode", merge_modes[b->options->merge_mode]);
    iso_layer_note_part(b->layer, "layer", "forward_layer", parts[FORWARD]);
    iso_layer_note_part(b->layer, "backward_layer", "backward_layer", parts[BACKWARD]);
    iso_recurrent_note_state(b->layer, &b->options->layer);
}

static iso_masks masks_of_result(const bidirectional *b, const iso_tensor *forward)
{
    const iso_recurrent_options *layer = &b->options->layer;
    if (layer->mask)
        return iso_tensor_masks(forward);
    return layer->initial_h ? iso_tensor_masks(b->options->x) : iso_layer_masks_used(b->layer, b->options->x);
}

static iso_tensor *build(bidirectional *b)
{
    static const char function[] = "iso_bidirectional_with";
    const iso_layer_record *parts[PARTS];
    iso_tensor *y[PARTS];
    if (!iso_layer_begin_several(b->layer, b->inputs, b->n_inputs, "Bidirectional", "bidirectional",
                                 b->options->name))
        return iso_layer_broken_in(function, b->options->x);
    iso_graph *graph = b->layer->graph;
    if (!b->kind)
        return iso_layer_fail(b->layer, "there is no cell %d", (int)b->options->cell);
    if (!bidirectional_fits(b))
        return iso_graph_bad_tensor(graph);
    set_parts(b);
    if (b->options->layer.initial_h && !b->options->layer.mask && iso_tensor_mask(b->options->x))
        iso_layer_warn_mask(b->layer, "does not use the mask of its input, because it has an initial state");
    iso_layer_parts_begin(graph, b->layer->name);
    for (int i = 0; i < PARTS; i++)
        y[i] = build_part(b, i);
    if (iso_layer_parts_end(graph, parts, PARTS) != PARTS)
        return iso_graph_bad_tensor(graph);
    if (b->options->layer.return_sequences)
        b->layer->masks = masks_of_result(b, y[FORWARD]);
    iso_tensor *joined = join(b, y[FORWARD], y[BACKWARD]);
    add_states(b);
    note(b, parts);
    joined = iso_layer_end(b->layer, joined);
    if (b->options->merge_mode == ISO_MERGE_NONE)
        iso_tensor_set_masks(b->layer->others[0], b->layer->masks);
    return joined;
}

static iso_tensor *build_frozen(const iso_bidirectional_options *options, const bool frozen[PARTS])
{
    iso_layer layer = {0};
    bidirectional b = {.layer = &layer,
                       .kind = iso_cell_kind_of(options->cell),
                       .options = options,
                       .frozen = {frozen[FORWARD], frozen[BACKWARD]}};
    list_inputs(&b);
    iso_tensor *y = build(&b);
    give(&b, y);
    return y;
}

iso_tensor *iso_bidirectional_with(const iso_bidirectional_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_bidirectional_options, options, given, size);
    return build_frozen(&options, (const bool[PARTS]){false, false});
}

/* ---- from data ---- */

static iso_merge_mode merge_mode_of(const iso_layer_config *config)
{
    const bool none = !config->text(config, "merge_mode") && iso_config_given(config, "merge_mode") &&
                      !(config->object && config->object(config, "merge_mode"));
    return none ? ISO_MERGE_NONE : (iso_merge_mode)iso_config_choice(config, "merge_mode", merge_modes);
}

/* What the two layers have in common in Keras. */
static void check_parts(const iso_layer_config *config, const iso_layer_config *layer,
                        const iso_layer_config *backward)
{
    const bool backwards = iso_config_flag(layer, "go_backwards", false),
               sequences = iso_config_flag(layer, "return_sequences", false),
               state = iso_config_flag(layer, "return_state", false);
    if (strcmp(backward->type, layer->type) != 0)
        iso_config_refuse(config, "backward_layer", "a layer of the class of `layer`");
    if (iso_config_flag(backward, "go_backwards", false) == backwards)
        iso_config_refuse(backward, "go_backwards", "the opposite of `layer`");
    if (iso_config_flag(backward, "return_sequences", false) != sequences)
        iso_config_refuse(backward, "return_sequences", "that of `layer`");
    if (iso_config_flag(backward, "return_state", false) != state)
        iso_config_refuse(backward, "return_state", "that of `layer`");
}

/* x: the sequence, then the tensors of initial_state. */
static void set_states(const iso_layer_config *config, const iso_cell_kind *kind, iso_tensor *const *x,
                       int count, iso_bidirectional_options *options)
{
    iso_recurrent_options *of[PARTS] = {&options->layer, &options->backward};
    options->layer.mask = iso_config_mask(config, x, &count);
    if (count == 1)
        return;
    if (count != 1 + PARTS * kind->states) {
        iso_config_refuse(config, "initial_state",
                          kind->states == 2 ? "four tensors, h and c of each layer"
                                            : "two tensors, one for each layer");
        return;
    }
    for (int i = 0; i < PARTS; i++) {
        of[i]->initial_h = x[1 + i * kind->states];
        of[i]->initial_c = kind->states == 2 ? x[2 + i * kind->states] : NULL;
    }
}

static iso_tensor *bidirectional_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    const iso_layer_config *layer = config->layer ? config->layer(config, "layer") : NULL,
                           *backward = layer ? config->layer(config, "backward_layer") : NULL;
    const iso_cell_kind *kind = layer ? iso_cell_kind_named(layer->type) : NULL;
    iso_tensor *h, *z;
    if (!kind) {
        iso_config_refuse(config, "layer", "LSTM, GRU, SimpleRNN");
        return x[0];
    }
    iso_bidirectional_options options = {.x = x[0],
                                         .cell = kind->cell,
                                         .layer = iso_recurrent_options_of(kind, layer, x[0]),
                                         .merge_mode = merge_mode_of(config),
                                         .name = config->name};
    const bool frozen = !iso_config_flag(layer, "trainable", true);
    bool both[PARTS] = {frozen, frozen};
    if (backward) {
        check_parts(config, layer, backward);
        options.backward = iso_recurrent_options_of(kind, backward, x[0]);
        both[BACKWARD] = !iso_config_flag(backward, "trainable", true);
    }
    set_states(config, kind, x, count, &options);
    options.layer.final_h = iso_config_flag(layer, "return_state", false) ? &h : NULL;
    options.backward_result = options.merge_mode == ISO_MERGE_NONE ? &z : NULL;
    return build_frozen(&options, both);
}

const iso_layer_type iso_layer_bidirectional = {.keras = "Bidirectional",
                                                .build = bidirectional_build,
                                                .several = true,
                                                .separate = true,
                                                .wraps = true,
                                                .masks = ISO_MASKS_MADE,
                                                .takes_mask = true};
