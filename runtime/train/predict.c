/* iso_predict: the outputs for all rows of a data set, to arrays, to a function or to a file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/first_error.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/checkpoint/rows_file.h"
#include "runtime/graph/pending.h"
#include "runtime/session/session.h"
#include "runtime/train/callbacks_impl.h"
#include "runtime/train/model_impl.h"

/* A prediction in progress. */
typedef struct prediction {
    iso_model *model;
    iso_dataset *data;
    iso_context *ctx;
    iso_predict_options options;
    bool whole, parts; /* whole: the arrays need them; parts: the user's function or the file does */
    iso_progress *progress;
    double *room[ISO_MAX_MODEL_OUTPUTS]; /* a batch's outputs */
    iso_rows_file *file;
    int64_t row; /* first row of the current batch */
    /* The first error of this rank alone, in the user's function or the file. It must not leave the others
     * waiting, so it is agreed after all batches. */
    iso_first_error pending;
} prediction;

/* ---- before the first batch ---- */

/* [rows, ...]: the shape of an output over all rows. */
static iso_shape output_shape(const prediction *p, int output, int64_t rows)
{
    return iso_shape_with_rows(iso_tensor_shape(p->model->outputs[output]), rows);
}

static iso_status check_output(const prediction *p, int output)
{
    int64_t elements;
    iso_shape shape = *iso_tensor_shape(p->model->outputs[output]);
    if (shape.rank < 1 || shape.dim[0] != ISO_BATCH)
        return iso_error(ISO_INVALID, "predict: the model's output '%s' has no batch dimension",
                         iso_model_output_name(p->model, output));
    shape = output_shape(p, output, iso_dataset_rows(p->data));
    return iso_shape_count(&shape, &elements);
}

static iso_status predict_make_room(prediction *p, int output)
{
    int64_t elements = 0;
    size_t bytes = 0;
    iso_shape shape = output_shape(p, output, iso_dataset_batch_size(p->data));
    iso_status status = iso_shape_count(&shape, &elements);
    if (status == ISO_OK)
        status = iso_size_mul((size_t)elements, sizeof(double), "an output", &bytes);
    return status == ISO_OK ? iso_alloc(bytes, "the outputs of a batch", (void **)&p->room[output]) : status;
}

/* Checks and makes what needs no other rank. */
static iso_status predict_prepare(prediction *p)
{
    iso_status status = p->model->status;
    if (status != ISO_OK)
        return iso_error(status, "no memory for a model");
    ISO_TRY(iso_graph_take_error(p->model->graph));
    ISO_TRY(iso_model_check_inputs(p->model, p->data, "predict"));
    if (!iso_dataset_knows_rows(p->data))
        return iso_error(ISO_INVALID,
                         "predict: the generator has no known number of rows: give it .rows or .batches");
    for (int i = 0; i < p->model->n_outputs; i++) {
        ISO_TRY(check_output(p, i));
        p->whole = p->whole || p->options.outputs[i];
    }
    p->parts = p->options.part || p->options.file;
    if (!p->whole && !p->parts)
        return iso_error(ISO_INVALID, "predict: give .outputs, .part or .file to receive the outputs");
    for (int i = 0; i < p->model->n_outputs && p->whole; i++)
        ISO_TRY(predict_make_room(p, i));
    ISO_TRY(iso_progress_create(p->ctx, &p->progress, .verbose = p->options.verbose));
done:
    return status;
}

static iso_status agree_options(const prediction *p)
{
    int64_t numbers[] = {p->whole, p->options.part != NULL, p->options.file != NULL,
                         iso_dataset_rows(p->data), iso_dataset_batch_size(p->data)};
    char text[200];
    snprintf(text, sizeof text, "%" PRId64 " rows in batches of %" PRId64 ", file '%s'", numbers[3],
             numbers[4], p->options.file ? p->options.file : "");
    uint64_t hash = iso_hash_text(iso_hash_bytes(0, numbers, sizeof numbers), text);
    iso_status status = iso_agree_same(p->ctx, "what predict is to do", hash, text);
    return status == ISO_OK ? iso_dataset_agree_order(p->data, "the order of predict's data") : status;
}

iso_status iso_model_predictor(iso_model *model, bool parts, iso_function **function)
{
    iso_function **made = &model->prediction[parts];
    iso_status status = ISO_OK;
    if (!*made) {
        iso_function_options options = {.parts = parts, .name = "prediction"};
        memcpy(options.inputs, model->inputs, sizeof model->inputs);
        for (int i = 0; i < model->n_outputs; i++)
            options.outputs[i] = iso_model_result(model, i);
        status = iso_function_create_with(model->graph, made, &options, sizeof options);
    }
    *function = *made;
    return status;
}

/* "y" or, if there are several, the outputs' names; a name that is taken gets a number. */
static void name_arrays(const prediction *p, iso_rows_array *arrays, char name[][ISO_MAX_NAME + 16])
{
    for (int i = 0; i < p->model->n_outputs; i++) {
        const char *own = p->model->n_outputs > 1 ? iso_model_output_name(p->model, i) : "y";
        snprintf(name[i], ISO_MAX_NAME, "%s", own);
        for (int k = 0, again = 0; k < i; k++)
            if (!strcmp(name[k], name[i])) {
                snprintf(name[i], ISO_MAX_NAME + 16, "%.*s_%d", ISO_MAX_NAME - 1, own, ++again);
                k = -1;
            }
        arrays[i].name = name[i];
    }
}

