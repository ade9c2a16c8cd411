/* Training that can be interrupted: run it again after any interruption, and it resumes with the same bits. */
#include <isogrid.h>

static iso_model *build(iso_context *ctx)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "image", ISO_F32, ISO_SHAPE(28, 28, 1)); /* [batch, 28, 28, 1] */
    iso_tensor *h = iso_dense(iso_flatten(iso_rescaling(x, 1.0 / 255)), 64, .activation = ISO_RELU);
    return iso_model_create(g, x, iso_dense(h, 10)); /* logits: [batch, 10] */
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_dataset *train = NULL, *validation = NULL;
    iso_model *model = NULL;
    iso_status status; /* ISO_TRY(call): status = call; on an error, goto done */

    ISO_TRY(iso_init(&argc, &argv, &ctx));
    ISO_TRY(iso_dataset_open(ctx, "fashion-mnist", ISO_TRAIN, &train));
    ISO_TRY(iso_dataset_split(train, 10000, &validation));
    ISO_TRY(iso_dataset_shuffle(train, 0));
    ISO_TRY(iso_dataset_batch(train, 250));

    /* The weights of an earlier training, if the folder holds its checkpoints. */
    ISO_TRY(iso_model_restore_or_create(ctx, "ckpt", build, &model));
    ISO_TRY(iso_compile(model, .optimizer = iso_adam(1e-3), .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                        .metrics = {ISO_METRIC_ACCURACY}));

    iso_callback *callbacks[] = {
        /* One file for each epoch; the last three are kept, and the one with the lowest loss. */
        iso_model_checkpoint("ckpt/{epoch:02d}-{val_loss:.4f}.weights.h5", .keep = 3, .best = "val_loss"),
        /* This training resumes from here if it is killed; removed when it is complete. */
        iso_backup_and_restore("backup", .save_freq = 50), NULL};
    ISO_TRY(iso_fit(model, train, .epochs = 2, .validation = validation, .callbacks = callbacks));
done:
    iso_model_destroy(model);
    iso_dataset_destroy(train);
    iso_dataset_destroy(validation);
    return iso_finish(ctx, status);
}
