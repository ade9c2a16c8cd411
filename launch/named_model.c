/* The model that --model names: a built-in network, a folder of Hugging Face or a file of Keras. */
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "launch/settings.h"
#include "launch/train_impl.h"
#include "models/huggingface/huggingface.h"
#include "models/keras/keras.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/train/compile.h"
#include "runtime/train/index_limits.h"

static bool is_file(const char *name)
{
    return iso_file_name_ends(name, ".keras") || iso_file_name_ends(name, ".json");
}

static iso_dtype precision_of(const iso_train_options *options)
{
    if (!options->precision)
        return ISO_F32;
    if (strcmp(options->precision, "mixed_bfloat16") == 0)
        return ISO_BF16;
    return strcmp(options->precision, "float64") == 0 ? ISO_F64 : ISO_F32;
}

static iso_status check_classes(const iso_train_options *options)
{
    return options->classes
               ? iso_error(ISO_INVALID,
                           "--classes %lld: is for built-in models; '%s' defines its own outputs",
                           (long long)options->classes, options->model)
               : ISO_OK;
}

/* Reads "layers=2,heads=4", what stands behind a model's name. */
static iso_status read_settings(const iso_train_options *options, const char *text, iso_named_model *named)
{
    const iso_builtin_model *model = named->builtin;
    if (!*text)
        return ISO_OK;
    if (!model->settings)
        return iso_error(ISO_INVALID, "--model '%s': %s has no settings", options->model, model->name);
    return iso_settings_read_rows("model", options->model, text, model->settings,
                                  (iso_count_range){ISO_BUILTIN_LEAST, ISO_BUILTIN_MOST}, 0,
                                  &named->settings);
}

/* All settings have values now, but a zero means the default in a model's options. */
static void keep_zeros(iso_named_model *named)
{
    for (const iso_setting *s = named->builtin->settings; s && s->name; s++)
        if (s->fallback != 0 && iso_setting_get(s, &named->settings) == 0)
            iso_setting_set(s, &named->settings, ISO_ZERO);
}

/* The optimizer, the loss and the metrics of a built-in model, unless options replace them. */
static iso_status take_choices(const iso_train_options *options, iso_named_model *named)
{
    const iso_pretrained net = {
        .model = named->builtin, .settings = named->settings, .problem = named->problem};
    named->compile.optimizer = named->builtin->optimizer();
    const int outputs = iso_pretrained_objective(&net, named->n_outputs, &named->compile);
    if (outputs > 0 && options->classes && options->classes != outputs)
        return iso_error(ISO_INVALID, "--classes %lld: the model predicts the %d tokens of its vocabulary",
                         (long long)options->classes, outputs);
    named->n_outputs = outputs > 0 ? outputs : named->n_outputs;
    return iso_compile_options_replace(options, &named->compile);
}

static iso_status find_builtin(const iso_train_options *options, iso_named_model *named)
{
    char name[ISO_LONGEST_SETTING];
    size_t length = strcspn(options->model, ":");
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1),
             options->model);
    iso_status status = iso_builtin_model_find(name, &named->builtin);
    if (status != ISO_OK &&
        (iso_file_name_ends(options->model, ".h5") || iso_file_name_ends(options->model, ".hdf5")))
        return iso_error(
            ISO_INVALID,
            "--model '%s': .h5 files are not supported as models: neither Keras's older format nor "
            "weights alone. Use a .keras or .json file (model.save('net.keras')), and load weights with "
            "--weights",
            options->model);
    if (status != ISO_OK && strpbrk(options->model, "/."))
        return iso_error(ISO_INVALID,
                         "--model '%s': there is no such built-in model (`isogrid models` lists them) and no "
                         "such folder, and the name of a Keras file must end in .keras or .json",
                         options->model);
    if (status != ISO_OK)
        return iso_error_prefix(status, "--model: ");
    for (const iso_setting *s = named->builtin->settings; s && s->name; s++)
        iso_setting_set(s, &named->settings, s->fallback);
    status = read_settings(options, options->model + length + (options->model[length] == ':'), named);
    if (status != ISO_OK)
        return status;
    keep_zeros(named);
    named->n_outputs = options->classes ? (int)options->classes : named->builtin->outputs;
    return take_choices(options, named);
}

