/* Input for the steps: checks that a data set fits a model, and yields batches that keep all ranks together
 * when one of them fails. */
#include <stdio.h>
#include <string.h>

#include "runtime/base/convert.h"
#include "runtime/base/text.h"
#include "runtime/graph/pending.h"
#include "runtime/train/model_impl.h"

/* A shape without its dimensions of 1. */
static iso_shape essential(const iso_shape *shape, int from)
{
    iso_shape out = {.rank = 0};
    for (int i = from; i < shape->rank; i++)
        if (shape->dim[i] != 1)
            out.dim[out.rank++] = shape->dim[i];
    return out;
}

/* The shape of a row of the model's input. */
static iso_shape row_shape(const iso_tensor *input)
{
    const iso_shape *shape = iso_tensor_shape(input);
    iso_shape row = {.rank = shape->rank - 1};
    memcpy(row.dim, shape->dim + 1, (size_t)row.rank * sizeof row.dim[0]);
    return row;
}

/* "inputs" or, if there are several, "inputs 'image'". */
static void part_text(const iso_model *model, int part, char *text, size_t size)
{
    int first = part < model->n_inputs ? 0 : part < model->n_inputs + model->n_targets ? 1 : 2;
    static const char *const what[] = {"inputs", "targets", "sample weights"};
    bool several = (first == 0 ? model->n_inputs : model->n_targets) > 1;
    snprintf(text, size, several ? "%s '%s'" : "%s", what[first], iso_tensor_name(model->parts[part]));
}

static iso_status check_component(iso_dataset *data, int component, const iso_model *model, int part)
{
    char have[160], want[160], what[200];
    const iso_shape *given = iso_dataset_shape(data, component);
    iso_shape a = essential(given, 0), b = essential(iso_tensor_shape(model->parts[part]), 1);
    if (iso_shape_equal(&a, &b))
        return ISO_OK;
    iso_shape row = row_shape(model->parts[part]);
    part_text(model, part, what, sizeof what);
    return iso_error(ISO_INVALID, "data set %s: its %s have the shape %s a row, the model wants %s",
                     iso_dataset_source(data), what, iso_shape_text(given, have, sizeof have),
                     iso_shape_text(&row, want, sizeof want));
}

/* "2 inputs" or "no inputs"; if `names`, followed by the model's names for them. */
static void count_text(iso_text *text, int count, const char *what, const iso_model *model, int first,
                       bool names)
{
    if (count == 0)
        iso_text_add(text, "no %ss", what);
    else
        iso_text_add(text, "%d %s%s", count, what, count > 1 ? "s" : "");
    for (int i = 0; i < count && names && count > 1; i++)
        iso_text_add(text, "%s%s%s", i ? ", " : " (", iso_tensor_name(model->parts[first + i]),
                     i == count - 1 ? ")" : "");
}

