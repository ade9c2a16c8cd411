/* LSTM, GRU, SimpleRNN and the cells of RNN and ConvLSTM: one product or convolution for the inputs of all steps,
 * then the recurrence. */
#include <string.h>

#include "models/layers/list.h"
#include "models/layers/masks.h"
#include "models/layers/recurrent_impl.h"
#include "runtime/graph/ops/network.h"

/* The names of a cell and its layer. */
#define CELL_NAMES(type, name)                                                                               \
    type, name, "iso_" name "_with", name "_cell/kernel", name "_cell/recurrent_kernel", name "_cell/bias"
/* The same of a cell alone. */
#define PART_NAMES(type, name) type "Cell", name "_cell", "iso_rnn_with", "kernel", "recurrent_kernel", "bias"
static const iso_cell_kind lstm = {ISO_CELL_LSTM, CELL_NAMES("LSTM", "lstm"), 2, true, false, 0};
static const iso_cell_kind gru = {ISO_CELL_GRU, CELL_NAMES("GRU", "gru"), 1, true, false, 0};
static const iso_cell_kind simple_rnn = {
    ISO_CELL_SIMPLE, CELL_NAMES("SimpleRNN", "simple_rnn"), 1, false, false, 0};
static const iso_cell_kind *const cells[] = {&lstm, &gru, &simple_rnn};
static const iso_cell_kind parts[] = {
    {ISO_CELL_LSTM, PART_NAMES("LSTM", "lstm"), 2, true, true, 0},
    {ISO_CELL_GRU, PART_NAMES("GRU", "gru"), 1, true, true, 0},
    {ISO_CELL_SIMPLE, PART_NAMES("SimpleRNN", "simple_rnn"), 1, false, true, 0}};

const iso_cell_kind *iso_cell_kind_of(iso_cell cell)
{
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        if (cells[i]->cell == cell)
            return cells[i];
    return NULL;
}

const iso_cell_kind *iso_cell_kind_of_part(iso_cell cell)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].cell == cell)
            return &parts[i];
    return NULL;
}

const iso_cell_kind *iso_cell_kind_of_class(const char *type)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].type, type) == 0)
            return &parts[i];
    return NULL;
}

const iso_cell_kind *iso_cell_kind_named(const char *type)
{
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        if (strcmp(cells[i]->type, type) == 0)
            return cells[i];
    return NULL;
}

/* A layer while it is being built. */
typedef struct recurrent {
    iso_layer *layer;
    const iso_cell_kind *kind;
    const iso_recurrent_options *options;
    iso_tensor *inputs[4]; /* x; if they are given, the state before the first step, and the mask */
    iso_tensor *mask;      /* the one that is given, as ISO_BOOL */
    int n_inputs;
    iso_weight_form kernel, recurrent, bias;
    int64_t columns;       /* gates times units */
    iso_conv_windows conv; /* of images */
    bool in_order;         /* all states are returned in the order of time, backwards too */
} recurrent;

/* ---- checks ---- */

/* The positions of the windows along height (0) or width (1) of x. */
static int64_t positions(const recurrent *r, int i)
{
    const iso_conv_geometry *g = &r->conv.geometry;
    const iso_shape *x = iso_tensor_shape(r->options->x);
    const int64_t extent = i == 0 && r->kind->image_dims == 1 ? 1 : x->dim[x->rank - 3 + i];
    const int64_t reach = (r->conv.window[i] - 1) * g->dilation[i] + 1;
    return (extent + g->pad_before[i] + g->pad_after[i] - reach) / g->stride[i] + 1;
}

/* A state, as the caller has it. */
static iso_shape state_shape(const recurrent *r)
{
    iso_shape state = ISO_SHAPE(iso_tensor_shape(r->options->x)->dim[0]);
    for (int i = 2 - r->kind->image_dims; i < 2; i++)
        state.dim[state.rank++] = positions(r, i);
    state.dim[state.rank++] = r->options->units;
    return state;
}

static bool state_fits(const recurrent *r, const char *what, iso_tensor *state)
{
    const iso_shape want = state_shape(r);
    char has[160], wants[160];
    if (!state ||
        (iso_tensor_graph(state) == r->layer->graph && iso_shape_equal(iso_tensor_shape(state), &want)))
        return true;
    if (iso_tensor_graph(state) != r->layer->graph)
        iso_layer_fail(r->layer, "%s belongs to another graph", what);
    else
        iso_layer_fail(r->layer, "%s has the shape %s, it must be %s", what,
                       iso_shape_text(iso_tensor_shape(state), has, sizeof has),
                       iso_shape_text(&want, wants, sizeof wants));
    return false;
}

