#include "launch/train_options.h"

#include <string.h>

#include "runtime/session/session.h"

static const double many =
    0x1p40; /* limit of rows, epochs and steps: more than any run has, and far from overflow */

static const char *const stored_types[] = {"float32", "float16", "bfloat16", "float64", NULL};
static const char *const precisions[] = {"float32", "float64", "mixed_bfloat16", NULL};
static const char *const drivers[] = {"direct", "mpio", NULL};
static const char *const failures[] = {"warn", "stop", NULL};
static const char *const optimizers[] = {
#define OPTIMIZER(name) #name,
#include "runtime/graph/optimizers/list.h"
    NULL,
};
static const char schedules[] = /* each after "; " */
#define SCHEDULE(name, NAME, settings) "; " #name settings
#include "runtime/graph/schedules/list.h"
    ;
static const char *const losses[] = {
#define LOSS(name, NAME, targets) #name,
#include "runtime/train/losses/list.h"
    NULL};
static const char *const metrics[] = {
#define METRIC(name, NAME) #name,
#include "runtime/train/losses/list.h"
    NULL};
static const char *const losses_of_values[] = {
#define NAME_OF_VALUES(name) #name,
#define NAME_OF_FRACTIONS(name)
#define NAME_OF_CLASSES(name)
#define LOSS(name, NAME, targets) NAME_OF_##targets(name)
#include "runtime/train/losses/list.h"
    NULL};

#define HELP_OF_LAYOUT                                                                                       \
    "the layout of tensors whose path matches KEY (exactly, or as a regular expression): weights "           \
    "(dense/kernel='-, model'), outputs of layers (dense/output), inputs (image/output); may be repeated"

/* Rows: member, name, what the help calls the value, limits or choices, help. */
#define ROW(kind, member, name, value, help, low, high, choices)                                             \
    {                                                                                                        \
        name, ISO_ARGUMENT_##kind, offsetof(iso_train_options, member), value, help, low, high, choices      \
    }
