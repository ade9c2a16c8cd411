/* Data sets from options. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "collectives/control/control.h"
#include "launch/train_impl.h"
#include "runtime/data/fractions.h"
#include "runtime/data/tokens.h"
#include "runtime/train/index_limits.h"
#include "runtime/train/loss.h"

static bool is_sparse(iso_loss loss)
{
    return iso_loss_targets_of(loss) == ISO_LOSS_OF_CLASSES;
}

/* The loss of an output of a model of a file. */
static iso_loss loss_of_output(const iso_named_model *named, int output)
{
    return named->compile.loss != ISO_LOSS_NONE ? named->compile.loss : named->compile.outputs[output].loss;
}

/* The label that does not count; 0: all count, or it is class 0. */
static int ignored_label(const iso_named_model *named, int output)
{
    const int label = named->compile.loss != ISO_LOSS_NONE ? named->compile.ignore_class
                                                           : named->compile.outputs[output].ignore_class;
    return label == ISO_ZERO ? 0 : label;
}

/* Whether an output of a model of a file has a loss or metrics, and so targets. */
static bool has_targets(const iso_named_model *named, int output)
{
    return loss_of_output(named, output) != ISO_LOSS_NONE ||
           named->compile.outputs[output].metrics[0] != ISO_METRIC_NONE;
}

/* Rows for a tensor of a model of a file: noise, or integers below `classes`. */
static iso_random_rows rows_like(iso_tensor *tensor, int64_t classes, bool normal)
{
    const iso_shape *shape = iso_tensor_shape(tensor);
    iso_random_rows rows = {.shape = {.rank = shape->rank - 1}, .classes = classes, .normal = normal};
    memcpy(rows.shape.dim, shape->dim + 1, (size_t)rows.shape.rank * sizeof shape->dim[0]);
    return rows;
}

/* Integer inputs are tokens below this number, which every embedding has. */
enum { TOKENS = 2 };

/* Noise in the shapes of a file's model, with targets for the outputs that have a loss or metrics. */
static iso_status open_random_like(iso_context *ctx, int64_t rows, uint64_t seed, bool normal,
                                   const iso_named_model *named, iso_dataset **dataset)
{
    iso_dataset_random_options options = {.dataset = dataset, .seed = seed};
    for (int i = 0; i < iso_model_input_count(named->model); i++) {
        iso_tensor *x = iso_model_input_at(named->model, i);
        options.input[options.inputs++] =
            rows_like(x, iso_dtype_is_float(iso_tensor_dtype(x)) ? 0 : TOKENS, normal);
    }
    for (int i = 0; i < iso_model_output_count(named->model); i++) {
        iso_loss loss = loss_of_output(named, i);
        iso_tensor *y = iso_model_output_at(named->model, i);
        if (!has_targets(named, i))
            continue;
        iso_random_rows *target = &options.output[options.outputs++];
        *target = rows_like(y, 0, normal && iso_loss_targets_of(loss) == ISO_LOSS_OF_VALUES);
        if (is_sparse(loss) && target->shape.rank > 0)
            target->classes = target->shape.dim[--target->shape.rank];
    }
    return iso_dataset_random_with(ctx, rows, &options, sizeof options);
}

/* Noise for a built-in model. */
static iso_status open_random_rows(iso_context *ctx, int64_t rows, uint64_t seed, bool normal,
                                   const iso_named_model *named, iso_dataset **dataset)
{
    iso_loss loss = named->compile.loss;
    int64_t positions = iso_named_model_positions(named);
    iso_random_rows x = {.shape = iso_named_model_row(named),
                         .classes = iso_named_model_vocabulary(named),
                         .normal = normal},
                    y = {.shape = ISO_SHAPE(named->n_outputs),
                         .normal = normal && iso_loss_targets_of(loss) == ISO_LOSS_OF_VALUES};
    if (is_sparse(loss))
        y = (iso_random_rows){.shape = positions ? ISO_SHAPE(positions) : (iso_shape){0},
                              .classes = named->n_outputs};
    return iso_dataset_random(ctx, rows, dataset, .inputs = 1, .input = {x}, .outputs = 1, .output = {y},
                              .seed = seed);
}

