/* The loss graph of a model: the losses of its outputs, their sum, and the reported values. */
#include <stdio.h>
#include <string.h>

#include "runtime/graph/layer.h"
#include "runtime/graph/paths.h"
#include "runtime/train/losses_impl.h"
#include "runtime/train/model_impl.h"

/* An output that has a loss or metrics, with its step inputs. */
typedef struct objective {
    const char *prefix; /* prefix of the names of its values: "" if the model has one output */
    iso_output_options options;
    iso_tensor *output, *target, *weights; /* weights NULL: none */
    iso_tensor *mask;                      /* of the output; NULL: all its positions count */
    iso_tensor *loss;                      /* NULL: none */
} objective;

typedef struct objectives {
    iso_model *model;
    iso_results *results;
    int count, n_losses;
    int n_values; /* requested values */
    objective of[ISO_MAX_MODEL_OUTPUTS];
} objectives;

/* ---- the options of an output ---- */

/* The members that iso_compile_options and iso_output_options share. */
#define MEMBERS(DO)                                                                                          \
    DO(loss)                                                                                                 \
    DO(loss_function)                                                                                        \
    DO(loss_weight)                                                                                          \
    DO(metrics)                                                                                              \
    DO(weighted_metrics)                                                                                     \
    DO(custom_metrics)                                                                                       \
    DO(weighted_metric_names)                                                                                \
    DO(metric_names)                                                                                         \
    DO(metric_settings)                                                                                      \
    DO(weighted_metric_settings)                                                                             \
    DO(target_dtype)                                                                                         \
    DO(target_shape)                                                                                         \
    ISO_OUTPUT_SETTINGS(DO)
#define COPY(member) memcpy(&to.member, &from->member, sizeof to.member);

iso_output_options iso_compile_common(const iso_compile_options *from)
{
    iso_output_options to = {0};
    MEMBERS(COPY)
    return to;
}

void iso_compile_set_common(iso_compile_options *options, const iso_output_options *from)
{
    iso_compile_options to = *options;
    MEMBERS(COPY)
    *options = to;
}

#define FALL_BACK(member)                                                                                    \
    if (!own.member)                                                                                         \
        own.member = all.member;
#define FALL_BACK_LIST(member, empty)                                                                        \
    if (empty)                                                                                               \
    memcpy(own.member, all.member, sizeof own.member)

iso_output_options iso_loss_graph_options(const iso_compile_options *options, int output)
{
    const iso_output_options all = iso_compile_common(options);
    iso_output_options own = options->outputs[output];
    if (own.loss == ISO_LOSS_NONE && !own.loss_function) {
        own.loss = all.loss;
        own.loss_function = all.loss_function;
    }
    if (own.target_dtype == ISO_DTYPE_NONE) {
        own.target_dtype = all.target_dtype;
        own.target_shape = all.target_shape;
    }
    FALL_BACK(loss_weight)
    ISO_OUTPUT_SETTINGS(FALL_BACK)
    FALL_BACK_LIST(metric_names, own.metrics[0] == ISO_METRIC_NONE);
    FALL_BACK_LIST(metric_settings, own.metrics[0] == ISO_METRIC_NONE);
    FALL_BACK_LIST(weighted_metric_names, own.weighted_metrics[0] == ISO_METRIC_NONE);
    FALL_BACK_LIST(weighted_metric_settings, own.weighted_metrics[0] == ISO_METRIC_NONE);
    FALL_BACK_LIST(metrics, own.metrics[0] == ISO_METRIC_NONE);
    FALL_BACK_LIST(weighted_metrics, own.weighted_metrics[0] == ISO_METRIC_NONE);
    FALL_BACK_LIST(custom_metrics, !own.custom_metrics[0].function && !own.custom_metrics[0].name);
    own.loss_weight = iso_option_number(own.loss_weight, 1);
    own.label_smoothing = iso_option_number(own.label_smoothing, 0);
    return own;
}

static bool has_loss(const iso_output_options *o)
{
    return o->loss != ISO_LOSS_NONE || o->loss_function;
}

static bool has_objective(const iso_output_options *o)
{
    return has_loss(o) || o->metrics[0] != ISO_METRIC_NONE || o->weighted_metrics[0] != ISO_METRIC_NONE ||
           o->custom_metrics[0].function || o->custom_metrics[0].name;
}