#define TEXT(member, name, value, help) ROW(TEXT, member, name, value, help, 0, 0, NULL)
#define NAMES(member, name, value, choices, help) ROW(TEXT, member, name, value, help, 0, 0, choices)
#define LIST(member, name, value, help) ROW(LIST, member, name, value, help, 0, 0, NULL)
/* A row of runtime/session/options.h. */
#define SESSION(member) SESSION_NAMED(member, #member)
#define SESSION_NAMED(member, name) ROW(SESSION, member, name, NULL, NULL, 0, 0, NULL)
#define FLAG(member, name, help) ROW(FLAG, member, name, NULL, help, 0, 0, NULL)
#define CHOICE(member, name, value, choices, help) ROW(CHOICE, member, name, value, help, 0, 0, choices)
#define COUNT(member, name, value, low, high, help) ROW(COUNT, member, name, value, help, low, high, NULL)
#define REAL(member, name, value, low, high, help) ROW(REAL, member, name, value, help, low, high, NULL)
static const iso_argument table[] = {
    TEXT(
        model, "model", "NAME or FILE",
        "a built-in model (`isogrid models` lists them), perhaps with settings: gpt:layers=6,width=384; or a "
        "file of Keras: .keras, whose weights, optimizer and losses are loaded too, or config.json; or a "
        "folder of Hugging Face with GPT-2, LLaMA, BERT or another, whose weights are loaded too, "
        "perhaps with context, recompute and dropout: gpt2:context=256"),
    NAMES(
        data, "data", "NAME or PATH", losses_of_values,
        "a built-in data set (`isogrid datasets` lists them); a folder of IDX files (gzip'd or not); an HDF5 "
        "file; for a language model, a text (--tokenizer says what its tokens are) or a .bin file of tokens; "
        "random numbers in the model's shapes: random[:ROWS], uniform in [0, 1), or random-normal[:ROWS], "
        "standard normal, also the targets of the losses %s"),
    COUNT(classes, "classes", "N", 1, 0x1p31 - 1,
          "number of outputs of a built-in model: the classes of the data, default 10, or the vocabulary of "
          "its tokens, default 256"),
    TEXT(tokenizer, "tokenizer", "FILE or DIR or none",
         "what makes the tokens of a text: a tokenizer.json of Hugging Face, or a folder with one; default: "
         "that of the model's folder, if there is one; none: each byte is a token"),
    REAL(
        mask_tokens, "mask-tokens", "R", 0.000001, 0.999999,
        "for a model that predicts masked tokens: this part of the tokens counts, others in each epoch (0.15 "
        "is usual); 80% of these become the mask token, 10% random tokens. Only the inputs of the data are "
        "used; --tokenizer, or that of the model's folder, says which tokens are special"),
    TEXT(x, "x", "NAME,...", "inputs in an HDF5 file, in the model's order; default x"),
    TEXT(y, "y", "NAME,...", "targets in an HDF5 file, in the order of the model's outputs; default y"),
    TEXT(sample_weight, "sample-weight", "NAME,... or none",
         "weights of rows in an HDF5 file, one for all targets or one for each; default sample_weight, if "
         "the file has it; none: no weights"),
    TEXT(validation_data, "validation-data", "NAME or PATH or test",
         "evaluated after each epoch; `test` is the test part of --data"),
    REAL(validation_split, "validation-split", "F", 0, 0.999999,
         "this fraction of the rows, from the end, is for validation"),
    COUNT(validation_rows, "validation-rows", "N", 1, many,
          "this number of rows, from the end, is for validation"),
    TEXT(test_data, "test-data", "NAME or PATH or test", "evaluated once, at the end"),
    SESSION(mesh),
    SESSION(devices),
    SESSION(collectives),
    SESSION(backend),
    SESSION(tf32),
    SESSION_NAMED(cuda_aware, "cuda-aware"),
    SESSION(tune),
    LIST(layouts, "layout", "KEY=LAYOUT", HELP_OF_LAYOUT),
    TEXT(layout_file, "layout-file", "FILE",
         "keys and layouts from a JSON file: {\"dense/kernel\": [null, \"model\"]}"),
    TEXT(
        time, "time", "FILE",
        "with --layout auto: a file of `isogrid calibrate`, by which the layouts with the shortest predicted "
        "step are chosen"),
    TEXT(network, "network", "FILE",
         "with --time: a file that describes the network between hosts (docs/plan.md); default: the network "
         "that `isogrid calibrate` measured"),
    FLAG(strict_layouts, "strict-layouts",
         "a key that matches nothing is an error instead of a warning; a key that begins with ? may match "
         "nothing"),
    COUNT(zero, "zero", "1|2|3", 1, 3,
          "1 (the default) splits the update of replicated weights; 2 also shards the optimizer's state "
          "over the batch axis; 3 also shards the weights, which are gathered for each use"),
    COUNT(batch_size, "batch-size", "N", 1, many, "rows of the global batch; default 32"),
    COUNT(epochs, "epochs", "N", 1, 0x1p31 - 1, "number of epochs; default 1"),
    COUNT(steps_per_epoch, "steps-per-epoch", "N", 1, many,
          "number of steps of an epoch; default: all batches of the data set"),
    TEXT(
        shuffle, "shuffle", "all or none or N",
        "the order of rows: a permutation of all (the default), as stored, or drawn from a buffer of N rows"),
    FLAG(drop_remainder, "drop-remainder", "omit a last batch that is not full"),
    CHOICE(optimizer, "optimizer", "NAME", optimizers, "the optimizer; default: the model's own"),
    REAL(learning_rate, "learning-rate", "R", 0, 1e9, "the learning rate; default: the optimizer's own"),
    TEXT(schedule, "schedule", "SCHEDULE", schedules + 2),
    REAL(weight_decay, "weight-decay", "R", 0, 1e9,
         "decoupled, for any optimizer; default: the optimizer's own"),
    REAL(clip_norm, "clip-norm", "R", 0, 1e30,
         "the maximum norm of each variable's gradient; 0: no clipping at all; default: the optimizer's own"),
    REAL(global_clip_norm, "global-clip-norm", "R", 0, 1e30, "the maximum norm of all gradients together"),
    REAL(clip_value, "clip-value", "R", 0, 1e30, "the maximum absolute value of a gradient's elements"),
    COUNT(
        accumulate, "accumulate", "N", 1, 0x1p31 - 1,
        "the weights change every N steps, by the mean of their gradients; schedules count all steps, as in "
        "Keras; default: the optimizer's own"),
    REAL(ema_momentum, "ema-momentum", "R", 0, 1,
         "keeps the exponential moving average of the weights, which they are set to at the end of training "
         "(Keras's use_ema); default: the optimizer's own"),
    COUNT(ema_overwrite_frequency, "ema-overwrite-frequency", "N", 1, 0x1p31 - 1,
          "with such averages: the weights are also set to them every N updates"),
    FLAG(swap_ema_weights, "swap-ema-weights",
         "with such averages: validation sees them instead of the weights (Keras's SwapEMAWeights)"),
    TEXT(class_weight, "class-weight", "C=W,...",
         "weights by which the rows of classes count in training, besides their own: '0=1,1=3.5'; default: 1 "
         "for each class"),
    NAMES(loss, "loss", "NAME", losses,
          "the loss that is minimized, perhaps with settings by Keras's names: 'huber(delta=0.5)'; default: "
          "the model's own"),
    NAMES(metrics, "metrics", "NAME,...", metrics,
          "the metrics that are reported, perhaps with settings by Keras's names, sets as 0+2: "
          "'accuracy,top_k(k=3)'; default: the model's own; none: no metrics"),
    CHOICE(precision, "precision", "TYPE", precisions,
           "default float32, or the policies of a .keras file's layers; with mixed_bfloat16 layers compute "
           "in bfloat16, and variables, losses "
           "and metrics are float32"),
    FLAG(check_data, "check-data",
         "reads all data first; a NaN, an infinity, a token or label that the model does not have, or a "
         "target that is not from 0 to 1 where the loss needs one, is an error"),
    SESSION(seed),
    TEXT(checkpoint, "checkpoint", "DIR/NAME.weights.h5",
         "writes checkpoints, from which --resume continues; the name may contain values: "
         "ckpt/{epoch:02d}-{val_loss:.4f}.weights.h5, {batch}; Keras's load_weights() opens them"),
    TEXT(save_freq, "save-freq", "epoch or N",
         "after each epoch (the default), or every N steps; the name then has no values of validation, which "
         "are known at the end of an epoch only"),
    COUNT(keep, "keep", "N", 1, 0x1p31 - 1, "keep only the last N checkpoints; default: all"),
    TEXT(save_best, "save-best", "METRIC",
         "keep the checkpoint with the best value of METRIC (val_loss, val_accuracy); the file `best` in "
         "its folder names it"),
    CHOICE(checkpoint_io, "checkpoint-io", "KIND", drivers,
           "direct (the default): each rank writes its parts while training continues; mpio: HDF5's parallel "
           "driver writes, and training waits"),
    CHOICE(checkpoint_errors, "checkpoint-errors", "warn or stop", failures,
           "if a checkpoint cannot be written: warn (the default) and continue, or stop"),
    COUNT(
        check_replicas, "check-replicas", "N", 1, many,
        "every N steps, and before each checkpoint, compare the copies of the weights on all hosts; if they "
        "differ, training ends with exit code 1, names the host and the variable, and writes no further "
        "checkpoint; default: never"),
    COUNT(stop_before, "stop-before", "S", 1, many,
          "in a Slurm job: save training's state and end with exit code 75 at the last step that ends S "
          "seconds before the job's time limit, so that the job can be requeued; needs --checkpoint or "
          "--backup"),
    TEXT(resume, "resume", "auto or never or FILE or DIR",
         "continue from this checkpoint, or from the newest in this folder, with the same bits on the same "
         "mesh; auto (the default): from the newest complete checkpoint of --checkpoint and --backup, if "
         "there is one; never: from the beginning"),
    TEXT(backup, "backup", "DIR",
         "keeps one checkpoint there, from which the same command continues after an interruption; it is "
         "removed when training is complete and the file of --save is written; an earlier one is not used, "
         "and is replaced, with --resume never or if a file of --checkpoint is newer; with --resume FILE or "
         "DIR it cannot be given"),
    TEXT(weights, "weights", "FILE or DIR",
         "begin with the weights of a checkpoint, of the newest complete one in a folder (DIR or "
         "DIR/latest; DIR/best: the best one by --save-best), or of a .keras or .weights.h5 file of Keras; "
         "the state of its optimizer too, unless --optimizer or --schedule is given; or of Hugging Face, a "
         ".safetensors file or a folder with model.safetensors"),
    TEXT(lora, "lora", "rank=N,NAME=VALUE,...",
         "low-rank adapters (LoRA): all weights are frozen but for these; "
         "rank=8,alpha=16,target='query|value',"
         "trained=classifier: layers with such paths, or whose paths end so after a '/', have adapters, and "
         "those of `trained` are trained as a whole; default alpha: the rank, target and trained: as here"),
    TEXT(adapter, "adapter", "DIR",
         "begin with the adapter in a folder of PEFT: rank, alpha and target are its, --lora is left out"),
    TEXT(save_adapter, "save-adapter", "DIR",
         "after training with adapters: writes them alone to a folder that PEFT's from_pretrained() opens; "
         "--save writes the whole model, into which they are merged"),
    TEXT(save, "save", "FILE or DIR",
         "after training: the whole model as a .keras file, which Keras's load_model() opens, or weights and "
         "the optimizer's state as a .weights.h5 file; gpt, llama, bert and vit also as a "
         "folder that Hugging Face's from_pretrained() opens, or their weights alone as a .safetensors file"),
    CHOICE(save_dtype, "save-dtype", "TYPE", stored_types,
           "the type of the weights in a folder of Hugging Face or a .safetensors file, to which they are "
           "rounded; default: that of the folder that --model names, or that of the variables"),
    TEXT(save_shard_size, "save-shard-size", "SIZE",
         "in a folder of Hugging Face, weights of more bytes are written to several files: 5GB, 500MiB; "
         "default 50GB, as in transformers"),
    TEXT(history, "history", "FILE", "one JSON line for each epoch, in full precision"),
    TEXT(csv, "csv", "FILE", "a table with a line for each epoch, in the format of Keras's CSVLogger"),
    TEXT(tensorboard, "tensorboard", "DIR",
         "event files for TensorBoard: losses, metrics and the learning rate, hyperparameters"),
    TEXT(tensorboard_options, "tensorboard-options", "NAME=VALUE,...",
         "update_freq=N: values every N steps; histogram_freq=N: histograms of the weights every N epochs; "
         "write_steps_per_second=1; profile_batch=N: the trace of this step"),
    TEXT(profile, "profile", "FILE",
         "a Chrome trace of one step of every slot: ops, collectives, waits; chrome://tracing and "
         "ui.perfetto.dev show it"),
    COUNT(
        profile_step, "profile-step", "N", 1, many,
        "the step of this run for --profile; default: in the middle of the second epoch, or of the only one"),
    FLAG(profile_launches, "profile-launches",
         "on a GPU, --profile records one event for each launch of a CUDA graph instead of one for each op; "
         "the recorded step is then as fast as others"),
    TEXT(early_stopping, "early-stopping", "NAME=VALUE,...",
         "ends training when a value stops improving: monitor=val_loss,patience=3,min_delta=0.001,"
         "mode=min,baseline=0.5,restore_best_weights=1,start_from_epoch=5"),
    TEXT(reduce_lr_on_plateau, "reduce-lr-on-plateau", "NAME=VALUE,...",
         "lowers the learning rate when a value stops improving: "
         "monitor=val_loss,factor=0.1,patience=10,min_delta=0.0001,mode=min,cooldown=0,min_lr=0"),
    FLAG(terminate_on_nan, "terminate-on-nan",
         "ends training, with exit code 3, after the step in which the loss is NaN or infinite; earlier "
         "checkpoints and the backup are kept"),
    TEXT(timings, "timings", "FILE",
         "one JSON line for each epoch with its duration in seconds; the first line also has the time from "
         "the start of the process, or of mpirun, to the end of the first step"),
    SESSION(verbose),
    SESSION(role),
    SESSION(threads),
    SESSION(timeout),
    SESSION_NAMED(timeout_abort, "timeout-abort"),
};
enum { ROWS = sizeof table / sizeof table[0] };
_Static_assert((int)ROWS <= (int)ISO_MAX_ARGUMENTS, "the parser's table is too small");