static bool states_fit(const recurrent *r)
{
    const iso_recurrent_options *o = r->options;
    const bool is_lstm = r->kind->cell == ISO_CELL_LSTM;
    if (!is_lstm && (o->initial_c || o->final_c || o->no_unit_forget_bias)) {
        iso_layer_fail(r->layer, "initial_c, final_c and no_unit_forget_bias are of LSTM");
        return false;
    }
    if (is_lstm && !o->initial_h != !o->initial_c) {
        iso_layer_fail(r->layer, "initial_h and initial_c are given together, or neither");
        return false;
    }
    return state_fits(r, "initial_h", o->initial_h) && state_fits(r, "initial_c", o->initial_c);
}

/* The images of x, of one row if it has one dimension. */
static iso_shape image_of(const recurrent *r)
{
    const iso_shape *x = iso_tensor_shape(r->options->x);
    return ISO_SHAPE(x->dim[0], r->kind->image_dims == 1 ? 1 : x->dim[2], x->dim[x->rank - 2],
                     x->dim[x->rank - 1]);
}

static bool inputs_fit(recurrent *r)
{
    static const char *const forms[] = {"[batch, steps, features]", "[batch, steps, width, channels]",
                                        "[batch, steps, height, width, channels]"};
    const int dims = r->kind->image_dims;
    if (!iso_layer_check_rank(r->layer, r->options->x, 3 + dims, forms[dims]))
        return false;
    if (dims == 0)
        return true;
    const iso_shape image = image_of(r);
    return iso_conv_windows_fit(r->layer, &image, &r->conv);
}

static bool mask_fits(recurrent *r)
{
    const iso_recurrent_options *o = r->options;
    if (!o->mask)
        return iso_layer_check_mask(r->layer, o->x, 2);
    r->mask = iso_layer_given_mask(r->layer, o->mask, o->x, 2);
    return r->mask != NULL;
}

static bool recurrent_fits(recurrent *r)
{
    const iso_recurrent_options *o = r->options;
    if (!inputs_fit(r))
        return false;
    if (o->units <= 0)
        iso_layer_fail(r->layer, "%s is %lld, it must be positive", r->kind->image_dims ? "filters" : "units",
                       (long long)o->units);
    else if (!(o->dropout >= 0 && o->dropout <= 1))
        iso_layer_fail(r->layer, "dropout is %g, it must be from 0 to 1", o->dropout);
    else if (!r->kind->has_gates && o->recurrent_activation)
        iso_layer_fail(r->layer, "it has no gates, and so no recurrent_activation");
    else if ((unsigned)o->activation > ISO_CELL_LINEAR || (unsigned)o->recurrent_activation > ISO_CELL_LINEAR)
        iso_layer_fail(r->layer, "it has no activation %d with recurrent_activation %d", (int)o->activation,
                       (int)o->recurrent_activation);
    else
        return states_fit(r) && mask_fits(r);
    return false;
}

/* ---- the network ---- */

static void set_forms(recurrent *r)
{
    const iso_recurrent_options o = *r->options;
    r->kernel = (iso_weight_form)ISO_WEIGHT_FORM(o, kernel, ISO_INIT_GLOROT_UNIFORM);
    r->recurrent = (iso_weight_form)ISO_WEIGHT_FORM(o, recurrent, ISO_INIT_ORTHOGONAL);
    r->bias = (iso_weight_form)ISO_WEIGHT_FORM(o, bias, ISO_INIT_ZEROS);
    r->kernel.argument = "kernel";
    r->recurrent.argument = "recurrent";
    r->bias.argument = "bias";
    r->kernel.what = r->kind->kernel;
    r->recurrent.what = r->kind->recurrent;
    r->bias.what = r->kind->bias;
}

static iso_tensor *drop_features(const recurrent *r, iso_tensor *x)
{
    iso_shape row = *iso_tensor_shape(x);
    if (r->options->dropout == 0)
        return x;
    row.dim[1] = 1;
    return iso_by_mode(iso_layer_cast(r->layer, iso_layer_drop(r->layer, x, r->options->dropout, &row)), x);
}

