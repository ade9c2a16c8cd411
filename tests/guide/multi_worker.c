/* The multi-worker guide: chief, workers, evaluator; fault tolerance by callbacks. The same program on each.
 *   mpirun -np 4 ./multi_worker                          rank 0 is the chief
 *   mpirun -np 4 ./multi_worker : -np 1 ./multi_worker --role evaluator
 *   srun -N 4 ./multi_worker                             in a batch job; requeued, it goes on where it was
 * TF_CONFIG, where set, names the roles of the ranks that a launcher started. */
#include <isogrid.h>

static iso_model *build(iso_context *ctx)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "image", ISO_F32, ISO_SHAPE(28, 28, 1)); /* [batch, 28, 28, 1] */
    iso_tensor *y = iso_dense(iso_flatten(x), 128, .activation = ISO_RELU);
    return iso_model_create(g, x, iso_dense(y, 10)); /* logits: [batch, 10] */
}

static iso_status run(iso_context *ctx)
{
    iso_dataset *train = NULL, *val = NULL;
    iso_distribution *dist = NULL;
    iso_model *model = NULL;
    iso_status status;
    ISO_TRY(iso_data_parallel_create(NULL, &dist)); /* over the mesh of --mesh, or all ranks of the role */
    ISO_TRY(iso_dataset_open(ctx, "fashion-mnist", ISO_TRAIN, &train));
    ISO_TRY(iso_dataset_split(train, 10000, &val)); /* the last 10,000 rows, as in the guide */
    ISO_TRY(iso_dataset_cache(train, NULL));        /* in memory; a path caches to a file */
    ISO_TRY(iso_dataset_shuffle(train, 0));         /* 0: the whole data set */
    ISO_TRY(iso_dataset_batch(train, 32));
    ISO_TRY(iso_dataset_prefetch(train, 2));

    /* make_or_restore_model(); weights come at compile */
    ISO_TRY(iso_model_restore_or_create(ctx, "ckpt", build, &model));
    ISO_TRY(iso_compile(model, .optimizer = iso_adam(1e-3), .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                        .metrics = {ISO_METRIC_SPARSE_ACCURACY}, .distribution = dist));

    iso_callback *callbacks[] = {
        /* never NULL; owned by fit, whatever it returns */
        iso_model_checkpoint("ckpt/{epoch}-{batch}.weights.h5", .save_freq = 100, .keep = 3),
        iso_backup_and_restore("backup"), iso_tensorboard("logs"), NULL};
    if (iso_role(ctx) == ISO_EVALUATOR) /* follows the checkpoints; never slows the rest */
        status = iso_follow(model, "ckpt", val, callbacks);
    else /* epochs: up to 2 in all where backup restores; 2 more after restore_or_create, as in Keras */
        status = iso_fit(model, train, .epochs = 2, .validation = val, .callbacks = callbacks);
done:
    iso_model_destroy(model);
    iso_distribution_destroy(dist);
    iso_dataset_destroy(val);
    iso_dataset_destroy(train);
    return status;
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK)
        status = run(ctx);
    return iso_finish(ctx, status);
}
