#include "launch/options.h"

#include <string.h>

static const double many =
    0x1p40; /* rows, epochs and steps: far beyond what is possible, far from overflow */

static const char *const precisions[] = {"float32", "float64", NULL};
static const char *const backends[] = {"auto", "cpu", NULL};
static const char *const transports[] = {"auto", NULL};
static const char *const optimizers[] = {"sgd", "rmsprop", "adam", "adamw", "adagrad", NULL};

#define TO(member) offsetof(iso_train_options, member)
static const iso_argument table[] = {
    {"model", ISO_ARGUMENT_TEXT, TO(model), "NAME", "a built-in model; `isogrid models` lists them", 0, 0,
     NULL},
    {"data", ISO_ARGUMENT_TEXT, TO(data), "NAME or PATH",
     "a built-in data set (`isogrid datasets` lists them), a folder of IDX files (gzip'd or not), or an HDF5 "
     "file",
     0, 0, NULL},
    {"x", ISO_ARGUMENT_TEXT, TO(x), "NAME", "inputs in an HDF5 file; default x", 0, 0, NULL},
    {"y", ISO_ARGUMENT_TEXT, TO(y), "NAME", "targets in an HDF5 file; default y", 0, 0, NULL},
    {"validation-data", ISO_ARGUMENT_TEXT, TO(validation_data), "NAME or PATH or test",
     "evaluated after each epoch; `test` is the test part of --data", 0, 0, NULL},
    {"validation-split", ISO_ARGUMENT_REAL, TO(validation_split), "F",
     "this fraction of the rows, from the end, is for validation", 0, 0.999999, NULL},
    {"validation-rows", ISO_ARGUMENT_COUNT, TO(validation_rows), "N",
     "so many rows, from the end, are for validation", 1, many, NULL},
    {"test-data", ISO_ARGUMENT_TEXT, TO(test_data), "NAME or PATH or test", "evaluated once, at the end", 0,
     0, NULL},
    {"mesh", ISO_ARGUMENT_TEXT, TO(mesh), "AXIS=N,...",
     "the grid of slots, such as data=4,model=2; default data=<ranks>, without mpirun data=<cores>; one axis "
     "may be *: what is left",
     0, 0, NULL},
    {"layout", ISO_ARGUMENT_LIST, TO(layouts), "KEY=LAYOUT",
     "where the weights of path KEY (exact, or a regular expression) live: dense/kernel='-, model'; may be "
     "repeated",
     0, 0, NULL},
    {"strict-layouts", ISO_ARGUMENT_FLAG, TO(strict_layouts), NULL,
     "a layout that matches nothing is an error", 0, 0, NULL},
    {"zero", ISO_ARGUMENT_COUNT, TO(zero), "1",
     "1 splits the update of replicated weights, which is the default", 1, 1, NULL},
    {"batch-size", ISO_ARGUMENT_COUNT, TO(batch_size), "N", "rows of the global batch; default 32", 1, many,
     NULL},
    {"epochs", ISO_ARGUMENT_COUNT, TO(epochs), "N", "default 1", 1, 0x1p31 - 1, NULL},
    {"steps-per-epoch", ISO_ARGUMENT_COUNT, TO(steps_per_epoch), "N", "default: the whole data set", 1, many,
     NULL},
    {"shuffle", ISO_ARGUMENT_TEXT, TO(shuffle), "all or none or N",
     "the order of rows: a permutation of all (the default), as stored, or drawn from a buffer of N rows", 0,
     0, NULL},
    {"drop-remainder", ISO_ARGUMENT_FLAG, TO(drop_remainder), NULL, "leave out a last batch that is not full",
     0, 0, NULL},
    {"optimizer", ISO_ARGUMENT_CHOICE, TO(optimizer), "NAME", "default: the model's own", 0, 0, optimizers},
    {"learning-rate", ISO_ARGUMENT_REAL, TO(learning_rate), "R", "default: the optimizer's own", 0, 1e9,
     NULL},
    {"schedule", ISO_ARGUMENT_TEXT, TO(schedule), "SCHEDULE",
     "constant; exponential:decay_steps=1000,decay_rate=0.9,staircase=1; "
     "cosine:decay_steps=1000,alpha=0.1,warmup_steps=100,warmup_target=0.01; piecewise:1000=0.01,2000=0.001",
     0, 0, NULL},
    {"weight-decay", ISO_ARGUMENT_REAL, TO(weight_decay), "R",
     "decoupled, for any optimizer; default: the optimizer's own", 0, 1e9, NULL},
    {"clip-norm", ISO_ARGUMENT_REAL, TO(clip_norm), "R", "the greatest norm of each variable's gradient",
     1e-30, 1e30, NULL},
    {"global-clip-norm", ISO_ARGUMENT_REAL, TO(global_clip_norm), "R",
     "the greatest norm of all gradients together", 1e-30, 1e30, NULL},
    {"clip-value", ISO_ARGUMENT_REAL, TO(clip_value), "R", "the greatest absolute value in a gradient", 1e-30,
     1e30, NULL},
    {"loss", ISO_ARGUMENT_TEXT, TO(loss), "NAME", "default: the model's own", 0, 0, NULL},
    {"metrics", ISO_ARGUMENT_TEXT, TO(metrics), "NAME,...", "default: the model's own; none: no metrics", 0,
     0, NULL},
    {"precision", ISO_ARGUMENT_CHOICE, TO(precision), "TYPE", "default float32", 0, 0, precisions},
    {"check-data", ISO_ARGUMENT_FLAG, TO(check_data), NULL, "refuse data that hold a NaN or an infinity", 0,
     0, NULL},
    {"seed", ISO_ARGUMENT_COUNT, TO(seed), "N", "of initial weights, shuffling and dropout; default 1337", 0,
     0x1p52, NULL},
    {"history", ISO_ARGUMENT_TEXT, TO(history), "FILE", "one JSON line an epoch, in full precision", 0, 0,
     NULL},
    {"timings", ISO_ARGUMENT_TEXT, TO(timings), "FILE",
     "one JSON line an epoch: its seconds; in the first also those to the end of the first step", 0, 0, NULL},
    {"verbose", ISO_ARGUMENT_COUNT, TO(verbose), "0|1|2",
     "silent, progress bar (the default), one line an epoch", 0, 2, NULL},
    {"threads", ISO_ARGUMENT_COUNT, TO(threads), "N", "of each rank; default: cores / ranks on the host", 1,
     4096, NULL},
    {"collectives", ISO_ARGUMENT_CHOICE, TO(collectives), "KIND", "default auto", 0, 0, transports},
    {"backend", ISO_ARGUMENT_CHOICE, TO(backend), "KIND", "default auto", 0, 0, backends},
    {"timeout", ISO_ARGUMENT_REAL, TO(timeout), "SECONDS", "for a peer that is silent; default 60", 1e-3, 1e9,
     NULL},
    {"help", ISO_ARGUMENT_FLAG, TO(help), NULL, "prints this", 0, 0, NULL},
};
enum { ROWS = sizeof table / sizeof table[0] };
_Static_assert((int)ROWS <= (int)ISO_MAX_ARGUMENTS, "the parser's table is too small");