/* Ones for the gate f: nothing is forgotten at first (Jozefowicz, Zaremba and Sutskever 2015). */
static void begin_with_memory(const recurrent *r)
{
    const int64_t units = r->options->units;
    iso_text path = {0};
    iso_text_add(&path, "%s/%s", r->layer->name, r->bias.what);
    iso_variable *bias = iso_graph_find_variable(r->layer->graph, iso_layer_text(r->layer, &path));
    iso_text_free(&path);
    if (bias)
        iso_variable_begin_with_ones(bias, units, 2 * units);
}

/* The bias of the inputs and, of GRU, that of the recurrence; both NULL: the layer has none. */
static void make_bias(const recurrent *r, iso_tensor *bias[2])
{
    const iso_recurrent_options *o = r->options;
    const bool two = r->kind->cell == ISO_CELL_GRU;
    const iso_shape columns = ISO_SHAPE(r->columns);
    bias[0] =
        iso_layer_weight_unless(r->layer, o->no_bias, &r->bias, two ? ISO_SHAPE(2, r->columns) : columns);
    bias[1] = NULL;
    if (bias[0] && r->kind->cell == ISO_CELL_LSTM && !o->no_unit_forget_bias)
        begin_with_memory(r);
    for (int i = 1; bias[0] && two && i >= 0; i--)
        bias[i] = iso_reshape_to(
            iso_slice(bias[0], (const int64_t[]){i, 0}, (const int64_t[]){1, r->columns}), columns);
}

/* x: [batch, t, ..., units] -> [batch, ..., units] of one step */
static iso_tensor *state_at(iso_tensor *x, int64_t step)
{
    const iso_shape *shape = iso_tensor_shape(x);
    iso_shape state = {shape->rank - 1, {shape->dim[0]}};
    for (int d = 2; d < shape->rank; d++)
        state.dim[d - 1] = shape->dim[d];
    return iso_reshape_to(iso_slice(x, (const int64_t[]){step, 0, 0, 0}, (const int64_t[]){1, -1, -1, -1}),
                          state);
}

/* The state after the last step, in the order of the recurrence. */
static iso_tensor *final_state(const recurrent *r, iso_tensor *x)
{
    return iso_tensor_good(x) ? state_at(x, r->options->go_backwards ? 0 : iso_tensor_shape(x)->dim[1] - 1)
                              : x;
}

bool iso_recurrent_returns_state(const iso_recurrent_options *o)
{
    return o->final_h || o->final_c;
}

/* The mask of the steps; NULL: all count. Keras does not set that of x for calls with an initial_state. */
static iso_tensor *mask_of(const recurrent *r)
{
    if (r->mask)
        return r->mask;
    return r->options->initial_h ? NULL : iso_layer_mask(r->layer, r->options->x);
}

/* The output of each step. */
static iso_tensor *output_of(const recurrent *r, iso_tensor *h)
{
    iso_tensor *mask = mask_of(r);
    if (!mask || !r->options->zero_output_for_mask || !iso_tensor_good(h))
        return h;
    iso_shape column = *iso_tensor_shape(h); /* of images too */
    for (int d = 2; d < column.rank; d++)
        column.dim[d] = 1;
    return iso_where(iso_reshape_to(mask, column), h, iso_number(r->layer->graph, iso_tensor_dtype(h), 0));
}

/* h, and of LSTM c: all states in the order of time -> the layer's first result; the last states are the others. */
static iso_tensor *results(const recurrent *r, iso_tensor *h, iso_tensor *c)
{
    const iso_recurrent_options *o = r->options;
    iso_layer *layer = r->layer;
    iso_tensor *y = output_of(r, h),
               *last = iso_recurrent_returns_state(o) || !o->return_sequences ? final_state(r, h) : NULL;
    if (iso_recurrent_returns_state(o))
        layer->others[layer->n_others++] = last;
    if (c)
        layer->others[layer->n_others++] = final_state(r, c);
    if (!o->return_sequences)
        return y == h ? last : final_state(r, y);
    layer->masks = r->mask        ? (iso_masks){r->mask, r->mask}
                   : o->initial_h ? iso_tensor_masks(o->x)
                                  : iso_layer_masks_used(layer, o->x);
    return o->go_backwards && !r->in_order ? iso_flip(y, 1) : y;
}