/* Other commands share the table but have no --layout auto. */
void iso_train_options_help(iso_text *text)
{
    iso_argument rows[ROWS];
    memcpy(rows, table, sizeof rows);
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].name, "layout")) {
            rows[i].value = "KEY=LAYOUT or auto";
            rows[i].help =
                HELP_OF_LAYOUT "; auto: the layouts, and without --mesh the mesh, that `isogrid plan "
                               "--suggest` proposes, or those of the checkpoint from which the run resumes";
        }
    iso_arguments_help(rows, ROWS, text);
}

static bool is_number(const char *text)
{
    text += *text == '-' || *text == '+';
    return *text && !text[strspn(text, "0123456789")];
}

static iso_status parse_shuffle(iso_train_options *options)
{
    if (!options->shuffle || !strcmp(options->shuffle, "all")) {
        options->shuffle_rows = 0;
        return ISO_OK;
    }
    if (!strcmp(options->shuffle, "none")) {
        options->shuffle_rows = -1;
        return ISO_OK;
    }
    if (!is_number(options->shuffle))
        return iso_error(ISO_INVALID,
                         "--shuffle '%s': it must be all, none or the number of rows of a buffer",
                         options->shuffle);
    return iso_argument_count("--shuffle", options->shuffle, 1, many, &options->shuffle_rows);
}

