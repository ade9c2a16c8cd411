/* isogrid convert: converts a model or its weights between file formats. */
#include <string.h>
#include <sys/stat.h>

#include "collectives/control/control.h"
#include "launch/command.h"
#include "launch/train_impl.h"
#include "models/huggingface/huggingface.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/graph/optimizers/rule.h"

typedef struct convert_options {
    iso_train_options train; /* the options of `isogrid train` that apply here */
    const char *shape;
    iso_shape row;         /* of a built-in model's input */
    const char *from, *to; /* the files, or folders */
    bool pretrained;       /* `from` is a folder of Hugging Face */
} convert_options;

/* ---- options ---- */

static const struct {
    const char *name, *help;
} shared[] = {
    {"model",
     "the model of A's weights, if A holds no model: a built-in one, a file of Keras or a folder of Hugging "
     "Face"},
    {"classes", NULL},
    {"optimizer", "the optimizer of a model that does not define one, to keep its state"},
    {"schedule", NULL},
    {"loss", "the model's loss, for a .keras file"},
    {"metrics", NULL},
    {"precision", NULL},
    {"lora", "the adapters of a checkpoint of `isogrid train --lora`, as they were given there; they are "
             "merged into B"},
    {"adapter", "an adapter of PEFT, which is merged into B"},
    {"save-dtype", NULL},
    {"save-shard-size", NULL},
    {"threads", NULL},
};
enum { SHARED = sizeof shared / sizeof shared[0] };

static const iso_argument shape_row = {
    "shape",
    ISO_ARGUMENT_TEXT,
    offsetof(convert_options, shape),
    "N,N,...",
    "the shape of a row of a built-in model's input; default 28,28,1, or a row of tokens",
    0,
    0,
    NULL};

static int convert_make_table(iso_argument rows[SHARED + 1])
{
    for (int i = 0; i < SHARED; i++) {
        rows[i] = *iso_train_argument(shared[i].name);
        rows[i].offset += offsetof(convert_options, train);
        rows[i].help = shared[i].help ? shared[i].help : rows[i].help;
    }
    rows[SHARED] = shape_row;
    return SHARED + 1;
}

static void convert_help(iso_text *text)
{
    iso_argument rows[SHARED + 1];
    iso_arguments_help(rows, convert_make_table(rows), text);
}

/* Whether `from` holds a model, and not weights alone. */
static bool is_model(const convert_options *options)
{
    return options->pretrained || iso_file_name_ends(options->from, ".keras");
}

static iso_status check_kind(const convert_options *options)
{
    return options->pretrained || !iso_output_is_folder(options->from)
               ? ISO_OK
               : iso_error(ISO_INVALID,
                           "'%s': the name must end in .keras, .weights.h5 or .safetensors, or be that of a "
                           "folder of Hugging Face",
                           options->from);
}

/* A converted file holds less than a checkpoint, so it must not replace it. */
static iso_status check_different(const convert_options *options)
{
    struct stat from, to;
    if (stat(options->from, &from) == 0 && stat(options->to, &to) == 0 && iso_file_is_same(&from, &to))
        return iso_error(ISO_INVALID, "'%s' and '%s' are the same file", options->from, options->to);
    return ISO_OK;
}

static iso_status convert_check(convert_options *options)
{
    iso_status status = ISO_OK;
    ISO_TRY(check_kind(options));
    ISO_TRY(iso_output_name_check("", options->to));
    ISO_TRY(iso_save_options_check(&options->train, options->to));
    ISO_TRY(check_different(options));
    if (is_model(options) && options->train.model)
        return iso_error(ISO_INVALID, "--model is for files of weights; '%s' contains a model",
                         options->from);
    if (!is_model(options) && !options->train.model)
        return iso_error(ISO_INVALID, "'%s' holds weights alone: --model must name their model",
                         options->from);
    if (options->shape)
        ISO_TRY(iso_argument_shape("--shape", options->shape, 1, ISO_MAX_RANK - 1, &options->row));
    if (is_model(options))
        options->train.model = options->from;
    else
        options->train.weights = options->from;
    ISO_TRY(iso_train_options_check(&options->train));
done:
    return status;
}