/* A tensor over time or a state, whose images have one row more or less than the caller's if they have one
 * dimension. */
static iso_tensor *with_rows(const recurrent *r, iso_tensor *x, bool more)
{
    if (!x || r->kind->image_dims != 1 || !iso_tensor_good(x))
        return x;
    const iso_shape *shape = iso_tensor_shape(x);
    iso_shape other = *shape;
    const int width = shape->rank - 2, rows = more ? width : width - 1;
    other.rank += more ? 1 : -1;
    for (int d = rows + more; d < other.rank; d++)
        other.dim[d] = shape->dim[more ? d - 1 : d + 1];
    if (more)
        other.dim[rows] = 1;
    return iso_reshape_to(x, other);
}

/* The kernel of `form` for so many inputs. [inputs, columns], or [height, width, inputs, columns] of images. */
static iso_tensor *make_kernel(const recurrent *r, const iso_weight_form *form, int64_t inputs)
{
    const int64_t *window = r->conv.window;
    if (r->kind->image_dims == 0)
        return iso_layer_weight(r->layer, form, ISO_SHAPE(inputs, r->columns));
    if (r->kind->image_dims == 2)
        return iso_layer_weight(r->layer, form, ISO_SHAPE(window[0], window[1], inputs, r->columns));
    return iso_reshape_to(iso_layer_weight(r->layer, form, ISO_SHAPE(window[1], inputs, r->columns)),
                          ISO_SHAPE(1, window[1], inputs, r->columns));
}

static iso_tensor *build(const recurrent *r)
{
    const iso_recurrent_options *o = r->options;
    const iso_recurrence_form form = {.cell = r->kind->cell,
                                      .activation = o->activation,
                                      .recurrent = o->recurrent_activation,
                                      .backwards = o->go_backwards};
    const iso_shape *shape = iso_tensor_shape(o->x);
    iso_tensor *bias[2], *c = NULL, *x = drop_features(r, iso_layer_cast(r->layer, o->x));
    iso_tensor *kernel = make_kernel(r, &r->kernel, shape->dim[shape->rank - 1]);
    iso_tensor *recurrent_kernel = make_kernel(r, &r->recurrent, o->units);
    make_bias(r, bias);
    x = r->kind->image_dims ? iso_conv2d_op(with_rows(r, x, true), kernel, &r->conv.geometry)
                            : iso_matmul(x, kernel);
    if (bias[0])
        x = iso_add(x, bias[0]);
    iso_tensor *h0 = o->initial_h ? with_rows(r, iso_layer_cast(r->layer, o->initial_h), true) : NULL;
    iso_tensor *c0 = o->initial_c ? with_rows(r, iso_layer_cast(r->layer, o->initial_c), true) : NULL;
    const bool needs_c = r->kind->cell == ISO_CELL_LSTM && iso_recurrent_returns_state(o);
    iso_tensor *h =
        iso_recurrence_op(x, recurrent_kernel, bias[1], h0, c0, mask_of(r), &form, needs_c ? &c : NULL);
    return results(r, with_rows(r, h, false), with_rows(r, c, false));
}

/* ---- records ---- */

/* The activations of cells, from ISO_CELL_TANH on, as layers have them. */
static const iso_activation_kind cell_activations[] = {ISO_TANH, ISO_SIGMOID, ISO_HARD_SIGMOID, ISO_RELU,
                                                       ISO_LINEAR};
enum { ACTIVATIONS = sizeof cell_activations / sizeof *cell_activations };

static const char *name_of(iso_cell_activation kind)
{
    return iso_activations[cell_activations[kind - ISO_CELL_TANH]]->name;
}

static void note_activation(iso_layer *layer, const char *key, iso_cell_activation kind,
                            iso_cell_activation default_kind)
{
    iso_layer_note_text(layer, key, name_of(kind == ISO_CELL_DEFAULT ? default_kind : kind));
}

void iso_recurrent_note_state(iso_layer *layer, const iso_recurrent_options *o)
{
    const int states = layer->n_inputs - 1 - (o->mask ? 1 : 0);
    if (o->mask)
        iso_layer_note_mask(layer, 1 + states);
    if (states == 0)
        return;
    iso_attribute *list =
        iso_layer_note_call(layer, (iso_attribute){.kind = ISO_ATTRIBUTE_LIST, .name = "initial_state"});
    for (int i = 1; i <= states; i++)
        iso_attribute_add(layer->graph, list, &(iso_attribute){.kind = ISO_ATTRIBUTE_INPUT, .integer = i});
}

