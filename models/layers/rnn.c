/* RNN: a recurrent layer that is made of its cell. */
#include "models/layers/list.h"
#include "models/layers/masks.h"
#include "models/layers/recurrent_impl.h"

/* A layer while it is being built. */
typedef struct rnn {
    iso_layer layer;
    const iso_cell_kind *kind;
    iso_recurrent_options cell; /* its options, with the layer's x */
    iso_tensor *inputs[4];      /* x; if they are given, the state before the first step, and the mask */
    int n_inputs;
    bool frozen; /* the cell alone */
} rnn;

static void list_inputs(rnn *r)
{
    iso_tensor *const all[] = {r->cell.x, r->cell.initial_h, r->cell.initial_c, r->cell.mask};
    for (int i = 0; i < 4; i++)
        if (i == 0 || all[i])
            r->inputs[r->n_inputs++] = all[i];
}

static iso_tensor *build_cell(const rnn *r)
{
    if (r->frozen)
        iso_freeze_begin(r->layer.graph);
    iso_tensor *y = iso_recurrent_build(r->kind, &r->cell, false, NULL);
    if (r->frozen)
        iso_freeze_end(r->layer.graph);
    return y;
}

/* state: where the cell puts its last states. */
static iso_tensor *build(rnn *r, const char *name, iso_tensor *const state[2])
{
    const iso_layer_record *part;
    if (!iso_layer_begin_several(&r->layer, r->inputs, r->n_inputs, "RNN", "rnn", name))
        return iso_layer_broken_in("iso_rnn_with", r->cell.x);
    iso_graph *graph = r->layer.graph;
    if (!r->kind)
        return iso_layer_fail(&r->layer, "there is no such cell");
    if (r->cell.initial_h && !r->cell.mask && iso_tensor_mask(r->cell.x))
        iso_layer_warn_mask(&r->layer, "does not use the mask of its input, because it has an initial state");
    iso_layer_parts_begin(graph, r->layer.name);
    iso_tensor *y = build_cell(r);
    if (iso_layer_parts_end(graph, &part, 1) != 1)
        return iso_graph_bad_tensor(graph);
    for (int i = 0; i < r->kind->states && iso_recurrent_returns_state(&r->cell); i++)
        r->layer.others[r->layer.n_others++] = state[i];
    if (r->cell.return_sequences)
        r->layer.masks = iso_tensor_masks(y);
    iso_layer_note_part(&r->layer, "cell", "cell", part);
    iso_recurrent_note_steps(&r->layer, &r->cell);
    return iso_layer_end(&r->layer, y);
}

static iso_tensor *build_and_give(rnn *r, const char *name)
{
    iso_tensor *state[2] = {NULL, NULL}, **const h = r->cell.final_h, **const c = r->cell.final_c;
    if (h || c) {
        r->cell.final_h = &state[0];
        r->cell.final_c = !r->kind || r->kind->states == 2 ? &state[1] : c;
    }
    list_inputs(r);
    iso_tensor *y = build(r, name, state);
    if (h)
        *h = r->layer.n_others > 0 ? r->layer.others[0] : y;
    if (c)
        *c = r->layer.n_others > 1 ? r->layer.others[1] : y;
    return y;
}

iso_tensor *iso_rnn_with(const iso_rnn_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_rnn_options, options, given, size);
    rnn r = {.kind = iso_cell_kind_of_part(options.cell), .cell = options.layer};
    r.cell.x = options.x;
    return build_and_give(&r, options.name);
}

static iso_tensor *rnn_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    const iso_layer_config *cell = config->layer ? config->layer(config, "cell") : NULL;
    rnn r = {.kind = cell ? iso_cell_kind_of_class(cell->type) : NULL};
    iso_tensor *final[2];
    if (!r.kind) {
        iso_config_refuse(config, "cell", "LSTMCell, GRUCell, SimpleRNNCell");
        return x[0];
    }
    r.cell = iso_recurrent_options_of(r.kind, cell, x[0]);
    iso_recurrent_set_steps(&r.cell, config);
    iso_recurrent_set_states(&r.cell, r.kind, config, x, count, final);
    r.frozen = !iso_config_flag(cell, "trainable", true);
    return build_and_give(&r, config->name);
}

const iso_layer_type iso_layer_rnn = {.keras = "RNN",
                                      .build = rnn_build,
                                      .several = true,
                                      .separate = true,
                                      .wraps = true,
                                      .masks = ISO_MASKS_MADE,
                                      .takes_mask = true};
