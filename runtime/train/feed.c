/* Data for the steps: checks that a data set fits a model, and batches that keep all ranks together when one
 * fails. */
#include <stdio.h>
#include <string.h>

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

/* The shape of a row in the model. */
static iso_shape row_shape(const iso_tensor *input)
{
    const iso_shape *shape = iso_tensor_shape(input);
    iso_shape row = {.rank = shape->rank - 1};
    memcpy(row.dim, shape->dim + 1, (size_t)row.rank * sizeof row.dim[0]);
    return row;
}

static iso_status check_component(iso_dataset *data, int component, iso_tensor *tensor, const char *what)
{
    char have[160], want[160];
    const iso_shape *given = iso_dataset_shape(data, component);
    iso_shape a = essential(given, 0), b = essential(iso_tensor_shape(tensor), 1);
    if (iso_shape_equal(&a, &b))
        return ISO_OK;
    iso_shape row = row_shape(tensor);
    return iso_error(ISO_INVALID, "data set %s: its %s have the shape %s a row, the model wants %s",
                     iso_dataset_source(data), what, iso_shape_text(given, have, sizeof have),
                     iso_shape_text(&row, want, sizeof want));
}

iso_status iso_model_check_data(iso_model *model, iso_dataset *data, const char *use)
{
    iso_status status = ISO_OK;
    if (!model->compiled)
        return iso_error(ISO_INVALID, "%s: the model is not compiled", use);
    if (!data)
        return iso_error(ISO_INVALID, "%s: the data set is NULL", use);
    int components = iso_dataset_components(data), wanted = model->weights ? 3 : 2;
    if (components < wanted)
        return iso_error(ISO_INVALID, "data set %s has %s, the model needs %s", iso_dataset_source(data),
                         components == 2 ? "no sample weights" : "no targets",
                         wanted == 3 ? "inputs, targets and sample weights" : "inputs and targets");
    if (components > wanted)
        return iso_error(ISO_INVALID, "data set %s has %d components, the model takes %d%s",
                         iso_dataset_source(data), components, wanted,
                         components == 3 ? " (sample weights: compile with .sample_weights)" : "");
    ISO_TRY(check_component(data, 0, model->input, "inputs"));
    ISO_TRY(check_component(data, 1, model->target, "targets"));
    if (model->weights)
        ISO_TRY(check_component(data, 2, model->weights, "sample weights"));
    if (!iso_dataset_batched(data))
        ISO_TRY(iso_dataset_batch(data, 32));
done:
    return status;
}

/* Reads as a batch of a data set that failed. */
static iso_status read_failed(const iso_batch *batch, int component, int64_t begin, int64_t count,
                              iso_dtype dtype, void *out)
{
    (void)component, (void)begin, (void)count, (void)dtype, (void)out;
    return iso_feed_status(batch->impl);
}

static iso_status read_part_failed(const iso_batch *batch, int component, int64_t begin, int64_t count,
                                   const iso_box *part, iso_dtype dtype, void *out)
{
    (void)part;
    return read_failed(batch, component, begin, count, dtype, out);
}

static void fail(iso_feed *feed, iso_status status)
{
    if (feed->status != ISO_OK || status == ISO_OK)
        return;
    feed->status = status;
    snprintf(feed->message, sizeof feed->message, "%s", iso_error_message());
    feed->failed = feed->reshaped;
    feed->failed.read = read_failed;
    feed->failed.read_part = read_part_failed;
}

/* Reads the batch that is lent; its rows have as many elements. */
static iso_status read_lent(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            iso_dtype dtype, void *out)
{
    const iso_batch *lent = ((const iso_feed *)batch->impl)->lent;
    return lent->read(lent, component, begin, count, dtype, out);
}

/* The dimensions that are not 1 are those of the rows that are lent, in their order. */
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
    const iso_batch *lent = ((const iso_feed *)batch->impl)->lent;
    iso_box theirs = part_of_lent(&batch->shape[component], part, &lent->shape[component]);
    if (iso_box_count(part) == 0)
        return ISO_OK;
    return lent->read_part(lent, component, begin, count, &theirs, dtype, out);
}

void iso_feed_begin(iso_feed *feed, const iso_model *model, iso_dataset *data, int64_t begin, int64_t steps)
{
    const iso_tensor *const input[] = {model->input, model->target, model->weights};
    *feed = (iso_feed){.data = data, .position = begin, .end = begin + steps};
    feed->reshaped = (iso_batch){.components = iso_dataset_components(data),
                                 .read = read_lent,
                                 .read_part = read_part_of_lent,
                                 .impl = feed};
    for (int i = 0; i < 3 && input[i] && i < feed->reshaped.components; i++) {
        feed->reshaped.shape[i] = row_shape(input[i]);
        feed->reshaped.dtype[i] = iso_dataset_dtype(data, i);
        if (!iso_shape_equal(&feed->reshaped.shape[i], iso_dataset_shape(data, i)))
            feed->reshape = true;
    }
    fail(feed, iso_dataset_seek(data, begin));
}

/* Rows of the batch at a position, which a failed batch must have too. */
static int64_t rows_at(const iso_dataset *data, int64_t position)
{
    int64_t size = iso_dataset_batch_size(data), at = position % iso_dataset_batches(data);
    int64_t left = iso_dataset_rows(data) - at * size;
    return left < size ? left : size;
}

const iso_batch *iso_feed_next(iso_feed *feed)
{
    const iso_batch *batch = NULL;
    if (feed->position == feed->end)
        return NULL;
    if (feed->status == ISO_OK)
        fail(feed, iso_dataset_next(feed->data, &batch));
    if (feed->status == ISO_OK && !batch) { /* the data set's epoch is over, the steps are not */
        fail(feed, iso_dataset_seek(feed->data, feed->position));
        if (feed->status == ISO_OK)
            fail(feed, iso_dataset_next(feed->data, &batch));
        if (feed->status == ISO_OK && !batch)
            fail(feed,
                 iso_error(ISO_FAILED, "data set %s ended before its epoch", iso_dataset_source(feed->data)));
    }
    if (feed->status != ISO_OK) {
        feed->failed.rows = rows_at(feed->data, feed->position);
        batch = &feed->failed;
    }
    feed->position++;
    if (!feed->reshape || batch == &feed->failed)
        return batch;
    feed->lent = batch;
    feed->reshaped.rows = batch->rows;
    return &feed->reshaped;
}

iso_status iso_feed_status(const iso_feed *feed)
{
    return feed->status == ISO_OK ? ISO_OK : iso_error(feed->status, "%s", feed->message);
}