static iso_status parse_save_freq(iso_train_options *options)
{
    options->save_steps = 0;
    if (!options->save_freq || !strcmp(options->save_freq, "epoch"))
        return ISO_OK;
    if (!is_number(options->save_freq))
        return iso_error(ISO_INVALID, "--save-freq '%s': must be epoch or a number of steps",
                         options->save_freq);
    return iso_argument_count("--save-freq", options->save_freq, 1, many, &options->save_steps);
}

/* All ranks write parts of these files. */
static iso_status check_shared(const iso_train_options *options)
{
    const struct {
        const char *option, *path;
    } shared[] = {{"checkpoint", options->checkpoint}, {"backup", options->backup}, {"save", options->save}};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        const char *path = shared[i].path;
        if (path && (strstr(path, "{rank}") || strstr(path, "{role}")))
            return iso_error(
                ISO_INVALID,
                "--%s '%s': {rank} and {role} are for files that one rank writes; all workers write "
                "their parts of this one",
                shared[i].option, path);
    }
    return ISO_OK;
}

static bool resume_is(const iso_train_options *options, const char *how)
{
    return options->resume && !strcmp(options->resume, how);
}

/* Options that say how --checkpoint or --backup writes, or whether its files are read. */
static iso_status check_saving(const iso_train_options *options)
{
    const struct {
        const char *option, *value;
    } given[] = {{"resume never", resume_is(options, "never") ? options->resume : NULL},
                 {"resume auto", resume_is(options, "auto") ? options->resume : NULL},
                 {"save-freq", options->save_freq},
                 {"checkpoint-io", options->checkpoint_io},
                 {"checkpoint-errors", options->checkpoint_errors}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i].value && !options->checkpoint && !options->backup)
            return iso_error(ISO_INVALID, "--%s needs --checkpoint or --backup", given[i].option);
    return ISO_OK;
}

