/* isogrid predict: writes the outputs of a model for all rows of a data set to a file. */
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "launch/command.h"
#include "launch/load_model_impl.h"
#include "launch/train_impl.h"

static const iso_argument own[] = {
    {"out", ISO_ARGUMENT_TEXT, offsetof(iso_load_options, out), "FILE.h5",
     "the HDF5 file to write, with the dataset y, or for several outputs one with the name of each output; "
     "all ranks must see its folder",
     0, 0, NULL},
};
static const iso_load_command command = {.count = 1, .own = own};

/* The predictions must not replace a file that is read. */
static iso_status check_out(const iso_load_options *options)
{
    if (!options->out)
        return iso_error(ISO_INVALID, "--out is missing: the HDF5 file for the outputs");
    if (strstr(options->out, "{rank}") || strstr(options->out, "{role}"))
        return iso_error(
            ISO_INVALID,
            "--out '%s': {rank} and {role} are for files that one rank writes; all ranks write their "
            "parts of this one",
            options->out);
    return iso_overwrite_check(&options->train, "--out", options->out);
}

static void print_written(const iso_load_options *options, iso_loaded_model *t)
{
    char text[160];
    int outputs = iso_model_output_count(t->named.model);
    printf("%s: ", options->out);
    for (int i = 0; i < outputs; i++) {
        iso_tensor *output = iso_model_output_at(t->named.model, i);
        iso_shape shape = iso_shape_with_rows(iso_tensor_shape(output), iso_dataset_rows(t->data));
        printf("%s%s %s %s", i ? ", " : "", outputs > 1 ? iso_model_output_name(t->named.model, i) : "y",
               iso_dtype_name(iso_model_output_dtype(t->named.model, i)),
               iso_shape_text(&shape, text, sizeof text));
    }
    printf("\n");
}

static iso_status predict_run(iso_context *ctx, int argc, char *const *argv)
{
    iso_load_options options;
    iso_loaded_model t = {0};
    iso_status status = iso_load_options_parse(&command, argc, argv, &options);
    ISO_TRY(iso_agree(ctx, status == ISO_OK ? check_out(&options) : status));
    ISO_TRY(iso_agree(
        ctx, iso_is_chief(ctx) ? iso_output_path_check("--out ", options.out, ISO_TARGET_RENAMED) : ISO_OK));
    ISO_TRY(iso_stop_on_signals(ctx));
    ISO_TRY(iso_loaded_model_make(ctx, &command, &options, &t));
    int verbose = (int)options.train.verbose;
    ISO_TRY(iso_predict(t.named.model, t.data, .file = options.out, .verbose = verbose ? verbose : ISO_ZERO));
    if (verbose && iso_is_chief(ctx))
        print_written(&options, &t);
done:
    iso_loaded_model_free(&t);
    return status;
}

static void predict_print_help(iso_text *text)
{
    iso_load_options_help(&command, text);
}

const iso_command iso_command_predict = {
    "predict", "--model NAME or FILE --weights FILE or DIR --data NAME --out FILE.h5 [OPTION...]",
    "writes the outputs of a model for all rows of a data set", .run = predict_run,
    .help = predict_print_help};
