/* iso_evaluate: one pass over a data set. */
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/async_steps.h"
#include "runtime/session/session.h"
#include "runtime/train/callbacks_impl.h"
#include "runtime/train/compile.h"
#include "runtime/train/model_impl.h"

/* One pass over a data set. */
typedef struct evaluation {
    iso_model *model;
    double *values;
    iso_progress *progress; /* NULL: no bar */
    bool whole;             /* it does not stop on request */
    iso_totals totals;
    int begun; /* steps that are not concluded, and their rows */
    int64_t rows[ISO_ASYNC_STEPS];
} evaluation;

static iso_status end_step(evaluation *e)
{
    iso_context *ctx = iso_graph_context(e->model->graph);
    iso_status status = ISO_OK;
    ISO_TRY(iso_function_end_step(e->model->evaluation, e->totals.results));
    if (!e->whole && iso_stop_requested(ctx))
        ISO_TRY(iso_stopped(ctx, NULL));
    iso_totals_add(&e->totals, e->model, e->totals.results, e->rows[0]);
    e->rows[0] = e->rows[--e->begun];
    if (e->progress && iso_progress_step(e->progress)) {
        iso_totals_read(&e->totals, e->model, e->values);
        iso_progress_draw(e->progress, &(iso_logs){e->model->n_values, e->model->value_name, e->values});
    }
done:
    return status;
}

static iso_status pass(evaluation *e, iso_dataset *data)
{
    iso_input_iterator iterator;
    int most = iso_function_is_async(e->model->evaluation) ? ISO_ASYNC_STEPS : 1;
    iso_status status =
        iso_agree(iso_graph_context(e->model->graph), iso_totals_create(e->model, &e->totals));
    if (status != ISO_OK)
        return status;
    iso_input_iterator_begin(&iterator, e->model, data, 0, iso_dataset_batches(data));
    for (const iso_batch *batch = iso_input_iterator_next(&iterator); batch;
         batch = iso_input_iterator_next(&iterator)) {
        ISO_TRY(iso_function_begin_step(e->model->evaluation, batch));
        e->rows[e->begun++] = batch->rows;
        if (e->begun == most)
            ISO_TRY(end_step(e));
    }
    while (e->begun > 0)
        ISO_TRY(end_step(e));
    iso_totals_read(&e->totals, e->model, e->values);
    status = iso_agree(iso_graph_context(e->model->graph), iso_input_iterator_status(&iterator));
done:
    iso_function_drop_steps(e->model->evaluation);
    iso_totals_destroy(&e->totals);
    return status;
}

iso_status iso_model_evaluate_all(iso_model *model, iso_dataset *data, double *values, bool whole)
{
    return pass(&(evaluation){.model = model, .values = values, .whole = whole}, data);
}

iso_status iso_check_evaluation(iso_model *model, iso_dataset *data)
{
    return iso_model_check_data(model, data, "evaluate");
}

iso_status iso_evaluate_with(iso_model *model, iso_dataset *data, const iso_evaluate_options *given,
                             size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    iso_evaluate_options options = {0};
    iso_progress *progress = NULL;
    double values[ISO_MAX_VALUES];
    iso_context *ctx = model->graph ? iso_graph_context(model->graph) : NULL;
    iso_options_copy(&options, sizeof options, given, size);
    iso_status status = iso_check_evaluation(model, data);
    if (status == ISO_OK)
        status = iso_progress_create(ctx, &progress, .verbose = options.verbose);
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_dataset_agree_order(data, "the order of evaluate's data"));
    iso_progress_begin(progress, NULL, iso_dataset_knows_rows(data) ? iso_dataset_batches(data) : 0, 0);
    model->busy++;
    status = pass(&(evaluation){.model = model, .values = values, .progress = progress}, data);
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