/* The adapters that the model is made with; rank 0: none. */
static iso_lora_options adapters_of(const iso_train_options *options, const iso_named_model *named)
{
    const iso_pretrained_adapter *adapter = &named->adapter;
    return adapter->target ? (iso_lora_options){.rank = adapter->rank,
                                                .alpha = adapter->alpha,
                                                .target = adapter->target,
                                                .trained = adapter->trained}
                           : iso_lora_options_of(&options->adapters);
}

iso_status iso_named_model_find(iso_context *ctx, const iso_train_options *options, iso_named_model *named)
{
    bool found = false;
    iso_status status = iso_pretrained_model_find(ctx, options, named, &found);
    if (status == ISO_OK && options->adapter)
        status = iso_pretrained_read_adapter(ctx, options->adapter, &named->adapter);
    if (status != ISO_OK)
        return status;
    if (found)
        keep_zeros(named);
    if (found || !is_file(options->model))
        return iso_agree(ctx, found ? take_choices(options, named) : find_builtin(options, named));
    status = iso_agree(ctx, check_classes(options));
    if (status != ISO_OK)
        return status;
    const iso_lora_options lora = adapters_of(options, named);
    status = iso_keras_load(ctx, options->model, &named->model, .precision = precision_of(options),
                            .quiet = named->quiet, .compile = &named->compile,
                            .no_policies = options->precision != NULL, .lora = lora.rank ? &lora : NULL);
    if (status != ISO_OK)
        return status;
    named->weights = iso_file_name_ends(options->model, ".keras");
    named->accumulation = named->compile.optimizer.accumulation;
    return iso_agree(ctx, iso_compile_options_replace(options, &named->compile));
}

/* The context of a model from a file: the length of its only input, if that is [batch, t] of integers, or of the
 * indices of an embedding, which Keras's Input holds as floats unless told otherwise. */
static int64_t context_of_file(iso_model *model)
{
    iso_tensor *x = iso_model_input_count(model) == 1 ? iso_model_input_at(model, 0) : NULL;
    const iso_shape *shape = x ? iso_tensor_shape(x) : NULL;
    bool tokens = shape && shape->rank == 2 &&
                  (!iso_dtype_is_float(iso_tensor_dtype(x)) || iso_model_input_limit(model, 0) > 0);
    return tokens ? shape->dim[1] : 0;
}

static int64_t setting_of(const iso_named_model *named, const char *name)
{
    return (int64_t)iso_setting_get(iso_setting_of(named->builtin->settings, name), &named->settings);
}

int64_t iso_named_model_context(const iso_named_model *named)
{
    if (!named->builtin)
        return context_of_file(named->model);
    if (!named->builtin->tokens || named->builtin->labels)
        return 0;
    return named->context ? named->context : setting_of(named, "context");
}

int64_t iso_named_model_positions(const iso_named_model *named)
{
    const bool rows = named->builtin->labels && named->settings.bert.head == ISO_BERT_SEQUENCE_CLASSIFICATION;
    return named->builtin->tokens && !rows ? iso_named_model_row(named).dim[0] : 0;
}

int64_t iso_named_model_vocabulary(const iso_named_model *named)
{
    if (!named->builtin->tokens)
        return 0;
    return named->builtin->labels ? setting_of(named, "vocabulary") : named->n_outputs;
}

iso_shape iso_named_model_row(const iso_named_model *named)
{
    iso_shape image = named->builtin->image;
    if (named->builtin->tokens)
        return ISO_SHAPE(named->context ? named->context : setting_of(named, "context"));
    if (!named->builtin->settings)
        return image;
    int64_t side = setting_of(named, "image"), channels = setting_of(named, "channels");
    image.dim[0] = image.dim[1] = side ? side : image.dim[0];
    image.dim[2] = channels ? channels : image.dim[2];
    return image;
}

