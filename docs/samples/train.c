/* Trains a small network on Fashion-MNIST, on one process or many. */
#include <isogrid.h>

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_dataset *data = NULL;
    iso_model *model = NULL;
    iso_status status; /* ISO_TRY(call): status = call; on an error, goto done */

    ISO_TRY(iso_init(&argc, &argv, &ctx)); /* begins MPI if a launcher started us */
    ISO_TRY(iso_dataset_open(ctx, "fashion-mnist", ISO_TRAIN, &data));
    ISO_TRY(iso_dataset_batch(data, 64)); /* the global batch, however many ranks share it */

    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "image", ISO_F32, ISO_SHAPE(28, 28, 1)); /* [batch, 28, 28, 1] */
    iso_tensor *h = iso_dense(iso_flatten(iso_rescaling(x, 1.0 / 255)), 128, .activation = ISO_RELU);
    model = iso_model_create(g, x, iso_dense(h, 10)); /* logits: [batch, 10] */

    ISO_TRY(iso_compile(model, .optimizer = iso_adam(1e-3), .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                        .metrics = {ISO_METRIC_ACCURACY}));
    ISO_TRY(iso_fit(model, data, .epochs = 1));
done:
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    return iso_finish(ctx, status); /* prints the error once, naming its rank; the exit code */
}