/* ---- inputs beyond the model's own ---- */

/* Whether layouts find something else by the path that an input of this name would have. */
static bool path_used(const iso_graph *graph, const char *name)
{
    char path[ISO_MAX_PATH + 64];
    snprintf(path, sizeof path, "%s/output", name);
    return iso_graph_count_path(graph, path) > 0;
}

/* Adds "<output>_<what>"; if the network has such a path already, with a number, as reported values have. */
static iso_tensor *add_part(iso_model *model, const char *output, const char *what, iso_dtype dtype,
                            iso_shape shape)
{
    char first[ISO_MAX_PATH + 16], name[ISO_MAX_PATH + 32];
    snprintf(first, sizeof first, "%s%s%s", output, *output ? "_" : "", what);
    snprintf(name, sizeof name, "%s", first);
    for (int k = 1; path_used(model->graph, name); k++)
        snprintf(name, sizeof name, "%s_%d", first, k);
    return model->parts[model->n_parts++] = iso_input(model->graph, name, dtype, shape);
}

static iso_tensor *add_target(iso_model *model, const objective *o)
{
    iso_shape shape = o->options.target_shape;
    iso_dtype dtype = o->options.target_dtype;
    if (dtype == ISO_DTYPE_NONE) {
        dtype = iso_loss_target_dtype(o->options.loss);
        shape = iso_loss_target_shape(o->options.loss, iso_tensor_shape(o->output));
    }
    return add_part(model, o->prefix, "target", dtype, shape);
}

/* The shape of a row of weights: a scalar, or the positions of the predictions. */
static iso_shape weight_shape(const objective *o, bool positions)
{
    iso_shape shape = *iso_tensor_shape(o->output);
    if (!positions || shape.rank < 3)
        return ISO_SCALAR;
    shape.rank -= 2; /* without the batch, and without what is predicted of a position */
    memmove(shape.dim, shape.dim + 1, (size_t)shape.rank * sizeof shape.dim[0]);
    return shape;
}

/* Weights of classes count like weights of rows, with which they are multiplied. */
static void weigh_classes(objective *o, const iso_compile_options *options)
{
    const iso_loss_targets targets =
        o->options.loss_function ? ISO_LOSS_OF_VALUES : iso_loss_targets_of(o->options.loss);
    o->weights = iso_class_weights_apply(o->weights, o->target, o->output, targets, options->class_weights,
                                         options->n_class_weights);
}

static void add_parts(objectives *all, bool weighted, bool positions)
{
    iso_model *model = all->model;
    model->n_targets = all->count;
    model->weighted = weighted;
    for (int i = 0; i < all->count; i++)
        all->of[i].target = add_target(model, &all->of[i]);
    for (int i = 0; i < all->count && weighted; i++)
        all->of[i].weights = add_part(model, all->of[i].prefix, "sample_weight", ISO_F32,
                                      weight_shape(&all->of[i], positions));
}

/* ---- losses ---- */

/* Whether a function of the program returned values of rows, in a tensor of the model's graph. */
static bool check_returned(const objectives *all, const char *what, const char *name,
                           const iso_tensor *values)
{
    iso_graph *graph = all->model->graph;
    const char *space = *name ? " " : "";
    char shape[160];
    if (!values)
        iso_graph_fail(graph, "the %s%s%s returned NULL", what, space, name);
    else if (iso_tensor_graph(values) != graph)
        iso_graph_fail(graph, "the %s%s%s returned a tensor of another graph", what, space, name);
    else if (iso_graph_error(graph) == ISO_OK &&
             (iso_tensor_shape(values)->rank == 0 || iso_tensor_shape(values)->dim[0] != ISO_BATCH))
        iso_graph_fail(graph, "the %s%s%s returned a tensor of shape %s, not a value for each row: [batch]",
                       what, space, name, iso_shape_text(iso_tensor_shape(values), shape, sizeof shape));
    return iso_graph_error(graph) == ISO_OK;
}

/* Losses of the whole batch have no value for each row, by which weights and masks are given. One number counts as
 * the value of each row, as in Keras. */
