/* isogrid follow: evaluates each checkpoint of a training when it appears. `isogrid train --role evaluator` does the
 * same with the options of the training. */
#include <string.h>

#include "collectives/control/control.h"
#include "launch/command.h"
#include "launch/train_impl.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/session/roles.h"

/* ---- options ---- */

/* Options of `isogrid train`, in the order of the help; some have a help text of their own. */
static const struct {
    const char *name, *value, *help;
} shared[] = {
    {"model", NULL, NULL},
    {"classes", NULL, NULL},
    {"checkpoint", "DIR or DIR/NAME.weights.h5",
     "the folder of the checkpoints; with a name, as given to `isogrid train`, only those of this name"},
    {"epochs", NULL,
     "the epochs of the training, as given to `isogrid train`; the end of a training of fewer epochs is "
     "ignored; default: any end counts"},
    {"data", NULL, NULL},
    {"tokenizer", NULL, NULL},
    {"mask-tokens", NULL, NULL},
    {"x", NULL, NULL},
    {"y", NULL, NULL},
    {"sample-weight", NULL, NULL},
    {"validation-data", NULL, "the data to evaluate on; `test` is the test part of --data"},
    {"validation-split", NULL, NULL},
    {"validation-rows", NULL, NULL},
    {"check-data", NULL, NULL},
    {"batch-size", NULL, NULL},
    {"loss", NULL, NULL},
    {"metrics", NULL, NULL},
    {"precision", NULL, NULL},
    {"mesh", NULL, NULL},
    {"devices", NULL, NULL},
    {"layout", NULL, NULL},
    {"layout-file", NULL, NULL},
    {"strict-layouts", NULL, NULL},
    {"seed", NULL, "for what is random in the data; default " ISO_TEXT_OF(ISO_DEFAULT_SEED)},
    {"history", NULL,
     "JSON lines: checkpoint, step, epoch, every value in full precision. An evaluator that starts again "
     "does not repeat them. h.json becomes h-evaluator.json; default: evaluator.json in the folder of the "
     "checkpoints"},
    {"tensorboard", NULL, "event files for TensorBoard, in the folder `evaluator` below DIR"},
    {"verbose", NULL, "0: silent; 1 (the default): a line for each checkpoint"},
    {"threads", NULL, NULL},
    {"backend", NULL, NULL},
    {"tf32", NULL, NULL},
    {"cuda-aware", NULL, NULL},
};
enum { SHARED = sizeof shared / sizeof *shared };

typedef struct follow_options {
    iso_train_options train;
    bool newest;
    double idle_timeout, period;
} follow_options;

static const iso_argument own[] = {
    {"newest", ISO_ARGUMENT_FLAG, offsetof(follow_options, newest), NULL,
     "evaluates only the newest checkpoint if several wait; default: all, oldest first", 0, 0, NULL},
    {"period", ISO_ARGUMENT_REAL, offsetof(follow_options, period), "S",
     "looks for checkpoints every S seconds; default 1", 0.01, 86400, NULL},
    {"idle-timeout", ISO_ARGUMENT_REAL, offsetof(follow_options, idle_timeout), "S",
     "ends with exit code 1 after S seconds without a new checkpoint; default: never", 0.01, 1e9, NULL},
};
enum { OWN = sizeof own / sizeof *own };

static int follow_make_table(iso_argument rows[ISO_MAX_ARGUMENTS])
{
    int count = 0;
    for (int i = 0; i < SHARED; i++) {
        iso_argument *row = &rows[count++];
        *row = *iso_train_argument(shared[i].name);
        row->offset += offsetof(follow_options, train);
        row->value = shared[i].value ? shared[i].value : row->value;
        row->help = shared[i].help ? shared[i].help : row->help;
    }
    memcpy(rows + count, own, sizeof own);
    count += OWN;
    return count;
}

static void follow_print_help(iso_text *text)
{
    iso_argument rows[ISO_MAX_ARGUMENTS];
    iso_arguments_help(rows, follow_make_table(rows), text);
}

/* Checks the options that following needs. Training needs others, so each has its own check. */
static iso_status follow_check(const iso_train_options *options)
{
    if (!options->model)
        return iso_error(ISO_INVALID, "--model is missing; `isogrid models` lists the built-in models");
    if (!options->data)
        return iso_error(ISO_INVALID, "--data is missing; `isogrid datasets` lists the built-in data sets");
    if (!options->checkpoint)
        return iso_error(ISO_INVALID, "--checkpoint is missing: the folder of the checkpoints to follow");
    if (!options->validation_data && options->validation_split == 0 && !options->validation_rows)
        return iso_error(ISO_INVALID,
                         "an evaluator needs --validation-data, --validation-split or --validation-rows");
    return ISO_OK;
}