/* Reports the numbers of inputs, targets and sample weights of the data set and of the model. */
static iso_status wrong_components(const iso_model *model, const iso_dataset *data, int targets, int weights)
{
    iso_text text = {0};
    int inputs = iso_dataset_inputs(data), has = iso_dataset_targets(data);
    int given = iso_dataset_components(data) - inputs - has;
    iso_text_add(&text, "data set %s has ", iso_dataset_source(data));
    count_text(&text, inputs, "input", model, 0, false);
    iso_text_add(&text, ", ");
    count_text(&text, has, "target", model, 0, false);
    iso_text_add(&text, " and ");
    count_text(&text, given, "sample weight", model, 0, false);
    iso_text_add(&text, "; the model takes ");
    count_text(&text, model->n_inputs, "input", model, 0, true);
    iso_text_add(&text, targets ? ", " : "");
    if (targets)
        count_text(&text, targets, "target", model, model->n_inputs, true);
    if (weights)
        iso_text_add(&text, " and sample weights (one for all or one for each target)");
    else if (targets)
        iso_text_add(&text, " and no sample weights%s",
                     given ? " (compile with .sample_weights to use them)" : "");
    iso_status status = iso_error(ISO_INVALID, "%s", iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

/* Maps the parts of the model to components of the data. */
static void map_components(const iso_model *model, const iso_dataset *data, int *component)
{
    int before = model->n_inputs + model->n_targets;
    int weights = iso_dataset_components(data) - before;
    for (int i = 0; i < model->n_parts; i++)
        component[i] = i < before || weights > 1 ? i : weights == 1 ? before : ISO_WEIGHTS_OF_ONE;
}

iso_status iso_model_check_inputs(iso_model *model, iso_dataset *data, const char *use)
{
    iso_status status = ISO_OK;
    if (!data)
        return iso_error(ISO_INVALID, "iso_%s: data is NULL", use);
    if (iso_dataset_inputs(data) != model->n_inputs)
        return wrong_components(model, data, 0, 0);
    for (int i = 0; i < model->n_inputs; i++)
        ISO_TRY(check_component(data, i, model, i));
    if (!iso_dataset_batched(data))
        ISO_TRY(iso_dataset_batch(data, 32));
done:
    return status;
}

/* Whether the data have as many sample weights as the model takes, or none. */
static bool weights_fit(const iso_model *model, int weights)
{
    return weights == 0 || (model->weighted && (weights == 1 || weights == model->n_targets));
}

iso_status iso_model_check_data(iso_model *model, iso_dataset *data, const char *use)
{
    int component[ISO_MAX_COMPONENTS];
    iso_status status = iso_graph_take_error(model->graph);
    if (status != ISO_OK)
        return status;
    if (!model->compiled)
        return iso_error(ISO_INVALID, "%s: the model is not compiled", use);
    if (!data)
        return iso_error(ISO_INVALID, "iso_%s: data is NULL", use);
    int targets = iso_dataset_targets(data),
        weights = iso_dataset_components(data) - iso_dataset_inputs(data) - targets;
    if (iso_dataset_inputs(data) != model->n_inputs || targets != model->n_targets ||
        !weights_fit(model, weights))
        return wrong_components(model, data, model->n_targets, model->weighted);
    map_components(model, data, component);
    for (int i = 0; i < model->n_parts; i++)
        if (component[i] != ISO_WEIGHTS_OF_ONE)
            ISO_TRY(check_component(data, component[i], model, i));
    if (!iso_dataset_batched(data))
        ISO_TRY(iso_dataset_batch(data, 32));
done:
    return status;
}

/* Reads from a failed batch: reports its error. */
static iso_status read_failed(const iso_batch *batch, int component, int64_t begin, int64_t count,
                              iso_dtype dtype, void *out)
{
    (void)component, (void)begin, (void)count, (void)dtype, (void)out;
    return iso_input_iterator_status(batch->impl);
}

static iso_status read_part_failed(const iso_batch *batch, int component, int64_t begin, int64_t count,
                                   const iso_box *part, iso_dtype dtype, void *out)
{
    (void)part;
    return read_failed(batch, component, begin, count, dtype, out);
}

/* Takes part in the data set's communication first: other ranks may be waiting for this one's rows. */
static iso_status prepare_failed(const iso_batch *batch, const iso_row_range *ranges, int count)
{
    iso_input_iterator *iterator = batch->impl;
    (void)ranges, (void)count;
    iso_dataset_serve(iterator->data);
    return iso_input_iterator_status(iterator);
}

static void fail(iso_input_iterator *iterator, iso_status status)
{
    if (iterator->status != ISO_OK || status == ISO_OK)
        return;
    iterator->status = status;
    snprintf(iterator->message, sizeof iterator->message, "%s", iso_error_message());
    iterator->failed = iterator->reshaped;
    iterator->failed.read = read_failed;
    iterator->failed.read_part = read_part_failed;
    iterator->failed.prepare = prepare_failed;
    iterator->failed.source_row = NULL;
}

static iso_status read_ones(int64_t count, iso_dtype dtype, void *out)
{
    const float one = 1;
    for (int64_t i = 0; i < count; i++)
        iso_convert(ISO_F32, &one, dtype, (char *)out + (size_t)i * iso_dtype_size(dtype), 1);
    return ISO_OK;
}

/* Reads from the lent batch; its rows have the same number of elements. */
static iso_status read_lent(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            iso_dtype dtype, void *out)
{
    const iso_input_iterator *iterator = batch->impl;
    const iso_batch *lent = iterator->lent;
    const iso_box whole = iso_box_whole(&batch->shape[component]);
    if (iterator->component[component] == ISO_WEIGHTS_OF_ONE)
        return read_ones(count * iso_box_count(&whole), dtype, out);
    return lent->read(lent, iterator->component[component], begin, count, dtype, out);
}

/* The part of the lent rows: their dimensions that are not 1 are those of `shape`, in order. */
static iso_box part_of_lent(const iso_shape *shape, const iso_box *part, const iso_shape *lent)
{
    iso_box out = {.rank = lent->rank};
    int from = 0;
    for (int d = 0; d < lent->rank; d++) {
        out.extent[d] = 1;
        if (lent->dim[d] == 1)
            continue;
        while (shape->dim[from] == 1)
            from++;
        out.offset[d] = part->offset[from];
        out.extent[d] = part->extent[from++];
    }
    return out;
}

static iso_status read_part_of_lent(const iso_batch *batch, int component, int64_t begin, int64_t count,
                                    const iso_box *part, iso_dtype dtype, void *out)
{
    const iso_input_iterator *iterator = batch->impl;
    const iso_batch *lent = iterator->lent;
    int theirs = iterator->component[component];
    if (theirs == ISO_WEIGHTS_OF_ONE)
        return read_ones(count * iso_box_count(part), dtype, out);
    iso_box box = part_of_lent(&batch->shape[component], part, &lent->shape[theirs]);
    if (iso_box_count(part) == 0)
        return ISO_OK;
    return lent->read_part(lent, theirs, begin, count, &box, dtype, out);
}

static int64_t source_row_of_lent(const iso_batch *batch, int64_t position, int64_t row)
{
    const iso_input_iterator *iterator = batch->impl;
    return iterator->lent->source_row(iterator->lent, position, row);
}

static iso_status prepare_lent(const iso_batch *batch, const iso_row_range *ranges, int count)
{
    const iso_input_iterator *iterator = batch->impl;
    return iterator->lent->prepare(iterator->lent, ranges, count);
}

static iso_kept_bytes *kept_of_lent(const iso_batch *batch, const iso_row_range *ranges, int count,
                                    size_t *bytes)
{
    const iso_input_iterator *iterator = batch->impl;
    return iterator->lent->kept(iterator->lent, ranges, count, bytes);
}

static void begin_parts(iso_input_iterator *iterator, const iso_model *model, int parts, iso_dataset *data,
                        int64_t begin, int64_t steps)
{
    *iterator = (iso_input_iterator){.data = data, .position = begin, .end = begin + steps};
    iterator->reshaped = (iso_batch){
        .n_components = parts, .read = read_lent, .read_part = read_part_of_lent, .impl = iterator};
    map_components(model, data, iterator->component);
    for (int i = 0; i < parts; i++) {
        int theirs = iterator->component[i];
        iterator->reshaped.shape[i] = row_shape(model->parts[i]);
        bool ones = theirs == ISO_WEIGHTS_OF_ONE;
        iterator->reshaped.dtype[i] = ones ? ISO_F32 : iso_dataset_dtype(data, theirs);
        if (theirs != i || !iso_shape_equal(&iterator->reshaped.shape[i], iso_dataset_shape(data, theirs)))
            iterator->differs = true;
    }
    fail(iterator, iso_dataset_seek(data, begin));
}

void iso_input_iterator_begin(iso_input_iterator *iterator, const iso_model *model, iso_dataset *data,
                              int64_t begin, int64_t steps)
{
    begin_parts(iterator, model, model->n_parts, data, begin, steps);
}

void iso_input_iterator_begin_inputs(iso_input_iterator *iterator, const iso_model *model, iso_dataset *data,
                                     int64_t begin, int64_t steps)
{
    begin_parts(iterator, model, model->n_inputs, data, begin, steps);
}

/* The number of rows of the batch at a position, which a failed batch must have too. */
static int64_t rows_at(const iso_dataset *data, int64_t position)
{
    int64_t size = iso_dataset_batch_size(data), at = position % iso_dataset_batches(data);
    int64_t left = iso_dataset_rows(data) - at * size;
    return left < size ? left : size;
}

/* A generator of unknown length may end the epoch only if the steps end with the epoch. */
static bool ends_here(const iso_input_iterator *iterator)
{
    return !iso_dataset_knows_rows(iterator->data) &&
           iterator->end % iso_dataset_batches(iterator->data) == 0;
}

/* A callback may have evaluated the same data set, or trained another model on it. */
static bool was_moved(const iso_input_iterator *iterator)
{
    return iterator->status == ISO_OK && iso_dataset_position(iterator->data) != iterator->position;
}

const iso_batch *iso_input_iterator_again(iso_input_iterator *iterator, const iso_batch *batch)
{
    if (!was_moved(iterator))
        return batch;
    iterator->position--;
    return iso_input_iterator_next(iterator);
}

const iso_batch *iso_input_iterator_next(iso_input_iterator *iterator)
{
    const iso_batch *batch = NULL;
    if (iterator->position == iterator->end)
        return NULL;
    if (was_moved(iterator))
        fail(iterator, iso_dataset_seek(iterator->data, iterator->position));
    if (iterator->status == ISO_OK)
        fail(iterator, iso_dataset_next(iterator->data, &batch));
    if (iterator->status == ISO_OK && !batch && ends_here(iterator)) {
        iterator->ended = true;
        iterator->position = iterator->end;
        return NULL;
    }
    if (iterator->status == ISO_OK && !batch) { /* the data set's epoch is over, but more steps follow */
        fail(iterator, iso_dataset_seek(iterator->data, iterator->position));
        if (iterator->status == ISO_OK)
            fail(iterator, iso_dataset_next(iterator->data, &batch));
        if (iterator->status == ISO_OK && !batch)
            fail(iterator, iso_error(ISO_FAILED, "data set %s ended before its epoch",
                                     iso_dataset_source(iterator->data)));
    }
    if (iterator->status != ISO_OK) {
        iterator->failed.rows = rows_at(iterator->data, iterator->position);
        batch = &iterator->failed;
    }
    iterator->position++;
    if (!iterator->differs || batch == &iterator->failed)
        return batch;
    iterator->lent = batch;
    iterator->reshaped.rows = batch->rows;
    iterator->reshaped.prepare = batch->prepare ? prepare_lent : NULL;
    iterator->reshaped.kept = batch->kept ? kept_of_lent : NULL;
    iterator->reshaped.source_row = batch->source_row ? source_row_of_lent : NULL;
    iterator->reshaped.position = batch->position;
    iterator->reshaped.source = batch->source;
    return &iterator->reshaped;
}

iso_status iso_input_iterator_status(const iso_input_iterator *iterator)
{
    return iterator->status == ISO_OK ? ISO_OK : iso_error(iterator->status, "%s", iterator->message);
}
