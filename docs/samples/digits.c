/* Layers, iso_compile and iso_fit, then a training loop of its own. digits.cpp is the same in C++11. */
#include <isogrid.h>
#include <stdio.h>

enum { ROWS = 240, SIDE = 8, CLASSES = 4 };

static iso_tensor *network(iso_tensor *image)
{
    iso_tensor *y = iso_conv2d(image, 4, 3, .padding = ISO_SAME, .activation = ISO_RELU, .name = "conv");
    y = iso_max_pooling2d(y, 2);
    return iso_dense(iso_flatten(y), CLASSES, .kernel_initializer.kind = ISO_INIT_HE_NORMAL,
                     .name = "logits");
}

static iso_status fit(iso_context *ctx, iso_dataset *data)
{
    double loss;
    iso_status status;
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *image = iso_input(g, "image", ISO_F32, ISO_SHAPE(SIDE, SIDE, 1));
    iso_model *model = iso_model_create(g, image, network(image));

    ISO_TRY(iso_compile(model, .optimizer = iso_adam(.learning_rate = 1e-2),
                        .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                        .metrics[0] = ISO_METRIC_SPARSE_ACCURACY));
    ISO_TRY(iso_fit(model, data, .epochs = 3, .verbose = ISO_ZERO));
    ISO_TRY(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
    if (iso_is_chief(ctx))
        printf("fit: loss %.4f\n", loss);
done:
    iso_model_destroy(model);
    return status;
}

static iso_status loop(iso_context *ctx, iso_dataset *data)
{
    double loss;
    const iso_batch *batch;
    iso_function *step = NULL;
    iso_status status;
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *image = iso_input(g, "image", ISO_F32, ISO_SHAPE(SIDE, SIDE, 1));
    iso_tensor *label = iso_input(g, "label", ISO_I32, ISO_SCALAR);
    iso_tensor *mean = iso_mean(iso_sparse_crossentropy(label, network(image), .from_logits = true));

    ISO_TRY(iso_function_create(g, &step, .inputs = {image, label}, .outputs = {mean},
                                .updates = {iso_minimize(mean, iso_sgd(0.1, .momentum = 0.9))},
                                .training = true));
    ISO_TRY(iso_dataset_rewind(data, 0));
    while ((status = iso_dataset_next(data, &batch)) == ISO_OK && batch)
        ISO_TRY(iso_function_run(step, batch, &loss));
    if (iso_is_chief(ctx))
        printf("loop: loss %.4f\n", loss);
done:
    iso_function_destroy(step);
    iso_graph_destroy(g);
    return status;
}

int main(int argc, char **argv)
{
    static float x[ROWS * SIDE * SIDE];
    static int32_t y[ROWS];
    iso_context *ctx = NULL;
    iso_dataset *data = NULL;
    iso_status status;

    for (int i = 0; i < ROWS; i++)
        y[i] = i % CLASSES;
    for (int i = 0; i < ROWS * SIDE * SIDE; i++)
        x[i] = (float)(i * 37 % 101) / 101 + (i % CLASSES == y[i / (SIDE * SIDE)] ? 0.5f : 0);
    ISO_TRY(iso_init(&argc, &argv, &ctx));
    ISO_TRY(iso_dataset_arrays(ctx, &data, .x = {x, ISO_F32, ISO_SHAPE(ROWS, SIDE, SIDE, 1)},
                               .y = {y, ISO_I32, ISO_SHAPE(ROWS)}));
    ISO_TRY(iso_dataset_batch(data, 20));
    ISO_TRY(fit(ctx, data));
    ISO_TRY(loop(ctx, data));
done:
    iso_dataset_destroy(data);
    return iso_finish(ctx, status);
}
