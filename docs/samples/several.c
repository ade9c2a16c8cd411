/* A network with two inputs and two outputs: trained, evaluated, and its outputs written to a file. */
#include <isogrid.h>
#include <stdio.h>

static iso_model *build(iso_context *ctx)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x[] = {iso_input(g, "image", ISO_F32, ISO_SHAPE(28, 28, 1)), /* [batch, 28, 28, 1] */
                       iso_input(g, "facts", ISO_F32, ISO_SHAPE(6))};        /* [batch, 6] */
    iso_tensor *h[] = {iso_dense(iso_flatten(x[0]), 64, ISO_RELU), iso_dense(x[1], 16, ISO_RELU)};
    iso_tensor *both = iso_concatenate(h, 2); /* [batch, 80] */
    iso_tensor *y[] = {iso_dense(both, 10, .name = "kind"), iso_dense(both, 2, .name = "place")};
    return iso_model_create_several(g, x, 2, y, 2);
}

/* Called on every rank for the parts that its own slots have computed. */
static iso_status count(void *user, const iso_output_part *part)
{
    *(int64_t *)user += iso_box_count(&part->box); /* rows part->box.offset[0] ... of output part->output */
    return ISO_OK;
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_dataset *data = NULL;
    iso_model *model = NULL;
    static float kind[200 * 10]; /* [rows, 10] */
    int64_t elements = 0;
    iso_status status;

    ISO_TRY(iso_init(&argc, &argv, &ctx));
    ISO_TRY(iso_dataset_random(ctx, 200, &data, .inputs = 2,
                               .input = {{ISO_SHAPE(28, 28, 1)}, {ISO_SHAPE(6)}}, .outputs = 2,
                               .output = {{.classes = 10}, {ISO_SHAPE(2)}}));
    ISO_TRY(iso_dataset_batch(data, 32));
    model = build(ctx);

    ISO_TRY(iso_compile(
        model, .optimizer = iso_adam(1e-3),
        .outputs = {{.loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS, .metrics = {ISO_METRIC_ACCURACY}},
                    {.loss = ISO_LOSS_MSE, .loss_weight = 0.3, .metrics = {ISO_METRIC_MAE}}}));
    ISO_TRY(iso_fit(model, data, .epochs = 2));

    ISO_TRY(iso_predict(model, data, .outputs = {kind}));                /* all rows, on every rank */
    ISO_TRY(iso_predict(model, data, .part = count, .user = &elements)); /* on each rank its parts */
    ISO_TRY(iso_predict(model, data, .file = "several.h5"));             /* datasets kind and place */
    if (iso_is_chief(ctx))
        remove("several.h5");
done:
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    return iso_finish(ctx, status);
}