static iso_status predict_open_file(prediction *p)
{
    iso_rows_array arrays[ISO_MAX_MODEL_OUTPUTS];
    char name[ISO_MAX_MODEL_OUTPUTS][ISO_MAX_NAME + 16];
    if (!p->options.file)
        return ISO_OK;
    for (int i = 0; i < p->model->n_outputs; i++) {
        arrays[i].dtype = iso_model_output_dtype(p->model, i);
        arrays[i].shape = output_shape(p, i, iso_dataset_rows(p->data));
    }
    name_arrays(p, arrays, name);
    return iso_rows_file_create(p->ctx, p->options.file, arrays, p->model->n_outputs, &p->file);
}

/* ---- batches ---- */

static void take_whole(prediction *p, int64_t rows)
{
    for (int i = 0; i < p->model->n_outputs; i++) {
        int64_t each = 0;
        iso_shape row = output_shape(p, i, 1);
        if (!p->options.outputs[i] || iso_shape_count(&row, &each) != ISO_OK)
            continue;
        for (int64_t k = 0; k < rows * each; k++)
            iso_element_set(p->options.outputs[i], iso_model_output_dtype(p->model, i), p->row * each + k,
                            p->room[i][k]);
    }
}

static void take_parts(prediction *p, const iso_function *function)
{
    for (int i = 0; i < iso_function_part_count(function) && p->pending.status == ISO_OK; i++) {
        iso_output_part part = iso_function_part(function, i);
        if (!part.data)
            continue;
        part.box.offset[0] += p->row;
        if (p->file)
            iso_first_error_keep(&p->pending,
                                 iso_rows_file_write(p->file, part.output, &part.box, part.data));
        if (p->options.part && p->pending.status == ISO_OK) {
            iso_program_modes *modes = iso_program_modes_begin();
            iso_first_error_keep(&p->pending, p->options.part(p->options.user, &part));
            iso_program_modes_end(modes);
        }
    }
}

static iso_status run_batch(prediction *p, const iso_batch *batch, iso_function *whole, iso_function *parts)
{
    iso_status status = ISO_OK;
    if (whole) {
        ISO_TRY(iso_function_evaluate(whole, batch, p->room));
        take_whole(p, batch->rows);
    }
    if (parts) {
        ISO_TRY(iso_function_step(parts, batch));
        take_parts(p, parts);
    }
    p->row += batch->rows;
    if (iso_progress_step(p->progress))
        iso_progress_draw(p->progress, &(iso_logs){.count = 0});
done:
    return status;
}

static iso_status run_batches(prediction *p)
{
    iso_input_iterator iterator;
    iso_function *whole = NULL, *parts = NULL;
    iso_status status = ISO_OK;
    if (p->whole)
        ISO_TRY(iso_model_predictor(p->model, false, &whole));
    if (p->parts)
        ISO_TRY(iso_model_predictor(p->model, true, &parts));
    iso_progress_begin(p->progress, NULL, iso_dataset_batches(p->data), 0);
    iso_input_iterator_begin_inputs(&iterator, p->model, p->data, 0, iso_dataset_batches(p->data));
    for (const iso_batch *batch = iso_input_iterator_next(&iterator); batch;
         batch = iso_input_iterator_next(&iterator)) {
        ISO_TRY(run_batch(p, batch, whole, parts));
        if (iso_stop_requested(p->ctx))
            ISO_TRY(iso_stopped(p->ctx, NULL));
    }
    status = iso_input_iterator_status(&iterator);
    if (status == ISO_OK)
        status = iso_first_error_get(&p->pending);
    status = iso_agree(p->ctx, status);
done:
    return status;
}

static iso_status predict_run(prediction *p)
{
    iso_status status = predict_open_file(p);
    if (status != ISO_OK)
        return status;
    status = run_batches(p);
    if (p->file)
        status = iso_rows_file_finish(p->file, status);
    if (status == ISO_OK)
        iso_progress_end(p->progress, &(iso_logs){.count = 0}, 0);
    return status;
}

iso_status iso_predict_with(iso_model *model, iso_dataset *data, const iso_predict_options *given,
                            size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    prediction p = {
        .model = model, .data = data, .ctx = model->graph ? iso_graph_context(model->graph) : NULL};
    iso_options_copy(&p.options, sizeof p.options, given, size);
    iso_status status = iso_agree(p.ctx, predict_prepare(&p));
    if (status == ISO_OK)
        status = agree_options(&p);
    model->busy++;
    if (status == ISO_OK)
        status = predict_run(&p);
    model->busy--;
    iso_progress_destroy(p.progress);
    for (int i = 0; i < ISO_MAX_MODEL_OUTPUTS; i++)
        iso_free(p.room[i]);
    return status;
}