static bool check_weighed(const objective *o, const iso_tensor *values)
{
    const iso_shape *shape = iso_tensor_shape(values);
    char text[160];
    if (shape->rank == 0 || shape->dim[0] == ISO_BATCH || (!o->weights && !o->mask))
        return true;
    iso_graph_fail(
        iso_tensor_graph(values),
        "the loss %s: with this axis it gives %s, not a value for each row, which sample weights and masks "
        "need",
        iso_loss_name(o->options.loss), iso_shape_text(shape, text, sizeof text));
    return false;
}

static iso_tensor *loss_values(objectives *all, const objective *o)
{
    if (o->options.loss_function) {
        iso_tensor *values = o->options.loss_function(o->target, o->output);
        return check_returned(all, "loss function", "", values) ? values : NULL;
    }
    iso_tensor *values = iso_loss_values(o->options.loss, o->target, o->output, &o->options);
    bool good = iso_graph_error(all->model->graph) == ISO_OK && check_weighed(o, values);
    return good ? values : NULL;
}

/* The mask of the positions that count: by the output, and by the targets. NULL: all count. */
static iso_tensor *mask_of_loss(const objective *o)
{
    iso_tensor *mask = iso_loss_mask(o->options.loss, o->target, o->output, &o->options);
    return mask && o->mask ? iso_logical_and(o->mask, mask) : mask ? mask : o->mask;
}

static iso_tensor *build_loss(objectives *all, objective *o)
{
    iso_tensor *values = loss_values(all, o);
    iso_tensor *mask = values ? mask_of_loss(o) : NULL;
    if (!values)
        return NULL;
    all->n_losses++;
    return o->loss =
               mask ? iso_reduce_masked_loss(values, o->weights, mask) : iso_reduce_loss(values, o->weights);
}

/* The weighted sum of the losses, plus the losses that layers add. */
static iso_tensor *build_total(objectives *all)
{
    iso_tensor *total = NULL, *others = iso_graph_losses(all->model->graph);
    for (int i = 0; i < all->count; i++) {
        objective *o = &all->of[i];
        iso_tensor *loss = has_loss(&o->options) ? build_loss(all, o) : NULL;
        if (!loss)
            continue;
        if (o->options.loss_weight != 1)
            loss = iso_affine(loss, o->options.loss_weight, 0);
        total = total ? iso_add(total, iso_cast(loss, iso_tensor_dtype(total))) : loss;
    }
    return others && total ? iso_add(total, iso_cast(others, iso_tensor_dtype(total))) : total;
}

/* ---- reported values ---- */

/* Returns the place of the tensor's first element among the results of a step. */
static int64_t loss_graph_put(iso_results *list, iso_tensor *tensor, int64_t count)
{
    list->tensors[list->count++] = tensor;
    list->size += count;
    return list->size - count;
}

static bool name_used(const iso_model *model, const char *name)
{
    for (int i = 0; i < model->n_values; i++)
        if (strcmp(model->values[i].name, name) == 0)
            return true;
    return false;
}

/* Adds a reported value "<prefix>_<name>"; how: `mean`, or `type` and `settings`. If the name is taken, a
 * weighted metric is called "weighted_<name>"; if that is taken too, a number is appended, as in Keras. */
static void loss_graph_add_value(objectives *all, const char *prefix, const char *name, bool weighted,
                                 iso_metric_sums sums, iso_value_rule how)
{
    iso_model *model = all->model;
    iso_results *list = all->results;
    char text[ISO_MAX_NAME], first[ISO_MAX_NAME];
    const char *space = *prefix ? "_" : "";
    if (!sums.sum)
        return; /* the graph has an error */
    if (all->n_values++ >= ISO_MAX_VALUES)
        return; /* the count alone: check_values reports it */
    int length = snprintf(text, sizeof text, "%s%s%s", prefix, space, name);
    if (weighted && name_used(model, text))
        length = snprintf(text, sizeof text, "%s%sweighted_%s", prefix, space, name);
    memcpy(first, text, sizeof first);
    for (int k = 1; length < ISO_MAX_NAME && name_used(model, text); k++)
        length = snprintf(text, sizeof text, "%s_%d", first, k);
    if (length >= ISO_MAX_NAME) {
        iso_graph_fail(
            model->graph,
            "compile: a loss's or metric's name of %d characters, at most %d are possible: '%.60s...'",
            length, ISO_MAX_NAME - 1, text);
        return;
    }
    iso_value_rule *rule = &model->values[model->n_values];
    *rule = how;
    memcpy(rule->name, text, sizeof text);
    rule->count = iso_tensor_shape(sums.sum)->rank > 0 ? iso_tensor_shape(sums.sum)->dim[0] : 1;
    rule->sum = loss_graph_put(list, sums.sum, rule->count);
    rule->weight = sums.weight ? loss_graph_put(list, sums.weight, 1) : -1;
    rule->per_row = sums.per_row;
    rule->at = model->n_sums;
    model->n_sums += rule->count;
    model->value_name[model->n_values++] = rule->name;
}

