/* libFuzzer: any bytes as a config.json of Hugging Face; a network that is accepted is built, if it is small. */
#include <stdint.h>

#include "models/huggingface/huggingface_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_small(const iso_pretrained *net)
{
    return iso_setting_get(iso_setting_of(net->model->settings, "layers"), &net->settings) < 4;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    iso_pretrained net;
    const iso_shape texts = ISO_SHAPE(4), images = ISO_SHAPE(12, 12, 3);
    if (iso_hf_config_parse("config.json", (const char *)data, size, &net) == ISO_OK && is_small(&net))
        iso_model_destroy(iso_builtin_model_create(NULL, net.model, net.model->tokens ? texts : images,
                                                   net.outputs, ISO_F32, &net.settings));
    return 0;
}