/* The file that this rank writes in its role. */
static iso_status check_history(const iso_context *ctx, const iso_train_options *options)
{
    char *name = NULL;
    if (!options->history)
        return ISO_OK;
    iso_status status = iso_role_path(ctx, iso_role(ctx), options->history, &name);
    if (status == ISO_OK)
        status = iso_overwrite_check(options, "--history", name);
    iso_free(name);
    return status;
}

/* ---- the folder ---- */

/* "ck/{epoch}.weights.h5" -> "ck" and "{epoch}.weights.h5"; "ck/latest", "ck/best" and "ck" -> "ck", any name. */
static iso_status split_checkpoint(const char *path, char folder[4096], const char **pattern)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    bool file = iso_file_name_ends(path, ".weights.h5");
    bool pointer = !strcmp(name, "latest") || !strcmp(name, "best");
    size_t length = !file && !pointer ? strlen(path) : slash ? (size_t)(slash - path) + (slash == path) : 0;
    *pattern = file ? name : NULL;
    if (length >= 4096)
        return iso_error(ISO_INVALID, "--checkpoint '%.40s...': the name is too long", path);
    memcpy(folder, length ? path : ".", length ? length : 1);
    folder[length ? length : 1] = 0;
    return ISO_OK;
}

/* ---- following ---- */

typedef struct follow_state {
    iso_named_model named;
    iso_distribution_setup setup;
    iso_dataset *data;
} follow_state;

static iso_status follow(const follow_options *options, follow_state *run)
{
    const iso_train_options *train = &options->train;
    char folder[4096];
    const char *pattern;
    iso_callback *callbacks[3];
    int count = 0;
    iso_status status = split_checkpoint(train->checkpoint, folder, &pattern);
    if (status != ISO_OK)
        return status;
    if (train->history)
        callbacks[count++] = iso_history_file(train->history);
    if (train->tensorboard)
        callbacks[count++] = iso_tensorboard(train->tensorboard);
    callbacks[count] = NULL;
    return iso_follow(run->named.model, folder, run->data, callbacks, .pattern = pattern,
                      .newest_only = options->newest, .epochs = (int)train->epochs,
                      .timeout = options->idle_timeout, .period = options->period,
                      .verbose = train->verbose ? 1 : ISO_ZERO);
}

static iso_status follow_with(iso_context *ctx, const follow_options *options)
{
    follow_state run = {0};
    const iso_train_options *train = &options->train;
    iso_status status;
    ISO_TRY(iso_agree(ctx, follow_check(train)));
    ISO_TRY(iso_agree(ctx, check_history(ctx, train)));
    ISO_TRY(iso_named_model_find(ctx, train, &run.named));
    ISO_TRY(iso_agree(ctx, iso_compile_options_check(train, &run.named.compile)));
    ISO_TRY(iso_distribution_setup_make(ctx, train, &run.setup));
    ISO_TRY(iso_agree(ctx, iso_validation_open(ctx, train, &run.named, &run.data)));
    iso_named_model_make(ctx, train, iso_dataset_shape(run.data, 0), &run.named);
    ISO_TRY(iso_named_model_compile(&run.named, run.data, run.setup.distribution));
    ISO_TRY(follow(options, &run));
done:
    iso_named_model_free(&run.named);
    iso_distribution_setup_free(&run.setup);
    iso_dataset_destroy(run.data);
    return status;
}

iso_status iso_follow_training(iso_context *ctx, const iso_train_options *options)
{
    follow_options all = {.train = *options};
    return follow_with(ctx, &all);
}

static iso_status follow_parse(int argc, char *const *argv, follow_options *options)
{
    iso_argument rows[ISO_MAX_ARGUMENTS];
    *options = (follow_options){.train = iso_train_options_default()};
    options->train.epochs = 0;
    iso_status status = iso_arguments_parse(rows, follow_make_table(rows), argc, argv, options);
    return status == ISO_OK ? iso_train_options_check(&options->train) : status;
}

static iso_status follow_run(iso_context *ctx, int argc, char *const *argv)
{
    follow_options options;
    iso_status status = iso_agree(ctx, follow_parse(argc, argv, &options));
    if (status == ISO_OK)
        status = iso_stop_on_signals(ctx);
    return status == ISO_OK ? follow_with(ctx, &options) : status;
}

const iso_command iso_command_follow = {
    "follow",
    "--model NAME or FILE --data NAME --checkpoint DIR --validation-data NAME [OPTION...]",
    "evaluates each checkpoint of a training when it appears",
    .run = follow_run,
    .help = follow_print_help,
    .has_roles = true,
    .evaluates = true};
