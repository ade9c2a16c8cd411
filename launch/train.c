/* isogrid train: a model on a data set, on a mesh. */
#include <stdio.h>

#include "collectives/control/control.h"
#include "launch/command.h"
#include "launch/train_impl.h"
#include "models/huggingface/huggingface.h"
#include "runtime/base/clock.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/train/compile.h"

/* The objects of a run. */
typedef struct run_state {
    iso_named_model named;
    iso_sources sources;
    iso_resumption from;
    iso_distribution_setup setup;
    double reading; /* seconds that it took to open the data */
} run_state;

/* Checks the options before anything is started. Local. */
static iso_status train_check(const iso_train_options *options)
{
    if (!options->model)
        return iso_error(ISO_INVALID, "--model is missing; `isogrid models` lists the built-in models");
    if (!options->data)
        return iso_error(ISO_INVALID, "--data is missing; `isogrid datasets` lists the built-in data sets");
    if (options->stop_before > 0 && !options->checkpoint && !options->backup)
        return iso_error(ISO_INVALID, "--stop-before needs --checkpoint or --backup");
    return ISO_OK;
}

static iso_status setup(iso_context *ctx, const iso_train_options *options, run_state *run)
{
    iso_status status = iso_distribution_setup_make(ctx, options, &run->setup);
    if (status == ISO_OK || !run->from.mesh)
        return status;
    return iso_error_prefix(status, "the mesh of %s, which is used unless --mesh is given: ",
                            iso_saved_file_path(run->from.file));
}

static iso_status open_data(iso_context *ctx, const iso_train_options *options, run_state *run)
{
    if (run->sources.training)
        return ISO_OK;
    double begin = iso_clock();
    iso_status status = iso_sources_open(ctx, options, &run->named, &run->sources);
    run->reading = iso_clock() - begin;
    return iso_agree(ctx, status);
}

/* Layouts are searched for the shape of the data's rows. */
static iso_status choose_layouts(iso_context *ctx, const iso_train_options *options, run_state *run)
{
    iso_status status;
    ISO_TRY(open_data(ctx, options, run));
    ISO_TRY(iso_distribution_setup_choose(ctx, options, iso_dataset_shape(run->sources.training, 0),
                                          &run->from, &run->setup));
done:
    return status;
}

static iso_status train_build(iso_context *ctx, const iso_train_options *options, run_state *run)
{
    iso_compile_options compile = run->named.compile;
    iso_named_model_make(ctx, options, iso_dataset_shape(run->sources.training, 0), &run->named);
    compile.distribution = run->setup.distribution;
    iso_dataset *const data[] = {run->sources.training, run->sources.validation, run->sources.test};
    for (int i = 0; i < 3; i++)
        compile.sample_weights = compile.sample_weights || iso_data_weighted(data[i]);
    for (int i = 0; i < 3; i++)
        compile.position_weights = compile.position_weights || iso_data_weighs_positions(data[i]);
    return iso_compile_with(run->named.model, &compile, sizeof compile);
}

static iso_status fit(iso_context *ctx, const iso_train_options *options, run_state *run)
{
    iso_callback *callbacks[ISO_MAX_RUN_CALLBACKS];
    iso_saved_file *from = run->from.file;
    run->from.file = NULL; /* fit closes it */
    iso_run_callbacks(ctx, options, &run->from, run->reading, callbacks);
    return iso_fit(run->named.model, run->sources.training, .epochs = (int)options->epochs,
                   .validation = run->sources.validation, .callbacks = callbacks,
                   .steps_per_epoch = options->steps_per_epoch, .resume_file = from,
                   .check_replicas = options->check_replicas, .swap_ema_weights = options->swap_ema_weights,
                   .verbose = options->verbose ? (int)options->verbose : ISO_ZERO);
}

/* The data of --test-data, which are used only after training. Local. */
static iso_status check_test_data(const iso_train_options *options, run_state *run)
{
    if (!run->sources.test)
        return ISO_OK;
    iso_status status = iso_check_evaluation(run->named.model, run->sources.test);
    return status == ISO_OK ? ISO_OK : iso_error_prefix(status, "--test-data %s: ", options->test_data);
}

