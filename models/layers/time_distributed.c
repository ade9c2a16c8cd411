/* TimeDistributed: a layer for each step of a sequence. */
#include "models/layers/list.h"
#include "models/layers/masks.h"
#include "models/layers/wrappers.h"
#include "runtime/base/memory.h"

/* A layer while it is being built. */
typedef struct steps {
    iso_layer *layer;
    const iso_time_distributed_options *options;
    const iso_layer_record *part; /* the layer of the first step */
    int64_t count;
    iso_tensor *mask; /* of the input; NULL: none */
} steps;

/* x: [batch, t, ...] -> [batch, ...] of one step */
static iso_tensor *elements_of(iso_tensor *x, int64_t step)
{
    const iso_shape *shape = iso_tensor_shape(x);
    iso_shape one = {.rank = shape->rank - 1, .dim = {shape->dim[0]}};
    int64_t begin[ISO_MAX_RANK] = {step}, size[ISO_MAX_RANK] = {1};
    for (int d = 2; d < shape->rank; d++)
        one.dim[d - 1] = size[d - 1] = shape->dim[d];
    return iso_reshape_to(iso_slice(x, begin, size), one);
}

/* The same with the step's mask, if it has one: its layer may compute with it. */
static iso_tensor *step_of(const steps *s, int64_t step)
{
    iso_tensor *y = elements_of(s->options->x, step);
    if (s->mask && iso_tensor_good(y)) {
        iso_tensor *mask = elements_of(s->mask, step);
        iso_tensor_set_masks(y, (iso_masks){mask, mask});
    }
    return y;
}

/* [batch, ...] -> [batch, 1, ...] */
static iso_tensor *with_step(iso_tensor *y)
{
    const iso_shape *shape = iso_tensor_shape(y);
    iso_shape wide = {.rank = shape->rank + 1, .dim = {shape->dim[0], 1}};
    for (int d = 1; d < shape->rank; d++)
        wide.dim[d + 1] = shape->dim[d];
    return iso_reshape_to(y, wide);
}

/* Builds the layer on x, and keeps the record of its first call. */
static iso_tensor *build_layer(steps *s, iso_tensor *x, bool again)
{
    iso_graph *graph = s->layer->graph;
    const iso_layer_record *part = NULL;
    if (again)
        iso_share_begin(graph);
    iso_layer_parts_begin(graph, s->layer->name);
    iso_tensor *y = s->options->layer(x, s->options->user);
    const int layers = iso_layer_parts_end(graph, &part, 1);
    if (again)
        iso_share_end(graph);
    if (y && !iso_tensor_good(y))
        return y;
    if (!y || layers != 1 || part->output != y)
        return iso_layer_fail(s->layer, "its function made %d layers; it makes one, and returns its result",
                              layers);
    if (part->n_others)
        return iso_layer_fail(s->layer, "its layer '%s' (%s) has %d results, it must have one", part->name,
                              part->type, 1 + part->n_others);
    if (!again)
        s->part = part;
    return y;
}

/* Whether the layer of the first step computes all steps at once in the same way. */
static bool takes_all_steps(const steps *s)
{
    const iso_layer_type *type = iso_layer_type_find(s->part->type);
    return type && type->any_rank;
}

static iso_tensor *build_steps(steps *s, iso_tensor **y)
{
    iso_tensor *x = s->options->x;
    for (int64_t t = 0; t < s->count; t++) {
        y[t] = build_layer(s, step_of(s, t), t > 0);
        if (!iso_tensor_good(y[t]))
            return y[t];
        if (t == 0 && takes_all_steps(s))
            return build_layer(s, x, true);
        if (iso_tensor_shape(y[t])->rank == ISO_MAX_RANK)
            return iso_layer_fail(s->layer, "a step has %d dimensions, at most %d are possible", ISO_MAX_RANK,
                                  ISO_MAX_RANK - 1);
        y[t] = with_step(y[t]);
    }
    return s->count > 1 ? iso_concat(y, (int)s->count, 1) : y[0];
}

static iso_tensor *build(steps *s)
{
    const iso_shape *shape = iso_tensor_shape(s->options->x);
    char text[160];
    if (!s->options->layer)
        return iso_layer_fail(s->layer, "it has no function that makes a layer");
    if (shape->rank < 3 || shape->dim[1] < 1)
        return iso_layer_fail(s->layer, "its input has the shape %s, it must be [batch, steps, ...]",
                              iso_shape_text(shape, text, sizeof text));
    if (s->mask && iso_tensor_shape(s->mask)->rank < 2)
        return iso_layer_fail(s->layer, "the mask of its input has no steps");
    s->count = shape->dim[1];
    iso_tensor **room = iso_new((size_t)s->count * sizeof(iso_tensor *));
    if (!room) {
        iso_graph_fail_memory(s->layer->graph, "the steps of a layer",
                              (size_t)s->count * sizeof(iso_tensor *));
        return iso_graph_bad_tensor(s->layer->graph);
    }
    iso_tensor *y = build_steps(s, room);
    iso_free(room);
    return y;
}

iso_tensor *iso_time_distributed_with(const iso_time_distributed_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_time_distributed_options, options, given, size);
    iso_layer layer;
    steps s = {.layer = &layer, .options = &options};
    if (!iso_layer_begin_any(&layer, &options.x, "TimeDistributed", "time_distributed", options.name))
        return iso_layer_broken(options.x);
    s.mask = iso_layer_mask(&layer, layer.single);
    iso_tensor *y = build(&s);
    if (iso_tensor_good(y))
        iso_layer_note_part(&layer, "layer", "layer", s.part);
    layer.masks = iso_layer_masks_used(&layer, layer.single);
    return iso_layer_end(&layer, y);
}

/* ---- from data ---- */

static iso_tensor *layer_of_config(iso_tensor *x, void *user)
{
    const iso_layer_config *config = user;
    const iso_layer_type *type = iso_layer_type_find(config->type);
    const bool frozen = !iso_config_flag(config, "trainable", true) && !type->wraps;
    if (frozen)
        iso_freeze_begin(iso_tensor_graph(x));
    iso_tensor *y = type->build(config, &x, 1);
    if (frozen)
        iso_freeze_end(iso_tensor_graph(x));
    return y;
}

static iso_tensor *time_distributed_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    const iso_layer_config *layer = config->layer ? config->layer(config, "layer") : NULL;
    const iso_layer_type *type = layer ? iso_layer_type_find(layer->type) : NULL;
    if (!type || (type->several && !type->separate)) {
        iso_config_refuse(config, "layer",
                          "a layer of one input that is supported by itself; models are not");
        return x[0];
    }
    return iso_time_distributed(x[0], layer_of_config, (void *)(uintptr_t)layer, .name = config->name);
}

const iso_layer_type iso_layer_time_distributed = {
    .keras = "TimeDistributed", .build = time_distributed_build, .wraps = true, .masks = ISO_MASKS_MADE};