/* --resume auto searches one folder. */
static iso_status check_checkpoint(const iso_train_options *options)
{
    const char *path = options->checkpoint, *slash = path ? strrchr(path, '/') : NULL;
    const char *brace = path ? strchr(path, '{') : NULL;
    if (slash && brace && brace < slash)
        return iso_error(ISO_INVALID, "--checkpoint '%s': values may be in the name, not in the folder",
                         path);
    if (!path && (options->keep || options->save_best))
        return iso_error(ISO_INVALID, "--%s needs --checkpoint", options->keep ? "keep" : "save-best");
    if (options->backup && options->resume && !resume_is(options, "auto") && !resume_is(options, "never"))
        return iso_error(
            ISO_INVALID,
            "--resume '%s' and --backup '%s': the same command would continue from the one or from "
            "the other; omit --resume, or use --checkpoint instead of --backup",
            options->resume, options->backup);
    return ISO_OK;
}

static iso_status check_save(const char *path)
{
    return path ? iso_output_name_check("--save ", path) : ISO_OK;
}

static iso_status at_most_one(const char *const *names, const bool *given, int count)
{
    int first = -1;
    for (int i = 0; i < count; i++) {
        if (!given[i])
            continue;
        if (first >= 0)
            return iso_error(ISO_INVALID, "--%s and --%s: give one of them", names[first], names[i]);
        first = i;
    }
    return ISO_OK;
}

static iso_status check_together(const iso_train_options *options)
{
    static const char *const clips[] = {"clip-norm", "global-clip-norm", "clip-value"};
    static const char *const validations[] = {"validation-data", "validation-split", "validation-rows"};
    const bool clipped[] = {options->clip_norm >= 0, options->global_clip_norm >= 0,
                            options->clip_value >= 0};
    const bool validated[] = {options->validation_data != NULL, options->validation_split > 0,
                              options->validation_rows > 0};
    static const char *const adapters[] = {"lora", "adapter"};
    const bool adapted[] = {options->lora != NULL, options->adapter != NULL};
    iso_status status = at_most_one(clips, clipped, 3);
    status = status == ISO_OK ? at_most_one(validations, validated, 3) : status;
    status = status == ISO_OK ? at_most_one(adapters, adapted, 2) : status;
    if (status == ISO_OK && options->save_adapter && !options->lora && !options->adapter)
        status = iso_error(ISO_INVALID, "--save-adapter needs --lora or --adapter");
    return status;
}