static void add_loss(objectives *all, const char *prefix, iso_tensor *loss)
{
    loss_graph_add_value(all, prefix, "loss", false, (iso_metric_sums){.sum = loss, .per_row = 1},
                         (iso_value_rule){.mean = true});
}

/* The weights of a metric with the mask of its output, as Keras applies it: to means alone. */
static iso_tensor *counted_weights(iso_metric metric, const objective *o, iso_tensor *weights)
{
    const iso_metric_type *type = iso_metric_type_of(metric);
    return o->mask && !type->sums && !type->without_mask ? iso_loss_mask_weights(weights, o->mask) : weights;
}

/* Adds metrics. As in Keras, a value has the name by which its metric was requested. */
static void add_metrics(objectives *all, const objective *o, const iso_metric *metrics,
                        const iso_metric_settings *settings, const char *const *names, iso_tensor *weights)
{
    for (int i = 0; i < ISO_MAX_METRICS && metrics[i] != ISO_METRIC_NONE; i++) {
        iso_metric metric = iso_metric_for_loss(metrics[i], o->options.loss, iso_tensor_shape(o->output));
        iso_metric_sums sums = iso_metric_build(metric, o->target, o->output,
                                                counted_weights(metric, o, weights), .settings = settings[i]);
        const char *title = names[i] ? names[i] : iso_metric_title(metrics[i]);
        loss_graph_add_value(all, o->prefix, title, weights != NULL, sums,
                             (iso_value_rule){.type = iso_metric_type_of(metric), .settings = settings[i]});
    }
}

static void add_custom_metrics(objectives *all, const objective *o)
{
    for (int i = 0; i < ISO_MAX_METRICS && o->options.custom_metrics[i].function; i++) {
        const iso_custom_metric *metric = &o->options.custom_metrics[i];
        const char *name = metric->name ? metric->name : "metric";
        iso_tensor *values = metric->function(o->target, o->output);
        if (check_returned(all, "custom metric", name, values))
            loss_graph_add_value(
                all, o->prefix, name, false,
                iso_metric_sum_values(values, o->mask ? iso_loss_mask_weights(NULL, o->mask) : NULL),
                (iso_value_rule){.mean = false});
    }
}

static void check_values(const objectives *all)
{
    if (all->n_values > ISO_MAX_VALUES)
        iso_graph_fail(all->model->graph,
                       "compile: %d losses and metrics of all outputs, at most %d are possible",
                       all->n_values, ISO_MAX_VALUES);
}

static void add_values(objectives *all, iso_tensor *total)
{
    add_loss(all, "", total);
    for (int i = 0; i < all->count && all->n_losses > 1; i++)
        if (all->of[i].loss)
            add_loss(all, all->of[i].prefix, all->of[i].loss);
    for (int i = 0; i < all->count; i++)
        add_metrics(all, &all->of[i], all->of[i].options.metrics, all->of[i].options.metric_settings,
                    all->of[i].options.metric_names, NULL);
    for (int i = 0; i < all->count; i++)
        add_metrics(all, &all->of[i], all->of[i].options.weighted_metrics,
                    all->of[i].options.weighted_metric_settings, all->of[i].options.weighted_metric_names,
                    all->of[i].weights);
    for (int i = 0; i < all->count; i++)
        add_custom_metrics(all, &all->of[i]);
    check_values(all);
}

/* ---- all together ---- */