void iso_train_options_help(iso_text *text)
{
    iso_arguments_help(table, ROWS, text);
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
    return iso_argument_count("--shuffle", options->shuffle, 1, many, &options->shuffle_rows);
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
    const bool clipped[] = {options->clip_norm > 0, options->global_clip_norm > 0, options->clip_value > 0};
    const bool validated[] = {options->validation_data != NULL, options->validation_split > 0,
                              options->validation_rows > 0};
    iso_status status = at_most_one(clips, clipped, 3);
    return status == ISO_OK ? at_most_one(validations, validated, 3) : status;
}

static iso_status check_layouts(const iso_train_options *options)
{
    char key[512];
    const char *layout;
    iso_status status = ISO_OK;
    for (int i = 0; i < options->layouts.count && status == ISO_OK; i++)
        status = iso_layout_option_split(options->layouts.item[i], key, sizeof key, &layout);
    return status;
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

iso_status iso_train_options_parse(int argc, char *const *argv, iso_train_options *options)
{
    iso_train_options read = {.batch_size = 32,
                              .epochs = 1,
                              .learning_rate = -1,
                              .weight_decay = -1,
                              .seed = 1337,
                              .verbose = 1,
                              .zero = 1,
                              .precision = "float32",
                              .collectives = "auto",
                              .backend = "auto"};
    iso_status status;
    ISO_TRY(iso_arguments_parse(table, ROWS, argc, argv, &read));
    ISO_TRY(parse_shuffle(&read));
    ISO_TRY(check_together(&read));
    ISO_TRY(check_layouts(&read));
    if (read.schedule)
        ISO_TRY(iso_schedule_parse(read.schedule, &read.decay));
    *options = read;
done:
    return status;
}
