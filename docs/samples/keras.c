/* Continues the training of a Keras model: network, weights, optimizer state and losses are from the file. */
#include <isogrid.h>

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_dataset *data = NULL;
    iso_model *model = NULL;
    iso_compile_options compile;
    iso_status status;

    ISO_TRY(iso_init(&argc, &argv, &ctx));
    if (argc < 2)
        ISO_TRY(
            iso_error(ISO_INVALID, "usage: keras NET.keras, for rows of 8 x 7 x 2 numbers and 5 classes"));
    const char *path = argv[1];
    ISO_TRY(iso_keras_load(ctx, path, &model, .compile = &compile));
    compile.optimizer.learning_rate = 0.01; /* settings of the file can be changed */
    ISO_TRY(iso_compile_with(model, &compile, sizeof compile));
    ISO_TRY(iso_keras_load_weights(model, path));
    ISO_TRY(iso_model_set_learning_rate(model, 0.01)); /* it is part of the optimizer's state too */

    ISO_TRY(iso_dataset_random(ctx, 200, &data, .shape = ISO_SHAPE(8, 7, 2), .classes = 5));
    ISO_TRY(iso_dataset_batch(data, 32));
    ISO_TRY(iso_fit(model, data, .epochs = 2));
done:
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    return iso_finish(ctx, status);
}