void iso_recurrent_note_steps(iso_layer *layer, const iso_recurrent_options *o)
{
    iso_layer_note_flag(layer, "return_sequences", o->return_sequences);
    iso_layer_note_flag(layer, "return_state", iso_recurrent_returns_state(o));
    iso_layer_note_flag(layer, "go_backwards", o->go_backwards);
    iso_layer_note_flag(layer, "stateful", false);
    iso_layer_note_flag(layer, "unroll", false);
    iso_layer_note_flag(layer, "zero_output_for_mask", o->zero_output_for_mask);
    iso_recurrent_note_state(layer, o);
}

static void note(const recurrent *r)
{
    const iso_recurrent_options *o = r->options;
    iso_layer *layer = r->layer;
    if (!r->kind->is_part)
        iso_recurrent_note_steps(layer, o);
    iso_layer_note_integer(layer, r->kind->image_dims ? "filters" : "units", o->units);
    if (r->kind->image_dims)
        iso_conv_note(layer, &r->conv, r->kind->image_dims);
    note_activation(layer, "activation", o->activation, ISO_CELL_TANH);
    if (r->kind->has_gates)
        note_activation(layer, "recurrent_activation", o->recurrent_activation, ISO_CELL_SIGMOID);
    if (r->kind->cell == ISO_CELL_LSTM)
        iso_layer_note_flag(layer, "unit_forget_bias", !o->no_unit_forget_bias);
    if (r->kind->cell == ISO_CELL_GRU)
        iso_layer_note_flag(layer, "reset_after", true);
    iso_layer_note_real(layer, "dropout", o->dropout);
    iso_layer_note_real(layer, "recurrent_dropout", 0);
    iso_layer_note_none(layer, "seed");
}

static void list_inputs(recurrent *r)
{
    const iso_recurrent_options *o = r->options;
    r->inputs[r->n_inputs++] = o->x;
    if (o->initial_h)
        r->inputs[r->n_inputs++] = o->initial_h;
    if (o->initial_c)
        r->inputs[r->n_inputs++] = o->initial_c;
    if (o->mask)
        r->inputs[r->n_inputs++] = o->mask;
}

/* Builds the layer's network and its record. */
static iso_tensor *build_recorded(recurrent *r)
{
    if (!iso_layer_begin_several(r->layer, r->inputs, r->n_inputs, r->kind->type, r->kind->base,
                                 r->options->name))
        return iso_layer_broken_in(r->kind->function, r->options->x);
    if (!recurrent_fits(r))
        return iso_graph_bad_tensor(r->layer->graph);
    if (r->options->initial_h && !r->options->mask && iso_tensor_mask(r->options->x))
        iso_layer_warn_mask(r->layer, "does not use the mask of its input, because it has an initial state");
    set_forms(r);
    iso_tensor *y = build(r);
    note(r);
    return iso_layer_end_weights(r->layer, y, r->options->no_bias, &r->kernel, &r->recurrent, &r->bias);
}

iso_tensor *iso_recurrent_build(const iso_cell_kind *kind, const iso_recurrent_options *options,
                                bool in_order, const iso_conv_windows *conv)
{
    iso_layer layer = {0};
    recurrent r = {.layer = &layer,
                   .kind = kind,
                   .options = options,
                   .columns = iso_cell_gates(kind->cell) * options->units,
                   .in_order = in_order};
    if (conv)
        r.conv = *conv;
    list_inputs(&r);
    iso_tensor *y = build_recorded(&r);
    /* Without a result there are no states. */
    if (options->final_h)
        *options->final_h = layer.n_others > 0 ? layer.others[0] : y;
    if (options->final_c)
        *options->final_c = layer.n_others > 1 ? layer.others[1] : y;
    return y;
}

static iso_tensor *recurrent_with(const iso_cell_kind *kind, const iso_recurrent_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_recurrent_options, options, given, size);
    return iso_recurrent_build(kind, &options, false, NULL);
}

iso_tensor *iso_lstm_with(const iso_recurrent_options *options, size_t size)
{
    return recurrent_with(&lstm, options, size);
}

iso_tensor *iso_gru_with(const iso_recurrent_options *options, size_t size)
{
    return recurrent_with(&gru, options, size);
}

