/* Fine-tunes a GPT-2 or LLaMA of Hugging Face on a file of tokens, and writes it as such a folder. */
#include <isogrid.h>

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_dataset *data = NULL;
    iso_model *model = NULL;
    iso_pretrained net;
    iso_status status;

    ISO_TRY(iso_init(&argc, &argv, &ctx));
    if (argc < 4)
        ISO_TRY(iso_error(ISO_INVALID, "usage: pretrained FOLDER TOKENS.bin NEW-FOLDER"));
    const char *folder = argv[1];
    ISO_TRY(iso_pretrained_read(ctx, folder, &net));
    ISO_TRY(iso_dataset_open(ctx, argv[2], ISO_TRAIN, &data, .context = 16, .vocabulary = net.vocabulary));
    ISO_TRY(iso_dataset_batch(data, 4));

    model = iso_builtin_model_create(ctx, net.model, ISO_SHAPE(16), net.outputs, ISO_F32, &net.settings);
    ISO_TRY(iso_compile(model, .optimizer = iso_adamw(3e-5), .loss = net.model->loss));
    ISO_TRY(iso_pretrained_load_weights(model, folder));
    ISO_TRY(iso_fit(model, data, .epochs = 1));
    ISO_TRY(iso_pretrained_save(model, argv[3], .source = folder));
done:
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    return iso_finish(ctx, status);
}
