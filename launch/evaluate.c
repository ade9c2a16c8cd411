/* isogrid evaluate: computes loss and metrics of a model with weights from a file, on a data set. */
#include <stdio.h>

#include "collectives/control/control.h"
#include "launch/command.h"
#include "launch/load_model_impl.h"
#include "runtime/base/json.h"

static const iso_argument own[] = {
    {"json", ISO_ARGUMENT_FLAG, offsetof(iso_load_options, json), NULL,
     "prints only a JSON object: data, rows, every value in full precision", 0, 0, NULL},
};
static const iso_load_command command = {.compiles = true, .count = 1, .own = own};

static iso_status print_json(iso_model *model, const iso_dataset *data, const double *values)
{
    json_t *object =
        json_pack("{s:s, s:I}", "data", iso_dataset_source(data), "rows", (json_int_t)iso_dataset_rows(data));
    for (int i = 0; i < iso_model_value_count(model); i++)
        json_object_set_new(object, iso_model_value_name(model, i), iso_json_number(values[i]));
    iso_text text = {0};
    iso_json_add(&text, object, 0);
    iso_status status = text.failed ? iso_no_memory("the values as JSON") : ISO_OK;
    if (status == ISO_OK)
        puts(iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

static void print_line(iso_model *model, const double *values)
{
    for (int i = 0; i < iso_model_value_count(model); i++)
        printf("%s%s: %.4f", i ? " - " : "", iso_model_value_name(model, i), values[i]);
    printf("\n");
}

static iso_status evaluate(iso_context *ctx, const iso_load_options *options, iso_loaded_model *t)
{
    double values[ISO_MAX_VALUES] = {0};
    int verbose = options->json ? 0 : (int)options->train.verbose;
    iso_status status = iso_evaluate(t->named.model, t->data, .loss = &values[0], .metrics = &values[1],
                                     .verbose = verbose ? verbose : ISO_ZERO);
    if (status != ISO_OK || !iso_is_chief(ctx))
        return status;
    if (options->json)
        return print_json(t->named.model, t->data, values);
    if (!verbose)
        print_line(t->named.model, values);
    return ISO_OK;
}

static iso_status evaluate_run(iso_context *ctx, int argc, char *const *argv)
{
    iso_load_options options;
    iso_loaded_model t = {0};
    iso_status status;
    ISO_TRY(iso_agree(ctx, iso_load_options_parse(&command, argc, argv, &options)));
    ISO_TRY(iso_stop_on_signals(ctx));
    ISO_TRY(iso_loaded_model_make(ctx, &command, &options, &t));
    ISO_TRY(evaluate(ctx, &options, &t));
done:
    iso_loaded_model_free(&t);
    return status;
}

static void evaluate_print_help(iso_text *text)
{
    iso_load_options_help(&command, text);
}

const iso_command iso_command_evaluate = {
    "evaluate", "--model NAME or FILE --weights FILE or DIR --data NAME [OPTION...]",
    "computes loss and metrics of trained weights on a data set", .run = evaluate_run,
    .help = evaluate_print_help};
