/* Loads a model with weights from a file, and its data, as options say. */
#include "launch/load_model_impl.h"

#include <string.h>

#include "collectives/control/control.h"
#include "models/models.h"
#include "runtime/base/text.h"

/* ---- options ---- */

/* Options of `isogrid train`, in the order of the help; some have a help text of their own. */
static const struct {
    const char *name;
    bool compiles; /* only for commands that compile */
    const char *help;
} shared[] = {
    {"model", false, NULL},
    {"weights", false,
     "a checkpoint, or a folder of checkpoints (its newest), or a .keras or .weights.h5 file of Keras, or a "
     ".safetensors file or a folder of Hugging Face; default: the weights of --model net.keras or of the "
     "folder that it names"},
    {"lora", false, "the adapters of a checkpoint of `isogrid train --lora`, as they were given there"},
    {"adapter", false, "an adapter of PEFT"},
    {"classes", false, NULL},
    {"data", false, NULL},
    {"tokenizer", false, NULL},
    {"mask-tokens", true, NULL},
    {"x", false, NULL},
    {"y", true, NULL},
    {"sample-weight", true, NULL},
    {"validation-split", true,
     "the data is this fraction of the part train, from its end: what `isogrid train` keeps for validation"},
    {"validation-rows", true, "the data is this number of its rows, likewise"},
    {"check-data", false, NULL},
    {"batch-size", false, NULL},
    {"loss", true, NULL},
    {"metrics", true, NULL},
    {"precision", false, NULL},
    {"mesh", false, NULL},
    {"devices", false, NULL},
    {"collectives", false, NULL},
    {"backend", false, NULL},
    {"tf32", false, NULL},
    {"cuda-aware", false, NULL},
    {"layout", false, NULL},
    {"layout-file", false, NULL},
    {"strict-layouts", false, NULL},
    {"zero", false,
     "1 and 2 change nothing; 3 shards the weights over the batch axis and gathers them for each use"},
    {"seed", false, "seed of what is random in the data; default " ISO_TEXT_OF(ISO_DEFAULT_SEED)},
    {"verbose", false, "0: only the result; 1 (the default): also the mesh and progress; 2: no bar"},
    {"threads", false, NULL},
};
enum { SHARED = sizeof shared / sizeof shared[0] };

static const char *const parts[] = {"train", "test", NULL};
static const iso_argument part = {"part",
                                  ISO_ARGUMENT_CHOICE,
                                  offsetof(iso_load_options, part),
                                  "PART",
                                  "the part of a built-in data set or of a folder of IDX files; default test",
                                  0,
                                  0,
                                  parts};

static void add_shared(const char *name, const char *help, iso_argument *row)
{
    *row = *iso_train_argument(name);
    row->offset += offsetof(iso_load_options, train);
    row->help = help ? help : row->help;
}

static int load_model_make_table(const iso_load_command *command, iso_argument rows[ISO_MAX_ARGUMENTS])
{
    int count = 0;
    for (int i = 0; i < SHARED; i++)
        if (command->compiles || !shared[i].compiles)
            add_shared(shared[i].name, shared[i].help, &rows[count++]);
    rows[count++] = part;
    memcpy(rows + count, command->own, (size_t)command->count * sizeof *rows);
    count += command->count;
    return count;
}

void iso_load_options_help(const iso_load_command *command, iso_text *text)
{
    iso_argument rows[ISO_MAX_ARGUMENTS];
    iso_arguments_help(rows, load_model_make_table(command, rows), text);
}

/* Whether the data is what training keeps for validation. */
static bool keeps_rows(const iso_train_options *options)
{
    return options->validation_split > 0 || options->validation_rows > 0;
}

iso_status iso_load_options_parse(const iso_load_command *command, int argc, char *const *argv,
                                  iso_load_options *options)
{
    iso_argument rows[ISO_MAX_ARGUMENTS];
    iso_load_options read = {.train = iso_train_options_default(), .part = NULL};
    iso_status status;
    ISO_TRY(iso_arguments_parse(rows, load_model_make_table(command, rows), argc, argv, &read));
    ISO_TRY(iso_train_options_check(&read.train));
    if (!read.train.model)
        return iso_error(ISO_INVALID, "--model is missing; `isogrid models` lists the built-in models");
    if (!read.train.data)
        return iso_error(ISO_INVALID, "--data is missing; `isogrid datasets` lists the built-in data sets");
    if (read.part && keeps_rows(&read.train))
        return iso_error(ISO_INVALID,
                         "--part cannot be used with --validation-split or --validation-rows, which are "
                         "for the rows of the part train");
    *options = read;
done:
    return status;
}

/* ---- the model and its data ---- */

static iso_status load_model_open(iso_context *ctx, bool compiles, const iso_load_options *options,
                                  iso_loaded_model *t)
{
    const iso_train_options *train = &options->train;
    iso_part which = options->part && !strcmp(options->part, "train") ? ISO_TRAIN : ISO_TEST;
    if (keeps_rows(train))
        return iso_validation_open(ctx, train, &t->named, &t->data);
    return iso_source_open(ctx, train, which, &t->named, !compiles, &t->data);
}

static iso_status load_model_build(iso_context *ctx, bool compiles, const iso_train_options *options,
                                   iso_loaded_model *t)
{
    iso_named_model_make(ctx, options, iso_dataset_shape(t->data, 0), &t->named);
    if (compiles)
        return iso_named_model_compile(&t->named, t->data, t->setup.distribution);
    iso_graph_distribute(iso_model_graph(t->named.model), t->setup.distribution);
    return ISO_OK;
}

/* Weights are required, and for an evaluation a loss. */
static iso_status check_model(const iso_train_options *options, bool compiles, const iso_named_model *named)
{
    iso_status status = compiles ? iso_compile_options_check(options, &named->compile) : ISO_OK;
    if (status != ISO_OK)
        return status;
    if (options->weights || named->weights)
        return ISO_OK;
    return iso_error(ISO_INVALID,
                     "--weights is missing: a checkpoint, a .keras or .weights.h5 of Keras, or a "
                     ".safetensors or a folder of Hugging Face");
}

iso_status iso_loaded_model_make(iso_context *ctx, const iso_load_command *command,
                                 const iso_load_options *options, iso_loaded_model *t)
{
    const iso_train_options *train = &options->train;
    iso_status status;
    ISO_TRY(iso_named_model_find(ctx, train, &t->named));
    ISO_TRY(iso_agree(ctx, check_model(train, command->compiles, &t->named)));
    ISO_TRY(iso_distribution_setup_make(ctx, train, &t->setup));
    if (!options->json)
        ISO_TRY(iso_banner_print(ctx, train, &t->setup));
    ISO_TRY(iso_agree(ctx, load_model_open(ctx, command->compiles, options, t)));
    ISO_TRY(load_model_build(ctx, command->compiles, train, t));
    ISO_TRY(iso_named_model_load_weights(ctx, train, true, &t->named));
done:
    return status;
}

void iso_loaded_model_free(iso_loaded_model *t)
{
    iso_named_model_free(&t->named);
    iso_dataset_destroy(t->data);
    iso_distribution_setup_free(&t->setup);
}
