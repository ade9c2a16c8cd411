/* The JAX multi-GPU guide and the DTensor tutorial: one's own training loop over the compiled step.
 * One process:      ./custom_loop
 * Four processes:   mpirun -np 4 ./custom_loop --mesh data=8        (same numbers)
 */
#include <isogrid.h>
#include <stdlib.h>

static iso_tensor *convnet(iso_tensor *x) /* x: [batch, 28, 28, 1], 0..255 */
{
    x = iso_rescaling(x, 1.0 / 255);
    x = iso_conv2d(x, 12, 3, .padding = ISO_SAME, .no_bias = true);
    x = iso_batch_norm(x, .no_scale = true); /* statistics of the global batch */
    x = iso_relu(x);
    x = iso_conv2d(x, 24, 6, .strides = 2, .no_bias = true);
    x = iso_relu(iso_batch_norm(x, .no_scale = true));
    x = iso_conv2d(x, 32, 6, .padding = ISO_SAME, .strides = 2, .name = "large_k");
    x = iso_relu(iso_batch_norm(x, .no_scale = true));
    x = iso_global_average_pooling2d(x); /* [batch, 32] */
    x = iso_dense(x, 256, .activation = ISO_RELU);
    x = iso_dropout(x, 0.5);
    return iso_dense(x, 10); /* logits: [batch, 10] */
}

/* Goes through the data once. results: loss and hits of each global batch; returns their sums over rows. */
static iso_status run_epoch(iso_function *step, iso_dataset *data, int epoch, iso_progress *bar, double *sums)
{
    iso_status status = ISO_OK;
    const iso_batch *batch; /* lent until the next call; NULL after the last */
    double results[2];
    ISO_TRY(iso_dataset_rewind(data, epoch)); /* same order on every rank, from seed and epoch */
    for (;;) {
        ISO_TRY(iso_dataset_next(data, &batch)); /* each rank holds the rows of its slots */
        if (!batch)
            break;
        ISO_TRY(iso_function_run(step, batch, results)); /* results: doubles, of the global batch */
        sums[0] += results[0] * (double)batch->rows;
        sums[1] += results[1];
        sums[2] += (double)batch->rows;
        iso_progress_update(bar, (double[]){sums[0] / sums[2], sums[1] / sums[2]});
    }
    iso_progress_finish(bar);
done:
    return status;
}

static iso_status train(iso_context *ctx, const char *mesh_spec, const char *rows)
{
    iso_mesh *mesh = NULL;
    iso_distribution *dist = NULL;
    iso_dataset *data = NULL, *rest = NULL;
    iso_function *train_step = NULL, *eval_step = NULL;
    iso_progress *bar = NULL;
    iso_status status = ISO_OK;

    /* Global shapes, one graph: forward, loss, backward and update. Nothing here knows of ranks. */
    iso_graph *g = iso_graph_create(ctx);
    ISO_TRY(iso_mesh_create(ctx, mesh_spec, &mesh));
    ISO_TRY(iso_data_parallel_create(mesh, &dist));
    iso_graph_distribute(g, dist); /* once, for all its functions */
    iso_tensor *x = iso_input(g, "image", ISO_F32, ISO_SHAPE(28, 28, 1));
    iso_tensor *y = iso_input(g, "label", ISO_I32, ISO_SCALAR); /* [batch] */
    iso_tensor *logits = convnet(x);
    iso_tensor *loss = iso_mean(iso_sparse_crossentropy(y, logits, .from_logits = true));
    iso_tensor *hits = iso_sum(iso_equal(iso_argmax(logits, -1), y));
    iso_update *update =
        iso_minimize(loss, iso_adam(1e-3)); /* or iso_gradients(loss, variables) and one's own */

    /* Functions over it: what goes in, what comes out, what is changed. Training mode is a property of the
     * function, not of the graph: eval shares the weights, drops nothing and uses the moving statistics. */
    ISO_TRY(iso_function_create(g, &train_step, .inputs = {x, y}, .outputs = {loss, hits},
                                .updates = {update}, .training = true));
    ISO_TRY(iso_function_create(g, &eval_step, .inputs = {x, y}, .outputs = {loss, hits}));

    ISO_TRY(iso_dataset_open(ctx, "fashion-mnist", ISO_TEST, &data));
    ISO_TRY(iso_dataset_split(data, iso_dataset_rows(data) - atoi(rows), &rest));
    ISO_TRY(iso_dataset_shuffle(data, 0)); /* 0: the whole data set */
    ISO_TRY(iso_dataset_batch(data, 64));
    ISO_TRY(iso_progress_create(ctx, &bar, .steps = iso_dataset_batches(data), .names = {"loss", "accuracy"},
                                .latest = true));

    for (int epoch = 0; epoch < 2; epoch++) {
        double sums[3] = {0, 0, 0};
        ISO_TRY(run_epoch(train_step, data, epoch, bar, sums));
    }
    double sums[3] = {0, 0, 0};
    ISO_TRY(run_epoch(eval_step, data, 0, bar, sums));
done:
    iso_progress_destroy(bar);
    iso_function_destroy(eval_step);
    iso_function_destroy(train_step);
    iso_dataset_destroy(rest);
    iso_dataset_destroy(data);
    iso_graph_destroy(g);
    iso_distribution_destroy(dist);
    iso_mesh_destroy(mesh);
    return status;
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK)
        status = train(ctx, iso_option(ctx, "mesh", "data=8"), argc > 1 ? argv[1] : "4000");
    return iso_finish(ctx, status);
}