void iso_named_model_make(iso_context *ctx, const iso_train_options *options, const iso_shape *row,
                          iso_named_model *named)
{
    if (named->model)
        return;
    iso_shape shape = row->rank ? *row : iso_named_model_row(named);
    const iso_lora_options lora = adapters_of(options, named);
    named->model =
        iso_builtin_model_create_adapted(ctx, named->builtin, shape, named->n_outputs, precision_of(options),
                                         &named->settings, lora.rank ? &lora : NULL);
}

iso_status iso_named_model_compile(const iso_named_model *named, const iso_dataset *data,
                                   iso_distribution *distribution)
{
    iso_compile_options options = named->compile;
    options.sample_weights = options.sample_weights || iso_data_weighted(data);
    options.position_weights = options.position_weights || iso_data_weighs_positions(data);
    options.distribution = distribution;
    options.optimizer = iso_sgd(0.01); /* has no state and is not used */
    return iso_compile_evaluation(named->model, &options, sizeof options);
}

static bool replaces_state(const iso_train_options *options)
{
    return options->optimizer || options->schedule;
}

/* Keeps the state of the file's optimizer unless options replace the optimizer. */
static iso_status load(const iso_train_options *options, const char *path, bool alone, bool pretrained,
                       iso_model *model)
{
    bool other = alone || replaces_state(options);
    if (pretrained)
        return iso_pretrained_load_weights(model, path);
    iso_status status = iso_file_name_ends(path, ".keras")
                            ? iso_keras_load_weights(model, path, .no_optimizer = other)
                            : iso_model_load_weights(model, path, .no_optimizer = other);
    if (status != ISO_OK || options->learning_rate < 0 || other)
        return status;
    return iso_model_set_learning_rate(model, options->learning_rate);
}

/* Whether the file's optimizer sums gradients over another number of steps. If only one of them sums, their variables
 * differ, and so its state is not read. */
static bool sums_differ(const iso_train_options *options, const iso_named_model *named)
{
    return named->accumulation > 1 && options->accumulate > 1 && options->accumulate != named->accumulation;
}

/* Reads the model's own file. */
static iso_status load_own(iso_context *ctx, const iso_train_options *options, bool alone,
                           const iso_named_model *named)
{
    bool other = !alone && !replaces_state(options) && sums_differ(options, named);
    if (other && iso_is_chief(ctx))
        iso_warn("%s: the state of its optimizer is ignored: it accumulates gradients over %d steps, "
                 "--accumulate is %lld",
                 options->model, named->accumulation, (long long)options->accumulate);
    return load(options, named->folder ? named->folder : options->model, alone || other, named->folder,
                named->model);
}

static iso_status load_weights(iso_context *ctx, const iso_train_options *options, bool alone,
                               iso_named_model *named)
{
    if (!options->weights)
        return named->weights ? load_own(ctx, options, alone, named) : ISO_OK;
    char *found = NULL;
    bool pretrained = false;
    iso_status status = iso_pretrained_has_weights(ctx, options->weights, &pretrained);
    if (status == ISO_OK && !pretrained)
        status = iso_checkpoint_resolve(ctx, "--weights", options->weights, &found);
    if (status == ISO_OK) {
        status = load(options, found ? found : options->weights, alone, pretrained, named->model);
        if (status != ISO_OK && status != ISO_NO_MEMORY) /* it allocates the model's memory */
            iso_error_prefix(status, "--weights: ");
    }
    iso_free(found);
    return status;
}

iso_status iso_named_model_load_weights(iso_context *ctx, const iso_train_options *options, bool alone,
                                        iso_named_model *named)
{
    iso_status status = load_weights(ctx, options, alone, named);
    return status == ISO_OK && options->adapter ? iso_pretrained_load_adapter(named->model, options->adapter)
                                                : status;
}

void iso_named_model_free(iso_named_model *named)
{
    iso_free(named->adapter.target);
    iso_free(named->adapter.trained);
    iso_model_destroy(named->model);
    iso_free(named->folder);
}
