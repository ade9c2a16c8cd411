/* Data sets from options. */
#include <math.h>
#include <string.h>

#include "launch/train_impl.h"

static bool is_sparse(iso_loss loss)
{
    return loss == ISO_LOSS_SPARSE_CROSSENTROPY || loss == ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS;
}

/* Noise with targets that suit the loss: the built-in data set "random" has classes. "random:ROWS" has so
 * many rows. */
static iso_status open_random(iso_context *ctx, const char *name, iso_part part, iso_loss loss,
                              iso_dataset **dataset)
{
    int64_t rows = part == ISO_TRAIN ? 6000 : 1000;
    uint64_t seed = iso_seed(ctx) + (part == ISO_TEST);
    if (name[6] == ':') {
        iso_status status = iso_argument_count("rows of --data random", name + 7, 1, 0x1p31 - 1, &rows);
        if (status != ISO_OK)
            return status;
    }
    if (is_sparse(loss))
        return iso_dataset_random(ctx, rows, dataset, .shape = ISO_SHAPE(28, 28, 1), .classes = 10,
                                  .seed = seed);
    return iso_dataset_random(ctx, rows, dataset, .shape = ISO_SHAPE(28, 28, 1), .targets = ISO_SHAPE(10),
                              .seed = seed);
}

static iso_status open_one(iso_context *ctx, const iso_train_options *options, const char *name,
                           iso_part part, iso_loss loss, bool no_targets, iso_dataset **dataset)
{
    if (!strncmp(name, "random:", 7) || (!strcmp(name, "random") && !is_sparse(loss)))
        return open_random(ctx, name, part, loss, dataset);
    return iso_dataset_open(ctx, name, part, dataset, .x = options->x, .y = options->y,
                            .sample_weight = options->sample_weight, .no_targets = no_targets);
}

/* What --validation-data and --test-data name; `test` is the test part of --data. */
static iso_status open_other(iso_context *ctx, const iso_train_options *options, const char *name,
                             iso_loss loss, iso_dataset **dataset)
{
    if (!strcmp(name, "test"))
        return open_one(ctx, options, options->data, ISO_TEST, loss, false, dataset);
    return open_one(ctx, options, name, ISO_TRAIN, loss, false, dataset);
}

static iso_status split(const iso_train_options *options, iso_sources *sources)
{
    int64_t rows = iso_dataset_rows(sources->training), last = options->validation_rows;
    if (options->validation_split > 0) /* Keras: training keeps floor(rows * (1 - split)) */
        last = rows - (int64_t)floor((double)rows * (1 - options->validation_split));
    if (!last)
        return ISO_OK;
    if (last >= rows)
        return iso_error(ISO_INVALID, "--validation-rows %lld: the data set '%s' has only %lld rows",
                         (long long)last, options->data, (long long)rows);
    return iso_dataset_split(sources->training, last, &sources->validation);
}

static iso_status check(const iso_train_options *options, iso_dataset *dataset)
{
    return dataset && options->check_data ? iso_dataset_check(dataset) : ISO_OK;
}

static iso_status batch(const iso_train_options *options, iso_dataset *dataset)
{
    return dataset ? iso_dataset_batch(dataset, options->batch_size) : ISO_OK;
}

iso_status iso_sources_open(iso_context *ctx, const iso_train_options *options, iso_loss loss,
                            iso_sources *sources)
{
    iso_status status;
    ISO_TRY(open_one(ctx, options, options->data, ISO_TRAIN, loss, false, &sources->training));
    if (options->validation_data)
        ISO_TRY(open_other(ctx, options, options->validation_data, loss, &sources->validation));
    if (options->test_data)
        ISO_TRY(open_other(ctx, options, options->test_data, loss, &sources->test));
    ISO_TRY(check(options, sources->training));
    ISO_TRY(check(options, sources->validation));
    ISO_TRY(check(options, sources->test));
    ISO_TRY(split(options, sources));
    if (options->shuffle_rows >= 0)
        ISO_TRY(iso_dataset_shuffle(sources->training, options->shuffle_rows));
    ISO_TRY(
        iso_dataset_batch(sources->training, options->batch_size, .drop_remainder = options->drop_remainder));
    ISO_TRY(iso_dataset_prefetch(sources->training, 2));
    ISO_TRY(batch(options, sources->validation));
    ISO_TRY(batch(options, sources->test));
done:
    return status;
}

iso_status iso_source_open(iso_context *ctx, const iso_train_options *options, iso_part part, iso_loss loss,
                           bool no_targets, iso_dataset **dataset)
{
    iso_status status;
    ISO_TRY(open_one(ctx, options, options->data, part, loss, no_targets, dataset));
    ISO_TRY(check(options, *dataset));
    ISO_TRY(batch(options, *dataset));
    ISO_TRY(iso_dataset_prefetch(*dataset, 2));
done:
    return status;
}

void iso_sources_close(iso_sources *sources)
{
    iso_dataset_destroy(sources->training);
    iso_dataset_destroy(sources->validation);
    iso_dataset_destroy(sources->test);
}
