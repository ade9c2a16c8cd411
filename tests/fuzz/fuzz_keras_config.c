/* libFuzzer: any bytes as a config.json of Keras. */
#include <stdint.h>

#include "models/keras/keras_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    iso_model *model = NULL;
    iso_compile_options compile;
    iso_keras_load_options options = {.model = &model, .compile = &compile};
    if (iso_keras_parse(NULL, "config.json", (const char *)data, size, &options) == ISO_OK)
        iso_model_destroy(model);
    return 0;
}