/* The text after "random" or "random-normal": "" or ":ROWS". NULL: another name. */
static const char *after_random(const char *name, bool *normal)
{
    static const char uniform_name[] = "random", normal_name[] = "random-normal";
    *normal = !strncmp(name, normal_name, sizeof normal_name - 1);
    if (!*normal && strncmp(name, uniform_name, sizeof uniform_name - 1) != 0)
        return NULL;
    name += (*normal ? sizeof normal_name : sizeof uniform_name) - 1;
    return *name == 0 || *name == ':' ? name : NULL;
}

/* Noise with targets that suit the loss; those of the built-in data set "random" are classes. "random:ROWS"
 * sets the number of rows. */
static iso_status open_random(iso_context *ctx, const char *after, bool normal, iso_part part,
                              const iso_named_model *named, iso_dataset **dataset)
{
    int64_t rows = part == ISO_TRAIN ? 6000 : 1000;
    uint64_t seed = iso_seed(ctx) + (part == ISO_TEST);
    if (*after == ':') {
        iso_status status = iso_argument_count("the number of rows", after + 1, 1, 0x1p31 - 1, &rows);
        if (status != ISO_OK)
            return iso_error_prefix(status, "data set '%s%s': ", normal ? "random-normal" : "random", after);
    }
    if (!named->builtin)
        return open_random_like(ctx, rows, seed, normal, named, dataset);
    return open_random_rows(ctx, rows, seed, normal, named, dataset);
}

/* Suggests the names that only this file knows for an unknown name like "randomnormal:10". */
static iso_status suggest_random(iso_status status, const char *name)
{
    static const char *const names[] = {"random", "random-normal"};
    if (strncmp(name, "random", 6) != 0 || !strstr(iso_error_message(), "is not built in"))
        return status;
    iso_text near = {0};
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(name, ":"), name);
    iso_text_add_nearest(&near, word, names, 2);
    iso_error(status, "data set '%s' is not built in, and there is no such folder or file%s", name,
              iso_text_get(&near));
    iso_text_free(&near);
    return status;
}

/* ---- the vocabulary of text and tokens ---- */

static const char of_embedding[] = "the rows of the model's embedding",
                  of_output[] = "the classes of the model's output", of_option[] = "--classes",
                  of_folder[] = "vocab_size of the model's folder",
                  of_setting[] = "the vocabulary of the model";

/* The number of classes of each token for the loss of a model of a file; 0: its targets are no tokens. */
static int64_t token_classes(const iso_named_model *named, int64_t context)
{
    if (iso_model_output_count(named->model) != 1)
        return 0;
    const iso_shape *y = iso_tensor_shape(iso_model_output_at(named->model, 0));
    return y->rank == 3 && y->dim[1] == context
               ? iso_model_target_limit(named->model, 0, loss_of_output(named, 0))
               : 0;
}

/* The number below which tokens of inputs, and of targets if there are any, must be; 0: not known. of: where it comes
 * from, for messages. */
static int64_t find_vocabulary(const iso_named_model *named, int64_t context, bool no_targets,
                               const char **of)
{
    *of = named->folder ? of_folder : of_option;
    if (context == 0 || named->builtin)
        return context ? named->n_outputs : 0;
    int64_t inputs = iso_model_input_limit(named->model, 0),
            targets = no_targets ? 0 : token_classes(named, context);
    bool by_targets = targets > 0 && (inputs == 0 || targets < inputs);
    *of = by_targets ? of_output : of_embedding;
    return by_targets ? targets : inputs;
}

/* ---- the check of all rows ---- */

static void add_limit(iso_dataset_check_options *check, int component, iso_dtype used_as, int64_t below,
                      const char *of)
{
    if (component >= ISO_MAX_COMPONENTS)
        return;
    check->used_as[component] = used_as;
    check->below[component] = below;
    check->below_of[component] = of;
}

static void add_target_limit(iso_dataset_check_options *check, int component, iso_loss loss, int64_t below,
                             const char *of)
{
    add_limit(check, component, iso_loss_target_dtype(loss), below, of);
    if (component < ISO_MAX_COMPONENTS)
        check->fraction[component] = iso_loss_targets_of(loss) == ISO_LOSS_OF_FRACTIONS;
}