static iso_status check_layouts(const iso_train_options *options)
{
    char key[512];
    const char *layout;
    iso_status status = ISO_OK;
    for (int i = 0; i < options->layouts.count && status == ISO_OK; i++)
        if (!strcmp(options->layouts.item[i], "auto"))
            status = iso_error(ISO_INVALID,
                               "--layout auto is for `isogrid train`; `isogrid plan --suggest` prints "
                               "the layouts that it proposes");
        else
            status = iso_layout_option_split(options->layouts.item[i], key, sizeof key, &layout);
    if (status == ISO_OK && options->network && !options->time)
        status = iso_error(ISO_INVALID, "--network %s: needs --time", options->network);
    return status;
}

/* Replaces the list that is `auto` alone by a flag. */
static iso_status take_auto(iso_train_options *options)
{
    for (int i = 0; i < options->layouts.count; i++)
        options->layout_auto |= !strcmp(options->layouts.item[i], "auto");
    if (!options->layout_auto)
        return options->time ? iso_error(ISO_INVALID, "--time %s: needs --layout auto", options->time)
                             : ISO_OK;
    if (options->layouts.count > 1 || options->layout_file)
        return iso_error(ISO_INVALID, "--layout auto chooses all layouts: omit %s",
                         options->layout_file ? "--layout-file" : "the other --layout");
    if (options->zero > 1)
        return iso_error(ISO_INVALID, "--layout auto chooses all layouts: omit --zero %lld",
                         (long long)options->zero);
    options->layouts.count = 0;
    return ISO_OK;
}

iso_status iso_layout_option_split(const char *text, char *key, size_t size, const char **layout)
{
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return iso_error(ISO_INVALID, "--layout '%s': should be KEY=LAYOUT, such as 'dense/kernel=-, model'",
                         text);
    if ((size_t)(equals - text) >= size)
        return iso_error(ISO_INVALID, "--layout '%.40s...': the key has more than %zu characters", text,
                         size - 1);
    memcpy(key, text, (size_t)(equals - text));
    key[equals - text] = '\0';
    *layout = equals + 1;
    return ISO_OK;
}

const iso_argument *iso_train_argument(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(table[i].name, name))
            return &table[i];
    return NULL;
}

iso_train_options iso_train_options_default(void)
{
    return (iso_train_options){.batch_size = 32,
                               .epochs = 1,
                               .learning_rate = -1,
                               .weight_decay = -1,
                               .clip_norm = -1,
                               .global_clip_norm = -1,
                               .clip_value = -1,
                               .ema_momentum = -1,
                               .seed = ISO_DEFAULT_SEED,
                               .verbose = 1,
                               .timeout = ISO_DEFAULT_TIMEOUT,
                               .zero = 1};
}

iso_status iso_train_options_check(iso_train_options *options)
{
    iso_status status;
    ISO_TRY(parse_shuffle(options));
    ISO_TRY(parse_save_freq(options));
    ISO_TRY(check_shared(options));
    ISO_TRY(check_checkpoint(options));
    ISO_TRY(check_saving(options));
    ISO_TRY(check_save(options->save));
    ISO_TRY(iso_run_callback_options_parse(options, &options->callback_options));
    ISO_TRY(check_together(options));
    ISO_TRY(check_layouts(options));
    if (options->schedule)
        ISO_TRY(iso_schedule_parse(options->schedule, &options->decay));
    if (options->lora)
        ISO_TRY(iso_lora_parse(options->lora, &options->adapters));
    if (options->class_weight)
        ISO_TRY(iso_class_weights_parse(options->class_weight, options->class_weights,
                                        &options->n_class_weights));
done:
    return status;
}

iso_status iso_train_options_parse(int argc, char *const *argv, iso_train_options *options)
{
    iso_train_options read = iso_train_options_default();
    iso_status status;
    ISO_TRY(iso_arguments_parse(table, ROWS, argc, argv, &read));
    ISO_TRY(take_auto(&read));
    ISO_TRY(iso_train_options_check(&read));
    ISO_TRY(iso_save_options_check(&read, read.save));
    *options = read;
done:
    return status;
}
