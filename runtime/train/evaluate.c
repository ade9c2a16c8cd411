/* iso_evaluate: one pass over a data set. */
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/session/session.h"
#include "runtime/train/callbacks_impl.h"
#include "runtime/train/model_impl.h"

/* Runs the pass, with a bar if `progress` is not NULL. whole: it does not stop on request. */
static iso_status pass(iso_model *model, iso_dataset *data, double *values, iso_progress *progress,
                       bool whole)
{
    iso_context *ctx = iso_graph_context(model->graph);
    iso_input_iterator iterator;
    iso_totals totals = {{0}, {0}};
    double results[ISO_MAX_FUNCTION_OUTPUTS];
    iso_status status = ISO_OK;
    iso_input_iterator_begin(&iterator, model, data, 0, iso_dataset_batches(data));
    for (const iso_batch *batch = iso_input_iterator_next(&iterator); batch;
         batch = iso_input_iterator_next(&iterator)) {
        ISO_TRY(iso_function_run(model->evaluation, batch, results));
        if (!whole && iso_stop_requested(ctx))
            ISO_TRY(iso_stopped(ctx, NULL));
        iso_totals_add(&totals, model, results, batch->rows);
        if (progress && iso_progress_step(progress)) {
            iso_totals_read(&totals, model, values);
            iso_progress_draw(progress, &(iso_logs){model->n_values, model->value_name, values});
        }
    }
    iso_totals_read(&totals, model, values);
    status = iso_agree(ctx, iso_input_iterator_status(&iterator));
done:
    return status;
}

iso_status iso_model_evaluate_all(iso_model *model, iso_dataset *data, double *values, bool whole)
{
    return pass(model, data, values, NULL, whole);
}

iso_status iso_evaluate_with(iso_model *model, iso_dataset *data, const iso_evaluate_options *given,
                             size_t size)
{
    ISO_NEED(model);
    iso_evaluate_options options = {0};
    iso_progress *progress = NULL;
    double values[ISO_MAX_VALUES];
    iso_context *ctx = model->graph ? iso_graph_context(model->graph) : NULL;
    iso_options_copy(&options, sizeof options, given, size);
    iso_status status = iso_model_check_data(model, data, "evaluate");
    if (status == ISO_OK)
        status = iso_progress_create(ctx, &progress, .verbose = options.verbose);
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_dataset_agree_order(data, "the order of evaluate's data"));
    iso_progress_begin(progress, NULL, iso_dataset_knows_rows(data) ? iso_dataset_batches(data) : 0, 0);
    model->busy++;
    status = pass(model, data, values, progress, false);
    model->busy--;
    if (status != ISO_OK)
        goto done;
    iso_progress_end(progress, &(iso_logs){model->n_values, model->value_name, values}, model->n_values);
    if (options.loss)
        *options.loss = values[0];
    if (options.metrics)
        memcpy(options.metrics, values + 1, (size_t)(model->n_values - 1) * sizeof values[0]);
done:
    iso_progress_destroy(progress);
    return status;
}