/* The limits and types of a model of a file: of its inputs, and of the targets of outputs that have any. */
static void add_limits_of_file(const iso_named_model *named, iso_dataset_check_options *check)
{
    int component = 0;
    for (int i = 0; i < iso_model_input_count(named->model); i++)
        add_limit(check, component++, iso_tensor_dtype(iso_model_input_at(named->model, i)),
                  iso_model_input_limit(named->model, i), of_embedding);
    for (int i = 0; i < iso_model_output_count(named->model); i++) {
        iso_loss loss = loss_of_output(named, i);
        if (!has_targets(named, i))
            continue;
        if (component < ISO_MAX_COMPONENTS)
            check->besides[component] = ignored_label(named, i);
        add_target_limit(check, component++, loss, iso_model_target_limit(named->model, i, loss), of_output);
    }
}

static void add_limits_of_builtin(const iso_named_model *named, iso_dataset_check_options *check)
{
    const iso_loss loss = named->compile.loss;
    add_limit(check, 0, named->builtin->tokens ? ISO_I32 : ISO_F32, iso_named_model_vocabulary(named),
              named->builtin->labels ? of_setting : of_option);
    add_target_limit(check, 1, loss, is_sparse(loss) ? named->n_outputs : 0, of_option);
    check->besides[1] = ignored_label(named, 0);
}

static iso_dataset_check_options limits_of(const iso_named_model *named)
{
    iso_dataset_check_options check = {0};
    if (!named->builtin)
        add_limits_of_file(named, &check);
    else
        add_limits_of_builtin(named, &check);
    return check;
}

/* Where rows are not checked before. */
static void need_fractions(const iso_named_model *named, iso_dataset *dataset)
{
    const iso_dataset_check_options check = limits_of(named);
    iso_dataset_need_fractions(dataset, check.fraction);
}

static iso_status sources_check(const iso_train_options *options, const iso_named_model *named,
                                iso_dataset *dataset)
{
    if (!dataset || !options->check_data)
        return ISO_OK;
    const iso_dataset_check_options check = limits_of(named);
    return iso_dataset_check_with(dataset, &check, sizeof check);
}

const char *iso_tokenizer_name(const iso_train_options *options, const iso_named_model *named)
{
    if (options->tokenizer)
        return strcmp(options->tokenizer, "none") != 0 ? options->tokenizer : NULL;
    return named->tokenizer ? named->folder : NULL;
}

/* A folder's tokenizer that cannot be read must not be passed over: bytes are other tokens. */
static iso_status check_tokenizer(const iso_train_options *options, const iso_named_model *named,
                                  const char *name)
{
    return options->tokenizer || !named->other_tokenizer ||
                   !iso_is_text_file(name, iso_named_model_context(named))
               ? ISO_OK
               : iso_error(ISO_INVALID,
                           "'%s' is a text, and the folder '%s' has a tokenizer but no tokenizer.json, which "
                           "save_pretrained() of a fast tokenizer of transformers writes; --tokenizer names "
                           "another one, or none: each byte is a token",
                           name, named->folder);
}

static iso_status open_one(iso_context *ctx, const iso_train_options *options, const char *name,
                           iso_part part, const iso_named_model *named, bool no_targets,
                           iso_dataset **dataset)
{
    bool normal;
    const char *after = after_random(name, &normal);
    int64_t context = iso_named_model_context(named);
    if (after && (normal || *after || options->classes || !named->builtin || named->builtin->settings ||
                  !is_sparse(named->compile.loss)))
        return open_random(ctx, after, normal, part, named, dataset);
    const char *of;
    int64_t vocabulary = find_vocabulary(named, context, no_targets, &of);
    iso_status status = iso_agree(ctx, check_tokenizer(options, named, name));
    if (status != ISO_OK)
        return status;
    no_targets = no_targets || options->mask_tokens > 0;
    status = iso_dataset_open(ctx, name, part, dataset, .x = options->x, .y = options->y,
                              .sample_weight = options->sample_weight, .no_targets = no_targets,
                              .context = context, .vocabulary = vocabulary, .vocabulary_of = of,
                              .tokenizer = iso_tokenizer_name(options, named));
    return status == ISO_OK ? ISO_OK : suggest_random(status, name);
}