/* The files may come before, between and after the options. */
static iso_status convert_read_options(int argc, char *const *argv, convert_options *options)
{
    iso_argument rows[SHARED + 1];
    char *rest[2 * ISO_MAX_ARGUMENTS] = {argv[0]};
    int words = 1, count = convert_make_table(rows);
    for (int i = 1; i < argc && words < 2 * ISO_MAX_ARGUMENTS - 1; i++) {
        bool option = strncmp(argv[i], "--", 2) == 0;
        if (option)
            rest[words++] = argv[i];
        if (option && !strchr(argv[i], '=') && i + 1 < argc) /* none of them is a flag */
            rest[words++] = argv[++i];
        else if (!option && !options->from)
            options->from = argv[i];
        else if (!option && !options->to)
            options->to = argv[i];
        else if (!option)
            return iso_error(ISO_INVALID, "'%s': needs two files, isogrid convert A B", argv[i]);
    }
    iso_status status = iso_arguments_parse(rows, count, words, rest, options);
    if (status == ISO_OK && !options->to)
        return iso_error(ISO_INVALID, "needs two files: isogrid convert A B");
    return status;
}

/* ---- converting ---- */

static bool has_loss(const iso_compile_options *compile)
{
    bool any = compile->loss != ISO_LOSS_NONE;
    for (int i = 0; i < ISO_MAX_MODEL_OUTPUTS; i++)
        any = any || compile->outputs[i].loss != ISO_LOSS_NONE;
    return any;
}

/* Whether the model can be compiled, and so has an optimizer. If only its loss or its optimizer is missing, the chief
 * warns of what is lost. */
static bool is_compilable(iso_context *ctx, const char *model, const iso_compile_options *compile)
{
    const char *rule = compile->optimizer.rule;
    bool known = rule && iso_optimizer_rule_find(rule), loss = has_loss(compile);
    if (rule && (!known || !loss) && iso_is_chief(ctx))
        iso_warn("%s: the optimizer's state and the compile settings are not converted: %s", model,
                 known ? "the model has no loss that is supported; --loss keeps them"
                       : "its optimizer is not supported; --optimizer gives the model another one");
    return known && loss;
}

static iso_status convert(iso_context *ctx, const convert_options *options)
{
    iso_named_model named = {0};
    iso_status status;
    ISO_TRY(iso_named_model_find(ctx, &options->train, &named));
    iso_named_model_make(ctx, &options->train, &options->row, &named);
    if (is_compilable(ctx, options->train.model, &named.compile))
        ISO_TRY(iso_compile_with(named.model, &named.compile, sizeof named.compile));
    ISO_TRY(iso_named_model_load_weights(ctx, &options->train, false, &named));
    ISO_TRY(iso_named_model_save(&named, &options->train, options->to));
done:
    iso_named_model_free(&named);
    return status;
}

/* A folder is one of Hugging Face or one of checkpoints. */
static iso_status find_source(iso_context *ctx, convert_options *options, char **found)
{
    bool weights = false;
    iso_status status;
    ISO_TRY(iso_pretrained_has_weights(ctx, options->from, &weights));
    options->pretrained = weights && iso_output_is_folder(options->from);
    if (weights)
        return ISO_OK;
    ISO_TRY(iso_checkpoint_resolve(ctx, "convert", options->from, found));
    options->from = *found ? *found : options->from;
done:
    return status;
}

static iso_status convert_run(iso_context *ctx, int argc, char *const *argv)
{
    convert_options options = {.train = iso_train_options_default()};
    char *found = NULL;
    iso_status status;
    ISO_TRY(iso_agree(ctx, convert_read_options(argc, argv, &options)));
    ISO_TRY(find_source(ctx, &options, &found));
    ISO_TRY(iso_agree(ctx, convert_check(&options)));
    ISO_TRY(iso_agree(ctx, iso_is_chief(ctx)
                               ? iso_output_path_check("", options.to,
                                                       iso_output_is_folder(options.to) ? ISO_TARGET_FOLDER
                                                                                        : ISO_TARGET_BELOW)
                               : ISO_OK));
    ISO_TRY(convert(ctx, &options));
done:
    iso_free(found);
    return status;
}

const iso_command iso_command_convert = {
    "convert", "A B [--model NAME or FILE] [OPTION...]",
    "converts file A to file B: checkpoints, .weights.h5, .keras, Hugging Face's", .run = convert_run,
    .help = convert_help};