/* Those of classes as text, by which the ranks compare them. */
static void keep_weights(iso_model *model, const iso_compile_options *options)
{
    iso_text text = {0};
    model->sample_weights = options->sample_weights;
    for (int i = 0; i < options->n_class_weights; i++)
        iso_text_add(&text, "%s%d: %.17g", i ? ", " : "", i, options->class_weights[i]);
    model->class_weights = text.length ? iso_graph_keep_text(model->graph, iso_text_get(&text)) : NULL;
    iso_text_free(&text);
}

static iso_status check_metrics(const char *list, const char *which, const iso_metric *metrics)
{
    for (int i = 0; i < ISO_MAX_METRICS && metrics[i] != ISO_METRIC_NONE; i++)
        if (!iso_metric_name(metrics[i]))
            return iso_error(ISO_INVALID, "compile: .%s[%d]%s is %d: there is no such metric", list, i, which,
                             (int)metrics[i]);
    return ISO_OK;
}

static iso_status check_output(iso_model *model, int output, const iso_output_options *o, bool weighted)
{
    iso_status status = ISO_OK;
    char which[ISO_MAX_NAME + 32] = "";
    if (model->n_outputs > 1)
        snprintf(which, sizeof which, " of output '%.100s'", iso_model_output_name(model, output));
    if (o->loss != ISO_LOSS_NONE && o->loss_function)
        return iso_error(ISO_INVALID, "compile takes .loss or .loss_function%s, not both", which);
    if (o->weighted_metrics[0] != ISO_METRIC_NONE && !weighted)
        return iso_error(ISO_INVALID, "compile: .weighted_metrics%s need .sample_weights", which);
    ISO_TRY(check_metrics("metrics", which, o->metrics));
    ISO_TRY(check_metrics("weighted_metrics", which, o->weighted_metrics));
    for (int i = 0; i < ISO_MAX_METRICS; i++)
        if (o->custom_metrics[i].name && !o->custom_metrics[i].function)
            return iso_error(ISO_INVALID, "compile: .custom_metrics[%d]%s, '%.60s', has no function", i,
                             which, o->custom_metrics[i].name);
    if (iso_tensor_shape(model->outputs[output])->rank < 1)
        return iso_error(ISO_INVALID, "the model's output%s has no batch dimension", which);
done:
    return status;
}

static iso_status list_objectives(objectives *all, const iso_compile_options *options)
{
    iso_model *model = all->model;
    iso_status status = ISO_OK;
    bool loss = false;
    for (int i = 0; i < ISO_MAX_MODEL_OUTPUTS; i++) {
        iso_output_options own = iso_loss_graph_options(options, i);
        if (i >= model->n_outputs) {
            if (has_objective(&options->outputs[i]))
                return iso_error(ISO_INVALID, "compile: .outputs[%d] is given, the model has %d outputs", i,
                                 model->n_outputs);
            continue;
        }
        ISO_TRY(check_output(model, i, &own, options->sample_weights));
        loss = loss || has_loss(&own);
        if (has_objective(&own))
            all->of[all->count++] =
                (objective){.prefix = model->n_outputs > 1 ? iso_model_output_name(model, i) : "",
                            .options = own,
                            .output = iso_model_result(model, i),
                            .mask = iso_tensor_masks(model->outputs[i]).run};
    }
    if (!loss)
        return iso_error(ISO_INVALID, "compile needs a loss (.loss or .loss_function)");
done:
    return status;
}

iso_status iso_loss_graph_build(iso_model *model, const iso_compile_options *options, iso_results *results,
                                iso_tensor **loss)
{
    objectives all = {.model = model, .results = results};
    iso_status status = ISO_OK;
    if (options->position_weights && !options->sample_weights)
        return iso_error(ISO_INVALID, "compile: .position_weights need .sample_weights");
    ISO_TRY(iso_class_weights_check(options->class_weights, options->n_class_weights, model->n_outputs));
    ISO_TRY(list_objectives(&all, options));
    add_parts(&all, options->sample_weights, options->position_weights);
    if (options->n_class_weights)
        weigh_classes(&all.of[0], options);
    keep_weights(model, options);
    *loss = build_total(&all);
    ISO_TRY(iso_graph_error(model->graph));
    add_values(&all, *loss);
    ISO_TRY(iso_graph_error(model->graph));
done:
    return status;
}