/* A file has no parts, unless its name is also that of a built-in data set. Local. */
static iso_status check_test_part(const char *option, const char *data)
{
    struct stat about;
    for (int i = 0; iso_dataset_name(i); i++)
        if (!strcmp(data, iso_dataset_name(i)))
            return ISO_OK;
    if (stat(data, &about) != 0 || !S_ISREG(about.st_mode))
        return ISO_OK;
    return iso_error(ISO_INVALID,
                     "%s test: the file '%s' has no test part; name the file of other rows, or use "
                     "--validation-split",
                     option, data);
}

/* The data set of `option`, --validation-data or --test-data; `test` is the test part of --data. */
static iso_status open_other(iso_context *ctx, const iso_train_options *options, const char *option,
                             const char *name, const iso_named_model *named, iso_dataset **dataset)
{
    if (strcmp(name, "test") != 0)
        return open_one(ctx, options, name, ISO_TRAIN, named, false, dataset);
    iso_status status = iso_agree(ctx, check_test_part(option, options->data));
    if (status == ISO_OK)
        status = open_one(ctx, options, options->data, ISO_TEST, named, false, dataset);
    return status;
}

/* Whether a data set has no datasets with names, as HDF5 files have; true for none. context: of the model. */
static bool is_nameless(const char *data, int64_t context)
{
    struct stat about;
    bool normal, known = !data || !strcmp(data, "test") || after_random(data, &normal);
    for (int i = 0; !known && iso_dataset_name(i); i++)
        known = !strcmp(data, iso_dataset_name(i));
    if (known || stat(data, &about) != 0)
        return known;
    return S_ISDIR(about.st_mode) || (S_ISREG(about.st_mode) && iso_is_token_file(data, context));
}

/* Refuses names of datasets where no data set of the command has any. Local. */
static iso_status check_dataset_names(const iso_train_options *options, const iso_named_model *named)
{
    const int64_t context = iso_named_model_context(named);
    const char *option = options->x ? "x" : options->y ? "y" : "sample-weight";
    const char *value = options->x ? options->x : options->y ? options->y : options->sample_weight;
    if (!value || !is_nameless(options->data, context) || !is_nameless(options->validation_data, context) ||
        !is_nameless(options->test_data, context))
        return ISO_OK;
    return iso_error(ISO_INVALID, "--%s '%s': the data set '%s' has no datasets with names; HDF5 files have",
                     option, value, options->data);
}

/* Local. */
static iso_status check_names_and_masks(const iso_train_options *options, const iso_named_model *named)
{
    iso_status status = check_dataset_names(options, named);
    return status == ISO_OK ? iso_mask_tokens_check(options, named) : status;
}

bool iso_data_weighted(const iso_dataset *data)
{
    return data && iso_dataset_components(data) > iso_dataset_inputs(data) + iso_dataset_targets(data);
}

bool iso_data_weighs_positions(const iso_dataset *data)
{
    bool several = false;
    int first = iso_data_weighted(data) ? iso_dataset_inputs(data) + iso_dataset_targets(data) : 0;
    for (int i = first; first > 0 && i < iso_dataset_components(data); i++) {
        int64_t count = 0;
        several |= iso_shape_count(iso_dataset_shape(data, i), &count) == ISO_OK && count > 1;
    }
    return several;
}

static iso_status split(const iso_train_options *options, iso_sources *sources)
{
    int64_t rows = iso_dataset_rows(sources->training), last = options->validation_rows;
    if (options->validation_split > 0) /* Keras: training keeps floor(rows * (1 - split)) */
        last = rows - (int64_t)floor((double)rows * (1 - options->validation_split));
    if (!last)
        return ISO_OK;
    if (last >= rows && options->validation_split > 0)
        return iso_error(ISO_INVALID,
                         "--validation-split %g: no row of the %lld in the data set '%s' is left to train on",
                         options->validation_split, (long long)rows, options->data);
    if (last >= rows)
        return iso_error(ISO_INVALID, "--validation-rows %lld: the data set '%s' has only %lld rows",
                         (long long)last, options->data, (long long)rows);
    return iso_dataset_split(sources->training, last, &sources->validation);
}