iso_tensor *iso_simple_rnn_with(const iso_recurrent_options *options, size_t size)
{
    return recurrent_with(&simple_rnn, options, size);
}

/* ---- from data ---- */

/* The default comes first, as iso_config_choice has it. */
static iso_cell_activation activation_of(const iso_layer_config *config, const char *key,
                                         iso_cell_activation default_kind)
{
    iso_cell_activation kinds[ACTIVATIONS] = {default_kind};
    const char *names[ACTIVATIONS + 1] = {name_of(default_kind)};
    for (int i = 0, count = 1; i < ACTIVATIONS; i++)
        if (ISO_CELL_TANH + i != (int)default_kind) {
            kinds[count] = (iso_cell_activation)(ISO_CELL_TANH + i);
            names[count] = name_of(kinds[count]);
            count++;
        }
    return kinds[iso_config_choice(config, key, names)];
}

void iso_recurrent_set_steps(iso_recurrent_options *options, const iso_layer_config *config)
{
    options->return_sequences = iso_config_flag(config, "return_sequences", false);
    options->go_backwards = iso_config_flag(config, "go_backwards", false);
    options->zero_output_for_mask = iso_config_flag(config, "zero_output_for_mask", false);
}

iso_recurrent_options iso_recurrent_options_of(const iso_cell_kind *kind, const iso_layer_config *config,
                                               iso_tensor *x)
{
    iso_recurrent_options options = {
        .x = x,
        .name = config->name,
        .units = iso_config_size(config, kind->image_dims ? "filters" : "units", ISO_REQUIRED),
        .activation = activation_of(config, "activation", ISO_CELL_TANH),
        .no_bias = !iso_config_flag(config, "use_bias", true),
        .dropout = iso_config_number(config, "dropout", 0)};
    if (!kind->is_part)
        iso_recurrent_set_steps(&options, config);
    if (kind->has_gates)
        options.recurrent_activation = activation_of(config, "recurrent_activation", ISO_CELL_SIGMOID);
    if (kind->cell == ISO_CELL_LSTM)
        options.no_unit_forget_bias = !iso_config_flag(config, "unit_forget_bias", true);
    ISO_CONFIG_WEIGHT(&options, config, kernel);
    ISO_CONFIG_WEIGHT(&options, config, recurrent);
    ISO_CONFIG_WEIGHT(&options, config, bias);
    return options;
}

void iso_recurrent_set_states(iso_recurrent_options *options, const iso_cell_kind *kind,
                              const iso_layer_config *config, iso_tensor *const *x, int count,
                              iso_tensor *final[2])
{
    options->mask = iso_config_mask(config, x, &count);
    if (count > 1 && count != 1 + kind->states)
        iso_config_refuse(config, "initial_state", kind->states == 2 ? "two tensors, h and c" : "one tensor");
    options->initial_h = count > 1 ? x[1] : NULL;
    options->initial_c = count > 2 ? x[2] : NULL;
    if (iso_config_flag(config, "return_state", false)) {
        options->final_h = &final[0];
        options->final_c = kind->states == 2 ? &final[1] : NULL;
    }
}

/* x: the sequence, then the tensors of initial_state, and the mask. */
static iso_tensor *recurrent_build(const iso_cell_kind *kind, const iso_layer_config *config,
                                   iso_tensor *const *x, int count)
{
    iso_recurrent_options options = iso_recurrent_options_of(kind, config, x[0]);
    iso_tensor *final[2];
    iso_recurrent_set_states(&options, kind, config, x, count, final);
    return iso_recurrent_build(kind, &options, false, NULL);
}

#define RECURRENT_LAYER(name, keras_name)                                                                    \
    static iso_tensor *name##_build(const iso_layer_config *config, iso_tensor *const *x, int count)         \
    {                                                                                                        \
        return recurrent_build(&name, config, x, count);                                                     \
    }                                                                                                        \
    const iso_layer_type iso_layer_##name = {.keras = keras_name,                                            \
                                             .build = name##_build,                                          \
                                             .several = true,                                                \
                                             .separate = true,                                               \
                                             .masks = ISO_MASKS_MADE,                                        \
                                             .takes_mask = true};
RECURRENT_LAYER(lstm, "LSTM")
RECURRENT_LAYER(gru, "GRU")
RECURRENT_LAYER(simple_rnn, "SimpleRNN")