static iso_status test(iso_context *ctx, const iso_train_options *options, run_state *run)
{
    double values[ISO_MAX_VALUES] = {0};
    if (!run->sources.test)
        return ISO_OK;
    iso_status status = iso_evaluate(run->named.model, run->sources.test, .loss = &values[0],
                                     .metrics = &values[1], .verbose = ISO_ZERO);
    if (status == ISO_INTERRUPTED && options->checkpoint) /* a new run finds training complete, and tests */
        status = iso_stopped(ctx, options->checkpoint);
    if (status != ISO_OK || !iso_is_chief(ctx) || options->verbose == 0)
        return status;
    int64_t rows = iso_dataset_rows(run->sources.test);
    printf("test (%lld row%s)", (long long)rows, rows == 1 ? "" : "s");
    for (int i = 0; i < iso_model_value_count(run->named.model); i++)
        printf(" - %s: %.4f", iso_model_value_name(run->named.model, i), values[i]);
    printf("\n");
    return ISO_OK;
}

/* The backup is removed only after the save, so that a failed save can be tried again. */
static iso_status train_save(iso_context *ctx, const iso_train_options *options, run_state *run)
{
    iso_status status = ISO_OK;
    if (options->save_adapter)
        status = iso_pretrained_save_adapter(run->named.model, options->save_adapter, run->named.folder);
    if (status == ISO_OK && options->save)
        status = iso_named_model_save(&run->named, options, options->save);
    if (status == ISO_OK && options->save && options->backup && iso_is_chief(ctx))
        iso_backup_remove(options->backup);
    return status;
}

static iso_status train(iso_context *ctx, const iso_train_options *options)
{
    run_state run = {0};
    iso_status status;
    if (iso_role(ctx) == ISO_EVALUATOR)
        return iso_follow_training(ctx, options);
    ISO_TRY(iso_agree(ctx, train_check(options)));
    if (options->stop_before > 0)
        ISO_TRY(iso_stop_before_limit(ctx, (double)options->stop_before));
    ISO_TRY(iso_agree(ctx, iso_is_chief(ctx) ? iso_output_paths_check(options) : ISO_OK));
    ISO_TRY(iso_resumption_find(ctx, options, &run.from));
    ISO_TRY(iso_named_model_find(ctx, options, &run.named));
    ISO_TRY(iso_agree(ctx, iso_compile_options_check(options, &run.named.compile)));
    ISO_TRY(iso_agree(ctx, iso_compile_options_check_optimizer(&run.named.compile)));
    iso_train_options placed = *options;
    if (run.from.mesh)
        placed.mesh = run.from.mesh;
    if (options->layout_auto)
        ISO_TRY(choose_layouts(ctx, options, &run));
    ISO_TRY(setup(ctx, &placed, &run));
    ISO_TRY(iso_banner_print(ctx, options, &run.setup));
    ISO_TRY(open_data(ctx, options, &run));
    iso_banner_print_data(ctx, options, &run.sources);
    ISO_TRY(train_build(ctx, options, &run));
    ISO_TRY(iso_agree(ctx, check_test_data(options, &run)));
    if (options->save) /* fails before training if the model cannot be saved */
        ISO_TRY(iso_agree(ctx, iso_named_model_save_check(&run.named, options->save)));
    if (options->save_adapter)
        ISO_TRY(iso_agree(ctx, iso_pretrained_save_adapter_check(run.named.model, options->save_adapter,
                                                                 run.named.folder)));
    if (!run.from.file)
        ISO_TRY(iso_named_model_load_weights(ctx, options, false, &run.named));
    if (options->verbose)
        status = iso_banner_print_plan(ctx, run.named.model, options->batch_size, options->verbose == 2);
    if (status != ISO_INTERRUPTED) /* a request to stop while --tune measured is fit's: it saves the state */
        ISO_TRY(status);
    iso_layouts_print_hint(ctx, &placed, iso_dataset_shape(run.sources.training, 0), &run.from,
                           run.setup.mesh);
    ISO_TRY(fit(ctx, options, &run));
    ISO_TRY(train_save(ctx, options, &run));
    ISO_TRY(test(ctx, options, &run));
done:
    iso_named_model_free(&run.named);
    iso_distribution_setup_free(&run.setup);
    iso_sources_close(&run.sources);
    iso_resumption_free(&run.from);
    return status;
}

static iso_status train_run(iso_context *ctx, int argc, char *const *argv)
{
    iso_train_options options;
    iso_status status = iso_agree(ctx, iso_train_options_parse(argc, argv, &options));
    if (status == ISO_OK)
        status = iso_stop_on_signals(ctx);
    return status == ISO_OK ? train(ctx, &options) : status;
}

const iso_command iso_command_train = {"train",
                                       "--model NAME or FILE --data NAME [OPTION...]",
                                       "trains a model on a data set",
                                       .run = train_run,
                                       .help = iso_train_options_help,
                                       .has_roles = true};