static iso_status batch(const iso_train_options *options, iso_dataset *dataset)
{
    return dataset ? iso_dataset_batch(dataset, options->batch_size) : ISO_OK;
}

iso_status iso_sources_open(iso_context *ctx, const iso_train_options *options, const iso_named_model *named,
                            iso_sources *sources)
{
    iso_status status;
    ISO_TRY(iso_agree(ctx, check_names_and_masks(options, named)));
    ISO_TRY(open_one(ctx, options, options->data, ISO_TRAIN, named, false, &sources->training));
    if (iso_is_text_file(options->data, iso_named_model_context(named)))
        sources->tokenizer = iso_tokenizer_name(options, named);
    if (options->validation_data)
        ISO_TRY(open_other(ctx, options, "--validation-data", options->validation_data, named,
                           &sources->validation));
    if (options->test_data)
        ISO_TRY(open_other(ctx, options, "--test-data", options->test_data, named, &sources->test));
    ISO_TRY(sources_check(options, named, sources->training));
    ISO_TRY(sources_check(options, named, sources->validation));
    ISO_TRY(sources_check(options, named, sources->test));
    ISO_TRY(split(options, sources));
    ISO_TRY(iso_mask_tokens_add(options, named, sources));
    if (options->shuffle_rows >= 0)
        ISO_TRY(iso_dataset_shuffle(sources->training, options->shuffle_rows));
    ISO_TRY(
        iso_dataset_batch(sources->training, options->batch_size, .drop_remainder = options->drop_remainder));
    ISO_TRY(iso_dataset_prefetch(sources->training, 2));
    ISO_TRY(batch(options, sources->validation));
    ISO_TRY(batch(options, sources->test));
    need_fractions(named, sources->training);
    need_fractions(named, sources->validation);
    need_fractions(named, sources->test);
done:
    return status;
}

iso_status iso_source_open(iso_context *ctx, const iso_train_options *options, iso_part part,
                           const iso_named_model *named, bool no_targets, iso_dataset **dataset)
{
    iso_status status;
    ISO_TRY(iso_agree(ctx, check_names_and_masks(options, named)));
    ISO_TRY(open_one(ctx, options, options->data, part, named, no_targets, dataset));
    ISO_TRY(sources_check(options, named, *dataset));
    ISO_TRY(iso_mask_tokens_add(options, named, &(iso_sources){.test = *dataset}));
    ISO_TRY(batch(options, *dataset));
    ISO_TRY(iso_dataset_prefetch(*dataset, 2));
    if (!no_targets)
        need_fractions(named, *dataset);
done:
    return status;
}

iso_status iso_validation_open(iso_context *ctx, const iso_train_options *options,
                               const iso_named_model *named, iso_dataset **dataset)
{
    iso_sources sources = {0};
    iso_status status;
    ISO_TRY(iso_agree(ctx, check_names_and_masks(options, named)));
    if (options->validation_data) {
        ISO_TRY(open_other(ctx, options, "--validation-data", options->validation_data, named,
                           &sources.validation));
    } else {
        ISO_TRY(open_one(ctx, options, options->data, ISO_TRAIN, named, false, &sources.training));
        ISO_TRY(split(options, &sources));
    }
    ISO_TRY(sources_check(options, named, sources.validation));
    ISO_TRY(iso_mask_tokens_add(options, named, &sources));
    ISO_TRY(batch(options, sources.validation));
    ISO_TRY(iso_dataset_prefetch(sources.validation, 2));
    need_fractions(named, sources.validation);
    *dataset = sources.validation;
    sources.validation = NULL;
done:
    iso_sources_close(&sources);
    return status;
}

void iso_sources_close(iso_sources *sources)
{
    iso_dataset_destroy(sources->training);
    iso_dataset_destroy(sources->validation);
    iso_dataset_destroy(sources->test);
}
